package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
	"teambridge/teams/transcript"
)

// TestPaneScripts runs testdata/script/tmux with one tmux server. Each script has its own session names.
func TestPaneScripts(t *testing.T) {
	t.Parallel()
	server := standin.StartTmux(t)
	pid, err := server.Run(t.Context(), nil, "display-message", "-p", "#{pid}")
	errtest.Must(t, err)
	program, err := exec.LookPath("prompt")
	errtest.Must(t, err)
	p := scripts("tmux")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("TMUX", server.Socket+","+strings.TrimSpace(pid)+",0")
		return setup(env)
	}
	p.Cmds["pane"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "transcript" {
			ts.Fatalf("usage: pane SESSION [transcript]")
		}
		log := ts.MkAbs(args[0] + ".log")
		command := []string{program, log}
		if len(args) > 1 {
			command = append(command, ts.Getenv("CLAUDE_CONFIG_DIR"))
		}
		id, err := startPane(context.Background(), server, args[0], ts.MkAbs("."), command...)
		ts.Check(err)
		ts.Setenv(args[0], strings.TrimSpace(id))
		seen(ts, "^ready", log)
	}
	p.Cmds["tmux"] = func(ts *testscript.TestScript, neg bool, args []string) {
		out, err := server.Run(context.Background(), nil, args...)
		if neg != (err != nil) {
			ts.Fatalf("tmux %s: %v", args, err)
		}
		_, _ = ts.Stdout().Write([]byte(out))
	}
	testscript.Run(t, p)
}

// startPane runs a program in a new session, and returns the id of its pane.
func startPane(ctx context.Context, server *standin.Tmux, session, dir string, command ...string) (string, error) {
	return server.Run(ctx, nil, append([]string{"new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "-x", "120", "-y", "30", "-c", dir}, command...)...)
}

func init() { prompt = runPrompt }

// runPrompt is an agent program in a pane. It draws its composer as Claude Code does, and writes events to a file.
// Ctrl-B begins work, Ctrl-D asks a question, Ctrl-E ends both. With a Claude directory, it also has a transcript
// there.
func runPrompt() {
	log, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	raw := exec.Command("stty", "raw", "-echo")
	raw.Stdin = os.Stdin
	if err := raw.Run(); err != nil {
		panic(err)
	}
	p := agentProgram{log: log, transcript: io.Discard}
	if len(os.Args) > 2 {
		p.transcript = conversation(os.Args[2])
	}
	fmt.Print("\x1b[?2004h")
	p.draw()
	p.tell("ready", "")
	buf := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			return
		}
		p.key(string(buf[:n]))
		p.draw()
		busy := ""
		if p.busy {
			busy = " busy"
		}
		p.tell("drawn", p.dialog+p.draft+busy)
	}
}

// conversation makes the transcript of a session in this directory.
func conversation(claude string) io.Writer {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	folder := filepath.Join(claude, "projects", transcript.Slug(dir))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		panic(err)
	}
	f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%08d-0000-4000-8000-000000000000.jsonl", os.Getpid())))
	if err != nil {
		panic(err)
	}
	return f
}

type agentProgram struct {
	log, transcript io.Writer
	draft, dialog   string
	busy            bool
	queue           []string // submitted while busy
	turns           int
}

func (p *agentProgram) tell(what, text string) {
	fmt.Fprintf(p.log, "%s %q %d\n", what, text, time.Now().UnixMicro())
}

func (p *agentProgram) record(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = p.transcript.Write(append(line, '\n'))
}

func (p *agentProgram) key(text string) {
	switch text {
	case "\r":
		if p.draft != "" && p.dialog == "" {
			p.tell("submit", p.draft)
			p.submit(p.draft)
			p.draft = ""
		}
	case "\x02":
		p.busy = true
	case "\x04":
		p.dialog = "rm -rf build"
	case "\x05", "\x1b":
		if text == "\x1b" {
			p.tell("escape", "")
		} else {
			p.dialog = ""
		}
		p.busy = false
		for _, queued := range p.queue {
			p.record(map[string]any{"type": "queue-operation", "operation": "dequeue"})
			p.turn(queued)
		}
		p.queue = nil
	default:
		p.tell("read", text)
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\x1b[200~", ""), "\x1b[201~", "")
		p.draft += strings.ReplaceAll(text, "\r", "\n")
	}
}

// submit takes a prompt, at once or after the current turn.
func (p *agentProgram) submit(text string) {
	if p.busy {
		p.record(map[string]any{"type": "queue-operation", "operation": "enqueue", "content": text})
		p.queue = append(p.queue, text)
		return
	}
	p.turn(text)
}

// turn does a whole turn of the agent, which answers with the prompt in capitals.
func (p *agentProgram) turn(text string) {
	p.turns++
	_, asked, _ := strings.Cut(text, "] ")
	p.record(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}, "timestamp": time.Now().UTC()})
	p.record(map[string]any{"type": "assistant", "timestamp": time.Now().UTC(), "message": map[string]any{
		"id": fmt.Sprint(p.turns), "stop_reason": "end_turn", "content": []any{map[string]any{"type": "text", "text": strings.ToUpper(asked)}},
	}})
}

func (p *agentProgram) draw() {
	rule := strings.Repeat("─", 80)
	fmt.Print("\x1b[2J\x1b[H")
	if p.dialog != "" {
		fmt.Printf("%s\r\n  Bash command\r\n\r\n  %s\r\n  ❯ 1. Yes\r\n    2. No\r\n\r\n  Esc to cancel", rule, p.dialog)
		return
	}
	shown := strings.ReplaceAll(strings.Trim(p.draft, "\n"), "\n", "\r\n  ")
	foot := "? for shortcuts"
	if p.busy {
		foot = "esc to interrupt"
	}
	fmt.Printf("%s\r\n❯\u00a0%s\r\n%s\r\n  %s", rule, shown, rule, foot)
}
