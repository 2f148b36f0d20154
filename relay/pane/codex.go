package pane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay/codex"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams/transcript"
)

// Codex is the profile of a session of Codex.
const Codex tmux.Profile = "codex"

// codexEntrypoint is the Entrypoint of the process of a session of Codex; codexAlone is that of one that takes no messages, and
// codexExec that of one that has no person.
const (
	codexEntrypoint = "codex"
	codexAlone      = "codex-alone"
	codexExec       = "codex-exec"
)

// IsCodex reports whether a process is one of [CodexProcesses].
func IsCodex(s transcript.Process) bool { return strings.HasPrefix(s.Entrypoint, codexEntrypoint) }

// CodexProcesses returns the sessions of Codex that processes hold, as those of Claude Code are described. A process can have several, so
// that ProcStart names the session as well.
func CodexProcesses(home string) (list []transcript.Process) {
	if home == "" {
		return nil
	}
	for _, t := range codex.Threads(home) {
		s := transcript.Process{
			PID: t.PID, Session: t.ID, Version: t.Version, StartedAt: t.Begun.UnixMilli(), Cwd: t.Cwd, Name: "codex-" + t.ID[len(t.ID)-6:],
			Interactive: !t.Exec, Entrypoint: codexAlone, Status: transcript.ProcessIdle, Changed: t.Changed, Path: t.Rollout,
		}
		s.ProcStart = wake.Started(s).ProcStart + "/" + t.ID
		switch {
		case t.Exec:
			s.Entrypoint = codexExec
		case t.Shared:
			s.Entrypoint = codexEntrypoint
		}
		if t.Busy {
			s.Status = transcript.ProcessBusy
		}
		list = append(list, s)
	}
	return list
}

func codexReach(s transcript.Process) Reach {
	if s.Entrypoint == codexEntrypoint {
		return ByCodex
	}
	return Nowhere
}

// codexProcessOf is processOf for a session of Codex.
func (p *Panes) codexProcessOf(ctx context.Context, of *Pane) (transcript.Process, error) {
	// A list of locks that is read while others change can lack one. That a session has ended must be true, or a message would come twice.
	for range 3 {
		for _, s := range CodexProcesses(p.opts.Codex) {
			if s.Session != of.Ref.ID {
				continue
			}
			var err error
			if s.PID != of.Ref.PID || s.ProcStart != of.Start || s.Cwd != of.Cwd {
				of.Ref.PID, of.Start, of.Cwd = s.PID, s.ProcStart, s.Cwd
				_, err = p.recordSession(ctx, *of)
			}
			return s, err
		}
		if start := wake.Started(transcript.Process{PID: of.Ref.PID}).ProcStart; start == "" || start+"/"+of.Ref.ID != of.Start {
			break // nor does the process live that had it
		}
	}
	return transcript.Process{}, nil
}

// codexText is what the model of a session of Codex is given.
func codexText(id, from, text string) string {
	return wake.Text([]wake.Message{{ID: id, From: from, Text: text}})
}

func checkCodex(m Message) error {
	if err := (peer.Message{From: m.From, Text: m.Text}).Check(); err != nil {
		return err
	}
	const id = "00000000-0000-0000-0000-000000000000"
	if over := len(codexText(id, m.From, m.Text)) - codex.MaxText; over > 0 {
		return fmt.Errorf("the text has %d bytes, %d too many for Codex, which would cut out its middle: put it into a file, and name that", len(m.Text), over)
	}
	return nil
}

// writeCodex is write for a session of Codex.
func (p *Panes) writeCodex(ctx context.Context, to transcript.Process, m ledger.PaneMessage) error {
	err := codex.Send(ctx, p.opts.Codex, to.Session, codexText(m.UUID, m.From, string(m.Raw)))
	if errors.Is(err, codex.ErrUnsent) {
		return fmt.Errorf("%w: %s", peer.ErrUnsent, strings.TrimPrefix(err.Error(), codex.ErrUnsent.Error()+": "))
	}
	return err
}

// rollout takes one line of a transcript of Codex. A message is recorded when it is in the conversation, and given with the next answer of the
// model, in that turn or, if that was interrupted before, in a later one.
func (c *conversation) rollout(line []byte) {
	e, ok := codex.Parse(line)
	if !ok {
		return
	}
	switch e.Kind {
	case codex.Mail:
		for _, id := range wake.IDs(e.Text) {
			s := c.of(Nonce(id))
			if !s.kept {
				c.recorded = append(c.recorded, Nonce(id))
			}
			s.kept = true
		}
	case codex.Worked:
		c.worked(e)
	case codex.Ended:
		if e.Text != "" {
			c.worked(e)
		}
		c.over(e, func(s *progress) { s.ended, s.endedAt, s.answer = true, e.At, e.Text })
	case codex.Aborted:
		c.over(e, func(s *progress) { s.interrupted = true })
	}
}

// worked notes that the model of a session of Codex was given what is recorded.
func (c *conversation) worked(e codex.Event) {
	c.given(c.recorded)
	for _, nonce := range c.recorded {
		s := c.of(nonce)
		s.at, s.turn = e.At, e.Turn
	}
	c.recorded = nil
}

// over ends the tasks that belong to a turn of Codex.
func (c *conversation) over(e codex.Event, end func(*progress)) {
	for _, s := range c.open {
		if s.turn == e.Turn {
			end(s)
		}
	}
	c.begin()
}
