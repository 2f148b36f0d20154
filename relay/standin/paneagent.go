package standin

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// envPaneAgent has the test binary be the program of [Tmux.StartAgent].
const envPaneAgent = "TEAMBRIDGE_STANDIN_PANE_AGENT"

// The keys that change what the program of [Tmux.StartAgent] does. Others are typed at its prompt.
const (
	KeyBusy   = "C-b" // begins to work, or stops; so does Escape
	KeyDialog = "C-d" // opens a dialog, or closes it
	KeyClear  = "C-u" // deletes what is typed
)

// StartAgent starts a program in a new window that draws a composer as Claude Code does, without any model, and returns the id
// of its pane. It writes what is submitted above the composer. The program is the test binary: its TestMain calls
// [PaneAgent] first.
func (s *Tmux) StartAgent(t testing.TB) (pane string) {
	t.Helper()
	command := fmt.Sprintf("stty raw -echo; %s=1 exec '%s'", envPaneAgent, os.Args[0])
	id, err := s.Run(t.Context(), nil, "new-session", "-d", "-x", "100", "-y", "40", "-P", "-F", "#{pane_id}", "sh", "-c", command)
	if err != nil {
		t.Fatal(err)
	}
	id = strings.TrimSpace(id)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) {
		screen, err := s.Run(ctx, nil, "capture-pane", "-p", "-t", id)
		return strings.Contains(screen, "? for shortcuts"), err
	}); err != nil {
		t.Fatalf("standin: the program in pane %s: %v", id, err)
	}
	return id
}

// Keys presses keys in a pane, as a person does.
func (s *Tmux) Keys(t testing.TB, pane string, keys ...string) {
	t.Helper()
	if _, err := s.Run(t.Context(), nil, append([]string{"send-keys", "-t", pane}, keys...)...); err != nil {
		t.Fatal(err)
	}
}

// PaneAgent is the program of [Tmux.StartAgent], if the test binary was started as that. Then it does not return.
func PaneAgent() {
	if os.Getenv(envPaneAgent) == "" {
		return
	}
	var a paneAgent
	fmt.Print("\x1b[?2004h")
	a.draw()
	buf := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			os.Exit(0)
		}
		a.read(string(buf[:n]))
		a.draw()
	}
}

type paneAgent struct {
	draft        string
	submitted    []string
	busy, dialog bool
}

func (a *paneAgent) read(keys string) {
	keys = strings.NewReplacer("\x1b[200~", "", "\x1b[201~", "").Replace(keys)
	for _, key := range keys {
		switch key {
		case 0x1b:
			a.busy = false
		case 0x02:
			a.busy = !a.busy
		case 0x04:
			a.dialog = !a.dialog
		case 0x15:
			a.draft = ""
		case '\r':
			if a.draft != "" && !a.dialog {
				a.submitted, a.draft = append(a.submitted, a.draft), ""
			}
		default:
			a.draft += string(key)
		}
	}
}

func (a *paneAgent) draw() {
	var b strings.Builder
	b.WriteString("\x1b[2J\x1b[H")
	for _, text := range a.submitted {
		b.WriteString("  said: " + strings.ReplaceAll(text, "\n", "\r\n  ") + "\r\n")
	}
	rule := strings.Repeat("─", 80)
	if a.dialog {
		b.WriteString(rule + "\r\n  Bash command\r\n\r\n  rm -r build\r\n  ❯ 1. Yes\r\n    2. No\r\n\r\n  Esc to cancel")
	} else {
		hint := "? for shortcuts"
		if a.busy {
			hint = "esc to interrupt"
		}
		b.WriteString(rule + "\r\n❯\u00a0" + strings.ReplaceAll(a.draft, "\n", "\r\n  ") + "\r\n" + rule + "\r\n  " + hint)
	}
	fmt.Print(b.String())
}
