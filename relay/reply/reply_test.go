package reply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
)

func TestMain(m *testing.M) {
	simchild.Main()
	killtest.Main(m, killtest.Roles{"bridge": killtest.Job(runBridge)})
}

// station is a team with the agent "worker", which cannot send messages.
type station struct {
	*teamstest.Fixture
	t      testing.TB
	ledger *ledger.Ledger
	script simchild.Script

	mu     sync.Mutex
	warned []string
}

func newStation(t testing.TB, script simchild.Script) *station {
	t.Helper()
	f := teamstest.New(t)
	f.Make("demo", 1795196213317, "boss", "worker", "peer")
	script.State = f.Root.Path()
	s := &station{Fixture: f, t: t, script: script}
	var err error
	s.ledger, err = ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { s.ledger.Close() })
	return s
}

var must = errtest.Must

// mute is a runtime whose agents send no messages.
type mute struct{ agent.Runtime }

func (mute) SendsMessages() bool { return false }

func options(root, state string, team *teams.Team, locker *lockedfile.Locker, l *ledger.Ledger, script string) relay.Options {
	return relay.Options{
		Team: team, Member: "worker", Locker: locker, Ledger: l, State: state,
		Runtime: mute{claude.Runtime{Options: claude.Options{
			Root: root, Command: []string{simchild.Program()}, Env: append(os.Environ(), script, "GORACE=atexit_sleep_ms=0"), Dir: state,
			WriteTimeout: time.Minute, AnswerTimeout: time.Minute,
		}}},
		Timing: relay.Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Handover: time.Minute},
	}
}

func (s *station) options() relay.Options {
	opts := options(s.Root.Path(), s.State, s.Team("demo"), s.Locker, s.ledger, s.script.Env())
	opts.Warn = func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warned = append(s.warned, err.Error())
	}
	return opts
}

// relay runs the relay of worker until the test, or stop, ends it.
func (s *station) relay() (r *Relay, stop func() error) {
	s.t.Helper()
	r, err := New(s.t.Context(), s.options())
	must(s.t, err)
	return r, s.run(r)
}

func (s *station) run(r *Relay) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func (s *station) key(member string) inbox.InboxKey {
	return inbox.InboxKey{Root: s.Root.Path(), Team: "demo", CreatedAt: 1795196213317, Inbox: member}
}

// rows returns the rows from worker in an inbox.
func (s *station) rows(member string) (rows []inbox.Row) {
	s.t.Helper()
	all, err := s.Inbox("demo", member).Read(s.t.Context())
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		s.t.Fatal(err)
	}
	for _, r := range all {
		if r.From == "worker" {
			rows = append(rows, r)
		}
	}
	return rows
}

func (s *station) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Fatalf("never: %s; warned %q", what, s.warned)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// settled waits until n deliveries to worker have ended and no answer is owed.
func (s *station) settled(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d messages are done", n), func() bool {
		all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Inbox: "worker"})
		must(s.t, err)
		owed, err := s.ledger.Replies.Owed(s.t.Context(), s.key("worker"))
		must(s.t, err)
		ended := 0
		for _, d := range all {
			if d.State.Ended() {
				ended++
			}
		}
		return ended >= n && len(owed) == 0
	})
}

// Each frame gives each member that wrote in it one row, and a person's prompt gives none.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Scenes: []simchild.Scene{
		{Match: "[empty]"}, {Match: "[order]", Say: `{"type":"shutdown_approved","from":"worker"}`},
	}})
	must(t, os.WriteFile(s.Path("demo", "inboxes", "worker.json"), nil, 0o600))
	r, _ := s.relay()
	n := 0
	for _, step := range []struct {
		from, text string
		boss, peer string // the beginning of the row; empty: there is none
	}{
		{from: "boss", text: "[1]", boss: `ACK: <teammate-message teammate_id="boss">`},
		{from: "team-lead", text: "[2]", boss: `ACK: <teammate-message teammate_id="team-lead"`},
		{from: "peer", text: "[3]", peer: `ACK: <teammate-message teammate_id="peer">`},
		{from: "boss", text: "FAIL", boss: `{"type":"idle_notification","from":"worker","timestamp":"2`},
		{from: "peer", text: "FAIL"},
		{from: "boss", text: "[empty]", boss: `{"type":"idle_notification","from":"worker","timestamp":"2`},
		{from: "peer", text: "[empty]"},
		{from: "user", text: "[4]"},
		{from: "stranger", text: "[5]"},
		{from: "", text: "a person's prompt"},
		{from: "boss", text: "[order]", boss: "The answer is:\n{\"type\":"},
		{from: "boss", text: `{"type":"idle_notification","from":"boss","idleReason":"available","result":"well"}`},
	} {
		boss, peer := len(s.rows("boss")), len(s.rows("peer"))
		if step.from == "" {
			_, err := r.Prompt(t.Context(), relay.Input{Text: step.text})
			must(t, err)
		} else {
			_, err := s.Inbox("demo", "worker").Append(t.Context(), inbox.Message{From: step.from, Text: step.text, Own: true}, inbox.AppendOptions{})
			must(t, err)
		}
		n++
		s.settled(n)
		for _, to := range []struct {
			name, want string
			rows       []inbox.Row
		}{{"boss", step.boss, s.rows("boss")[boss:]}, {"peer", step.peer, s.rows("peer")[peer:]}} {
			switch {
			case len(to.rows) > 1, (len(to.rows) == 0) != (to.want == ""):
				t.Errorf("after %q from %q, %s got %+v; want %q", step.text, step.from, to.name, to.rows, to.want)
			case to.want != "" && !strings.HasPrefix(to.rows[0].Text, to.want):
				t.Errorf("after %q from %q, %s got %q, want %q", step.text, step.from, to.name, to.rows[0].Text, to.want)
			}
		}
	}
	var idle []map[string]string
	for _, row := range s.rows("boss") {
		if row.Kind() == idleKind {
			var fields map[string]string
			must(t, json.Unmarshal([]byte(row.Text), &fields))
			idle = append(idle, fields)
		}
	}
	if len(idle) != 2 || idle[0]["idleReason"] != "failed" || idle[0]["failureReason"] == "" || idle[1]["idleReason"] != "available" {
		t.Errorf("idle notifications %v", idle)
	}
}

// Messages of several members in one frame are answered once each. A turn that is
// interrupted is reported to the lead alone.
func TestAnswerOfAFrame(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	for _, from := range []string{"boss", "peer", "boss"} {
		s.Send("demo", from, "worker", "[of "+from+"]")
	}
	r, stop := s.relay()
	s.settled(3)
	for _, to := range []string{"boss", "peer"} {
		if rows := s.rows(to); len(rows) != 1 || strings.Count(rows[0].Text, "<teammate-message") != 3 {
			t.Errorf("%s got %+v", to, rows)
		}
	}
	for i, from := range []string{"boss", "peer"} {
		s.await("nothing more is in flight", func() bool { return r.Status().InFlight == "" })
		s.Send("demo", from, "worker", "WAIT:never")
		s.await("it works", func() bool { return r.Status().InFlight != "" })
		for err := r.Interrupt(t.Context()); err != nil; err = r.Interrupt(t.Context()) {
			if !errors.Is(err, agent.ErrNotInFlight) { // it has not begun: on a busy machine, that takes longer than an interrupt waits
				t.Fatal(err)
			}
		}
		s.settled(4 + i)
	}
	must(t, stop())
	if rows := s.rows("boss"); len(rows) != 2 || !strings.Contains(rows[1].Text, `"idleReason":"interrupted"`) {
		t.Errorf("boss got %+v", rows)
	}
	if rows := s.rows("peer"); len(rows) != 1 {
		t.Errorf("peer got %+v", rows)
	}
}

// Owed answers are sent when the relay runs again: if the agent ended its turn while the relay
// was ending, or if the recipient's inbox could not be written.
func TestOwedIsFoundAgain(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	s.Send("demo", "boss", "worker", "[1]")
	must(t, os.Mkdir(s.Path("demo", "inboxes", "boss.json"), 0o700)) // nothing can be written there
	_, stop := s.relay()
	s.await("an answer waits", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.warned, func(w string) bool { return strings.Contains(w, "an answer of worker waits") })
	})
	must(t, stop())
	must(t, os.Remove(s.Path("demo", "inboxes", "boss.json")))
	s.relay()
	s.settled(1)
	if rows := s.rows("boss"); len(rows) != 1 {
		t.Errorf("boss got %+v", rows)
	}
}

// No answers are sent for an agent that sends messages itself.
func TestNoAnswersForOthers(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.Runtime = opts.Runtime.(mute).Runtime
	r, err := New(t.Context(), opts)
	must(t, err)
	stop := s.run(r)
	s.Send("demo", "boss", "worker", "[1]")
	s.settled(1)
	must(t, stop())
	if rows := s.rows("boss"); len(rows) > 0 {
		t.Errorf("boss got %+v", rows)
	}
}

// A long answer is cut to the limit of an inbox, each time in the same way.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"short", strings.Repeat("x", inbox.MaxText), strings.Repeat("é", inbox.MaxText), strings.Repeat("\x01", inbox.MaxText), `{"type":"shutdown_request"}`, "bad \xff"} {
		got := fit(text)
		m := inbox.Message{From: "worker", Text: got}
		if err := m.Check(); err != nil || inbox.ProtocolType(got) != "" || got != fit(text) {
			t.Errorf("of %.20q: %v, %.60q", text, err, got)
		}
		if whole := len(text) <= inbox.MaxText && text[0] != '\x01'; whole != !strings.Contains(got, "[The answer is cut off") {
			t.Errorf("of %d bytes %.20q: %d bytes", len(text), text, len(got))
		}
	}
}

// asks puts a request to shut down into the inbox of worker.
func (s *station) asks(from string) {
	s.t.Helper()
	text := `{"type":"shutdown_request","requestId":"shutdown-7@worker","from":"` + from + `","reason":"bye","timestamp":"2026-11-20T18:05:54.178Z"}`
	_, err := s.Inbox("demo", "worker").Append(s.t.Context(), inbox.Message{From: from, Text: text, Own: true}, inbox.AppendOptions{})
	must(s.t, err)
}

// approvals returns the rows that approve a shutdown.
func (s *station) approvals(member string) (rows []inbox.Row) {
	for _, row := range s.rows(member) {
		if row.Kind() == "shutdown_approved" {
			rows = append(rows, row)
		}
	}
	return rows
}

// A request to shut down is obeyed after the earlier messages, and the model gets neither it
// nor later messages.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"boss", "user"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			s.Send("demo", "boss", "worker", "WAIT:go [1]")
			r, stop := s.relay()
			s.await("it works", func() bool { return r.Status().InFlight != "" })
			s.asks("stranger")
			s.Send("demo", "peer", "worker", "[2]")
			s.asks(from)
			s.Send("demo", "boss", "worker", "[3]")
			s.await("all is claimed", func() bool {
				all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "worker"})
				return err == nil && len(all) == 5
			})
			if n := len(s.approvals(from)); n > 0 {
				t.Errorf("approved %d times before the work was done", n)
			}
			must(t, os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600))
			s.await("it has ended", func() bool {
				info, _, err := s.ledger.Sessions.Session(t.Context(), s.key("worker"))
				return err == nil && info.ShutDown != ""
			})
			if err := stop(); !errors.Is(err, ErrShutDown) || !strings.Contains(err.Error(), from+" asked it to shut down: bye") {
				t.Errorf("ended with %v", err)
			}
			rows := s.approvals(from)
			if len(rows) != 1 || !strings.HasPrefix(rows[0].Text, `{"type":"shutdown_approved","requestId":"shutdown-7@worker","from":"worker","timestamp":"`) {
				t.Errorf("approved by %+v", rows)
			}
			works, err := simchild.Works(s.script.State)
			must(t, err)
			for text := range works {
				if strings.Contains(text, "shutdown_request") || strings.Contains(text, "[3]") {
					t.Errorf("the agent was told %q", text)
				}
			}
			all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "worker"}) // the newest first
			must(t, err)
			var states []ledger.DeliveryState
			for _, d := range all {
				states = append(states, d.State)
			}
			if want := []ledger.DeliveryState{ledger.Claimed, ledger.Done, ledger.Done, ledger.Done, ledger.Done}; !slices.Equal(states, want) {
				t.Errorf("deliveries are %v, want %v", states, want)
			}
			// A person runs it again.
			s.relay()
			s.settled(5)
			if info, _, err := s.ledger.Sessions.Session(t.Context(), s.key("worker")); err != nil || info.ShutDown != "" {
				t.Errorf("%q, %v", info.ShutDown, err)
			}
		})
	}
}

// bridge configures a process that relays. Its points are the moments of a relay.
type bridge struct{ Root, State, Script string }

func runBridge(b bridge) error {
	ctx := context.Background()
	root, err := teams.Open(b.Root)
	if err != nil {
		return err
	}
	team, err := root.Team("demo")
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, filepath.Join(b.State, "ledger.db"))
	if err != nil {
		return err
	}
	locks := teamstest.Patient
	locks.Dir = filepath.Join(b.State, "locks")
	opts := options(b.Root, b.State, team, lockedfile.New(locks), l, b.Script)
	opts.Predecessor = time.Millisecond
	r, err := New(ctx, opts)
	if err != nil {
		return err
	}
	r.at = func(now moment) { killtest.At(string(now)) }
	if err := r.Run(ctx); !errors.Is(err, ErrShutDown) {
		return err
	}
	return nil
}

// bridge starts a process that relays, and that is killed at a moment, unless that is empty.
func (s *station) bridge(killedAt moment) *killtest.Process {
	s.t.Helper()
	cmd := killtest.Command(s.t.Context(), "bridge", bridge{s.Root.Path(), s.State, s.script.Env()})
	return killtest.Start(s.t, killtest.KillAt(cmd, string(killedAt)))
}

// Killed between any two steps, the relay sends each answer once, and the approval too.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, at := range []moment{found, sent, replied, approved, ended} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			b := s.bridge(at)
			s.Send("demo", "boss", "worker", "[1]")
			s.await("it is claimed", func() bool {
				all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "worker"})
				return err == nil && len(all) == 1
			})
			if at == approved || at == ended {
				s.settled(1)
				s.asks("boss")
			}
			b.Killed()
			// The inbox has changed since.
			s.Send("demo", "peer", "boss", "by the way")
			_, stop := s.relay()
			if at == approved || at == ended {
				s.await("it has ended", func() bool {
					info, _, err := s.ledger.Sessions.Session(t.Context(), s.key("worker"))
					return err == nil && info.ShutDown != ""
				})
				if err := stop(); !errors.Is(err, ErrShutDown) {
					t.Error(err)
				}
				if rows := s.approvals("boss"); len(rows) != 1 {
					t.Errorf("approved by %+v", rows)
				}
				return
			}
			s.Send("demo", "boss", "worker", "[2]")
			s.settled(2)
			rows := s.rows("boss")
			if len(rows) != 2 || !strings.Contains(rows[0].Text, "[1]") || !strings.Contains(rows[1].Text, "[2]") {
				t.Errorf("boss got %+v", rows)
			}
		})
	}
}

// Killed while it writes the row, with others writing to the same inbox, the relay sends the
// answer once to a person, and to a relayed agent. After such a kill, the ledger has only the
// intent.
func TestKilledInAWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		to       string
		headless bool // boss is relayed to
		taken    bool // by that relay
		want     int  // rows after that
		told     bool // that it is not known
	}{
		{"a person", "guest", false, false, 1, false},
		{"relayed to", "boss", true, false, 1, false},
		{"relayed to and taken", "boss", true, true, 0, false},
		{"an agent of its own", "boss", false, false, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			ctx := t.Context()
			_, err := s.Team("demo").Join(ctx, s.Locker, "guest", s.State)
			must(t, err)
			if tt.headless {
				must(t, s.ledger.Sessions.SetSession(ctx, ledger.Session{InboxKey: s.key("boss"), ID: uuid.NewString(), State: ledger.RelayEnded}))
			}
			// A frame that has ended, and whose answer was about to be written.
			must(t, s.ledger.Sessions.SetSession(ctx, ledger.Session{InboxKey: s.key("worker"), ID: uuid.NewString()}))
			must(t, s.ledger.Sessions.SetAnswers(ctx, s.key("worker"), true))
			d := ledger.Delivery{UUID: uuid.NewString(), InboxKey: s.key("worker"), Key: "k", Occurrence: 1, From: tt.to, Kind: "message", Raw: []byte(`{}`)}
			must(t, s.ledger.Deliveries.Claim(ctx, d))
			must(t, s.ledger.Deliveries.Mark(ctx, d.UUID))
			f := ledger.Frame{UUID: uuid.NewString(), InboxKey: s.key("worker"), Kind: ledger.FrameMessage, Bytes: []byte("x")}
			must(t, s.ledger.Frames.Commit(ctx, f, d.UUID))
			must(t, s.ledger.Frames.Finish(ctx, f.UUID, ledger.Done, "", "well"))
			id := ledger.DeriveID(ledger.ReplyIDs, f.UUID, tt.to)
			message := inbox.Message{ID: id, From: "worker", Text: "well"}
			must(t, s.ledger.Sends.Intend(ctx, ledger.Send{
				SendKey: ledger.SendKey{InboxKey: inbox.InboxKey{Root: s.Root.Path(), Team: "demo", CreatedAt: 1795196213317, Inbox: tt.to}, ID: id},
				Digest:  message.Digest(), Before: "another file", At: time.Now(),
			}))
			if tt.taken {
				must(t, s.ledger.Deliveries.Claim(ctx, ledger.Delivery{UUID: uuid.NewString(), InboxKey: s.key("boss"), Key: "k", Occurrence: 1, ID: id, From: "worker", Raw: []byte(`{}`)}))
			}
			_, stop := s.relay()
			s.settled(1)
			must(t, stop())
			if rows := s.rows(tt.to); len(rows) != tt.want {
				t.Errorf("%s got %+v, want %d rows", tt.to, rows, tt.want)
			}
			if told := slices.ContainsFunc(s.warned, func(w string) bool { return strings.Contains(w, "given up") }); told != tt.told {
				t.Errorf("warned %q", s.warned)
			}
		})
	}
}

// The relay is killed at random instants, with messages on their way. Each is answered once.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	rounds := killtest.Rounds(t, "REPLY_TEST_ROUNDS", 5)
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	n := 0
	for range rounds {
		b := s.bridge("")
		for _, from := range []string{"boss", "peer", "boss", "peer", "user"} { // without a person, they would be held
			n++
			s.Send("demo", from, "worker", fmt.Sprintf("TOOL:0.01\n[m-%d]", n))
		}
		<-time.After(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
		b.Kill()
	}
	_, stop := s.relay()
	s.settled(n)
	must(t, stop())
	frames := map[string]map[string]bool{} // the senders of each frame
	all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "worker"})
	must(t, err)
	for _, d := range all {
		if d.State != ledger.Done && d.State != ledger.Failed {
			t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
		}
		if frames[d.Frame] == nil {
			frames[d.Frame] = map[string]bool{}
		}
		frames[d.Frame][d.From] = d.State == ledger.Done || d.From == "boss" // only the lead learns of a failure
	}
	for _, to := range []string{"boss", "peer"} {
		want, ids := 0, map[string]int{}
		for _, froms := range frames {
			if froms[to] {
				want++
			}
		}
		rows := s.rows(to)
		for _, row := range rows {
			ids[row.MessageID]++
		}
		if len(rows) != want || len(ids) != want {
			t.Errorf("%s got %d rows with %d ids for %d frames", to, len(rows), len(ids), want)
		}
	}
	t.Logf("%d messages, %d frames, %d kills", n, len(frames), rounds)
}
