package pane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/codex"
	"teambridge/relay/sim/simcodex"
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
	sent  []string // the ids of what the server was sent
	turns []func(text string) error
}

func newThreads(t *testing.T) *threads {
	t.Helper()
	dir := teamstest.StateDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "claude", "teams"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &threads{sessions: &sessions{t: t, dir: dir}, codex: simcodex.New(t)}
	var err error
	if s.Panes, s.ledger, err = openSessions(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.mailbox.Close(), s.ledger.Close()); err != nil {
			t.Error(err)
		}
	})
	s.opts.Homes.Codex = s.codex.Home
	s.id = s.codex.Thread("vscode")
	s.codex.Turn = func(_, text string) error {
		s.mu.Lock()
		s.sent = append(s.sent, wake.IDs(text)...)
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
	to, err := s.FindSession(s.t.Context(), s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	m, _, err := s.Put(s.t.Context(), to, Message{Text: text})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// wasSent checks how often the server was sent each message.
func (s *threads) wasSent(messages ...ledger.PaneMessage) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := uuids(messages); !slices.Equal(s.sent, want) {
		s.t.Errorf("the server was sent %q, want %q", s.sent, want)
	}
}

func TestCodexIsGivenEachOnceInOrder(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	other := s.codex.Thread("vscode") // in the same process
	var messages []ledger.PaneMessage
	for i := range 20 {
		messages = append(messages, s.putThere(fmt.Sprintf("message %d", i)))
	}
	s.run()
	for _, m := range messages {
		if got := s.until(m, "answered", ended); got.Reason != "" || got.Lost != "" {
			t.Errorf("%s ended: %q, %q", m.UUID, got.Reason, got.Lost)
		}
	}
	s.wasSent(messages...)
	list, err := s.Sessions(t.Context())
	if err != nil || len(list) != 2 || list[0].InboxKey == list[1].InboxKey || !slices.ContainsFunc(list, func(p Pane) bool { return p.Ref.ID == other }) {
		t.Errorf("the sessions are %+v (%v)", list, err)
	}
}

// Of a server that is killed, what is not in the transcript is sent again, and what is there is not.
func TestCodexIsKilled(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.turns = []func(string) error{
		func(string) error { return simcodex.ErrKilled },
		func(text string) error { s.answers(text); return nil },
		func(text string) error { s.codex.Record(s.id, text); return simcodex.ErrKilled },
		func(text string) error { s.codex.Put(s.id, text); return simcodex.ErrKilled }, // between two lines
		func(text string) error { s.answers(text); return simcodex.ErrKilled },
	}
	s.run()
	again := func() {
		s.codex.Serve()
		s.codex.Hold(s.id)
	}
	first := s.putThere("first")
	s.until(first, "returned", func(m ledger.PaneMessage) bool { return m.State == ledger.Claimed && m.Held == string(tmux.Gone) })
	again()
	if got := s.until(first, "answered", ended); got.Lost != "" {
		t.Errorf("the first one: %q", got.Lost)
	}
	recorded := s.putThere("recorded")
	if got := s.until(recorded, "over", ended); got.Lost == "" {
		t.Errorf("the recorded one was answered by %s", got.Answer)
	}
	again()
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
	s.wasSent(first, first, recorded, torn, answered, last)
}

// What a busy session does not show waits until it is idle, and is then sent again, once.
func TestCodexIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	s.codex.Event(s.id, map[string]any{"type": "task_started", "turn_id": "busy"})
	s.turns = []func(string) error{func(string) error { return nil }}
	s.run()
	m := s.putThere("in between")
	for range 3 { // it is looked at again and again
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
	to, err := s.FindSession(t.Context(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	fits := codex.MaxText - len(codexText("00000000-0000-0000-0000-000000000000", "ann", ""))
	if err := Check(to, Message{From: "ann", Text: strings.Repeat("x", fits)}); err != nil {
		t.Error(err)
	}
	if err := Check(to, Message{From: "ann", Text: strings.Repeat("x", fits+1)}); err == nil || !strings.Contains(err.Error(), "1 too many for Codex") {
		t.Errorf("one byte more: %v", err)
	}
	s.codex.Kill()
	s.codex.Hold(s.id)
	if held, why, err := s.Held(t.Context(), to, tmux.Queued); held != tmux.NotAgent || !strings.Contains(why, "shared server") || err != nil {
		t.Errorf("without a server: %s, %s, %v", held, why, err)
	}
	if _, err := s.FindSession(t.Context(), s.id); !errors.As(err, new(*SessionError)) {
		t.Errorf("found: %v", err)
	}
}
