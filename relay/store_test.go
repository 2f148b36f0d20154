package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simchild"
)

// stepStore is a ledger with functions of a test before and after each call. Their errors make the call fail: before
// it is made, or after it.
type stepStore struct {
	store
	before, after func(call string) error // nil: nothing
}

func step[T any](s stepStore, call string, do func() (T, error)) (result T, err error) {
	if s.before != nil {
		if err := s.before(call); err != nil {
			return result, err
		}
	}
	if result, err = do(); err == nil && s.after != nil {
		err = s.after(call)
	}
	return result, err
}

func (s stepStore) do(call string, do func() error) error {
	_, err := step(s, call, func() (any, error) { return nil, do() })
	return err
}

// found has the results of two of its calls.
type found[T any] struct {
	what  T
	found bool
}

func find[T any](s stepStore, call string, do func() (T, bool, error)) (T, bool, error) {
	f, err := step(s, call, func() (f found[T], err error) {
		f.what, f.found, err = do()
		return f, err
	})
	return f.what, f.found, err
}

func (s stepStore) Unmarked(ctx context.Context, p inbox.InboxKey) ([]ledger.Delivery, error) {
	return step(s, "unmarked", func() ([]ledger.Delivery, error) { return s.store.Unmarked(ctx, p) })
}

func (s stepStore) Open(ctx context.Context, p inbox.InboxKey) ([]string, error) {
	return step(s, "open", func() ([]string, error) { return s.store.Open(ctx, p) })
}

func (s stepStore) Marked(ctx context.Context, p inbox.InboxKey, id string) ([]ledger.Delivery, error) {
	return step(s, "marked", func() ([]ledger.Delivery, error) { return s.store.Marked(ctx, p, id) })
}

func (s stepStore) DroppedUnmarked(ctx context.Context, p inbox.InboxKey, key string) ([]string, error) {
	return step(s, "dropped", func() ([]string, error) { return s.store.DroppedUnmarked(ctx, p, key) })
}

func (s stepStore) Occurrences(ctx context.Context, p inbox.InboxKey, key string) (int, error) {
	return step(s, "occurrences", func() (int, error) { return s.store.Occurrences(ctx, p, key) })
}

func (s stepStore) Missing(ctx context.Context, p inbox.InboxKey, uuids ...string) ([]string, error) {
	return step(s, "missing", func() ([]string, error) { return s.store.Missing(ctx, p, uuids...) })
}

func (s stepStore) OpenCount(ctx context.Context, p inbox.InboxKey) (int, error) {
	return step(s, "count", func() (int, error) { return s.store.OpenCount(ctx, p) })
}

func (s stepStore) Waiting(ctx context.Context, p inbox.InboxKey) ([]ledger.Delivery, error) {
	return step(s, "waiting", func() ([]ledger.Delivery, error) { return s.store.Waiting(ctx, p) })
}

func (s stepStore) Died(ctx context.Context, uuid string) (ledger.Frame, error) {
	return step(s, "died", func() (ledger.Frame, error) { return s.store.Died(ctx, uuid) })
}

func (s stepStore) Split(ctx context.Context, uuid, reason string) (bool, error) {
	return step(s, "split", func() (bool, error) { return s.store.Split(ctx, uuid, reason) })
}

func (s stepStore) Session(ctx context.Context, p inbox.InboxKey) (ledger.Session, bool, error) {
	return find(s, "session", func() (ledger.Session, bool, error) { return s.store.Session(ctx, p) })
}

func (s stepStore) InFlight(ctx context.Context, p inbox.InboxKey) (ledger.Frame, bool, error) {
	return find(s, "in flight", func() (ledger.Frame, bool, error) { return s.store.InFlight(ctx, p) })
}

func (s stepStore) Frame(ctx context.Context, uuid string) (ledger.Frame, bool, error) {
	return find(s, "frame", func() (ledger.Frame, bool, error) { return s.store.Frame(ctx, uuid) })
}

func (s stepStore) Claim(ctx context.Context, ds ...ledger.Delivery) error {
	return s.do("claim", func() error { return s.store.Claim(ctx, ds...) })
}

func (s stepStore) Mark(ctx context.Context, uuids ...string) error {
	return s.do("mark", func() error { return s.store.Mark(ctx, uuids...) })
}

func (s stepStore) SetSession(ctx context.Context, session ledger.Session) error {
	return s.do("set session", func() error { return s.store.SetSession(ctx, session) })
}

func (s stepStore) End(ctx context.Context, state ledger.DeliveryState, reason string, uuids ...string) error {
	return s.do("settle", func() error { return s.store.End(ctx, state, reason, uuids...) })
}

func (s stepStore) Commit(ctx context.Context, f ledger.Frame, deliveries ...string) error {
	return s.do("commit "+string(f.Kind), func() error { return s.store.Commit(ctx, f, deliveries...) })
}

func (s stepStore) Tried(ctx context.Context, uuid, session string) error {
	return s.do("tried", func() error { return s.store.Tried(ctx, uuid, session) })
}

func (s stepStore) Advance(ctx context.Context, uuid string, state ledger.DeliveryState, reason string) error {
	return s.do("advance to "+string(state), func() error { return s.store.Advance(ctx, uuid, state, reason) })
}

func (s stepStore) Finish(ctx context.Context, uuid string, state ledger.DeliveryState, reason, answer string) error {
	return s.do("advance to "+string(state), func() error { return s.store.Finish(ctx, uuid, state, reason, answer) })
}

// If each call of a claim fails once, as while another process has the ledger locked, the claim begins again, and
// each message is worked on once.
func TestLedgerFailsInAClaim(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.Timing = Timing{Retry: time.Millisecond, Poll: time.Millisecond}
	var mu sync.Mutex
	failed := map[string]bool{}
	s.send("[m-1]", "[m-2]")
	r := s.newRelay(opts)
	r.ledger = stepStore{store: storeOf(s.ledger), before: func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if failed[op] || !strings.Contains("unmarked open marked dropped occurrences missing claim mark", op) {
			return nil
		}
		failed[op] = true
		return fmt.Errorf("%s: %w", op, ledger.ErrBusy)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.settled(2)
	cancel()
	must(t, <-done)
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
		t.Errorf("worked on %v", n)
	}
	if !failed["claim"] || !failed["mark"] {
		t.Errorf("the calls that failed are %v", failed)
	}
}

// Each call of the ledger fails twice before it succeeds, as with a full disk or a
// lock of another process, through changes of the mode, an agent that dies in its
// turn, and one that dies of a message. The relay goes on, and no message is lost or
// worked on twice.
func TestLedgerFailsForAWhile(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{
		{At: simchild.Worked, Do: simchild.Die, Match: "[cut]", Times: 1},
		{At: simchild.Read, Do: simchild.Die, Match: "[poison]"},
	}})
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.FrameLimit = 2000 })
	opts.Timing = Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: time.Millisecond, Poll: time.Millisecond}
	var mu sync.Mutex
	calls, failed := map[string]int{}, map[string]bool{}
	s.send("[a]", "[cut]", strings.Repeat("x", 2000))
	r := s.newRelay(opts)
	r.ledger = stepStore{store: storeOf(s.ledger), before: func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains("unmarked open marked dropped occurrences missing claim mark", op) {
			return nil // a claim begins again with all of them
		}
		calls[op]++
		failed[op] = true
		switch calls[op] % 3 {
		case 1:
			return fmt.Errorf("%s: %w", op, ledger.ErrFull)
		case 2:
			return fmt.Errorf("%s: %w", op, ledger.ErrBusy)
		}
		return nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	ended := func(n int) {
		t.Helper()
		s.await(fmt.Sprint(n, " deliveries have ended"), func() bool {
			select {
			case err := <-done:
				t.Fatalf("the relay ended: %v", err)
			default:
			}
			all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Team: "demo"})
			must(t, err)
			left := n
			for _, d := range all {
				if d.State.Ended() {
					left--
				}
			}
			return left <= 0
		})
	}
	ended(3)
	s.send("[b]", "[poison]", "[c]")
	ended(6)
	s.prompt(r, Input{Text: "[d]", Mode: mode.Mode{PermissionMode: mode.Set("plan")}})
	ended(7)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the relay ended with %v", err)
	}
	for _, d := range s.settled(7) {
		raw, want := string(d.Raw), ledger.Done
		if strings.Contains(raw, "[poison]") || strings.Contains(raw, "xxx") {
			want = ledger.Failed
		}
		if d.State != want {
			t.Errorf("%.80s is %s (%s), want %s", raw, d.State, d.Reason, want)
		}
	}
	for m, n := range s.works("[a]", "[b]", "[c]", "[d]", "[cut]") {
		if n != 1 {
			t.Errorf("%s was worked on %d times", m, n)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, op := range []string{
		"session", "set session", "count", "waiting", "settle", "in flight", "frame", "commit message", "commit nudge", "tried", "died", "split",
		"advance to accepted", "advance to done", "advance to failed",
	} {
		if !failed[op] {
			t.Errorf("%q was not called", op)
		}
	}
}

// A relay that is stopped while it waits for the ledger does not warn of that.
func TestEndsWhileTheLedgerIsLocked(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var idle atomic.Bool
	r.ledger = stepStore{store: storeOf(s.ledger), before: func(op string) error {
		if op == "count" && idle.Load() {
			cancel()
			return fmt.Errorf("%s: %w", op, ledger.ErrBusy)
		}
		return nil
	}}
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.until("idle", func(st Status) bool { return st.State == Idle })
	idle.Store(true) // the next poll of the ledger fails
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, err := range s.warned {
		t.Errorf("it warned: %v", err)
	}
}

// lockable makes a ledger fail from a certain call on, as long as it is locked.
type lockable struct {
	op     string
	locked atomic.Bool
}

func (l *lockable) fail(op string) error {
	if op == l.op && l.locked.Load() {
		return fmt.Errorf("%s: %w", op, ledger.ErrBusy)
	}
	return nil
}

// An acknowledgement of the agent while the ledger cannot be written is kept, and
// recorded before anything else is sent; the relay warns once that the ledger is
// locked.
func TestAcknowledgementIsKept(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.Timing.Retry = time.Millisecond
	tries := make(chan struct{}, 100)
	lock := &lockable{op: "advance to done"}
	lock.locked.Store(true)
	r := s.newRelay(opts)
	r.ledger = stepStore{store: storeOf(s.ledger), before: lock.fail}
	r.at = func(m moment) {
		if m == stuck {
			select {
			case tries <- struct{}{}:
			default:
			}
		}
	}
	s.send("[a]")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	tried := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-tries:
			case err := <-done:
				t.Fatalf("the relay ended: %v", err)
			}
		}
	}
	tried(1)
	s.send("[b]")
	tried(10)
	if n := s.logged("read"); n != 1 {
		t.Errorf("the agent got %d messages, want only the one that is not recorded as done", n)
	}
	if st := r.Status(); !strings.Contains(st.Reason, ledger.ErrBusy.Error()) {
		t.Errorf("status %+v, want why it does not go on", st)
	}
	lock.locked.Store(false)
	s.done(2)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(s.warnings(func(err error) bool { return errors.Is(err, ledger.ErrBusy) })); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
	if n := s.works("[a]", "[b]"); n["[a]"] != 1 || n["[b]"] != 1 || s.logged("start") != 1 {
		t.Errorf("worked on %v by %d agents", n, s.logged("start"))
	}
}

// If the relay is stopped while its agent works and the ledger cannot be written,
// the agent's last acknowledgement is recorded once that is possible.
func TestEndWithALockedLedger(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Called, Do: simchild.Hold, Match: "[a]", Name: "go"}}})
	opts := s.options()
	opts.Timing.Retry = time.Millisecond
	for i, op := range []string{"advance to done", "set session"} {
		lock := &lockable{op: op}
		tried := make(chan struct{})
		r := s.newRelay(opts)
		r.ledger = stepStore{store: storeOf(s.ledger), before: lock.fail}
		var once sync.Once
		r.at = func(m moment) {
			if m == stuck {
				once.Do(func() { close(tried) })
			}
		}
		s.send("TOOL:0.001\n[a]")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		s.await("the tool runs", func() bool { return s.logged("hold") > i })
		lock.locked.Store(true)
		cancel()
		must(t, os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600))
		select {
		case <-tried:
		case err := <-done:
			t.Fatalf("%s: the relay ended: %v", op, err)
		}
		lock.locked.Store(false)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", op, err)
		}
		must(t, os.Remove(filepath.Join(s.script.State, "go")))
		all := s.settled(i + 1)
		if d := all[i]; d.State != ledger.Done {
			t.Errorf("%s: %s is %s (%s), want done", op, d.Raw, d.State, d.Reason)
		}
		if session, _, err := s.ledger.Sessions.Session(t.Context(), r.Key()); err != nil || session.State != ledger.RelayEnded {
			t.Errorf("%s: the session is %s, %v, want ended", op, session.State, err)
		}
	}
}
