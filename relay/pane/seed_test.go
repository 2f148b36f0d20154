package pane

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// The tests of the design in which messages to terminals were described first, by number.
// Those with a turn run with a transcript and without one.

// twice runs a test with an agent that keeps no transcript, and with one that does.
func twice(t *testing.T, test func(*testing.T, *bench)) {
	for name, records := range map[string]bool{"counted": false, "recorded": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if records {
				b.records()
			}
			test(t, b)
		})
	}
}

// open returns the state of a task that has begun, for a busy or an idle agent.
func (b *bench) open(busy bool) ledger.Task {
	switch {
	case b.agent.record != "" && busy:
		return ledger.TaskSent
	case b.agent.record != "":
		return ledger.TaskGiven
	case busy:
		return ledger.TaskStaged
	}
	return ledger.TaskArmed
}

func TestSeed03PromptWithTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		end := b.run()
		defer end()
		b.agent.set(func(a *simagent) { a.draft = "a person types" })
		m := b.put("hello")
		time.Sleep(5 * time.Minute)
		held := b.want(m, ledger.Claimed, "")
		if held.Held != string(tmux.Draft) || held.HeldSince.IsZero() || held.Detail == "" {
			t.Errorf("held as %q (%s) since %v", held.Held, held.Detail, held.HeldSince)
		}
		b.wantGiven()
		if b.agent.draft != "a person types" {
			t.Errorf("the draft is %q", b.agent.draft)
		}
		b.agent.set(func(a *simagent) { a.enter() })
		time.Sleep(time.Minute)
		b.want(m, ledger.Done, ledger.TaskStaged) // the person's turn runs
	})
}

// run runs the queues until end.
func (b *bench) run() (end func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

func TestSeed05StopInMidTurn(t *testing.T) {
	t.Parallel()
	twice(t, func(t *testing.T, b *bench) {
		b.agent.work()
		m := b.put("task Y", notify)
		b.do()
		b.agent.stop(b.hook) // of task X
		b.notices()
		b.agent.stop(b.hook)
		b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
	})
}

func TestSeed06StopWhenIdle(t *testing.T) {
	t.Parallel()
	twice(t, func(t *testing.T, b *bench) {
		m := b.put("task Y", notify)
		b.do()
		b.notices()
		b.agent.stop(b.hook)
		b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
	})
}

// No time limit makes the end of task X count as the end of task Y.
func TestSeed07LongTask(t *testing.T) {
	long := 5 * time.Minute
	if d, err := time.ParseDuration(os.Getenv("TEAMBRIDGE_LONG_TASK")); err == nil {
		long = d
	}
	for _, records := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			if records {
				b.records()
			}
			b.timing.every, b.timing.follow = long/100, long/100
			end := b.run()
			defer end()
			b.agent.work()
			m := b.put("task Y", notify)
			time.Sleep(long)
			b.agent.stop(b.hook)
			b.notices()
			time.Sleep(long)
			b.notices()
			b.agent.stop(b.hook)
			b.notices(m)
		})
	}
}

func TestSeed08WaitForIdle(t *testing.T) {
	for _, records := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			if records {
				b.records()
			}
			end := b.run()
			defer end()
			b.agent.work()
			b.put("task Y")
			busy := func() string {
				t.Helper()
				why, err := b.Tasks.Busy(t.Context(), b.pane)
				must(t, err)
				return why
			}
			if busy() == "" {
				t.Error("it was idle at work")
			}
			time.Sleep(5 * time.Second)
			b.agent.stop(func() {
				b.hook()
				// Between two tasks, nothing runs and nothing is typed.
				b.agent.set(func(a *simagent) { a.working = false })
				if busy() == "" {
					t.Error("it was idle between two tasks")
				}
			})
			if busy() == "" {
				t.Error("it was idle in the second task")
			}
			b.agent.stop(b.hook)
			time.Sleep(5 * time.Second)
			if why := busy(); why != "" {
				t.Errorf("after the second task: %s", why)
			}
		})
	}
}

// The Stop hook is lost, and the program seems to work for ever.
func TestSeed09StaleDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.timing.every = 5 * time.Second
		end := b.run()
		defer end()
		b.agent.set(func(a *simagent) { a.claims, a.draft = true, "forgotten" })
		m := b.put("hello")
		put := time.Now()
		time.Sleep(LongHeld)
		list, err := b.opts.Ledger.PaneMessages.Open(t.Context(), b.Root.Path())
		if err != nil || len(list) != 1 || list[0].UUID != m.UUID || list[0].Held != string(tmux.Draft) || list[0].HeldSince.Sub(put) > b.timing.every {
			t.Errorf("after %v: %+v, %v", LongHeld, list, err)
		}
		b.wantGiven()
		time.Sleep(Expire)
		got := b.want(m, ledger.Failed, "")
		if want := "not sent: it is held: draft (for 15m0s)"; got.Reason != want {
			t.Errorf("it failed with %q, want %q", got.Reason, want)
		}
	})
}

func TestSeed10Urgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.work()
	m := b.put("stop that", policy(tmux.Urgent))
	b.do()
	if b.agent.escapes != 1 {
		t.Errorf("%d interrupts", b.agent.escapes)
	}
	b.want(m, ledger.Done, ledger.TaskArmed)
	b.wantGiven("stop that")
}

// A lost hook makes a notification late by one task, never early, unless a transcript shows
// the end.
func TestLostHook(t *testing.T) {
	t.Parallel()
	twice(t, func(t *testing.T, b *bench) {
		b.agent.work()
		m := b.put("task Y", notify)
		b.do()
		b.agent.stop(nil)
		b.agent.stop(b.hook)
		if b.agent.record == "" {
			b.notices()
			b.agent.work()
			b.agent.stop(b.hook)
		}
		b.notices(m)
	})
}
