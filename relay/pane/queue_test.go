package pane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// killed runs step, which must die.
func killed(t *testing.T, step func()) {
	t.Helper()
	defer func() {
		if r := recover(); r != errKilled { //nolint:errorlint // the value of the panic
			t.Errorf("recovered %v, want it killed", r)
		}
	}()
	step()
}

// After a process is killed in a step, no message is pasted twice or lost: the next one
// continues, or reports that the state is not known.
func TestKilledAtEachStep(t *testing.T) {
	for _, test := range []struct {
		at      string
		records bool // the agent keeps a transcript
		state   ledger.DeliveryState
		given   int
	}{
		{"pasting", false, ledger.Failed, 0}, {"pasting", true, ledger.Failed, 0},
		{"pasted", false, ledger.Done, 1}, {"pasted", true, ledger.Done, 1},
		{"entering", false, ledger.Done, 1}, {"entering", true, ledger.Done, 1},
		{"entered", false, ledger.Failed, 1}, {"entered", true, ledger.Done, 1},
	} {
		t.Run(fmt.Sprint(test.at, " ", test.records), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if test.records {
					b.records()
				}
				m := b.put("hello")
				next := b.put("next")
				b.agent.dieAt = test.at
				killed(t, b.do)
				b.agent.mu = sync.Mutex{} // the dead process held it

				b.Panes = b.another(b.opts.Ledger)
				defer b.run()()
				time.Sleep(time.Minute)
				got, err := b.Queue.Message(t.Context(), m.UUID)
				if err != nil || got.State != test.state {
					t.Errorf("it is %s (%s), %v, want %s", got.State, got.Reason, err, test.state)
				}
				if got.State == ledger.Failed && causeOf(got) != ledger.CauseUnknown {
					t.Errorf("it failed with %q", got.Reason)
				}
				if n := count(b.agent.given(), "hello"); n != test.given {
					t.Errorf("the agent was given it %d times, want %d", n, test.given)
				}
				b.want(next, ledger.Done, b.open(test.given > 0))
			})
		})
	}
}

func count(list []string, text string) (n int) {
	for _, s := range list {
		if s == text {
			n++
		}
	}
	return n
}

// A message that arrives with another text is not confirmed by its id, and is not typed again without a person.
func TestTextThatArrivesGarbled(t *testing.T) {
	t.Parallel()
	for _, working := range []bool{false, true} { // then it is queued
		b := newBench(t)
		b.records()
		b.agent.working, b.agent.garbles = working, true
		m := b.put("日本語\tfertig")
		b.do()
		if failed := b.want(m, ledger.Failed, ""); failed.Held != string(tmux.Altered) || causeOf(failed) != ledger.CauseUnknown {
			t.Errorf("working %t: it failed with %q", working, failed.Reason)
		}
		b.do()
		if got := b.agent.given(); len(got) != 1 {
			t.Errorf("working %t: the agent was given %q", working, got)
		}
		must(t, b.opts.Ledger.Deliveries.Retry(t.Context(), m.UUID))
		b.agent.garbles = false
		b.do()
		if got, err := b.Queue.Message(t.Context(), m.UUID); err != nil || got.State != ledger.Done {
			t.Errorf("working %t: tried again, it is %s, %v", working, got.State, err)
		}
		if got := b.agent.given(); len(got) != 2 || got[1] != "日本語\tfertig" {
			t.Errorf("working %t: tried again, the agent was given %q", working, got)
		}
	}
}

// After the screen has confirmed a message, the transcript may still show that another text arrived.
func TestGarbledTextThatIsRecordedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.records()
		defer b.run()()
		b.agent.set(func(a *simagent) { a.mute = true })
		m := b.put("日本語", notify)
		time.Sleep(3 * time.Second)
		b.want(m, ledger.Done, ledger.TaskArmed)
		b.agent.set(func(a *simagent) {
			a.mute = false
			a.write(object{"type": "user", "message": object{"content": "[teambridge " + Nonce(m.UUID) + " from tester] ???"}})
		})
		time.Sleep(3 * time.Second)
		if got := b.want(m, ledger.Done, ledger.TaskEnded); got.Lost != altered {
			t.Errorf("its task is lost since %q", got.Lost)
		}
	})
}

// A message that the guard of the paste has refused waits again, and is pasted later.
func TestRefusedPasteIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.agent.refuses = tmux.InMode
		m := b.put("hello")
		b.do()
		if got := b.want(m, ledger.Claimed, ""); got.Held != string(tmux.InMode) || got.Frame != "" || !got.SentAt.IsZero() {
			t.Errorf("held as %+v", got)
		}
		time.Sleep(time.Second)
		b.do()
		b.want(m, ledger.Done, ledger.TaskArmed)
		b.wantGiven("hello")
	})
}

// Retries come after 1 s, doubled up to 60 s, for 15 minutes.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var tries []time.Duration
		start := time.Now()
		send := b.tmux.send
		b.tmux.send = func(ctx context.Context, r tmux.Ref, p tmux.Profile, m tmux.Input, s tmux.Steps) (tmux.Outcome, error) {
			tries = append(tries, time.Since(start).Round(time.Second))
			return send(ctx, r, p, m, s)
		}
		b.agent.dialog = "May I?"
		m := b.put("hello")
		defer b.run()()
		time.Sleep(Expire + time.Minute)
		got := b.want(m, ledger.Failed, "")
		if got.Reason != "not sent: it is held: dialog (for 15m0s)" || len(tries) != got.Tries {
			t.Errorf("failed with %q after %d tries, of which %d are recorded", got.Reason, len(tries), got.Tries)
		}
		want := time.Duration(0)
		for i, at := range tries {
			if i > 0 {
				wait := min(time.Second<<(i-1), time.Minute)
				if want += wait; at < want || at > want+time.Duration(i)*time.Second {
					t.Errorf("try %d after %v, want %v or up to a second for each try more", i, at, want)
				}
			}
			want = at
		}
		if len(tries) < 18 {
			t.Errorf("%d tries", len(tries))
		}
		// After a person's retry, it is tried for as long again.
		must(t, b.opts.Ledger.Deliveries.Retry(t.Context(), m.UUID))
		b.agent.set(func(a *simagent) { a.dialog = "" })
		time.Sleep(2 * time.Second)
		b.want(m, ledger.Done, ledger.TaskArmed)
	})
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.agent.dialog = "May I?"
		defer b.run()()
		b.put("one")
		b.put("idle", policy(tmux.WhenIdle))
		b.put("two")
		time.Sleep(10 * time.Minute)
		// The back-off of the first delays those behind it, but not important ones.
		b.agent.set(func(a *simagent) { a.dialog = "" })
		b.put("now", policy(tmux.Important))
		time.Sleep(time.Second)
		b.wantGiven("now", "one", "two")
		b.agent.stop(nil)
		for range 3 {
			b.agent.stop(nil)
		}
		time.Sleep(2 * time.Minute)
		b.wantGiven("now", "one", "two", "idle")
	})
}

func TestPutAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := Message{ID: "m-1", Text: "hello", From: "tester"}
	first, again, err := b.Queue.Put(t.Context(), b.pane, m)
	if err != nil || again {
		t.Fatal(again, err)
	}
	if second, again, err := b.Queue.Put(t.Context(), b.pane, m); err != nil || !again || second.UUID != first.UUID {
		t.Errorf("again: %t, %s, %v", again, second.UUID, err)
	}
	for what, change := range map[string]func(*Message){
		"text": func(m *Message) { m.Text = "other" }, "sender": func(m *Message) { m.From = "other" },
		"policy": func(m *Message) { m.Policy = tmux.Urgent }, "notification": notify, "draft": func(m *Message) { m.SaveDraft = true },
	} {
		other := m
		change(&other)
		if _, _, err := b.Queue.Put(t.Context(), b.pane, other); !errors.Is(err, ledger.ErrConflict) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	b.do()
	b.do()
	b.wantGiven("hello")
	for _, bad := range []Message{{}, {Text: "a\x1b[201~b"}, {Text: "a", From: "x]\n"}, {Text: "a", Policy: "soon"}} {
		if _, _, err := b.Queue.Put(t.Context(), b.pane, bad); err == nil {
			t.Errorf("%+v was put", bad)
		}
	}
}

func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.put("before")
		m, err := b.Queue.Deliver(t.Context(), b.put("hello").UUID)
		if err != nil || m.State != ledger.Done {
			t.Errorf("delivered: %s, %v", m.State, err)
		}
		b.wantGiven("before", "hello")

		// If it is not sent in time, it is never sent later.
		b.agent.set(func(a *simagent) { a.draft = "typed" })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m, err = b.Queue.Deliver(ctx, b.put("late").UUID)
		if err != nil || m.State != ledger.Failed || m.Reason != "not sent: it is held: draft" {
			t.Errorf("not delivered: %s %q, %v", m.State, m.Reason, err)
		}
		// A look that is cut off does not change the reason why it is held.
		send, looks := b.tmux.send, 0
		b.tmux.send = func(ctx context.Context, ref tmux.Ref, p tmux.Profile, m tmux.Input, steps tmux.Steps) (tmux.Outcome, error) {
			if looks++; looks == 1 {
				return send(ctx, ref, p, m, steps)
			}
			<-ctx.Done()
			return tmux.Outcome{State: tmux.NotSent}, ctx.Err()
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m, err = b.Queue.Deliver(ctx, b.put("cut off").UUID)
		if err != nil || m.State != ledger.Failed || m.Reason != "not sent: it is held: draft" || looks < 2 {
			t.Errorf("cut off: %s %q after %d looks, %v", m.State, m.Reason, looks, err)
		}
		b.tmux.send = send
		b.agent.set(func(a *simagent) { a.draft = "" })
		b.do()
		b.wantGiven("before", "hello")

		// A draft that is submitted in time.
		b.agent.set(func(a *simagent) { a.draft = "typed" })
		time.AfterFunc(5*time.Second, func() { b.agent.set(func(a *simagent) { a.draft = "" }) })
		if m, err = b.Queue.Deliver(t.Context(), b.put("patient").UUID); err != nil || m.State != ledger.Done {
			t.Errorf("delivered later: %s, %v", m.State, err)
		}
		if _, err := b.Queue.Deliver(t.Context(), "nothing"); !errors.Is(err, ErrUnknown) {
			t.Errorf("an unknown message: %v", err)
		}
	})
}

// A wait ends if the message is dropped, or its pane is removed.
func TestDroppedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.agent.dialog = "May I?"
		one, two := b.put("one"), b.put("two")
		time.AfterFunc(3*time.Second, func() {
			if err := b.opts.Ledger.Deliveries.Drop(context.Background(), one.UUID); err != nil {
				t.Error(err)
			}
		})
		removed := make(chan struct{})
		time.AfterFunc(6*time.Second, func() {
			defer close(removed)
			if n, err := b.Registry.Remove(context.Background(), "worker"); err != nil || n != 1 {
				t.Errorf("removed with %d messages, %v", n, err)
			}
		})
		if m, err := b.Queue.Deliver(t.Context(), one.UUID); err != nil || m.State != ledger.Dropped {
			t.Errorf("dropped: %s, %v", m.State, err)
		}
		if m, err := b.Queue.Await(t.Context(), two.UUID); err != nil || m.State != ledger.Dropped {
			t.Errorf("removed: %s, %v", m.State, err)
		}
		<-removed
	})
}

// A delivery that was begun is finished when the service ends.
func TestServiceEndsInMidDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		entered := b.tmux.send
		reached := make(chan bool)
		b.tmux.send = func(ctx context.Context, r tmux.Ref, p tmux.Profile, m tmux.Input, s tmux.Steps) (tmux.Outcome, error) {
			step := s.Entered
			s.Entered = func(ctx context.Context) error {
				close(reached)
				time.Sleep(2 * time.Second)
				if err := ctx.Err(); err != nil {
					return err
				}
				return step(ctx)
			}
			return entered(ctx, r, p, m, s)
		}
		m := b.put("hello")
		end := b.run()
		<-reached
		end()
		b.want(m, ledger.Done, ledger.TaskArmed)
	})
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	add := func(r Registration) error {
		_, _, err := b.Registry.Add(t.Context(), r)
		return err
	}
	var exists *ExistsError
	if err := add(Registration{Name: "worker", Target: "%1"}); !errors.As(err, &exists) || exists.Pane.Name() != "worker" {
		t.Errorf("a name in use: %v", err)
	}
	if err := add(Registration{Name: "other", Target: "%1"}); !errors.As(err, &exists) {
		t.Errorf("a pane in use: %v", err)
	}
	if err := add(Registration{Name: "a/b", Target: "%1"}); !errors.Is(err, teams.ErrBadName) {
		t.Errorf("a bad name: %v", err)
	}
	if err := add(Registration{Name: "other", Target: "%1", Profile: "vim"}); !errors.As(err, new(*ProfileError)) {
		t.Errorf("a bad profile: %v", err)
	}
	b.agent.ref.ID = "%2"
	b.agent.gone = true
	if err := add(Registration{Name: "other", Target: "%2"}); !errors.Is(err, tmux.ErrGone) {
		t.Errorf("a pane that cannot be reached: %v", err)
	}
	b.agent.gone = false
	if err := add(Registration{Name: "worker", Target: "%2", Replace: true}); err != nil {
		t.Errorf("replaced: %v", err)
	}
	if found, err := b.Registry.Find(t.Context(), "worker"); err != nil || found.Ref.ID != "%2" || found.Profile != tmux.Claude {
		t.Errorf("found %+v, %v", found, err)
	}
	var missing *NotFoundError
	if _, err := b.Registry.Find(t.Context(), "wor"); !errors.As(err, &missing) || len(missing.Panes) != 1 {
		t.Errorf("a part of a name: %v", err)
	}
	b.Make(Team, 1, "someone")
	b.agent.ref.ID = "%3"
	if err := add(Registration{Name: "third", Target: "%3"}); !errors.Is(err, ErrTeamExists) {
		t.Errorf("a real team of the name: %v", err)
	}
	if _, err := b.Registry.Remove(t.Context(), "worker"); err != nil {
		t.Error(err)
	}
	if list, err := b.Registry.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// Senders at once, each with its own connection to the ledger: all arrive, one at a time,
// those of each sender in its order.
func TestSendersAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.work()
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			l, err := ledger.Open(context.Background(), b.state+"/ledger.db")
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			p := b.another(l)
			p.timing.every = time.Millisecond
			for n := range 4 {
				m, _, err := p.Queue.Put(t.Context(), b.pane, Message{Text: fmt.Sprint(s, " ", n)})
				if err == nil {
					m, err = p.Queue.Deliver(t.Context(), m.UUID)
				}
				if err != nil || m.State != ledger.Done {
					t.Errorf("%d %d: %s, %v", s, n, m.State, err)
				}
			}
		})
	}
	senders.Wait()
	given := b.agent.given()
	if len(given) != 32 || b.agent.maxSends != 1 {
		t.Errorf("%d were given, %d at a time", len(given), b.agent.maxSends)
	}
	for s := range 8 {
		list := slices.DeleteFunc(slices.Clone(given), func(text string) bool { return !strings.HasPrefix(text, fmt.Sprint(s, " ")) })
		if !slices.IsSorted(list) || len(list) != 4 {
			t.Errorf("of sender %d: %q", s, list)
		}
	}
}

// A message is held if the program reports that it waits for a person before the screen shows the question.
func TestQuestionThatIsNotYetOnTheScreen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.says(transcript.ProcessWaiting)
	m := b.put("hello")
	b.do()
	if got := b.want(m, ledger.Claimed, ""); got.Held != string(tmux.Dialog) || len(b.agent.given()) != 0 {
		t.Errorf("held by %q; the agent was given %q", got.Held, b.agent.given())
	}
}

// If the clock is set back, no message waits until the former time.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	m := ledger.PaneMessage{Delivery: ledger.Delivery{UUID: "a", State: ledger.Claimed}}
	for what, of := range map[string][2]time.Time{"put": {hour, {}}, "held": {time.Now(), hour}} {
		m.Since, m.NextTry = of[0], of[1]
		if next, due := nextOf([]ledger.PaneMessage{m}); next.UUID != m.UUID || due.IsZero() || due.After(time.Now()) {
			t.Errorf("%s before, it is due in %s", what, time.Until(due))
		}
	}
	soon := time.Now().Add(usual.maxTry / 2)
	m.NextTry = soon
	if _, due := nextOf([]ledger.PaneMessage{m}); !due.Equal(soon) {
		t.Errorf("it is due in %s, want %s", time.Until(due), time.Until(soon))
	}
}
