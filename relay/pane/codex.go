package pane

import (
	"context"
	"fmt"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/codex"
	"teambridge/relay/peer"
	"teambridge/relay/process"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams/transcript"
)

// Codex is the profile of a session of Codex.
const Codex tmux.Profile = "codex"

// The Entrypoint of the process of a session of Codex is codexAlone if the session takes no messages, codexExec if it
// has no person, and [Codex] otherwise.
const (
	codexAlone = "codex-alone"
	codexExec  = "codex-exec"
)

// ByQueue is the policy of a message to a session of Codex that takes none itself. The message goes into Codex's own
// queue, which gives it to the model as words of the session's person. Only that person may choose the policy.
const ByQueue tmux.Policy = "codex-queue"

// queues reports whether a message goes into the queue of a session of Codex.
func queues(s transcript.Process, m ledger.PaneMessage) bool {
	return m.Policy == string(ByQueue) && (s.Entrypoint == codexAlone || s.Entrypoint == string(Codex))
}

// unseen says why the transcript does not have a message that was written.
func unseen(m ledger.PaneMessage) string {
	if m.Policy == string(ByQueue) {
		return "it is in Codex's queue, where it may be until the turn is over"
	}
	return "the session does not show it yet"
}

// FindForQueue returns the session of Codex with a name, as [Sessions.Find] does, even if the session takes no
// messages. refused says why nothing may be put into its queue.
func (ss *Sessions) FindForQueue(ctx context.Context, name string) (of Pane, refused string, err error) {
	known, err := ss.Known(ctx)
	if err != nil {
		return Pane{}, "", err
	}
	var list []Pane
	all := map[string]transcript.Process{}
	for _, s := range ss.opts.Homes.Processes() {
		if ProgramOf(s) == Codex {
			list = append(list, sessionAmong(known, ss.opts.Root.Path(), s))
			all[s.Session] = s
		}
	}
	of, err = find(name, list, list)
	switch all[of.Ref.ID].Entrypoint {
	case codexExec:
		refused = "it is one of codex exec, which takes one message out of the queue at its end, and does not work on it"
	case string(Codex):
		refused = "it takes messages itself, and not as the words of its person: omit --via"
	}
	return of, refused, err
}

// codexIn is the directory of Codex, in which its sessions are found.
type codexIn string

func (home codexIn) processes() (list []transcript.Process) {
	for _, t := range codex.Threads(string(home)) {
		s := transcript.Process{
			PID: t.PID, Session: t.ID, Version: t.Version, StartedAt: t.Begun.UnixMilli(), Cwd: t.Cwd, Name: "codex-" + t.ID[len(t.ID)-6:],
			Interactive: !t.Exec, Entrypoint: codexAlone, Status: transcript.ProcessIdle, Changed: t.Changed, Path: t.Rollout, Home: string(home),
		}
		s.ProcStart = process.Ticks(t.PID) + "/" + t.ID
		switch {
		case t.Exec:
			s.Entrypoint = codexExec
		case t.Shared:
			s.Entrypoint = string(Codex)
		}
		if t.Busy {
			s.Status = transcript.ProcessBusy
		}
		list = append(list, s)
	}
	return list
}

func (codexIn) takes(s transcript.Process) string {
	if s.Entrypoint == string(Codex) {
		return ""
	}
	return "the session takes no messages: it is not in Codex's shared server, as those of codex exec and of codex --no-daemon are not"
}

func (home codexIn) transcripts(of Pane, _ time.Time) (paths []string) {
	if path, ok := codex.Rollout(string(home), of.Ref.ID); ok {
		paths = append(paths, path)
	}
	return paths
}

// codexText returns the text that the model of a session of Codex is given.
func codexText(id, from, text string) string {
	return wake.Text([]wake.Message{{ID: id, From: from, Text: text}})
}

func (codexIn) check(m Message) error {
	if err := (peer.Message{From: m.From, Text: m.Text}).Check(); err != nil {
		return err
	}
	const id = "00000000-0000-0000-0000-000000000000"
	if over := len(codexText(id, m.From, m.Text)) - codex.MaxText; over > 0 {
		return fmt.Errorf("the text has %d bytes, %d too many for Codex, which would cut out its middle: put it into a file, and name that", len(m.Text), over)
	}
	return nil
}

// codexSession is the way by Codex's shared server, or by a session's queue, which outlives the session's process.
type codexSession struct{ *session }

func (w codexSession) look(ctx context.Context, a *attempt) (facts, error) {
	var busy hold
	if a.frame != "" && w.now.Status != transcript.ProcessIdle { // a message is recorded only when the model is given it
		busy = hold{why: tmux.Busy, detail: unseen(a.message)}
	}
	return w.seen(ctx, a, busy)
}

func (w codexSession) give(ctx context.Context, a *attempt) (facts, error) {
	m, home := a.message, w.opts.Homes.Codex
	text := codexText(m.UUID, m.From, string(m.Raw))
	return w.write(ctx, a, func() error {
		if !queues(w.now, m) {
			return codex.Send(ctx, home, w.now.Session, text)
		}
		recorded := func() bool { return w.record.shown(ctx).shown }
		return codex.Enqueue(ctx, home, w.now.PID, w.now.Session, m.UUID, text, recorded)
	})
}

// rollout processes one line of a transcript of Codex. A message is recorded when it is in the conversation. It is
// given with the next answer of the model: in that turn or, if the turn was interrupted first, in a later one.
func (c *conversation) rollout(line []byte) {
	e, ok := codex.Parse(line)
	if !ok {
		return
	}
	switch e.Kind {
	case codex.Mail:
		for _, m := range wake.Messages(e.Text) {
			c.keep(Nonce(m.ID), m.Text)
		}
	case codex.Worked:
		c.worked(e.At, e.Turn)
	case codex.Ended:
		if e.Text != "" {
			c.worked(e.At, e.Turn)
		}
		c.over(e, func(s *progress) { s.ended, s.endedAt, s.answer, s.saidAt = true, e.At, e.Text, e.At })
	case codex.Aborted:
		c.over(e, func(s *progress) { s.interrupted, s.endedAt = true, e.At })
	}
}

// keep notes that a message is in the conversation.
func (c *conversation) keep(nonce, text string) {
	c.came(nonce, text)
	s := c.of(nonce)
	if !s.kept {
		c.recorded = append(c.recorded, nonce)
	}
	s.kept = true
}

// worked notes that the model was given the recorded messages in a turn; "" if the program does not name turns.
func (c *conversation) worked(at time.Time, turn string) {
	c.given(c.recorded, at)
	for _, nonce := range c.recorded {
		c.of(nonce).turn = turn
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
