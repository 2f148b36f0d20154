package simterminal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

var (
	sleepLine = regexp.MustCompile(`SLEEP:([0-9.]+)`)
	waitLine  = regexp.MustCompile(`WAIT:(\w+)`)
	askLine   = regexp.MustCompile(`ASK:(\w+)`)
	spawnLine = regexp.MustCompile(`SPAWN:(\w+)`)
)

// turn is one that runs.
type turn struct {
	text     string
	until    time.Time
	file     string // that ends it
	asks     string // the tool that a dialog asks about; empty: none is open
	decision string // the answer to it
	shell    bool   // it is a shell command of the person
}

// press does what a key does. over is true if the program is to end.
func (t *terminal) press(key string) (over bool, err error) {
	if t.turn != nil && t.turn.asks != "" {
		switch key {
		case "y", "1", "\r":
			return false, t.decide("allowed")
		case "n", "2":
			return false, t.decide("denied")
		case "\x1b":
			return false, t.interrupt()
		}
		return false, nil
	}
	switch key {
	case "\r":
		return t.enter()
	case "\n":
		t.draft += "\n"
	case "\x1b":
		if t.turn != nil {
			return false, t.interrupt()
		}
	case "\x1b[Z":
		modes := map[string]string{"default": "acceptEdits", "acceptEdits": "plan", "plan": "default"}
		if next, ok := modes[t.mode]; ok {
			t.mode = next
		}
	case "\x03":
		if t.draft == "" && t.turn == nil {
			return true, nil
		}
		t.draft = ""
	case "\x07":
		t.edit()
	case "\x15":
		t.draft = ""
	case "\x7f":
		if runes := []rune(t.draft); len(runes) > 0 {
			t.draft = string(runes[:len(runes)-1])
		}
	default:
		if key[0] >= 0x20 || len(key) > 1 && key[0] != 0x1b {
			t.draft += key
		}
	}
	return false, nil
}

// enter runs the draft, or puts it into the queue.
func (t *terminal) enter() (over bool, err error) {
	text := strings.TrimSpace(t.draft)
	if text == "" {
		return false, nil
	}
	t.draft = ""
	dir, err := os.Getwd()
	if err != nil {
		return false, err
	}
	if err := appendJSON(filepath.Join(t.script.State, "history.jsonl"), map[string]any{
		"display": text, "pastedContents": map[string]any{}, "timestamp": time.Now().UnixMilli(), "project": dir, "sessionId": t.memory.Session(),
	}); err != nil {
		return false, err
	}
	if text == "/exit" {
		return true, nil
	}
	if t.turn != nil {
		t.queue = append(t.queue, text)
		return false, t.memory.Note(map[string]any{"type": "queue-operation", "operation": "enqueue", "content": text})
	}
	return false, t.begin(text)
}

// begin begins a turn.
func (t *terminal) begin(text string) error {
	t.said = append(t.said, "❯ "+text)
	if err := t.hook("UserPromptSubmit", map[string]any{"prompt": text}); err != nil {
		return err
	}
	if text == "/clear" {
		session := uuid.NewString()
		m, err := t.remember(session)
		if err != nil {
			return err
		}
		t.memory, t.said = m, nil
		return errors.Join(t.status(), t.hook("SessionStart", map[string]any{"source": "clear"}))
	}
	t.log("begin", text)
	t.turn = &turn{text: text, shell: strings.HasPrefix(text, "!")}
	if m := sleepLine.FindStringSubmatch(text); m != nil {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return err
		}
		t.turn.until = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	}
	if m := waitLine.FindStringSubmatch(text); m != nil {
		t.turn.file = filepath.Join(t.script.State, m[1])
	}
	if m := askLine.FindStringSubmatch(text); m != nil {
		t.turn.asks = m[1]
	}
	t.later(func() error {
		return t.memory.Store("user", uuid.NewString(), map[string]any{"permissionMode": t.mode, "entrypoint": "cli", "cwd": mustDir(),
			"message": map[string]any{"role": "user", "content": text}})
	})
	t.title()
	return t.status()
}

// later has a record written after the lag, in order.
func (t *terminal) later(write func() error) {
	t.lines = append(t.lines, deferred{time.Now().Add(cmp.Or(t.script.Lag, 100*time.Millisecond)), write})
}

// flush writes what is to be written, all of it or what is due.
func (t *terminal) flush(all bool) error {
	for len(t.lines) > 0 && (all || time.Now().After(t.lines[0].at)) {
		if err := t.lines[0].write(); err != nil {
			return err
		}
		t.lines = t.lines[1:]
	}
	return nil
}

// advance ends the turn when it is time.
func (t *terminal) advance() error {
	if err := t.flush(false); err != nil || t.turn == nil {
		return err
	}
	if t.turn.asks != "" || time.Now().Before(t.turn.until) || len(t.lines) > 0 {
		return nil
	}
	if t.turn.file != "" {
		if _, err := os.Stat(t.turn.file); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if t.turn.decision != "" {
		return t.finish(t.turn.decision)
	}
	return t.finish("ACK: " + t.turn.text)
}

// finish ends the turn with an answer, and begins the next of the queue.
func (t *terminal) finish(answer string) error {
	if m := spawnLine.FindStringSubmatch(t.turn.text); m != nil {
		if err := t.spawn(m[1]); err != nil {
			return err
		}
	}
	t.log("work", t.turn.text)
	if err := t.memory.Store("assistant", uuid.NewString(), map[string]any{"entrypoint": "cli", "message": map[string]any{
		"role": "assistant", "stop_reason": "end_turn", "content": []map[string]any{{"type": "text", "text": answer}}}}); err != nil {
		return err
	}
	return t.end(answer)
}

// end ends the turn, and begins the next of the queue.
func (t *terminal) end(last string) error {
	t.said, t.turn = append(t.said, last), nil
	if len(t.queue) > 0 {
		text := t.queue[0]
		t.queue = t.queue[1:]
		if err := t.memory.Note(map[string]any{"type": "queue-operation", "operation": "dequeue"}); err != nil {
			return err
		}
		if err := t.begin(text); err != nil {
			return err
		}
	}
	t.title()
	t.draw()
	return t.status()
}

// decide answers the dialog.
func (t *terminal) decide(answer string) error {
	t.turn.decision, t.turn.asks = answer, ""
	return t.status()
}

// interrupt ends the turn as Esc does. What is in the queue becomes the draft.
func (t *terminal) interrupt() error {
	if err := t.flush(true); err != nil {
		return err
	}
	const note = "[Request interrupted by user]"
	if err := t.memory.Store("user", uuid.NewString(), map[string]any{"entrypoint": "cli", "message": map[string]any{
		"role": "user", "content": []map[string]any{{"type": "text", "text": note}}}}); err != nil {
		return err
	}
	for _, text := range t.queue {
		if err := t.memory.Note(map[string]any{"type": "queue-operation", "operation": "popAll", "content": text}); err != nil {
			return err
		}
		t.draft = strings.TrimPrefix(t.draft+"\n"+text, "\n")
	}
	t.queue = nil
	return t.end(note)
}

// edit gives the draft to the person's editor, which has the keyboard meanwhile.
func (t *terminal) edit() {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" || t.edited != nil {
		return
	}
	path := filepath.Join(os.TempDir(), "claude-prompt-"+uuid.NewString()+".md")
	text := t.draft
	if t.late {
		text = strings.TrimPrefix(text, "!")
	}
	t.edited = make(chan edited, 1)
	go func(done chan<- edited) {
		defer os.Remove(path)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			done <- edited{err: err}
			return
		}
		cmd := exec.Command("/bin/sh", "-c", editor+` "$1"`, "sh", path)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		data, readErr := os.ReadFile(path)
		done <- edited{strings.TrimSuffix(string(data), "\n"), errors.Join(err, readErr)}
	}(t.edited)
}

// title is "✳ Claude Code", with a spinner in front in a turn.
func (t *terminal) title() {
	mark := "✳"
	if t.turn != nil {
		mark = "⠂"
		if t.late {
			mark = "◐"
		}
	}
	fmt.Printf("\x1b]0;%s Claude Code\x07", mark)
}

// draw draws the last lines of the conversation and the composer.
func (t *terminal) draw() {
	var b strings.Builder
	b.WriteString("\x1b[2J\x1b[H")
	for _, text := range t.said[max(0, len(t.said)-10):] {
		b.WriteString(strings.ReplaceAll(text, "\n", "\r\n  ") + "\r\n")
	}
	rule := strings.Repeat("─", 80) + "\r\n"
	if t.turn != nil && t.turn.asks != "" {
		b.WriteString(rule + "  " + t.turn.asks + " command\r\n  ❯ 1. Yes\r\n    2. No\r\n  Esc to cancel")
	} else {
		hint := "? for shortcuts"
		if t.turn != nil {
			hint = "esc to interrupt"
		}
		b.WriteString(rule + "❯\u00a0" + strings.ReplaceAll(t.draft, "\n", "\r\n  ") + "\r\n" + rule + "  " + hint)
	}
	fmt.Print(b.String())
}

func appendJSON(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
