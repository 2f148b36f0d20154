package interactive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"teambridge/teams/transcript"
)

// Status is what the program does, in the words of [transcript.Process].
type Status string

const (
	// Starting: nothing is known yet. It can stand in a dialog, such as the one about trust.
	Starting Status = ""
	Idle     Status = transcript.ProcessIdle
	Busy     Status = transcript.ProcessBusy    // a turn runs, or a teammate in the process works
	Waiting  Status = transcript.ProcessWaiting // for the person, in a dialog: see State.For
	Shell    Status = transcript.ProcessShell   // a shell command of the person runs
)

// State is what a running program is at.
type State struct {
	Status Status
	// For is what it waits for, in Claude Code's words, such as "permission prompt"; empty if it does not say.
	For string
	// Session is the id of its session, which changes with /clear and /resume.
	Session string
}

// Look tells what the program with that process id is at. title is the title that it last set.
func (l *Launch) Look(pid int, title string) (State, error) {
	if err := l.forgetDraft(); err != nil {
		return State{}, fmt.Errorf("interactive: %w", err)
	}
	s := State{Session: l.session}
	p, ok := l.process(pid)
	if ok && p.Status != "" {
		if p.Session != "" {
			s.Session = p.Session
		}
		switch s.Status = Status(p.Status); s.Status {
		case Idle, Shell:
		case Waiting:
			s.For = p.WaitingFor
		default: // words of later versions too: what is not known is not idle
			s.Status = Busy
		}
		return s, nil
	}
	if l.hasStatus {
		return s, nil
	}
	s.Status = titleStatus(title)
	hooked, err := l.hookedSession()
	if err != nil {
		return State{}, fmt.Errorf("interactive: session: %w", err)
	}
	if hooked != "" {
		s.Session = hooked
	}
	if s.Status == Idle {
		called, err := l.calledTool(s.Session)
		if err != nil {
			return State{}, fmt.Errorf("interactive: transcript: %w", err)
		}
		if called {
			s.Status = Waiting
		}
	}
	return s, nil
}

// calledTool reports whether the agent has called a tool that has no result yet. While that asks the person, 2.1.80 and
// 2.1.160 have the title of an idle program. The transcript is read when it has grown.
func (l *Launch) calledTool(session string) (bool, error) {
	path, ok := transcript.Session(l.root, l.dir, session)
	if !ok {
		return false, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if l.calls.path == path && l.calls.size == info.Size() {
		return len(l.calls.open) > 0, nil
	}
	open := map[string]bool{}
	for line, err := range transcript.Lines(path, callsTail) {
		if err != nil {
			return false, err
		}
		r, ok := transcript.Parse(line)
		if !ok || r.Sidechain || r.Type != "user" && r.Type != "assistant" {
			continue
		}
		for _, b := range transcript.Blocks(r.Message.Content) {
			switch {
			case b.Type == "tool_use" && r.Time().After(l.started): // an older one was cut off
				open[b.ID] = true
			case b.Type == "tool_result":
				delete(open, b.ToolUseID)
			}
		}
		if r.Type == "user" && !r.Meta && r.Kind() != transcript.Results { // a prompt, or that the turn was interrupted
			clear(open)
		}
	}
	l.calls = calls{path, info.Size(), open}
	return len(open) > 0, nil
}

// calls are the calls of tools without a result in a transcript of that size.
type calls struct {
	path string
	size int64
	open map[string]bool
}

// callsTail is the end of a transcript that is searched for calls.
const callsTail = 8 << 20

// process returns what sessions/<pid>.json says. If a script started the program, the file has another id.
func (l *Launch) process(pid int) (transcript.Process, bool) {
	for _, id := range []int{pid, l.pid} {
		if p, ok := transcript.ProcessWith(l.root, id); ok {
			return p, true
		}
	}
	p, ok := transcript.ProcessOf(l.root, l.session)
	if !ok || p.StartedAt < l.started.UnixMilli() {
		return transcript.Process{}, false
	}
	l.pid = p.PID
	return p, true
}

// titleStatus reads the title: "✳ Claude Code" when idle; while it works, "⠂ …" and other Braille, from 2.1.280 on "◐ …".
func titleStatus(title string) Status {
	switch r, _ := utf8.DecodeRuneInString(strings.TrimSpace(title)); {
	case r == '✳':
		return Idle
	case r >= '\u2800' && r <= '\u28ff', r >= '◐' && r <= '◓':
		return Busy
	}
	return Starting
}

// hookedSession is the session that the SessionStart hook was last told; empty if it has not run.
func (l *Launch) hookedSession() (string, error) {
	data, err := readLimited(l.hookFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	var session string
	for line := range bytes.Lines(data) {
		var start struct {
			Session string `json:"session_id"`
		}
		// A line can be half written.
		if json.Unmarshal(line, &start) == nil && start.Session != "" {
			session = start.Session
		}
	}
	return session, nil
}
