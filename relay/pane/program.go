package pane

import (
	"context"
	"strings"
	"time"

	"teambridge/inbox/ledger"
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
	// has says why a message that was written, tries times, may be in a session although its transcript does not show it; "" if
	// that is not to be expected.
	has(c *carrier, s transcript.Process, frame string, tries int) string
	// write is [carrier.write] for one message.
	write(ctx context.Context, c *carrier, to transcript.Process, frame string, m ledger.PaneMessage) error
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

// processIn is process for a session of one of these programs.
func (ss *Sessions) processIn(ctx context.Context, program program, of *Pane) (now transcript.Process, err error) {
	// A list that is read while others change can lack one. That a session has ended must be true, or a message would come twice.
	for range 3 {
		for _, s := range program.processes() {
			if s.PID == of.Ref.PID && s.ProcStart == of.Start {
				now = s
				break
			}
			if s.Session == of.Ref.ID {
				now = s
			}
		}
		if now.PID != 0 {
			break
		}
		before, _, _ := strings.Cut(of.Start, "/")
		if start := process.Ticks(of.Ref.PID); start == "" || start != before {
			return now, nil // nor does the process live that had it
		}
	}
	if now.PID == 0 || now.PID == of.Ref.PID && now.ProcStart == of.Start && now.Session == of.Ref.ID && now.Socket == of.Ref.Socket && now.Cwd == of.Cwd {
		return now, nil
	}
	of.Ref.PID, of.Ref.ID, of.Ref.Socket, of.Start, of.Cwd = now.PID, now.Session, now.Socket, now.ProcStart, now.Cwd
	_, err = ss.record(ctx, *of)
	return now, err
}
