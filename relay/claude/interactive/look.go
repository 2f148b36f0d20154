package interactive

import (
	"fmt"

	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Status is the activity of the program, in the words of [transcript.Process].
type Status string

const (
	// Starting: nothing is known yet. The program can be in a dialog, such as the one about trust.
	Starting Status = ""
	Idle     Status = transcript.ProcessIdle
	Busy     Status = transcript.ProcessBusy    // a turn runs, or a teammate in the process works
	Waiting  Status = transcript.ProcessWaiting // for the person, in a dialog: see State.For
	Shell    Status = transcript.ProcessShell   // a shell command of the person runs
)

// State is the state of a running program.
type State struct {
	Status Status
	// For is the reason why it waits, in Claude Code's words, such as "permission prompt"; empty if not reported.
	For string
	// Session is the id of its session, which changes with /clear and /resume.
	Session string
}

// Look returns the state of the program with a process id. The error is a *[teams.OutdatedError] if the program
// reports an outdated version, which may have replaced the version that was checked before.
func (l *Launch) Look(pid int) (State, error) {
	if err := l.forgetDraft(); err != nil {
		return State{}, fmt.Errorf("interactive: %w", err)
	}
	s := State{Session: l.session}
	p, ok := l.process(pid)
	version, _ := teams.ParseVersion(p.Version)
	if err := version.Check(l.argv[0]); err != nil {
		return State{}, err
	}
	if !ok || p.Status == "" {
		return s, nil
	}
	if p.Session != "" {
		s.Session = p.Session
	}
	switch s.Status = Status(p.Status); s.Status {
	case Idle, Shell:
	case Waiting:
		s.For = p.WaitingFor
	default: // an unknown word, as of a later version, does not mean idle
		s.Status = Busy
	}
	return s, nil
}

// process returns the content of sessions/<pid>.json. If a script started the program, the file has another id.
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
