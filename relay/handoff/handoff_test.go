package handoff

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/mode"
	"teambridge/relay/terminal"
)

// A prompt takes the session to the relay after the turn, and the key brings it back, with the draft.
func TestThereAndBack(t *testing.T) {
	play(t, func(w *world) {
		stop := w.run()
		w.until("at the terminal", w.atTerminal)
		w.types("first\r")
		w.until("the turn runs", func() bool { return len(w.said) == 1 })
		w.types("half a tho")
		w.prompt("[m-1]")
		time.Sleep(w.turn / 2)
		w.mu.Lock()
		if w.program == nil || w.handoff.Reason != "the turn is not over" || w.handoff.To != ledger.AtRelay {
			t.Errorf("handoff %+v, want held until the turn is over", w.handoff)
		}
		w.mu.Unlock()
		w.until("answered", func() bool { return w.times("[m-1]") == 1 })
		w.mu.Lock()
		if h := w.handoff; h.At != ledger.AtRelay || h.To != "" || h.Reason != "" || h.Draft != "half a tho" {
			t.Errorf("handoff %+v, want at the relay, with the draft", h)
		}
		w.mu.Unlock()
		w.press()
		w.until("back at the terminal", w.atTerminal)
		w.mu.Lock()
		if s := w.starts[len(w.starts)-1]; s.Session != "one" || s.Prefill != "half a tho" {
			t.Errorf("started %+v, want the session and the draft", s)
		}
		w.mu.Unlock()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if w.session.State != ledger.RelayEnded || w.handoff.Draft != "half a tho" {
			t.Errorf("session %s, draft %q; want ended, and the draft kept", w.session.State, w.handoff.Draft)
		}
		if got := []string{"first", "[m-1]"}; !slices.Equal(got, w.said) {
			t.Errorf("said %q, want %q", w.said, got)
		}
	})
}

// Prompts that wait at the return do not take the session away again. They go first with the next switch.
func TestWhatWaitedWaitsOn(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.prompt("[m-1]")
		w.prompt("[m-2]")
		w.until("at the relay", w.atRelay)
		w.press() // in the first turn
		w.until("back", w.atTerminal)
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.program == nil || w.times("[m-1]") != 1 || w.times("[m-2]") != 0 {
			t.Errorf("said %q, want the first, and the person at the terminal", w.said)
		}
		w.mu.Unlock()
		w.prompt("[m-3]")
		w.until("all answered", func() bool { return len(w.said) == 3 })
		if got := strings.Join(w.said, " "); got != "[m-1] [m-2] [m-3]" {
			t.Errorf("said %s, want them in order", got)
		}
	})
}

// A switch is refused, even a forced one, if the end of the program would destroy something.
func TestObstacle(t *testing.T) {
	play(t, func(w *world) {
		w.obstacle = "its teammate worker is alive"
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.wish(ledger.AtRelay, true)
		w.until("refused", func() bool { return w.handoff.Answered == 1 })
		w.mu.Lock()
		if w.handoff.Refused != w.obstacle || w.handoff.At != ledger.AtTerminal {
			t.Errorf("handoff %+v, want refused", w.handoff)
		}
		w.mu.Unlock()
		w.press()
		w.press()
		w.prompt("[m-1]")
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.program == nil || w.handoff.Reason != w.obstacle || !strings.HasPrefix(w.notices[len(w.notices)-1], "⧖ 1 message waits: its teammate worker is alive · ") {
			t.Errorf("handoff %+v, notices %q; want held", w.handoff, w.notices)
		}
		w.obstacle = ""
		w.mu.Unlock()
		w.until("answered", func() bool { return len(w.said) == 1 })
	})
}

// Obstacles in the program's sessions before /clear count, too.
func TestObstacleAfterClear(t *testing.T) {
	play(t, func(w *world) {
		w.obstacle = "its teammate worker is alive"
		w.run()
		w.until("at the terminal", w.atTerminal)
		for _, session := range []string{"two", "three"} {
			w.mu.Lock()
			w.cleared = session
			w.mu.Unlock()
			w.until(session, func() bool { return w.session.ID == session })
		}
		w.prompt("[m-1]")
		w.until("held", func() bool { return w.handoff.Reason == w.obstacle })
		if want := []string{"three", "one", "two"}; !slices.Equal(w.asked, want) {
			t.Errorf("asked about %q, want %q", w.asked, want)
		}
		w.obstacle = ""
		w.until("answered", func() bool { return len(w.said) == 1 })
	})
}

// An obstacle that comes while the draft is taken out gives the program back its keys.
func TestObstacleAtTheLastMoment(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.write = func(n int) {
			if w.obstacle == "" && w.handoff.Draft != "" { // the draft was committed
				w.obstacle = "unread messages"
				w.program.kept = []byte("d") // typed meanwhile
			}
		}
		w.types("draf")
		w.prompt("[m-1]")
		w.until("held", func() bool { return w.handoff.Reason == "unread messages" })
		w.mu.Lock()
		if w.program == nil || w.program.composer != "drafd" || w.handoff.Draft != "" {
			t.Errorf("handoff %+v, program %+v; want the person's text at the prompt", w.handoff, w.program)
		}
		w.mu.Unlock()
	})
}

// A draft that the program does not hand over holds the switch until the key is pressed again.
func TestDraftThatCannotBeTaken(t *testing.T) {
	play(t, func(w *world) {
		w.noDraft = true
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.types("precious")
		w.prompt("[m-1]")
		w.until("held", func() bool { return w.handoff.Reason == "the text at the prompt cannot be copied" })
		w.until("seen", func() bool { return strings.Contains(w.notices[len(w.notices)-1], "Ctrl-] switches now") })
		w.types(" text") // the program has it
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.program == nil || w.program.composer != "precious text" {
			t.Fatalf("program %+v, want it with the draft", w.program)
		}
		w.mu.Unlock()
		w.press()
		w.until("answered", func() bool { return len(w.said) == 1 })
	})
}

// Force ends a turn, and leaves a dialog, by Esc. Without it the switch waits for the person.
func TestForce(t *testing.T) {
	for _, what := range []string{"turn", "dialog"} {
		t.Run(what, func(t *testing.T) {
			play(t, func(w *world) {
				w.turn = time.Hour
				w.run()
				w.until("at the terminal", w.atTerminal)
				p := w.program
				if what == "turn" {
					w.types("long\r")
					w.until("the turn runs", func() bool { return len(w.said) == 1 })
				} else {
					w.mu.Lock()
					p.dialog = true
					w.mu.Unlock()
				}
				w.wish(ledger.AtRelay, false)
				w.until("held", func() bool { return w.handoff.Reason != "" })
				time.Sleep(time.Minute)
				w.mu.Lock()
				if w.program == nil || p.escs != 0 || w.handoff.Wanted != ledger.AtRelay {
					t.Errorf("%d Esc, handoff %+v; want held", p.escs, w.handoff)
				}
				w.mu.Unlock()
				w.wish(ledger.AtRelay, true)
				w.until("at the relay", w.atRelay)
				w.mu.Lock()
				defer w.mu.Unlock()
				if p.escs != 1 || w.handoff.Answered != 2 || w.handoff.Refused != "" {
					t.Errorf("%d Esc, handoff %+v; want one, and the wish granted", p.escs, w.handoff)
				}
			})
		})
	}
}

// The draft begins with a prompt that was entered and not run, and ends with text typed during the switch.
func TestEnteredAtTheLastMoment(t *testing.T) {
	play(t, func(w *world) {
		w.lag = time.Hour
		w.run()
		w.until("at the terminal", w.atTerminal)
		time.Sleep(time.Minute)
		w.types("entered\rdraft")
		w.write = func(int) {
			if w.program != nil && w.program.blocked && w.program.kept == nil {
				w.program.kept = []byte(" typed\x1b[A")
				w.write = nil
			}
		}
		w.press()
		w.until("at the relay", w.atRelay)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.handoff.Draft != "entered\ndraft typed" {
			t.Errorf("draft %q, want all that was typed", w.handoff.Draft)
		}
	})
}

// A draft that was put back and then entered is not put back again, however soon the program and the launcher are killed.
func TestEnteredDraftIsNotPutBackAgain(t *testing.T) {
	for _, want := range []string{"", "draft"} { // a prompt that was not run is back
		play(t, func(w *world) {
			w.handoff = ledger.Handoff{At: ledger.AtTerminal, Draft: "draft"}
			w.session.ID = "one"
			if want != "" {
				w.lag = time.Hour
			}
			stop := w.run()
			w.until("at the terminal", w.atTerminal)
			w.types("\r")
			w.until("run", func() bool { return want != "" || slices.Contains(w.said, "draft") })
			w.mu.Lock()
			p := w.program
			w.mu.Unlock()
			p.exit(w.exit[1])
			_ = stop() // the program was killed, or the run: whichever it notices first
			w.run()
			w.until("at the terminal again", w.atTerminal)
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.starts) != 2 || w.starts[0].Prefill != "draft" || w.starts[1].Prefill != want {
				t.Errorf("started with %+v, want %q put back", w.starts, want)
			}
		})
	}
}

// A message never widens the permissions that the person left the session with.
func TestPermissionModeGoesAlong(t *testing.T) {
	play(t, func(w *world) {
		w.left = "plan"
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.press()
		w.until("at the relay", w.atRelay)
		w.mu.Lock()
		m, err := mode.Parse(w.session.Mode)
		w.mu.Unlock()
		if got, ok := m.PermissionMode.Value(); err != nil || !ok || got != "plan" {
			t.Errorf("mode %s, %v; want plan", w.session.Mode, err)
		}
		w.mu.Lock()
		w.session.Mode = []byte(`{"model":"opus","permissionMode":"plan"}`) // a prompt set the model
		w.mu.Unlock()
		w.press()
		w.until("back", w.atTerminal)
		w.mu.Lock()
		defer w.mu.Unlock()
		if got, _ := w.starts[1].Mode.Model.Value(); got != "opus" {
			t.Errorf("started with %+v, want the model of the prompt", w.starts[1].Mode)
		}
	})
}

// A session of another process is left to that process.
func TestElsewhere(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.mu.Lock()
		w.elsewhere = 77
		w.mu.Unlock()
		w.prompt("[m-1]")
		w.until("waiting", func() bool { return len(w.printed) == 1 && strings.Contains(w.printed[0], "Process 77") })
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.remotes != 0 {
			t.Error("the relay runs beside another process")
		}
		w.elsewhere = 0
		w.mu.Unlock()
		w.until("answered", func() bool { return len(w.said) == 1 })
	})
}

// The first press waits for the turn, the second one interrupts it.
func TestKeyInterruptsTheTurn(t *testing.T) {
	play(t, func(w *world) {
		w.turn = time.Hour
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.prompt("[m-1]")
		w.until("at the relay", w.atRelay)
		time.Sleep(time.Minute)
		w.press()
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.program != nil || w.handoff.To != ledger.AtTerminal {
			t.Errorf("handoff %+v, want returning", w.handoff)
		}
		w.mu.Unlock()
		w.press()
		w.until("back", w.atTerminal)
	})
}

// The person ends the run by ending the program, with its exit status.
func TestExit(t *testing.T) {
	for status, want := range map[int]string{0: "", 1: "the agent exited with status 1", 143: ErrKilled.Error()} {
		play2(t, func(t *testing.T, w *world) {
			done := make(chan error, 1)
			go func() { done <- Run(w.t.Context(), w.options()) }()
			w.until("at the terminal", w.atTerminal)
			w.program.exit(w.exit[status])
			err := <-done
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("status %d: %v, want %q", status, err, want)
			}
			if status == 143 != errors.Is(err, ErrKilled) {
				t.Errorf("status %d: %v", status, err)
			}
			if w.session.State != ledger.RelayEnded {
				t.Errorf("status %d: session is %s, want ended", status, w.session.State)
			}
		})
	}
}

// Ctrl-C without a turn ends the run if it is pressed twice; other keys are for the view.
func TestKeysAtTheRelay(t *testing.T) {
	play(t, func(w *world) {
		done := make(chan error, 1)
		var remote *fakeRemote
		opts := w.options()
		makes := opts.Remote
		opts.Remote = func(ctx context.Context) (Remote, error) {
			r, err := makes(ctx)
			remote = r.(*fakeRemote)
			remote.stop = make(chan struct{}) // no turn
			return r, err
		}
		w.prompts = []*prompt{{seq: 1, text: "[m-1]", done: true}}
		go func() { done <- Run(w.t.Context(), opts) }()
		w.until("at the terminal", w.atTerminal)
		w.press()
		w.until("at the relay", w.atRelay)
		for _, text := range []string{"y", "\r", ctrlC} {
			w.keys <- terminal.Key{Text: text}
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if len(remote.keyed) != 2 || remote.keyed[0].Text != "y" {
			t.Errorf("the view got %v, want y and Enter", remote.keyed)
		}
		select {
		case err := <-done:
			t.Fatalf("ended by one Ctrl-C: %v", err)
		default:
		}
		w.keys <- terminal.Key{Text: ctrlC}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A program that does not end on SIGTERM is killed.
func TestStubborn(t *testing.T) {
	play(t, func(w *world) {
		w.stubborn = true
		stop := w.run()
		w.until("at the terminal", w.atTerminal)
		w.types("draft")
		w.press()
		w.until("at the relay", w.atRelay)
		if w.handoff.Draft != "draft" {
			t.Errorf("draft %q", w.handoff.Draft)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A request to move the session to where it is already is granted at once.
func TestWishesForHere(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.wish(ledger.AtTerminal, false)
		w.until("granted", func() bool { return w.handoff.Answered == 1 && w.handoff.Refused == "" })
		w.wish(ledger.AtRelay, false)
		w.until("at the relay", func() bool { return w.atRelay() && w.handoff.Answered == 2 })
		w.wish(ledger.AtRelay, false)
		w.until("granted", func() bool { return w.handoff.Answered == 3 })
		w.wish(ledger.AtTerminal, false)
		w.until("back", func() bool { return w.atTerminal() && w.handoff.Answered == 4 })
	})
}

// A turn that begins while the draft is taken out is not cut.
func TestTurnBeginsAtTheLastMoment(t *testing.T) {
	play(t, func(w *world) {
		w.lag = 5 * time.Millisecond
		w.run()
		w.until("at the terminal", w.atTerminal)
		time.Sleep(time.Minute)
		w.types("entered\r") // first, or the key may block it
		w.press()
		begun := time.Now()
		w.until("at the relay", w.atRelay)
		if took := time.Since(begun); took < w.turn || w.times("entered") != 1 {
			t.Errorf("at the relay after %s, said %q; want that after the turn", took, w.said)
		}
	})
}

// A start with waiting prompts begins at the relay, even if they had waited at the last return.
func TestStartWithPrompts(t *testing.T) {
	play(t, func(w *world) {
		w.session = ledger.Session{ID: "one", InboxKey: key}
		w.handoff = ledger.Handoff{InboxKey: key, At: ledger.AtTerminal, Draft: "draft", Returned: 1}
		w.prompt("[m-1]")
		w.run()
		w.until("answered", func() bool { return len(w.said) == 1 })
		w.mu.Lock()
		if len(w.starts) != 0 {
			t.Error("it began at the terminal")
		}
		w.mu.Unlock()
		w.press()
		w.until("at the terminal", w.atTerminal)
		if w.program.composer != "draft" {
			t.Errorf("at the prompt is %q, want the draft", w.program.composer)
		}
	})
}

// A message does not interrupt a person who types: it waits for a pause.
func TestTypingHolds(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		w.until("at the terminal", w.atTerminal)
		w.prompt("[m-1]")
		for range 100 {
			w.types("x")
			time.Sleep(500 * time.Millisecond)
		}
		w.mu.Lock()
		if w.program == nil {
			t.Error("it switched while the person typed")
		}
		w.mu.Unlock()
		w.until("answered", func() bool { return len(w.said) == 1 })
	})
}

// A request that an earlier run did not answer is refused: its sender has gone, and no session moves by itself.
func TestWishOfAnEarlierRun(t *testing.T) {
	play(t, func(w *world) {
		w.session = ledger.Session{ID: "one", InboxKey: key}
		w.handoff = ledger.Handoff{InboxKey: key, At: ledger.AtTerminal}
		w.wish(ledger.AtRelay, true)
		w.run()
		w.until("at the terminal", w.atTerminal)
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if h := w.handoff; w.program == nil || h.Answered != 1 || h.Refused == "" {
			t.Errorf("handoff %+v, want the wish refused, and the session at the terminal", h)
		}
	})
}

// After a person has ended the program, the next start does not restore the earlier draft.
func TestExitWithADraft(t *testing.T) {
	play(t, func(w *world) {
		w.session = ledger.Session{ID: "one", InboxKey: key}
		w.handoff = ledger.Handoff{InboxKey: key, At: ledger.AtTerminal, Draft: "draft"}
		done := make(chan error, 1)
		go func() { done <- Run(w.t.Context(), w.options()) }()
		w.until("at the terminal", w.atTerminal)
		w.program.exit(nil)
		if err := <-done; err != nil || w.handoff.Draft != "" {
			t.Errorf("%v, draft %q; want none", err, w.handoff.Draft)
		}
	})
}

// A run that is ended while the ledger is read keeps the draft, too.
func TestEndWhileTheLedgerIsRead(t *testing.T) {
	play(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- Run(ctx, w.options()) }()
		w.until("at the terminal", w.atTerminal)
		w.types("a draft")
		w.mu.Lock()
		w.reading = cancel
		w.mu.Unlock()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		if w.handoff.Draft != "a draft" {
			w.t.Errorf("kept %q", w.handoff.Draft)
		}
	})
}
