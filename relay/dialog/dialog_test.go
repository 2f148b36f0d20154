package dialog

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/teams/errtest"
	"teambridge/teams/flock"
)

// asking is a hook that asks, in a bubble.
type asking struct {
	Question
	over  atomic.Bool
	given []agent.Decision
	fails error // of giving
	err   error
	ended chan struct{}
}

func ask(t *testing.T, ctx context.Context, state string, pid int, use agent.Use) *asking {
	t.Helper()
	a := &asking{Question: NewQuestion(use), ended: make(chan struct{})}
	a.PID = pid
	go func() {
		defer close(a.ended)
		a.err = Ask(ctx, state, a.Question, a.over.Load, func(d agent.Decision) error {
			a.given = append(a.given, d)
			return a.fails
		})
	}()
	synctest.Wait()
	return a
}

func (a *asking) answer(d agent.Decision) fleet.Answer {
	return fleet.Answer{Question: a.ID, Digest: a.Digest, Allow: d.Allow, Reason: d.Reason, Session: d.Session, Answers: d.Answers}
}

func open(t *testing.T, state string) (ids []string) {
	t.Helper()
	list, err := Open(state)
	must(t, err)
	for _, q := range list {
		ids = append(ids, q.ID)
	}
	return ids
}

var touch = agent.Use{Kind: agent.AsksPermission, Tool: "Bash", Input: json.RawMessage(`{"command":"touch x"}`), Session: []string{"Bash(touch *)"}}

func TestAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		a := ask(t, t.Context(), state, 1, touch)
		if got := open(t, state); len(got) != 1 || got[0] != a.ID {
			t.Fatalf("open: %q", got)
		}
		other := a.answer(agent.Decision{Allow: true})
		other.Digest = "another"
		if err := Answer(t.Context(), state, other); !errors.Is(err, fleet.ErrOtherInput) {
			t.Errorf("another input: %v", err)
		}
		if err := Answer(t.Context(), state, a.answer(agent.Decision{Allow: true, Session: "Bash"})); !errors.Is(err, fleet.ErrAnswer) {
			t.Errorf("another rule: %v", err)
		}
		want := agent.Decision{Allow: true, Session: "Bash(touch *)"}
		must(t, Answer(t.Context(), state, a.answer(want)))
		<-a.ended
		if len(a.given) != 1 || a.given[0].Session != want.Session || !a.given[0].Allow || a.err != nil {
			t.Errorf("given %+v, %v", a.given, a.err)
		}
		if got := open(t, state); len(got) != 0 {
			t.Errorf("still open: %q", got)
		}
		if err := Answer(t.Context(), state, a.answer(want)); !errors.Is(err, fleet.ErrAnswered) || !strings.Contains(err.Error(), allowed) {
			t.Errorf("a second time: %v", err)
		}
		if was, known := Became(state, a.ID[:4]); !known || was != allowed {
			t.Errorf("became %q, %t", was, known)
		}
		must(t, os.WriteFile(filepath.Join(state, "other"+outcome), []byte("a secret"), 0o600))
		for _, id := range []string{"../other", "", ".", "/", a.ID[:3]} {
			if was, known := Became(state, id); known {
				t.Errorf("%q became %q", id, was)
			}
		}
		unknown := a.answer(want)
		unknown.Question = "00000000-0000-4000-8000-000000000000"
		if err := Answer(t.Context(), state, unknown); !errors.Is(err, fleet.ErrNoQuestion) {
			t.Errorf("an unknown one: %v", err)
		}
	})
}

// Of several answers at once, one counts.
func TestAnswerOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		a := ask(t, t.Context(), state, 1, touch)
		var done, late atomic.Int32
		for n := range 8 {
			go func() {
				switch err := Answer(t.Context(), state, a.answer(agent.Decision{Allow: n%2 == 0})); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, fleet.ErrAnswered):
					late.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		<-a.ended
		time.Sleep(time.Second)
		if done.Load() != 1 || late.Load() != 7 || len(a.given) != 1 {
			t.Errorf("%d answered, %d were too late, and %d were given", done.Load(), late.Load(), len(a.given))
		}
	})
}

// A question can end without an answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, state string, a *asking, cancel context.CancelFunc){
		"answered at the terminal": func(_ *testing.T, _ string, a *asking, _ context.CancelFunc) { a.over.Store(true) },
		"ended":                    func(_ *testing.T, _ string, _ *asking, cancel context.CancelFunc) { cancel() },
		"another dialog": func(t *testing.T, state string, _ *asking, _ context.CancelFunc) {
			other := ask(t, t.Context(), state, 2, touch) // of another session
			time.Sleep(time.Second)
			if got := open(t, state); len(got) != 2 {
				t.Errorf("open: %q", got)
			}
			other.over.Store(true)
			<-other.ended
			next := ask(t, t.Context(), state, 1, touch)
			t.Cleanup(func() { <-next.ended })
			time.Sleep(time.Second)
			if got := open(t, state); len(got) != 1 || got[0] != next.ID {
				t.Errorf("open: %q, want %s", got, next.ID)
			}
			next.over.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				state := t.TempDir()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				a := ask(t, ctx, state, 1, touch)
				end(t, state, a, cancel)
				<-a.ended
				if len(a.given) != 0 || a.err != nil {
					t.Errorf("given %+v, %v", a.given, a.err)
				}
				if err := Answer(t.Context(), state, a.answer(agent.Decision{})); !errors.Is(err, fleet.ErrAnswered) || !strings.Contains(err.Error(), elsewhere) {
					t.Errorf("an answer: %v", err)
				}
			})
		})
	}
}

// An answer counts only if the session got it.
func TestAnswerTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		fails := ask(t, t.Context(), state, 1, touch)
		fails.fails = errors.New("broken pipe")
		if err := Answer(t.Context(), state, fails.answer(agent.Decision{Allow: true})); !errors.Is(err, fleet.ErrAnswered) {
			t.Errorf("an answer that could not be given: %v", err)
		}
		<-fails.ended
		if fails.err == nil {
			t.Error("nobody said that it could not be given")
		}
		// The person at the terminal answers while the other answer is on its way.
		late := ask(t, t.Context(), state, 1, touch)
		late.over.Store(true)
		if err := Answer(t.Context(), state, late.answer(agent.Decision{Allow: true})); !errors.Is(err, fleet.ErrAnswered) || len(late.given) != 0 {
			t.Errorf("an answer after that at the terminal: %v, given %+v", err, late.given)
		}
		<-late.ended
	})
}

// A hook that was killed leaves no question.
func TestKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		q := NewQuestion(touch)
		must(t, os.MkdirAll(filepath.Join(state, dirName), 0o700))
		data, err := json.Marshal(q)
		must(t, err)
		must(t, os.WriteFile(place(state, q.ID)+asked, data, 0o600))
		unlock, _, err := flock.TryLock(place(state, q.ID) + locked)
		must(t, err)
		if got := open(t, state); len(got) != 1 {
			t.Fatalf("open: %q", got)
		}
		a := asking{Question: q}
		answered := make(chan error, 1)
		go func() { answered <- Answer(t.Context(), state, a.answer(agent.Decision{Allow: true})) }()
		synctest.Wait()
		must(t, unlock())
		if err := <-answered; err == nil || errors.Is(err, fleet.ErrAnswered) || !strings.Contains(err.Error(), "killed") {
			t.Errorf("an answer to one that was killed: %v", err)
		}
		if got := open(t, state); len(got) != 0 {
			t.Errorf("open: %q", got)
		}
		// An hour later, the next question clears up.
		must(t, Turn(state, true))
		time.Sleep(keptFor + time.Minute)
		files, err := os.ReadDir(filepath.Join(state, dirName))
		must(t, err)
		for _, f := range files { // their times are not from the bubble's clock
			must(t, os.Chtimes(filepath.Join(state, dirName, f.Name()), time.Time{}, time.Now().Add(-keptFor-time.Second)))
		}
		next := ask(t, t.Context(), state, 1, touch)
		next.over.Store(true)
		<-next.ended
		files, err = os.ReadDir(filepath.Join(state, dirName))
		must(t, err)
		if len(files) != 2 || !IsOn(state) {
			t.Errorf("left: %v", files)
		}
		must(t, Turn(state, false))
		if must(t, Turn(state, false)); IsOn(state) {
			t.Error("it is still on")
		}
	})
}

var must = errtest.Must
