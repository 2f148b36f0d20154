package pane

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/codex"
	"teambridge/relay/process"
	"teambridge/relay/qwen"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// Homes are the directories of the other programs whose sessions are members. A program without one is left out.
type Homes struct{ Codex, Qwen string }

// HomesOf returns the directories for a user, given a lookup in the user's environment.
func HomesOf(lookup func(string) (string, bool)) Homes {
	return Homes{Codex: resolved(codex.Home(lookup)), Qwen: resolved(qwen.Home(lookup))}
}

// resolved returns the path of a directory, which may not exist yet, without symbolic links, so that it has one name.
func resolved(dir string) string {
	if dir == "" {
		return ""
	}
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	if path, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		return filepath.Join(path, filepath.Base(dir))
	}
	return filepath.Clean(dir)
}

// program is a program other than Claude Code. Its sessions take one message at a time: a message must be in the
// transcript before the next one is given.
type program interface {
	processes() []transcript.Process
	// takes says why a session takes no messages, or "".
	takes(s transcript.Process) string
	// check returns an error if a message must not be sent to a session.
	check(m Message) error
	// transcripts returns the files in which a session may record messages that were sent since a time.
	transcripts(of Pane, since time.Time) []string
}

// of returns the program of a session with a profile, or nil for Claude Code.
func (h Homes) of(profile tmux.Profile) program {
	switch profile {
	case Codex:
		return codexIn(h.Codex)
	case Qwen:
		return qwenIn(h.Qwen)
	}
	return nil
}

// foreign says why nothing is known of a session now: its program keeps it in another directory. It returns "" for all
// other sessions. Two directories can have sessions with the same id, as a copy has.
func (h Homes) foreign(of Pane) string {
	name, home := "CODEX_HOME", h.Codex
	if of.Profile == Qwen {
		name, home = "QWEN_HOME", h.Qwen
	}
	if of.Home == "" || of.Home == home {
		return ""
	}
	return fmt.Sprintf("the session is one of %s=%s, and this teambridge has %s: start it with that %s", name, of.Home, cmp.Or(home, "none"), name)
}

// Processes returns the living sessions of these programs, in the form of Claude Code's. One process can have several
// sessions, so ProcStart may contain the id of the session, too.
func (h Homes) Processes() (list []transcript.Process) {
	if h.Codex != "" {
		list = codexIn(h.Codex).processes()
	}
	if h.Qwen != "" {
		list = append(list, qwenIn(h.Qwen).processes()...)
	}
	return list
}

// ProgramOf returns the profile of the session of a process: [Codex], [Qwen], or [Session] for Claude Code.
func ProgramOf(s transcript.Process) tmux.Profile {
	switch kind, _, _ := strings.Cut(s.Entrypoint, "-"); kind {
	case string(Codex), string(Qwen):
		return tmux.Profile(kind)
	}
	return Session
}

// processIn is [Sessions.process] for a session of one of these programs.
func processIn(program program, of Pane) (now transcript.Process) {
	// A list can lack a session that changes just then. Read it again: ending a living session delivers messages twice.
	for range 3 {
		for _, s := range program.processes() {
			if s.PID == of.Ref.PID && s.ProcStart == of.Start {
				return s
			}
			if s.Session == of.Ref.ID {
				now = s
			}
		}
		before, _, _ := strings.Cut(of.Start, "/")
		if start := process.Ticks(of.Ref.PID); now.PID != 0 || start == "" || start != before {
			break // another process has it, or the recorded one has ended
		}
	}
	return now
}
