package pane

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Reach is the way by which messages get into a session.
type Reach string

// The ways into a session.
const (
	BySocket Reach = "socket"
	ByHook   Reach = "hook"  // the waiting hook: see package wake
	ByCodex  Reach = "codex" // Codex's shared server: see package codex
	Deaf     Reach = "deaf"  // the socket that it names is missing, and it has no hook
	Nowhere  Reach = ""

	Outdated Reach = "outdated" // a Claude Code known to be older than [teams.Oldest]: nothing is written to it
)

// ReachOf returns how messages get into the session of a process. An existing socket comes first, unless the person
// has chosen the hook.
func ReachOf(state string, s transcript.Process) Reach {
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		switch {
		case program.takes(s) != "":
			return Nowhere
		case s.Socket != "":
			return BySocket
		}
		return ByCodex
	}
	if CheckVersion(s, "") != nil {
		return Outdated
	}
	h, hooked := wake.Of(state, s)
	if _, err := os.Stat(s.Socket); s.Socket != "" && !errors.Is(err, fs.ErrNotExist) && !(hooked && h.Unasked) {
		return BySocket
	}
	switch {
	case hooked:
		return ByHook
	case s.Socket != "":
		return Deaf
	}
	return Nowhere
}

// Refuses says why a session takes no messages. [ReachOf] must be [Outdated] or [Nowhere] for the session.
func Refuses(s transcript.Process) string {
	if old := CheckVersion(s, "it"); old != nil {
		return old.Error()
	}
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		return program.takes(s)
	}
	return "the session takes no messages: it has no socket for them, nor the waiting hook (teambridge setup hooks)"
}

func (s *shared) reach(of transcript.Process) Reach { return ReachOf(s.opts.State, of) }

// CheckVersion returns a [*teams.OutdatedError] if the session of a process belongs to a Claude Code that is known to
// be older than [teams.Oldest]. Versions of other programs are not compared. The error calls the session who.
func CheckVersion(s transcript.Process, who string) error {
	if ProgramOf(s) != Session {
		return nil
	}
	v, _ := teams.ParseVersion(s.Version) // an unknown one counts as a current one
	return v.Check(who)
}

// Outdated returns a [*teams.OutdatedError] if the program of a pane or session is a Claude Code known to be older
// than [teams.Oldest]. Nothing is then put into its queue, and queued messages wait until a current version runs.
func (vs *Views) Outdated(ctx context.Context, of Pane) error {
	s := vs.agent(of)
	if of.IsSession() {
		var err error
		if s, err = vs.sessions.process(ctx, &of); err != nil {
			return err
		}
	}
	return CheckVersion(s, of.Inbox+"@"+of.Team)
}

// agent returns the process of Claude Code in a pane, as far as it is known.
func (vs *Views) agent(of Pane) transcript.Process {
	if of.Profile != tmux.Claude {
		return transcript.Process{}
	}
	return vs.process(of.Ref.PID)
}
