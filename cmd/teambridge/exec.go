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

// program is the program of "watch --exec". It runs once per new message, one at a time and in order.
type program struct {
	app   *app
	argv  []string
	queue chan trigger
	done  sync.WaitGroup
	full  bool // the queue was full at the last call; only for the goroutine that calls enqueue
}

// trigger is the message, or the item that needs the person, for which the program runs.
type trigger struct {
	kind  string // message, or attention
	title string
	text  string
	json  []byte // a line
}

// maxQueued limits the triggers that wait for the program.
const maxQueued = 1000

// maxTriggerText limits the characters of a text in the program's environment.
const maxTriggerText = 500

// startProgram prepares to run argv for each trigger of [program.enqueue]. When ctx ends, the running program
// and its children are killed. Call finish at the end.
func (a *app) startProgram(ctx context.Context, argv []string) (*program, error) {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, usage("", "--exec: %v", err)
	}
	p := &program{app: a, argv: argv, queue: make(chan trigger, maxQueued)}
	p.done.Go(func() {
		for o := range p.queue {
			if ctx.Err() == nil {
				p.execute(ctx, o)
			}
		}
	})
	return p, nil
}

// enqueue queues a run of the program for o. It drops o if the queue is full. p may be nil.
func (p *program) enqueue(o trigger) {
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

// finish waits until the program has run for every queued trigger.
func (p *program) finish() {
	if p != nil {
		close(p.queue)
		p.done.Wait()
	}
}

func (p *program) execute(ctx context.Context, o trigger) {
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(o.json), p.app.stderr, p.app.stderr // stdout is for the messages
	text := []rune(escape(o.text, true))
	cmd.Env = append(os.Environ(), "TEAMBRIDGE_EVENT="+o.kind, "TEAMBRIDGE_TITLE="+escape(o.title, false),
		"TEAMBRIDGE_TEXT="+string(text[:min(len(text), maxTriggerText)]))
	process.OwnGroup(cmd)
	cmd.Cancel = func() error { return process.KillGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second // its children may keep stdin open
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		p.app.warn("%s failed for %s: %v", p.argv[0], o.title, err)
	}
}

// messageTrigger returns the trigger for a new message.
func messageTrigger(m api.Message) (trigger, error) {
	line, err := jsonLine(m)
	return trigger{kind: "message", title: m.From + " → " + m.Inbox + "@" + m.Team, text: m.Text, json: line}, err
}

// afterExec inserts "--" after the --exec of a watch command, since --exec takes the rest of the command line.
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
