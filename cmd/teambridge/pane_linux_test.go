package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/standin"
)

// TestPaneScripts runs testdata/script/tmux, with a tmux server for all of them. Sessions
// have names of their own in each script.
func TestPaneScripts(t *testing.T) {
	t.Parallel()
	server := standin.StartTmux(t)
	pid, err := server.Run(t.Context(), nil, "display-message", "-p", "#{pid}")
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("prompt")
	if err != nil {
		t.Fatal(err)
	}
	p := scripts("tmux")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("TMUX", server.Socket+","+strings.TrimSpace(pid)+",0")
		return setup(env)
	}
	p.Cmds["pane"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: pane SESSION")
		}
		log := ts.MkAbs(args[0] + ".log")
		id, err := server.Run(context.Background(), nil, "new-session", "-d", "-P", "-F", "#{pane_id}", "-s", args[0], "-x", "120", "-y", "30", "-c", ts.MkAbs("."), program, log)
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

func init() { prompt = runPrompt }

// runPrompt is an agent program in a pane. It draws its composer as Claude Code does, and
// writes what happens to a file. Keys: Ctrl-B begins work, Ctrl-D asks something, Ctrl-E
// ends both.
func runPrompt() {
	log, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	tell := func(what, text string) { fmt.Fprintf(log, "%s %q\n", what, text) }
	raw := exec.Command("stty", "raw", "-echo")
	raw.Stdin = os.Stdin
	if err := raw.Run(); err != nil {
		panic(err)
	}
	var draft, dialog string
	busy := false
	draw := func() {
		rule := strings.Repeat("─", 80)
		fmt.Print("\x1b[2J\x1b[H")
		if dialog != "" {
			fmt.Printf("%s\r\n  Bash command\r\n\r\n  %s\r\n  ❯ 1. Yes\r\n    2. No\r\n\r\n  Esc to cancel", rule, dialog)
			return
		}
		shown := strings.ReplaceAll(strings.Trim(draft, "\n"), "\n", "\r\n  ")
		foot := "? for shortcuts"
		if busy {
			foot = "esc to interrupt"
		}
		fmt.Printf("%s\r\n❯\u00a0%s\r\n%s\r\n  %s", rule, shown, rule, foot)
	}
	fmt.Print("\x1b[?2004h")
	draw()
	tell("ready", "")
	buf := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			return
		}
		text := string(buf[:n])
		switch text {
		case "\r":
			if draft != "" && dialog == "" {
				tell("submit", draft)
				draft = ""
			}
		case "\x02":
			busy = true
		case "\x04":
			dialog = "rm -rf build"
		case "\x05":
			busy, dialog = false, ""
		case "\x1b":
			tell("escape", "")
			busy = false
		default:
			text = strings.ReplaceAll(strings.ReplaceAll(text, "\x1b[200~", ""), "\x1b[201~", "")
			draft += strings.ReplaceAll(text, "\r", "\n")
		}
		draw()
		tell("drawn", dialog+draft+strings.Repeat(" busy", map[bool]int{true: 1}[busy]))
	}
}
