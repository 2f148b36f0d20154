package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/process"
	"teambridge/status/api"
)

// program is what "watch --exec" runs for each new message, one at a time and in order.
type program struct {
	app   *app
	argv  []string
	queue chan occurrence
	done  sync.WaitGroup
	full  bool // for the goroutine that calls run
}

// occurrence is what the program is run for.
type occurrence struct {
	kind  string // message, or attention
	title string
	text  string
	json  []byte // a line
}

// maxQueued is how many messages may wait for the program.
const maxQueued = 1000

// maxShown is how many characters of a text are in the program's environment.
const maxShown = 500

// start begins to run argv for what run is given, until ctx ends, which kills it and its
// children. Call finish at the end.
func (a *app) startProgram(ctx context.Context, argv []string) (*program, error) {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, usage("", "--exec: %v", err)
	}
	p := &program{app: a, argv: argv, queue: make(chan occurrence, maxQueued)}
	p.done.Go(func() {
		for o := range p.queue {
			if ctx.Err() == nil {
				p.execute(ctx, o)
			}
		}
	})
	return p, nil
}

// run runs the program for o, later. If too much waits, it is not run. p may be nil.
func (p *program) run(o occurrence) {
	if p == nil {
		return
	}
	select {
	case p.queue <- o:
		p.full = false
	default:
		if !p.full {
			p.app.warn("%d messages wait for %s; it is not run for more until it is done with them", maxQueued, p.argv[0])
		}
		p.full = true
	}
}

// finish waits until the program was run for everything.
func (p *program) finish() {
	if p != nil {
		close(p.queue)
		p.done.Wait()
	}
}

func (p *program) execute(ctx context.Context, o occurrence) {
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(o.json), p.app.stderr, p.app.stderr // stdout has the messages
	text := []rune(escape(o.text, true))
	cmd.Env = append(os.Environ(), "TEAMBRIDGE_EVENT="+o.kind, "TEAMBRIDGE_TITLE="+escape(o.title, false),
		"TEAMBRIDGE_TEXT="+string(text[:min(len(text), maxShown)]))
	process.OwnGroup(cmd)
	cmd.Cancel = func() error { return process.KillGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second // for a child of it that keeps stdin open
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		p.app.warn("%s failed for %s: %v", p.argv[0], o.title, err)
	}
}

// occurred returns what the program is run for because of a message.
func occurred(m api.Message) (occurrence, error) {
	line, err := jsonLine(m)
	return occurrence{kind: "message", title: m.From + " → " + m.Inbox + "@" + m.Team, text: m.Text, json: line}, err
}

// afterExec puts "--" after the --exec of a watch command, which takes the rest of the
// command line.
func afterExec(root *cobra.Command, args []string) []string {
	i := slices.Index(args, "--exec")
	if end := slices.Index(args, "--"); i < 0 || end >= 0 && end <= i+1 {
		return args
	}
	if cmd, _, err := root.Find(args[:i]); err != nil || !strings.HasPrefix(cmd.Use, "watch ") {
		return args
	}
	return slices.Insert(slices.Clone(args), i+1, "--")
}
