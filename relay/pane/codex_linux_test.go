package pane

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/codex"
	"teambridge/relay/relaytest/simcodex"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams/teamstest"
)

// threads are the tests' own panes, with one session of Codex.
type threads struct {
	*sessions
	codex *simcodex.Codex
	id    string

	mu    sync.Mutex
	sent  []string // the ids of the messages that the server got
	turns []func(text string) error
}

func newThreads(t *testing.T) *threads {
	t.Helper()
	dir := teamstest.StateDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "claude", "teams"), 0o700))
	s := &threads{sessions: &sessions{t: t, dir: dir}, codex: simcodex.New(t)}
	var err error
	if s.Panes, s.ledger, err = openSessions(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Incoming.mailbox.Close(), s.ledger.Close()); err != nil {
			t.Error(err)
		}
	})
	s.opts.Homes.Codex = s.codex.Home
	s.id = s.codex.Thread("vscode")
	s.codex.Turn = func(_, text string) error {
		s.mu.Lock()
		for _, m := range wake.Messages(text) {
			s.sent = append(s.sent, m.ID)
		}
		turn := func(text string) error { s.answers(text); return nil }
		if n := len(s.sent); n <= len(s.turns) {
			turn = s.turns[n-1]
		}
		s.mu.Unlock()
		return turn(text)
	}
	return s
}

func (s *threads) answers(text string) { s.codex.Answer(s.id, s.codex.Record(s.id, text), "done") }

func (s *threads) putThere(text string) ledger.PaneMessage {
	s.t.Helper()
	to, err := s.Sessions.Find(s.t.Context(), s.id)
	must(s.t, err)
	m, _, err := s.Queue.Put(s.t.Context(), to, Message{Text: text})
	must(s.t, err)
	return m
}

// wasSent checks how often the server got each message.
func (s *threads) wasSent(messages ...ledger.PaneMessage) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := uuids(messages); !slices.Equal(s.sent, want) {
		s.t.Errorf("the server was sent %q, want %q", s.sent, want)
	}
}

// uuids returns the delivery ids of messages.
func uuids(messages []ledger.PaneMessage) (list []string) {
	for _, m := range messages {
		list = append(list, m.UUID)
	}
	return list
}

// A message that a killed server has recorded, in part or with its answer, is not sent again.
func TestCodexIsKilled(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.turns = []func(string) error{
		func(text string) error { s.codex.Put(s.id, text); return simcodex.ErrKilled }, // between two lines
		func(text string) error { s.answers(text); return simcodex.ErrKilled },
	}
	s.run()
	again := func() {
		s.codex.Serve()
		s.codex.Hold(s.id)
	}
	torn := s.putThere("between two lines")
	if got := s.until(torn, "over", ended); got.Lost == "" {
		t.Errorf("the one between two lines was answered by %s", got.Answer)
	}
	again()
	answered := s.putThere("answered")
	s.until(answered, "answered", ended)
	again()
	last := s.putThere("last")
	s.until(last, "answered", ended)
	s.wasSent(torn, answered, last)
}

// A message that a busy session does not show waits until the session is idle, and is then sent again once.
func TestCodexIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.codex.Event(s.id, map[string]any{"type": "task_started", "turn_id": "busy"})
	s.turns = []func(string) error{func(string) error { return nil }}
	s.run()
	m := s.putThere("in between")
	for range 3 { // several steps
		now := s.until(m, "held", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Busy) })
		s.until(m, "held longer", func(m ledger.PaneMessage) bool { return m.Tries > now.Tries })
	}
	s.wasSent(m)
	s.codex.Event(s.id, map[string]any{"type": "turn_aborted", "turn_id": "busy"})
	s.until(m, "answered", ended)
	s.wasSent(m, m)
}

// A message in a turn that is interrupted before the model answers is given in the next one.
func TestCodexIsInterruptedAfterTheRecord(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	turn := ""
	s.turns = []func(string) error{func(text string) error { turn = s.codex.Record(s.id, text); return nil }}
	s.run()
	m := s.putThere("in between")
	s.until(m, "confirmed", func(m ledger.PaneMessage) bool { return m.State == ledger.Done })
	s.codex.Event(s.id, map[string]any{"type": "turn_aborted", "turn_id": turn})
	if got := s.until(m, "confirmed", func(m ledger.PaneMessage) bool { return m.State == ledger.Done }); got.Task != ledger.TaskSent {
		t.Errorf("its task is %s", got.Task)
	}
	s.codex.Event(s.id, map[string]any{"type": "task_started", "turn_id": "next"})
	s.codex.Answer(s.id, "next", "now")
	s.until(m, "answered", ended)
	s.wasSent(m)
}

// A text that Codex would cut is refused, and a session that is in no shared server cannot be written to.
func TestCodexRefuses(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	to, err := s.Sessions.Find(t.Context(), s.id)
	must(t, err)
	fits := codex.MaxText - len(codexText("00000000-0000-0000-0000-000000000000", "ann", ""))
	if err := Check(to, Message{From: "ann", Text: strings.Repeat("x", fits)}); err != nil {
		t.Error(err)
	}
	if err := Check(to, Message{From: "ann", Text: strings.Repeat("x", fits+1)}); err == nil || !strings.Contains(err.Error(), "1 too many for Codex") {
		t.Errorf("one byte more: %v", err)
	}
	s.codex.Kill()
	s.codex.Hold(s.id)
	if held, why, err := s.Queue.Held(t.Context(), to, tmux.Queued); held != tmux.NotAgent || !strings.Contains(why, "shared server") || err != nil {
		t.Errorf("without a server: %s, %s, %v", held, why, err)
	}
	if _, err := s.Sessions.Find(t.Context(), s.id); !errors.As(err, new(*SessionError)) {
		t.Errorf("found: %v", err)
	}
}

// enqueue puts a message for the queue of a session.
func (s *threads) enqueue(text string) ledger.PaneMessage {
	s.t.Helper()
	to, refused, err := s.Sessions.FindForQueue(s.t.Context(), s.id)
	if err != nil || refused != "" {
		s.t.Fatal(err, refused)
	}
	m, _, err := s.Queue.Put(s.t.Context(), to, Message{Text: text, Policy: ByQueue})
	must(s.t, err)
	return m
}

// queued enqueues a message and waits until it is in the queue.
func (s *threads) queued(text string) ledger.PaneMessage {
	s.t.Helper()
	m := s.enqueue(text)
	s.until(m, "in the queue", func(ledger.PaneMessage) bool { return slices.Contains(s.codex.Queued(s.id), m.UUID) })
	return m
}

// says makes the session take its only message out of the queue and begin it, and returns the turn.
func (s *threads) says(m ledger.PaneMessage) (turn string) {
	s.t.Helper()
	texts := s.codex.Take()
	text := texts[m.UUID]
	if len(texts) != 1 || !strings.HasPrefix(text, codex.Queued) || !strings.Contains(text, string(m.Raw)) {
		s.t.Fatalf("the queue has %q", texts)
	}
	return s.codex.Say(s.id, m.UUID, text)
}

// A message stays in Codex's queue while the session works, or is idle after an interrupt, and is not queued again.
func TestCodexQueue(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.codex.Kill()
	s.codex.Hold(s.id)
	end := s.begin()
	s.codex.Event(s.id, map[string]any{"type": "task_started", "turn_id": "busy"})
	one, two := s.queued("one"), s.enqueue("two")
	s.until(one, "held", heldAs(tmux.Busy))
	end()
	s.codex.Event(s.id, map[string]any{"type": "turn_aborted", "turn_id": "busy"})
	s.often(one, "looked for again", heldAs(tmux.NotProven))
	s.often(one, "looked for once more", heldAs(tmux.Unknown))
	if got := s.codex.Queued(s.id); !slices.Equal(got, []string{one.UUID}) {
		t.Errorf("in the queue: %q, want %s once, and not yet %s", got, one.UUID, two.UUID)
	}
	s.run()
	s.codex.Answer(s.id, s.says(one), "done")
	s.until(one, "answered", ended)
	s.wasSent()
}

// A message that a resumed session has just taken from the queue, and not recorded yet, is not queued again.
func TestCodexQueueIsTakenByAnother(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.timing.repeat = time.Minute
	s.codex.Kill()
	s.codex.Hold(s.id)
	s.run()
	m := s.queued("one")
	s.codex.Release(s.id)
	s.until(m, "without a process", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Gone) })
	text := s.codex.Take()[m.UUID]
	s.codex.Hold(s.id)
	s.until(m, "looked for", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Unknown) })
	s.codex.Answer(s.id, s.codex.Say(s.id, m.UUID, text), "done")
	s.until(m, "answered", ended)
	if left := s.codex.Queued(s.id); len(left) > 0 {
		t.Errorf("left in the queue: %q", left)
	}
}

// No message is put into the queue of a session that takes messages, or of codex exec.
func TestCodexQueueRefuses(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	exec := s.codex.Thread("exec") // in the same process
	for id, want := range map[string]string{s.id: "omit --via", exec: "codex exec"} {
		if _, refused, err := s.Sessions.FindForQueue(t.Context(), id); err != nil || !strings.Contains(refused, want) {
			t.Errorf("%s: %q, %v", id, refused, err)
		}
	}
	if list, err := s.Sessions.List(t.Context()); err != nil || len(list) != 1 || list[0].Ref.ID != s.id {
		t.Errorf("the sessions are %+v, %v", list, err)
	}
	if _, _, err := s.Sessions.FindForQueue(t.Context(), "nobody"); !errors.As(err, new(*SessionError)) {
		t.Errorf("nobody: %v", err)
	}
}
