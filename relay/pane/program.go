package pane

import (
	"strings"
	"time"

	"teambridge/relay/codex"
	"teambridge/relay/process"
	"teambridge/relay/qwen"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// Homes are the directories of the programs other than Claude Code whose sessions are members. A program without one is left out.
type Homes struct{ Codex, Qwen string }

// HomesOf returns the directories for a user with that environment.
func HomesOf(lookup func(string) (string, bool)) Homes {
	return Homes{Codex: codex.Home(lookup), Qwen: qwen.Home(lookup)}
}

// program is a program other than Claude Code. Its sessions take one message at a time: the next one when the transcript
// shows it.
type program interface {
	processes() []transcript.Process
	// takes says why a session takes no messages, or "".
	takes(s transcript.Process) string
	// check returns an error if a message must not be sent to a session.
	check(m Message) error
	// transcripts are the files in which a session may record what it was sent since a time.
	transcripts(of Pane, since time.Time) []string
}

// of returns the program of a session, by its profile, or nil: it is one of Claude Code.
func (h Homes) of(profile tmux.Profile) program {
	switch profile {
	case Codex:
		return codexIn(h.Codex)
	case Qwen:
		return qwenIn(h.Qwen)
	}
	return nil
}

// Processes returns the sessions of these programs that live, as those of Claude Code are described. A process can have several, so
// that ProcStart may name the session as well.
func (h Homes) Processes() (list []transcript.Process) {
	if h.Codex != "" {
		list = codexIn(h.Codex).processes()
	}
	if h.Qwen != "" {
		list = append(list, qwenIn(h.Qwen).processes()...)
	}
	return list
}

// ProgramOf returns whose session a process has: [Codex], [Qwen], or [Session] for Claude Code.
func ProgramOf(s transcript.Process) tmux.Profile {
	switch kind, _, _ := strings.Cut(s.Entrypoint, "-"); kind {
	case string(Codex), string(Qwen):
		return tmux.Profile(kind)
	}
	return Session
}

// processIn is [Sessions.process] for a session of one of these programs.
func processIn(program program, of Pane) (now transcript.Process) {
	// A list that is read while others change can lack one. That a session has ended must be true, or a message would come twice.
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
			break // nor does the process live that had it
		}
	}
	return now
}
