package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/process"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/bridge"
	"teambridge/status/bridge/bridgetest"
	"teambridge/status/service"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// options returns the options of a command's [bridge.Local].
func options(t *testing.T, f *teamstest.Fixture) bridge.Options {
	l := sync.OnceValues(func() (*ledger.Ledger, error) {
		return ledger.Open(context.Background(), filepath.Join(f.State, "ledger.db"))
	})
	t.Cleanup(func() {
		if opened, err := l(); err != nil || opened.Close() != nil {
			t.Error("the ledger cannot be opened or closed", err)
		}
	})
	return bridge.Options{
		Root:   func() (*teams.Root, error) { return f.Root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return l() },
		Journal: func(ctx context.Context) (*journal.Journal, error) {
			j, err := journal.Open(ctx, filepath.Join(f.State, "journal.db"))
			if err == nil {
				t.Cleanup(func() { j.Close() }) // a test may have closed it already
			}
			return j, err
		},
		State: f.State, Locker: f.Locker, LookupEnv: os.LookupEnv, Warn: teamstest.Warn(t), Debug: t.Logf,
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge { return bridge.New(options(t, f)) })
}

// A program can send no prompt and use no pane: these are for persons, and by default no caller is one.
func TestProgramsCannotPrompt(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	b, err := service.Open(t.Context(), service.Options{Root: f.Root, State: f.State, ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer b.Close()
	l, err := b.Ledger(t.Context())
	must(t, err)
	if _, err := l.Panes.Add(t.Context(), ledger.Pane{
		InboxKey: inbox.InboxKey{Root: f.Root.Path(), Inbox: "build"}, Socket: filepath.Join(f.State, "none"), ID: "%1", Profile: string(tmux.Claude), At: time.Now(), PID: 1, Server: 1,
	}, false); err != nil {
		t.Fatal(err)
	}
	program, person := t.Context(), bridge.WithPerson(t.Context())
	if _, err := b.Send(program, api.TeamPanes, "build", "", api.NewMessage{Text: "x"}); !errors.Is(err, api.CodeForbidden) {
		t.Errorf("a program types into a pane: %v", err)
	}
	queued := api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Via: api.ViaQueue}}
	for _, ctx := range []context.Context{program, bridge.WithAgent(t.Context())} {
		if _, err := b.Send(ctx, api.TeamSessions, "codex-000000", "", queued); !errors.Is(err, api.CodeForbidden) {
			t.Errorf("a program or an agent puts words of a person into a queue: %v", err)
		}
	}
	if _, err := b.Send(person, api.TeamSessions, "codex-000000", "", queued); err == nil || errors.Is(err, api.CodeForbidden) {
		t.Errorf("a person puts something into the queue of nobody: %v", err)
	}
	if s, err := b.Send(person, api.TeamPanes, "build", "", api.NewMessage{Text: "x"}); err != nil || s.State != api.Waiting {
		t.Errorf("a person types into a pane: %+v, %v", s, err)
	}
	for _, err := range b.Transcript(person, api.TeamPanes, "build", api.TranscriptQuery{}) { // which only its session has
		if !errors.Is(err, api.CodeInvalid) {
			t.Errorf("the transcript of a pane: %v, want %s", err, api.CodeInvalid)
		}
	}
	for ctx, want := range map[context.Context]string{program: "a program sends them", person: "no relay of this service serves worker"} {
		if _, err := b.Send(ctx, teamstest.Newer, "worker", "", api.NewMessage{Text: "x", Isolated: true}); !errors.Is(err, api.CodeInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("a prompt: %v, want %q", err, want)
		}
	}
}

// An agent does not write under a name of the person, however that is spelled.
func TestAgentsDoNotWriteAsThePerson(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	b, err := service.Open(t.Context(), service.Options{Root: f.Root, State: f.State, ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer b.Close()
	const team = teamstest.Newer
	_, err = b.Join(t.Context(), team, api.NewJoin{})
	must(t, err)
	agent := bridge.WithAgent(t.Context())
	for _, from := range []string{"operator", "Operator", "OPERATOR@" + team, "user", "User", "user@" + team, ""} {
		if _, err := b.Send(agent, team, "worker", "", api.NewMessage{Text: "from " + from, From: from}); !errors.Is(err, api.CodeRefused) {
			t.Errorf("as %q: %v", from, err)
		}
	}
	_, err = b.Send(agent, team, "worker", "", api.NewMessage{Text: "mine", From: "team-lead"})
	must(t, err)
	rows, err := f.Inbox(team, "worker").Read(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Text != "mine" {
		t.Errorf("the inbox has %+v, %v", rows, err)
	}
}

// Why a message to a pane waits stands with its delivery.
func TestDeliveriesSayWhyAPaneWaits(t *testing.T) {
	t.Parallel()
	f := teamstest.New(t)
	opts := options(t, f)
	l, err := opts.Ledger(t.Context())
	must(t, err)
	p, err := l.Panes.Add(t.Context(), ledger.Pane{
		InboxKey: inbox.InboxKey{Root: f.Root.Path(), Inbox: "build"}, Socket: "/nowhere", Server: 1, ID: "%1", PID: 2, Profile: string(tmux.Claude),
	}, false)
	if err == nil {
		_, _, err = l.PaneMessages.Add(t.Context(), ledger.PaneMessage{Policy: api.PolicyQueued, Delivery: ledger.Delivery{
			UUID: "d", InboxKey: p.InboxKey, Person: true, ID: "d", From: "user", Raw: []byte("text"),
		}}, [32]byte{})
	}
	if err == nil {
		err = l.PaneMessages.Hold(t.Context(), "d", "draft", "somebody has typed at the prompt", time.Now())
	}
	must(t, err)
	list, err := bridge.New(opts).Deliveries(t.Context(), api.DeliveryQuery{Team: api.TeamPanes})
	if err != nil || len(list) != 1 || list[0].Reason != "somebody has typed at the prompt" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Without a ledger and a journal, nothing waits, members have states anyway, and nothing is written.
func TestNothingIsKnown(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	b := bridge.New(bridge.Options{Root: func() (*teams.Root, error) { return f.Root, nil }, State: f.State, Locker: f.Locker})
	if list, err := b.Attention(t.Context(), ""); err != nil || list == nil || len(list) > 0 {
		t.Errorf("what waits: %+v, %v", list, err)
	}
	if a, err := b.Dismiss(t.Context(), "idle/team"); !errors.Is(err, api.CodeNotFound) {
		t.Errorf("dismissed %+v, %v", a, err)
	}
	if list, err := b.Relays(t.Context(), ""); err != nil || list == nil || len(list) > 0 {
		t.Errorf("the relays: %+v, %v", list, err)
	}
	if files, err := os.ReadDir(f.State); err != nil || len(files) > 0 {
		t.Errorf("files: %v, %v", files, err)
	}
	b = bridge.New(options(t, f)) // the states of agents come from records
	if list, err := b.Status(t.Context(), teamstest.Newer); err != nil || len(list) == 0 || list[0].Word == "" {
		t.Errorf("the status: %+v, %v", list, err)
	}
}

// Without a service, added relays do not run, and the attention item says what to do.
func TestIdleRelays(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	opts := options(t, f)
	idle := attention.NoService
	opts.Idle = func() string { return idle }
	l, err := opts.Ledger(t.Context())
	must(t, err)
	if _, err := l.Relays.Add(t.Context(), ledger.Relay{Root: f.Root.Path(), Team: teamstest.Newer, Member: "worker", Runtime: "claude", Command: []string{"claude"}, Dir: f.State, OnCut: "park"}); err != nil {
		t.Fatal(err)
	}
	b := bridge.New(opts)
	for _, why := range []string{attention.NoService, attention.SilentService} {
		idle = why
		list, err := b.Relays(t.Context(), teamstest.Newer)
		if err != nil || len(list) != 1 || list[0].State != "stopped" || list[0].Reason != why {
			t.Errorf("the relays: %+v, %v; want %s", list, err, why)
		}
		waits, err := b.Attention(t.Context(), "")
		if err != nil || !slices.ContainsFunc(waits, func(a api.Attention) bool { return a.Kind == api.WaitsStopped && strings.HasSuffix(a.What, why) }) {
			t.Errorf("what waits: %+v, %v; want %s", waits, err, why)
		}
	}
}

// An entry in config.json that the ledger does not know could never be removed again.
func TestUnrecordedJoinIsTakenBack(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	opts := options(t, f)
	closed, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil || closed.Close() != nil {
		t.Fatal(err)
	}
	opts.Ledger = func(context.Context) (*ledger.Ledger, error) { return closed, nil }
	path := filepath.Join(f.Root.Path(), "teams", teamstest.Newer, "config.json")
	before, err := os.ReadFile(path)
	must(t, err)
	_, err = bridge.New(opts).Join(t.Context(), teamstest.Newer, api.NewJoin{})
	after, rerr := os.ReadFile(path)
	if err == nil || rerr != nil || !strings.Contains(err.Error(), "taken back") {
		t.Errorf("joined: %v, %v", err, rerr)
	}
	if string(after) != string(before) {
		t.Errorf("config.json is %s", after)
	}
}

// A session of an agent that teambridge runs is shown with its member. A session that got the pid of such an
// agent is not.
func TestSessionsOfRelays(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	o := options(t, f)
	b := bridge.New(o)
	lg, err := o.Ledger(t.Context())
	must(t, err)
	folder := filepath.Join(f.Root.Path(), "sessions")
	must(t, os.Mkdir(folder, 0o700))
	self := process.Identify(os.Getpid())
	start, _, _ := strings.Cut(self.Start, "@")
	file := fmt.Sprintf(`{"pid":%d,"sessionId":"s-1","procStart":%q}`, self.PID, start)
	must(t, os.WriteFile(filepath.Join(folder, "1.json"), []byte(file), 0o600))
	for recorded, want := range map[string]bool{self.Start: true, "1@elsewhere": false} {
		s := ledger.Session{InboxKey: inbox.InboxKey{Root: f.Root.Path(), Team: "t", CreatedAt: 1, Inbox: "worker"}, ID: "s-1", PID: self.PID, Start: recorded, Mode: []byte("{}")}
		must(t, lg.Sessions.SetSession(t.Context(), s))
		list, err := b.Sessions(t.Context())
		if err != nil || len(list) != 1 || list[0].Relayed != want || (list[0].Member == "worker") != want {
			t.Errorf("recorded as %q: %+v, %v", recorded, list, err)
		}
	}
}
