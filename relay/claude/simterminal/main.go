package simterminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/claude/simchild"
	"teambridge/teams"
)

// Main is the simulated program if the environment says so, the arguments do not ask for a headless one, and stdin is a
// terminal, and then ends the process. Else it returns at once.
func Main() {
	data, ok := os.LookupEnv(simchild.Variable)
	if !ok || slices.ContainsFunc(os.Args[1:], func(arg string) bool { return arg == "-p" || arg == "--print" || arg == "--version" }) {
		return
	}
	if in, err := os.Stdin.Stat(); err != nil || in.Mode()&os.ModeCharDevice == 0 {
		return // a program that speaks stream-json without being told to
	}
	script, err := simchild.ParseScript(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(run(script, os.Args[1:]))
}

// terminal is a running one. The goroutine of run owns it.
type terminal struct {
	script  simchild.Script
	late    bool // it has a status and a team from its start
	memory  *simchild.Memory
	mode    string
	hooks   map[string][]string // shell commands
	started time.Time
	modes   string // of the tty, before
	given   bool   // the session was not chosen by the program
	team    string // its name, if the process has made one
	leads   string // leadSessionId of the team

	keys  keyboard
	draft string
	turn  *turn
	queue []string // entered in a turn
	said  []string // on the screen
	lines []deferred

	edited chan edited // nil while no editor runs
}

// deferred is a record that is written later.
type deferred struct {
	at    time.Time
	write func() error
}

type edited struct {
	text string
	err  error
}

func run(script simchild.Script, args []string) int {
	t := &terminal{script: script, late: script.Version.Has(teams.TeamAtStart) == teams.Yes, mode: "default", hooks: map[string][]string{}, started: time.Now()}
	session, resume := "", false
	for i := 0; i < len(args); i++ {
		name, value, inside := strings.Cut(args[i], "=")
		if !inside && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--session-id":
			session = value
		case "--resume", "-r":
			session, resume = value, true
		case "--prefill":
			t.draft = strings.TrimSpace(value)
		case "--permission-mode":
			t.mode = value
		case "--dangerously-skip-permissions":
			t.mode = "bypassPermissions"
		case "--settings":
			if err := t.addHooks(value); err != nil {
				return fail(err)
			}
		}
	}
	t.given = session != ""
	if session == "" {
		session = uuid.NewString()
	}
	m, found, err := simchild.Remember(script.State, session, script.Version)
	switch {
	case err != nil:
		return fail(err)
	case resume && m.Empty():
		return fail(errors.New("No conversation found with session ID: " + session))
	case !resume && found:
		return fail(errors.New("Error: Session ID " + session + " is already in use."))
	}
	t.memory = m
	saved, err := stty("-g")
	if err == nil {
		t.modes = strings.TrimSpace(saved)
		_, err = stty("raw", "-echo")
	}
	if err != nil {
		return fail(fmt.Errorf("simterminal: stdin is no terminal: %w", err))
	}
	t.log("start")
	code, err := t.loop(resume)
	err = errors.Join(err, t.close())
	t.log("exit")
	if err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (t *terminal) log(kind string, text ...string) {
	e := simchild.Entry{Kind: kind, Session: t.memory.Session(), Mode: t.mode, Text: strings.Join(text, "")}
	if err := simchild.Append(t.script.State, e); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// stty changes the modes of the terminal on stdin, and returns what it prints.
func stty(args ...string) (string, error) {
	cmd := exec.Command("stty", args...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.Output()
	return string(out), err
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
func (t *terminal) hook(event string, with map[string]any) error {
	for _, command := range t.hooks[event] {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		input := map[string]any{"session_id": t.memory.Session(), "cwd": dir, "hook_event_name": event, "permission_mode": t.mode}
		maps.Copy(input, with)
		data, err := json.Marshal(input)
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Stdin, cmd.Stderr = strings.NewReader(string(data)), os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("hook %s: %w", event, err)
		}
	}
	return nil
}

// loop runs until the program is to end, and returns its exit status.
func (t *terminal) loop(resume bool) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
	source := "startup"
	if resume {
		source = "resume"
	}
	if err := t.hook("SessionStart", map[string]any{"source": source}); err != nil {
		return 1, err
	}
	if t.late && os.Getenv("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS") != "" {
		id := t.memory.Session()
		if t.given && t.script.Version.Has(teams.LeadSession) == teams.No {
			id = uuid.NewString()
		}
		if err := t.makeTeam("session-"+id[:min(8, len(id))], id); err != nil {
			return 1, err
		}
	}
	if err := t.status(); err != nil {
		return 1, err
	}
	fmt.Print("\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[?25l") // paste, focus, kitty keys, cursor
	t.title()
	t.draw()
	input := make(chan []byte)
	go func() {
		defer close(input)
		for {
			buffer := make([]byte, 64<<10)
			n, err := os.Stdin.Read(buffer)
			if err != nil {
				return
			}
			input <- buffer[:n]
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var err error
	for over := false; !over && err == nil; {
		select {
		case s := <-signals:
			switch {
			case s == syscall.SIGTERM && t.script.IgnoreTerm:
			case s == os.Interrupt:
				return 0, nil
			default:
				return 128 + int(s.(syscall.Signal)), nil
			}
		case data, ok := <-input:
			if !ok {
				return 129, nil // as by the hang-up that follows
			}
			t.keys.add(data)
		case e := <-t.edited:
			t.edited = nil
			if e.err != nil {
				t.said = append(t.said, "editor: "+e.err.Error())
			} else {
				t.draft = e.text
			}
		case <-tick.C:
			err = t.advance()
		}
		// An editor has the keyboard.
		for event, ok := t.keys.next(t.edited == nil); ok && !over && err == nil; event, ok = t.keys.next(t.edited == nil) {
			over, err = t.press(event)
			t.draw()
		}
	}
	return 0, err
}

// close leaves the terminal and the files as the real one does at a clean end.
func (t *terminal) close() error {
	if err := t.flush(false); err != nil { // what is not due is lost
		return err
	}
	if t.late && !t.memory.Empty() {
		if err := t.memory.Note(map[string]any{"type": "permission-mode", "permissionMode": t.mode}); err != nil {
			return err
		}
	}
	if err := os.Remove(t.sessionPath()); err != nil {
		return err
	}
	if t.team != "" {
		if err := os.RemoveAll(filepath.Join(t.script.State, "teams", t.team)); err != nil {
			return err
		}
	}
	fmt.Print("\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[?25h\x1b]0;\x07")
	fmt.Printf("\r\n\x1b[2mResume this session with:\x1b[22m\r\n\x1b[2mclaude --resume %s\x1b[22m\r\n", t.memory.Session())
	_, err := stty(t.modes)
	return err
}
