package simchild

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/claudedir"
	"teambridge/relay/relaytest/simagent"
)

// terminal is a program at a terminal. Its main goroutine does everything except reading and running an editor.
type terminal struct {
	program
	hooks   map[string][]string // shell commands
	process simagent.Process
	started time.Time
	modes   string         // of the tty, before
	team    *simagent.Team // that the process has made

	signals chan os.Signal
	input   chan []byte
	tick    <-chan time.Time
	keys    keyboard

	draft   string
	entered string // the text of the next turn
	turn    *turn
	queue   []string // entered in a turn
	said    []string // on the screen
	lines   []deferred

	edited chan edited // nil while no editor runs
}

// turn is the running turn.
type turn struct {
	asks        string // the tool that a dialog asks about; empty: none is open
	decision    string // the answer to it
	interrupted bool
}

// deferred is a record that is written later.
type deferred struct {
	at    time.Time
	write func()
}

type edited struct {
	text string
	err  error
}

func runTerminal(script Script, args []string) int {
	t := &terminal{program: program{script: script}, hooks: map[string][]string{}, started: time.Now(), signals: make(chan os.Signal, 1), input: make(chan []byte)}
	t.wait = t.next
	var failed, err error
	err = t.open(args, func(name, value string) {
		switch name {
		case "--prefill":
			t.draft = strings.TrimSpace(value)
		case "--dangerously-skip-permissions":
			t.mode = "bypassPermissions"
		case "--settings":
			failed = errors.Join(failed, t.addHooks(value))
		}
	})
	if err = errors.Join(failed, err); err == nil {
		t.process, err = simagent.CurrentProcess()
	}
	if err == nil {
		t.modes, err = stty("-g")
	}
	if err == nil {
		_, err = stty("raw", "-echo")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.run(t.loop)
}

// stty changes the modes of the terminal on stdin, and returns what it prints.
func stty(args ...string) (string, error) {
	cmd := exec.Command("stty", args...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// addHooks takes the hooks of settings, which are JSON or the path of a file with it.
func (t *terminal) addHooks(settings string) error {
	data := []byte(settings)
	if !strings.HasPrefix(strings.TrimSpace(settings), "{") {
		var err error
		if data, err = os.ReadFile(settings); err != nil {
			return err
		}
	}
	var s struct {
		Hooks map[string][]struct {
			Hooks []struct{ Type, Command string } `json:"hooks"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	for event, groups := range s.Hooks {
		for _, g := range groups {
			for _, h := range g.Hooks {
				t.hooks[event] = append(t.hooks[event], h.Command)
			}
		}
	}
	return nil
}

// hook runs the hooks of an event, and waits for them.
func (t *terminal) hook(event, key, value string) {
	for _, command := range t.hooks[event] {
		data, err := json.Marshal(object{"session_id": t.memory.session, "cwd": t.dir(), "hook_event_name": event, "permission_mode": t.mode, key: value})
		t.check(err)
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Stdin, cmd.Stderr = strings.NewReader(string(data)), os.Stderr
		t.check(cmd.Run())
	}
}

// dir is the working directory.
func (t *terminal) dir() string {
	dir, err := os.Getwd()
	t.check(err)
	return dir
}

// loop runs until the program is to end, which a panic does.
func (t *terminal) loop() int {
	defer t.close()
	signal.Notify(t.signals, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	source := "startup"
	if t.memory.last != "" {
		source = "resume"
	}
	t.hook("SessionStart", "source", source)
	if os.Getenv("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS") != "" {
		session := t.memory.session
		if t.script.OwnTeamID {
			session = uuid.NewString()
		}
		t.makeTeam("session-"+session[:min(8, len(session))], session)
	}
	fmt.Print("\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[?25l") // paste, focus, kitty keys, cursor
	t.show()
	go func() {
		defer close(t.input)
		for {
			buffer := make([]byte, 64<<10)
			n, err := os.Stdin.Read(buffer)
			if err != nil {
				return
			}
			t.input <- buffer[:n]
		}
	}()
	t.tick = time.Tick(10 * time.Millisecond)
	for {
		switch {
		case t.entered != "":
			text := t.entered
			t.entered = ""
			t.take(text)
		case len(t.queue) > 0:
			t.check(t.memory.note(object{"type": "queue-operation", "operation": "dequeue"}))
			t.entered, t.queue = t.queue[0], t.queue[1:]
		default:
			t.next(nil)
		}
	}
}

// next takes one key, or another input that comes first.
func (t *terminal) next(timer <-chan time.Time) (timeout, interrupted bool) {
	// An editor has the keyboard.
	if key, ok := t.keys.next(t.edited == nil); ok {
		t.press(key)
		t.draw()
		return false, t.turn != nil && t.turn.interrupted
	}
	select {
	case s := <-t.signals:
		if s == os.Interrupt {
			panic(stopped(0))
		}
		panic(stopped(128 + int(s.(syscall.Signal))))
	case data, ok := <-t.input:
		if !ok {
			panic(stopped(129)) // as by the hang-up that follows
		}
		t.keys.add(data)
	case e := <-t.edited:
		t.edited = nil
		if e.err != nil {
			t.said = append(t.said, "editor: "+e.err.Error())
		} else {
			t.draft = e.text
		}
		t.draw()
	case <-t.tick:
		t.flush(false)
	case <-timer:
		return true, false
	}
	return false, false
}

// press carries out a key.
func (t *terminal) press(key string) {
	if t.turn != nil && t.turn.asks != "" {
		switch key {
		case "y", "1", "\r":
			t.turn.decision, t.turn.asks = "allowed", ""
		case "n", "2":
			t.turn.decision, t.turn.asks = "denied", ""
		case "\x1b":
			t.turn.interrupted = true
		}
		return
	}
	switch key {
	case "\r":
		t.enter()
	case "\n":
		t.draft += "\n"
	case "\x1b":
		if t.turn != nil {
			t.turn.interrupted = true
		}
	case "\x1b[Z":
		modes := map[string]string{"default": "acceptEdits", "acceptEdits": "plan", "plan": "default"}
		t.mode = cmp.Or(modes[t.mode], t.mode)
	case "\x03":
		if t.draft == "" && t.turn == nil {
			panic(stopped(0))
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
}

// enter runs the draft, or puts it into the queue.
func (t *terminal) enter() {
	text := strings.TrimSpace(t.draft)
	if text == "" {
		return
	}
	t.draft = ""
	t.check(claudedir.Append(filepath.Join(t.script.State, "history.jsonl"), object{
		"display": text, "pastedContents": object{}, "timestamp": time.Now().UnixMilli(), "project": t.dir(), "sessionId": t.memory.session,
	}))
	switch {
	case text == "/exit":
		panic(stopped(0))
	case t.turn == nil:
		t.entered = text
	default:
		t.queue = append(t.queue, text)
		t.check(t.memory.note(object{"type": "queue-operation", "operation": "enqueue", "content": text}))
	}
}

// take runs a turn.
func (t *terminal) take(text string) {
	t.said = append(t.said, "❯ "+text)
	t.hook("UserPromptSubmit", "prompt", text)
	if text == "/clear" {
		t.memory, t.said = t.another(), nil
		t.show()
		t.hook("SessionStart", "source", "clear")
		return
	}
	t.log(Entry{Kind: "begin", Text: text, Mode: t.mode})
	t.turn = &turn{}
	t.later(func() {
		t.store("user", object{"permissionMode": t.mode, "cwd": t.dir(), "message": saidByUser(text)})
	})
	t.show()
	answer, interrupted := "ACK: "+text, t.pause(sleepLine(), text) || t.await(text)
	if m := askLine().FindStringSubmatch(text); m != nil && !interrupted {
		t.turn.asks = m[1]
		t.show()
		for t.turn.asks != "" && !interrupted {
			_, interrupted = t.next(nil)
		}
		answer = t.turn.decision
		t.turn.asks = ""
		t.show()
	}
	for len(t.lines) > 0 && !interrupted {
		_, interrupted = t.next(nil)
	}
	if interrupted {
		answer = interruption
		t.interrupt()
	} else {
		if m := spawnLine().FindStringSubmatch(text); m != nil {
			t.spawn(m[1])
		}
		t.log(Entry{Kind: "work", Text: text, Mode: t.mode})
		t.store("assistant", object{"message": saidByModel("end_turn", textBlock(answer))})
	}
	t.said, t.turn = append(t.said, answer), nil
	if len(t.queue) == 0 {
		t.show()
	}
}

// interrupt ends the turn as Esc does. The queue becomes the draft.
func (t *terminal) interrupt() {
	t.flush(true)
	t.store("user", object{"message": saidByUser([]object{textBlock(interruption)})})
	for _, text := range t.queue {
		t.check(t.memory.note(object{"type": "queue-operation", "operation": "popAll", "content": text}))
		t.draft = strings.TrimPrefix(t.draft+"\n"+text, "\n")
	}
	t.queue = nil
}

// store appends a record to the conversation. It is known from now on: as a frame, it is not run again.
func (t *terminal) store(kind string, fields object) {
	id := uuid.NewString()
	fields["entrypoint"] = "cli"
	t.check(errors.Join(t.memory.store(kind, id, fields), t.memory.echoed(id)))
}

// later writes a record after the lag, in order.
func (t *terminal) later(write func()) {
	t.lines = append(t.lines, deferred{time.Now().Add(cmp.Or(t.script.Lag, 100*time.Millisecond)), write})
}

// flush writes the deferred records: all of them, or those that are due.
func (t *terminal) flush(all bool) {
	for len(t.lines) > 0 && (all || time.Now().After(t.lines[0].at)) {
		t.lines[0].write()
		t.lines = t.lines[1:]
	}
}

// edit gives the draft to the person's editor, which has the keyboard meanwhile.
func (t *terminal) edit() {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" || t.edited != nil {
		return
	}
	path := filepath.Join(os.TempDir(), "claude-prompt-"+uuid.NewString()+".md")
	text := strings.TrimPrefix(t.draft, "!")
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

// show writes sessions/PID.json, in place, and draws title and screen. The title has a spinner in front in a turn.
func (t *terminal) show() {
	mark, status := "✳", object{"pid": t.process.PID, "cwd": t.dir(), "startedAt": t.started.UnixMilli(), "sessionId": t.memory.session,
		"version": t.script.Version.String(), "kind": "interactive", "entrypoint": "cli",
		"procStart": t.process.Start, "statusUpdatedAt": time.Now().UnixMilli(), "status": "idle"}
	if t.turn != nil {
		mark, status["status"] = "◐", "busy"
		if t.turn.asks != "" {
			status["status"], status["waitingFor"] = "waiting", "permission prompt"
		}
	}
	t.check(claudedir.WriteProcess(t.script.State, status))
	fmt.Printf("\x1b]0;%s Claude Code\x07", mark)
	t.draw()
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

// makeTeam makes the team that this process leads, with the lead alone, and replaces the files of a killed process.
func (t *terminal) makeTeam(name, session string) {
	t.check(os.RemoveAll(filepath.Join(t.script.State, "teams", name)))
	var err error
	t.team, err = simagent.Create(context.Background(), simagent.TeamOptions{
		Root: t.script.State, Name: name, SessionID: session, Process: t.process,
		Lead: simagent.Member{Absent: true}, Now: func() time.Time { return t.started },
	})
	t.check(err)
}

// spawn adds a teammate, which lives in this process.
func (t *terminal) spawn(name string) {
	if t.team == nil {
		t.makeTeam("sim-team", t.memory.session)
	}
	_, err := t.team.Spawn(context.Background(), simagent.Member{Name: name, Absent: true})
	t.check(err)
}

// close leaves the terminal and the files as the real one does at a clean end.
func (t *terminal) close() {
	t.flush(false) // records that are not due are lost
	if t.memory.last != "" {
		t.check(t.memory.note(object{"type": "permission-mode", "permissionMode": t.mode}))
	}
	t.check(os.Remove(claudedir.ProcessFile(t.script.State)))
	if t.team != nil {
		t.check(os.RemoveAll(t.team.Dir()))
	}
	fmt.Print("\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[?25h\x1b]0;\x07")
	fmt.Printf("\r\n\x1b[2mResume this session with:\x1b[22m\r\n\x1b[2mclaude --resume %s\x1b[22m\r\n", t.memory.session)
	_, err := stty(t.modes)
	t.check(err)
}
