package mail_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
)

var must = errtest.Must

// open returns options with a copy of a captured team, a locker and a ledger.
func open(t *testing.T, captured, name string) mail.Options {
	t.Helper()
	f := teamstest.Captured(t, captured)
	l, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return mail.Options{Team: f.Team(name), Locker: f.Locker, Ledger: l}
}

func sender(t *testing.T, opts mail.Options) *mail.Sender {
	t.Helper()
	s, err := mail.New(t.Context(), opts)
	must(t, err)
	return s
}

// record records in the ledger that the team was joined.
func record(t *testing.T, opts mail.Options, m teams.Membership) {
	t.Helper()
	c, err := opts.Team.Config(t.Context())
	must(t, err)
	if err := opts.Ledger.Teams.Joined(t.Context(), ledger.Join{
		Root: opts.Team.Root().Path(), Team: c.Team, CreatedAt: c.Instance().CreatedAt, Member: m.Name, AgentID: m.AgentID, At: m.JoinedAt,
	}); err != nil {
		t.Fatal(err)
	}
}

// The person is "user", to whom no agent can write, until this program has joined the team. A member that another
// program added is not the person.
func TestFrom(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.329", "session-2de3961d")
	if s := sender(t, opts); s.From() != "user" || s.Answerable("worker") || s.AllAnswerable() {
		t.Errorf("nobody joined: %s, answerable %v", s.From(), s.Answerable("worker"))
	}
	m, err := opts.Team.Join(t.Context(), opts.Locker, "operator", "/")
	must(t, err)
	if s := sender(t, opts); s.From() != "user" {
		t.Errorf("without a record of having joined: %s", s.From())
	}
	record(t, opts, m)
	s := sender(t, opts)
	if s.From() != "operator" || !s.AllAnswerable() {
		t.Errorf("joined: %s, answerable %v", s.From(), s.Answerable("worker"))
	}
	if ours, err := mail.Ours(t.Context(), opts.Ledger, opts.Team, s.Config()); err != nil || !slices.Equal(ours, []string{"user", "operator"}) {
		t.Errorf("ours %v, %v", ours, err)
	}
	if to, err := s.Audience(nil, true); err != nil || !slices.Equal(to, []string{"team-lead", "worker"}) {
		t.Errorf("all are %v, %v", to, err)
	}
	opts.From = "boss"
	if s := sender(t, opts); s.From() != "boss" {
		t.Errorf("from %s", s.From())
	}
}

// The name under which the person joined is an agent's once the entry was lost and an agent has the name, even if
// somebody else is a guest.
func TestJoinedNameOfAnAgent(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.329", "session-2de3961d")
	for _, name := range []string{"operator", "worker-laptop"} {
		m, err := opts.Team.Join(t.Context(), opts.Locker, name, "/")
		must(t, err)
		if name == "operator" {
			record(t, opts, m)
		}
	}
	path := filepath.Join(opts.Team.Path(), "config.json")
	data, err := os.ReadFile(path)
	if err == nil {
		data = regexp.MustCompile(`"name": ?"operator"`).ReplaceAll(data, []byte(`"name": "operator", "agentType": "reviewer"`))
		err = os.WriteFile(path, data, 0o600)
	}
	must(t, err)
	s := sender(t, opts)
	if m, ok := s.Config().Member("operator"); !ok || m.Guest() || s.From() != "user" {
		t.Errorf("%+v, %v; from %s, want user", m, ok, s.From())
	}
	if ours, err := mail.Ours(t.Context(), opts.Ledger, opts.Team, s.Config()); err != nil || !slices.Equal(ours, []string{"user"}) {
		t.Errorf("ours %v, %v", ours, err)
	}
}

func TestPutAndLook(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.80", "myteam")
	opts.Facts = func(member string) teams.Facts { return teams.Facts{Headless: member == "worker"} }
	s := sender(t, opts)
	d, err := s.Put(t.Context(), "worker", mail.Message{ID: "k", Text: "hello"}, inbox.AppendOptions{Track: true})
	if err != nil || d.State != mail.Verified || d.ID != "k" || d.Deduplicated || d.Reach != teams.NoRelay {
		t.Fatalf("put %+v, %v", d, err)
	}
	if fate, err := fateOf(t, s, d); err != nil || fate != inbox.Unconsumed {
		t.Errorf("it is %s, %v", fate, err)
	}
	if _, err := s.Put(t.Context(), "worker", mail.Message{ID: "k", Text: "other"}, inbox.AppendOptions{}); !errors.Is(err, inbox.ErrIDTaken) {
		t.Errorf("another text under its id: %v", err)
	}
	if _, err := d.Inbox.MarkRead(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if fate, err := fateOf(t, s, d); err != nil || fate != inbox.Consumed {
		t.Errorf("it is %s, %v", fate, err)
	}
	if again, err := s.Put(t.Context(), "worker", mail.Message{ID: "k", Text: "hello"}, inbox.AppendOptions{Track: true}); err != nil || !again.Deduplicated {
		t.Errorf("again %+v, %v", again, err)
	}
	if sent, ok, err := opts.Ledger.Sends.Recall(t.Context(), s.Key(d)); err != nil || !ok || sent.State != ledger.Written {
		t.Errorf("the ledger has %+v, %v, %v", sent, ok, err)
	}
}

func fateOf(t *testing.T, s *mail.Sender, d mail.Delivered) (inbox.Fate, error) {
	t.Helper()
	seen, err := s.See(t.Context(), d)
	if err != nil {
		return "", err
	}
	return s.Look(t.Context(), d, seen)
}

// Put returns the inbox as it was with the message in it.
func TestPutReturnsWhatItSaw(t *testing.T) {
	t.Parallel()
	d, err := sender(t, open(t, "claude-2.1.329", "session-2de3961d")).Put(t.Context(), "worker", mail.Message{Text: "hello"}, inbox.AppendOptions{Track: true})
	if err != nil || d.Seen == nil || inbox.Track(d.Seen.Rows, d.ID) == nil || d.Seen.Done.Before(d.Seen.At) || !d.Recorded {
		t.Fatalf("put %+v, %v", d, err)
	}
}

// Without a ledger, only forced messages are sent: otherwise no history would have them.
func TestPutWithoutALedger(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.329", "session-2de3961d")
	opts.Ledger = nil
	s := sender(t, opts)
	for _, id := range []string{"", "k"} {
		if d, err := s.Put(t.Context(), "worker", mail.Message{ID: id, Text: "hello"}, inbox.AppendOptions{}); !errors.Is(err, inbox.ErrNoMemory) || d.State != mail.Failed {
			t.Errorf("id %q: %+v, %v", id, d, err)
		}
		if d, err := s.Put(t.Context(), "worker", mail.Message{ID: id, Text: "hello"}, inbox.AppendOptions{Force: true}); err != nil || d.State != mail.Verified || d.Recorded {
			t.Errorf("id %q, forced: %+v, %v", id, d, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := sender(t, open(t, "claude-2.1.80", "myteam"))
	for name, want := range map[string]string{"lead": "team-lead", "WORKER": "worker", "user": "user"} {
		if got, err := s.Resolve(name, false); err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
	if _, err := s.Resolve("ghost", false); !errors.As(err, new(*teams.NotFoundError)) {
		t.Errorf("ghost: %v", err)
	}
	if got, err := s.Resolve("ghost", true); err != nil || got != "ghost" {
		t.Errorf("ghost, by force: %s, %v", got, err)
	}
	if _, err := s.Resolve("../x", true); !errors.Is(err, teams.ErrBadName) {
		t.Errorf("a bad name: %v", err)
	}
}

// If the caller goes away (an HTTP client, ^C) right after the message was written, the message still counts as sent,
// even when its agent has taken it.
func TestCallerGoesAwayAfterTheWrite(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.329", "session-2de3961d")
	ctx, cancel := context.WithCancel(t.Context())
	opts.Locker = lockedfile.New(lockedfile.Options{Dir: filepath.Join(t.TempDir(), "locks"), Hold: time.Minute, Before: func(s lockedfile.Step) {
		if s == lockedfile.StepReadBack {
			cancel()
		}
	}})
	s := sender(t, opts)
	m := mail.Message{ID: "job-1", Text: "deploy"}
	first, err := s.Put(ctx, "worker", m, inbox.AppendOptions{})
	if err != nil || first.State != mail.Verified || first.Unrecorded != nil {
		t.Fatalf("got %+v, %v", first, err)
	}
	must(t, os.WriteFile(first.Inbox.Path(), []byte("[]"), 0o600))
	if again, err := s.Put(t.Context(), "worker", m, inbox.AppendOptions{}); err != nil || !again.Deduplicated {
		t.Errorf("sent again: %+v, %v", again, err)
	}
}

// If a message is sent twice under one id, and the team is joined in between, it is the same message, although its
// sender has another name now.
func TestJoinedBetweenTwoSends(t *testing.T) {
	t.Parallel()
	opts := open(t, "claude-2.1.329", "session-2de3961d")
	m := mail.Message{ID: "job-1", Text: "deploy"}
	if d, err := sender(t, opts).Put(t.Context(), "worker", m, inbox.AppendOptions{}); err != nil || d.Deduplicated {
		t.Fatalf("got %+v, %v", d, err)
	}
	member, err := opts.Team.Join(t.Context(), opts.Locker, "operator", "/")
	must(t, err)
	record(t, opts, member)
	s := sender(t, opts)
	if s.From() == mail.User {
		t.Fatal("the team was not joined")
	}
	if err := os.WriteFile(filepath.Join(opts.Team.Path(), "inboxes", "worker.json"), []byte("[]"), 0o600); err != nil { // the agent took the message
		t.Fatal(err)
	}
	if d, err := s.Put(t.Context(), "worker", m, inbox.AppendOptions{}); err != nil || !d.Deduplicated {
		t.Errorf("sent again: %+v, %v", d, err)
	}
	opts.From = "bob"
	if d, err := sender(t, opts).Put(t.Context(), "worker", m, inbox.AppendOptions{}); !errors.Is(err, inbox.ErrIDTaken) {
		t.Errorf("sent again by another: %+v, %v; want ErrIDTaken", d, err)
	}
}
