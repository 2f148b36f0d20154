package handoff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
)

// runUntilKilled runs the machine like a process that is killed at a moment, or around a write of the ledger. ended
// gets whether it was killed.
func (w *world) runUntilKilled(at func(moment), ended chan<- bool) {
	m := newMachine(w.options())
	m.opts.Timing = m.opts.Timing.withDefaults()
	m.at = at
	done := make(chan struct{})
	w.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		defer func() {
			switch r := recover(); r {
			case nil:
				ended <- false
			case errLauncherKilled:
				w.kill()
				ended <- true
			default:
				panic(r)
			}
		}()
		if err := m.run(w.t.Context()); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
}

// journey is the course of the crash tests: a person types, a message comes and is answered, and the person comes
// back. After a kill, it goes on with a new launcher.
func (w *world) journey(at func(moment)) (kills int) {
	w.t.Helper()
	ended := make(chan bool, 1)
	w.runUntilKilled(at, ended)
	// until lets time pass, and starts the launcher again when it was killed.
	until := func(what string, holds func() bool) {
		w.t.Helper()
		w.until(what, func() bool {
			select {
			case killed := <-ended:
				if !killed {
					w.t.Fatalf("the run ended before: %s", what)
				}
				kills++
				w.mu.Unlock()
				w.runUntilKilled(at, ended)
				w.mu.Lock()
				return false
			default:
				return holds()
			}
		})
	}
	until("at the terminal", w.atTerminal)
	w.types("entered\r")
	until("the turn is over", func() bool { return w.times("entered") == 1 && w.atTerminal() })
	w.types("draft")
	w.prompt("[m-1]")
	until("answered", func() bool { return w.times("[m-1]") > 0 })
	until("at rest", func() bool { return w.atRelay() || w.atTerminal() })
	w.mu.Lock()
	away := w.program == nil
	w.mu.Unlock()
	if away {
		w.press()
	}
	until("back", w.atTerminal)
	w.prompt("[m-2]")
	until("answered again", func() bool { return w.times("[m-2]") > 0 })
	w.press()
	until("back again", w.atTerminal)
	time.Sleep(time.Minute)
	until("at rest", w.atTerminal)
	return kills
}

// If the launcher is killed at any moment, the next one goes on with the session, each message is worked on once, and
// a draft that was taken from the person's program is back at the prompt.
func TestKilledAtEachMoment(t *testing.T) {
	for _, when := range []moment{begun, drafted, committed, ended, atRelay, finished, returned} {
		t.Run(string(when), func(t *testing.T) {
			play(t, func(w *world) {
				left, draft := 1, ""
				kills := w.journey(func(m moment) {
					if m == when && left > 0 {
						left--
						w.mu.Lock()
						draft = w.handoff.Draft
						w.mu.Unlock()
						panic(errLauncherKilled)
					}
				})
				if kills != 1 {
					t.Fatalf("killed %d times, want once", kills)
				}
				w.check(draft)
			})
		})
	}
}

// The same with kills before and after each write of the ledger.
func TestKilledAroundEachWrite(t *testing.T) {
	for n, more := 1, true; more; n++ {
		more = false
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			play(t, func(w *world) {
				draft := ""
				w.write = func(i int) {
					if i == n {
						w.mu.Lock()
						draft = w.handoff.Draft
						w.mu.Unlock()
						panic(errLauncherKilled)
					}
				}
				more = w.journey(func(moment) {}) > 0
				w.check(draft)
			})
		})
		if n > 200 {
			t.Fatal("the journey has no end")
		}
	}
}

// check fails if anything was lost or done twice. draft is the draft in the ledger when the launcher was killed.
func (w *world) check(draft string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := []string{"entered", "[m-1]", "[m-2]"}; !slices.Equal(got, w.said) {
		w.t.Errorf("said %q, want %q", w.said, got)
	}
	if draft != "" && strings.Count(w.program.composer, "draft") != 1 {
		w.t.Errorf("at the prompt is %q, want the draft once", w.program.composer)
	}
	if w.session.State != ledger.RelayLocal || w.handoff.At != ledger.AtTerminal {
		w.t.Errorf("session %s, handoff %+v; want local", w.session.State, w.handoff)
	}
}

// A prompt that was entered and not run when everything was killed is at the prompt of the next start.
func TestEnteredBeforeTheCrash(t *testing.T) {
	play(t, func(w *world) {
		w.lag = time.Hour
		ended := make(chan bool, 1)
		w.runUntilKilled(func(moment) {}, ended)
		w.until("at the terminal", w.atTerminal)
		w.types("entered\r")
		w.write = func(int) { panic(errLauncherKilled) }
		w.wish(ledger.AtTerminal, false)
		if !<-ended {
			t.Fatal("it was not killed")
		}
		w.write = nil
		synctest.Wait()
		w.run()
		w.until("at the terminal", w.atTerminal)
		if w.program.composer != "entered" {
			t.Errorf("at the prompt is %q, want what was entered", w.program.composer)
		}
	})
}
