package page_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/server/page"
	"teambridge/teams/teamstest"
)

// patience is how long a test waits for an expected event.
const patience = 3 * time.Minute

// world is a Claude directory and the service for it.
type world struct {
	*teamstest.Fixture
	t    *testing.T
	addr string // of the service, over restarts

	ended   chan error
	stop    context.CancelFunc
	logs    *bytes.Buffer
	changed []func(*server.Options)
}

// newWorld starts a service for a Claude directory.
func newWorld(t *testing.T, claude string, change ...func(*server.Options)) *world {
	t.Helper()
	w := prepare(t, claude, change...)
	w.start()
	return w
}

// prepare does the same, but does not start the service.
func prepare(t *testing.T, claude string, change ...func(*server.Options)) *world {
	t.Helper()
	w := &world{Fixture: teamstest.Open(t, claude), t: t, addr: "127.0.0.1:0", logs: &bytes.Buffer{}, changed: change}
	t.Cleanup(func() {
		w.end()
		if t.Failed() {
			t.Logf("log of the service:\n%s", w.logs)
		}
	})
	return w
}

// start starts the service at its previous address.
func (w *world) start() {
	w.t.Helper()
	opts := server.Options{
		Root: w.Root, State: w.State, Listen: []string{"unix:" + w.socket(), w.addr}, Page: page.Handler(),
		Log: slog.New(slog.NewTextHandler(w.logs, nil)), Lock: teamstest.Patient,
	}
	for _, f := range w.changed {
		f(&opts)
	}
	s, err := server.New(opts)
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, make(chan error, 1)
	go func() { w.ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-w.ended:
		w.t.Fatalf("the service ended: %v", err)
	case <-time.After(patience):
		w.t.Fatal("the service is not ready")
	}
	w.addr = s.Addrs()[1]
}

func (w *world) end() {
	w.t.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Errorf("the service ended with: %v", err)
		}
	case <-time.After(patience):
		w.t.Error("the service does not end")
	}
}

func (w *world) socket() string { return filepath.Join(w.State, "s") }

func (w *world) client() *client.Client {
	w.t.Helper()
	c, err := client.New(client.Options{Socket: w.socket()})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// address returns a URL that signs a browser in.
func (w *world) address() string {
	w.t.Helper()
	in, err := w.client().SignIn(w.t.Context(), false)
	must(w.t, err)
	return in.URL
}

// messages returns the recorded messages of a team.
func (w *world) messages(c *client.Client, team string) []api.Record {
	w.t.Helper()
	page, err := c.Messages(w.t.Context(), team, client.MessageQuery{})
	must(w.t, err)
	return page.Messages
}

// recorded waits until the service has recorded a message.
func (w *world) recorded(team, text string) {
	w.t.Helper()
	c := w.client()
	for end := time.Now().Add(patience); !slices.ContainsFunc(w.messages(c, team), func(r api.Record) bool { return r.Text == text }); {
		if time.Now().After(end) {
			w.t.Fatalf("%q is not recorded", text)
		}
	}
}

// join makes the person a member, so that newer agents can answer.
func (w *world) join(name string) {
	w.t.Helper()
	ctx := w.t.Context()
	team := w.Team(name)
	c, err := team.Config(ctx)
	must(w.t, err)
	m, err := team.Join(ctx, w.Locker, "operator", w.t.TempDir())
	must(w.t, err)
	l, err := ledger.Open(ctx, filepath.Join(w.State, "ledger.db"))
	must(w.t, err)
	defer l.Close()
	if err := l.Teams.Joined(ctx, ledger.Join{
		Root: w.Root.Path(), Team: name, CreatedAt: c.Instance().CreatedAt, Member: m.Name, AgentID: m.AgentID, At: m.JoinedAt,
	}); err != nil {
		w.t.Fatal(err)
	}
}

// simulate makes a team of newer agents in a new Claude directory, and runs it.
func simulate(t *testing.T, members ...simagent.Member) (claude string, team *simagent.Team) {
	t.Helper()
	return simulateAt(t, time.Now, 250*time.Millisecond, members...)
}

// simulateAt does the same with another clock, and with agents that poll at an interval.
func simulateAt(t *testing.T, now func() time.Time, poll time.Duration, members ...simagent.Member) (claude string, team *simagent.Team) {
	t.Helper()
	claude = filepath.Join(t.TempDir(), "claude")
	team, err := simagent.Create(t.Context(), simagent.TeamOptions{
		Root: claude, Cwd: "/home/ada/projects/lighthouse", Poll: poll, Rest: 500 * time.Millisecond, Now: now, Members: members,
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- team.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the team ended with: %v", err)
		}
	})
	return claude, team
}

// answers is the mind of an agent that repeats each message to its sender.
func answers(_ context.Context, turn simagent.Turn) simagent.Reply {
	reply := simagent.Reply{Text: "Answered."}
	for _, row := range turn.Rows {
		if row.Kind() == "message" {
			reply.Messages = append(reply.Messages, simagent.Message{To: row.From, Text: "You said: " + strings.TrimSpace(row.Text), Summary: "an answer"})
		}
	}
	return reply
}
