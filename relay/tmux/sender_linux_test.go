package tmux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/flock"
)

// order is what a sender does, which is a process of its own. Its points are before and after each step.
type order struct {
	Ref      Ref
	Messages []Input
	Lock     string // a file; held for each message
	Log      string // a file for the steps that it has committed
}

func runSender(o order) error {
	step := func(name string) {
		killtest.At("before " + name)
		f, err := os.OpenFile(o.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(name + "\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			panic(err)
		}
		killtest.At("after " + name)
	}
	for _, m := range o.Messages {
		unlock, err := flock.Lock(context.Background(), o.Lock)
		if err != nil {
			return err
		}
		asked, limits := false, patient
		limits.proof = 0
		d := delivery{ref: o.Ref, profile: Claude, message: m, timing: limits, steps: Steps{
			Pasting: func(context.Context) error { step("paste"); return nil },
			Entered: func(context.Context) error { step("enter"); return nil },
			Submitted: func(context.Context) (bool, error) {
				if !asked {
					asked = true
					step("proof")
				}
				return false, nil
			},
		}}
		out, err := d.deliver(context.Background())
		if err := errors.Join(err, unlock()); err != nil || out.State != Confirmed {
			return fmt.Errorf("%+v, %w", out, err)
		}
	}
	return nil
}

// Callers hold a lock for the pane. With it, messages of eight processes arrive whole, each with its Enter.
func TestEightSenders(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	const senders, messages = 8, 2
	var wg sync.WaitGroup
	want := map[string]bool{}
	for sender := range senders {
		o := order{Ref: a.ref, Lock: a.socket("lock"), Log: a.socket(fmt.Sprintf("log%d", sender))}
		for i := range messages {
			m := message(fmt.Sprintf("message %d of %d\n%s", i, sender, strings.Repeat("text ", 200)))
			o.Messages = append(o.Messages, m)
			want[m.Line()] = true
		}
		wg.Go(func() {
			if out, err := killtest.Command(t.Context(), "sender", o).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	a.waitCount("submit", senders*messages)
	got := a.all("submit")
	for _, line := range got {
		if !want[line] {
			t.Errorf("submitted %q, which nobody sent, or twice", line)
		}
		delete(want, line)
	}
	if len(want) > 0 {
		t.Errorf("not submitted: %v", want)
	}
}

// A sender that is killed in any step is recovered as the package says: once the paste is committed, by Continue alone.
func TestKilledInEachStepNeverPastesTwice(t *testing.T) {
	t.Parallel()
	for kill, want := range map[string]Result{
		"before paste": Confirmed,
		"after paste":  Unconfirmed, // nothing was pasted, but nobody can know
		"before enter": Confirmed,
		"after enter":  Confirmed,
		"before proof": Unconfirmed, // submitted: the transcript would say so
		"after proof":  Unconfirmed,
	} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t)
			m := message("several\nlines\nand more")
			o := order{Ref: a.ref, Messages: []Input{m}, Lock: a.socket("lock"), Log: a.socket("log")}
			killtest.Killed(t, killtest.KillAt(killtest.Command(t.Context(), "sender", o), kill))
			if strings.HasSuffix(kill, "proof") {
				a.wait("submit")
				a.shows(nothing, m)
			}
			recovered, err := a.deliverOrContinue(o, m)
			if err != nil || recovered.State != want {
				t.Errorf("got %+v, %v; want %s", recovered, err, want)
			}
			if n := len(a.all("pasted")); n > 1 || n == 0 && kill != "after paste" {
				t.Errorf("pasted %d times", n)
			}
			if kill == "after paste" {
				a.untouched()
			} else {
				a.wait("submit")
				a.submitted(m)
			}
		})
	}
}

// deliverOrContinue is what a caller does with a message that another process began.
func (a *agent) deliverOrContinue(o order, m Input) (Outcome, error) {
	log, err := os.ReadFile(o.Log)
	switch {
	case err == nil && strings.Contains(string(log), "enter"):
		return a.resumeEntered(m, patient)
	case err == nil && strings.Contains(string(log), "paste"):
		return a.resume(m, Steps{}, patient)
	}
	return a.deliver(m, Steps{}, patient)
}
