package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/ledger/ledgertest"
	"teambridge/relay"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/service"
	"teambridge/status/view"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

func TestMain(m *testing.M) {
	if os.Getenv(simchild.Variable) != "" && slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.329 (simulated)")
		return
	}
	simchild.MainTerminal()
	simchild.Main()
	tmux.Relax(time.Minute)
	os.Exit(killtest.Tests(m))
}

// patience limits the wait of a test for an event.
const patience = 3 * time.Minute

// The captured teams.
const (
	older = teamstest.Older
	newer = teamstest.Newer
)

// world is a Claude directory in which a service runs.
type world struct {
	*teamstest.Fixture
	testing.TB
	ctx    context.Context // of a person
	script simchild.Script // of the agents that relays run
	work   string          // the directory of those

	s       *service.Service
	ledger  *ledger.Ledger
	journal *journal.Journal
	over    chan error // how the service ended
	end     func()     // ends the service, once
}

// newWorld returns a world with a captured team of an older and of a newer version.
func newWorld(t testing.TB) *world {
	ctx, cancel := context.WithTimeout(bridge.WithPerson(t.Context()), patience)
	t.Cleanup(cancel)
	return &world{Fixture: teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion), TB: t, ctx: ctx}
}

// band is a team whose agents have no terminals.
const band = "band"

// newBand returns a world that has a band, too.
func newBand(t testing.TB, script simchild.Script) *world {
	w := newWorld(t)
	dir, err := filepath.EvalSymlinks(w.Root.Path())
	w.must(err)
	script.State = dir
	w.script, w.work = script, filepath.Join(dir, "work")
	w.must(os.Mkdir(w.work, 0o700))
	w.Make(band, 1, "team-lead", "drums", "bass")
	return w
}

// start starts a service.
func (w *world) start(change ...func(*service.Options)) {
	w.Helper()
	opts := service.Options{
		Root: w.Root, State: w.State, Lock: teamstest.Patient, KeepWork: 1000 * time.Hour, Log: slog.New(slog.NewTextHandler(w.Output(), nil)),
		Tick: 50 * time.Millisecond, Gather: 10 * time.Millisecond, Env: append(os.Environ(), w.script.Env(), "GORACE=atexit_sleep_ms=0"),
		Timing: relay.Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: 20 * time.Millisecond, Poll: 20 * time.Millisecond},
	}
	for _, f := range change {
		f(&opts)
	}
	ledgertest.Seed(w, w.State)
	s, err := service.Open(w.ctx, opts)
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- s.Run(ctx, func(running context.Context, _ service.Part) error {
			close(ready)
			select {
			case <-ctx.Done():
			case <-running.Done():
			}
			return context.Cause(running)
		})
	}()
	w.s, w.over = s, over
	w.end = sync.OnceFunc(func() {
		stop()
		if err := errors.Join(<-over, s.Close()); err != nil {
			w.Errorf("the service ended with: %v", err)
		}
	})
	w.Cleanup(w.end)
	select {
	case <-ready:
	case err := <-over:
		over <- nil
		w.Fatalf("the service ended: %v", err)
	}
	var errs [2]error
	w.ledger, errs[0] = s.Ledger(w.ctx)
	w.journal, errs[1] = s.Journal(w.ctx)
	w.must(errors.Join(errs[:]...))
}

func readOnly(o *service.Options) { o.ReadOnly = true }

func (w *world) must(err error) {
	w.Helper()
	must(w, err)
}

var must = errtest.Must

// fails checks that an error has a code.
func (w *world) fails(err error, code api.Code) {
	w.Helper()
	if err == nil || !errors.Is(err, code) && view.Explain(err).Code != code {
		w.Errorf("the error is %v, want %s", err, code)
	}
}

// until asks until the answer is as wanted, and returns it.
func until[T any](w *world, what string, ask func() (T, error), holds func(T) bool) T {
	w.Helper()
	for {
		v, err := ask()
		if err == nil && holds(v) {
			return v
		}
		select {
		case <-w.ctx.Done():
			w.Fatalf("it is never %s: %+v, %v", what, v, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// send sends a message of the person.
func (w *world) send(team, member, id string, m api.NewMessage) api.Sent {
	w.Helper()
	sent, err := w.s.Send(w.ctx, team, member, id, m)
	w.must(err)
	return sent
}

// page returns recorded messages of a team.
func (w *world) page(team string, q api.MessageQuery) api.Page {
	w.Helper()
	page, err := w.s.Messages(w.ctx, team, q)
	w.must(err)
	return page
}

// recorded waits until a recorded message of a team is as wanted, and returns it.
func (w *world) recorded(team, what string, holds func(api.Record) bool) (m api.Record) {
	w.Helper()
	until(w, what, func() (api.Page, error) { return w.s.Messages(w.ctx, team, api.MessageQuery{Limit: api.MaxMessages}) }, func(p api.Page) bool {
		i := slices.IndexFunc(p.Messages, holds)
		if i >= 0 {
			m = p.Messages[i]
		}
		return i >= 0
	})
	return m
}

func (w *world) status(team, member string) api.Status {
	w.Helper()
	list, err := w.s.Status(w.ctx, team, member)
	w.must(err)
	return list[0]
}

// add adds a relay that runs an agent as a member of the band.
func (w *world) add(member string, change ...func(*api.NewRelay)) api.RelayEntry {
	w.Helper()
	n := api.NewRelay{Team: band, Member: member, Command: []string{simchild.Program()}, Dir: w.work}
	for _, f := range change {
		f(&n)
	}
	e, err := w.s.AddRelay(w.ctx, n)
	w.must(err)
	return e
}

func asks(n *api.NewRelay) { n.Permissions = "ask" }

// relay waits until a relay is as wanted.
func (w *world) relay(id, what string, holds func(api.RelayEntry) bool) api.RelayEntry {
	w.Helper()
	return until(w, what, func() (api.RelayEntry, error) { return w.s.Relay(w.ctx, "", id) }, holds)
}

// in reports whether a relay has a state.
func in(state relay.State) func(api.RelayEntry) bool {
	return func(e api.RelayEntry) bool { return e.State == string(state) }
}

// delivery waits until a delivery is in a state.
func (w *world) delivery(relay, delivery, state string) api.Delivery {
	w.Helper()
	find := func(list []api.Delivery) int {
		return slices.IndexFunc(list, func(d api.Delivery) bool { return d.Delivery == delivery && d.State == state })
	}
	list := until(w, state, func() ([]api.Delivery, error) { return w.s.Deliveries(w.ctx, api.DeliveryQuery{Relay: relay}) }, func(l []api.Delivery) bool { return find(l) >= 0 })
	return list[find(list)]
}

// let continues the agent that waits for the file "go".
func (w *world) let() { w.must(os.WriteFile(filepath.Join(w.script.State, "go"), nil, 0o600)) }

// works returns the texts of agents' turns that contain text, as often as they were worked on.
func (w *world) works(text string) (list []string) {
	w.Helper()
	works, err := simchild.Works(w.script.State)
	w.must(err)
	for said, n := range works {
		if strings.Contains(said, text) {
			list = append(list, slices.Repeat([]string{said}, n)...)
		}
	}
	return list
}

// worked waits until a turn has text.
func (w *world) worked(text string) []string {
	w.Helper()
	return until(w, "worked on", func() ([]string, error) { return w.works(text), nil }, func(l []string) bool { return len(l) > 0 })
}

// stream is a stream of events.
type stream struct {
	w     *world
	first *api.Event // read to be sure that the stream has begun
	pull  func() (api.Event, error, bool)
	close func()
}

// events begins a stream; see [api.Bridge].
func (w *world) events(team, after string) *stream {
	w.Helper()
	e := &stream{w: w}
	e.pull, e.close = iter.Pull2(w.s.Events(w.ctx, team, after))
	w.Cleanup(e.close)
	first := e.next()
	e.first = &first
	return e
}

func (e *stream) next() api.Event {
	e.w.Helper()
	if first := e.first; first != nil {
		e.first = nil
		return *first
	}
	v, err, ok := e.pull()
	if err != nil || !ok {
		e.w.Fatalf("the stream ended: %v", err)
	}
	return v
}

// until reads events up to a wanted one.
func (e *stream) until(want func(api.Event) bool) api.Event {
	e.w.Helper()
	for {
		if v := e.next(); want(v) {
			return v
		}
	}
}

// shows reads up to a wanted snapshot.
func (e *stream) shows(want func(*api.Snapshot) bool) {
	e.w.Helper()
	e.until(func(v api.Event) bool { return v.Snapshot != nil && want(v.Snapshot) })
}

// step reads up to a step of a delivery.
func (e *stream) step(delivery, state string) api.RelayEvent {
	e.w.Helper()
	return *e.until(func(v api.Event) bool {
		return v.Relay != nil && v.Relay.Delivery == delivery && v.Relay.State == state
	}).Relay
}
