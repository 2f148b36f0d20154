package claude_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/claude"
	"teambridge/relay/claude/simchild"
	"teambridge/teams"
)

func messages(texts ...string) iter.Seq[claude.Message] {
	return func(yield func(claude.Message) bool) {
		for _, text := range texts {
			if !yield(claude.Message{Text: text}) {
				return
			}
		}
	}
}

func TestQuery(t *testing.T) {
	simulated(t, func(t *testing.T, v teams.Version) {
		o, state := sim(t, simchild.Script{Version: v})
		var answers []string
		for e, err := range claude.Query(within(t), o, messages("one", "two", "FAIL", "SLEEP:0.05 three")) {
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := e.Payload.(claude.Result); ok {
				answers = append(answers, r.Text)
			}
		}
		want := []string{"ACK: one", "ACK: two", "API Error: 400 simulated", "ACK: SLEEP:0.05 three"}
		if !slices.Equal(answers, want) {
			t.Errorf("got %q, want %q", answers, want)
		}
		worked(t, state, map[string]int{"one": 1, "two": 1, "SLEEP:0.05 three": 1})
	})
}

func TestQueryEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script simchild.Script
		input  iter.Seq[claude.Message]
		want   error
		events bool // some came before
	}{
		{"the process dies", simchild.Script{Faults: []simchild.Fault{{At: simchild.Echoed, Match: "two", Do: simchild.Die}}}, messages("one", "two"), nil, true},
		{"it does not start well", simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit}}}, messages("one"), nil, false},
		{"a message that is none", simchild.Script{}, messages("one", " "), claude.ErrInvalid, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o, _ := sim(t, test.script)
			var last error
			events := 0
			for _, err := range claude.Query(within(t), o, test.input) {
				if last != nil {
					t.Error("it went on behind an error")
				}
				if last = err; err == nil {
					events++
				}
			}
			var exit *claude.ExitError
			if test.want == nil && !errors.As(last, &exit) || test.want != nil && !errors.Is(last, test.want) {
				t.Errorf("got %v, want %v or an exit", last, test.want)
			}
			if (events > 0) != test.events {
				t.Errorf("got %d events before", events)
			}
		})
	}
	t.Run("nothing to say", func(t *testing.T) {
		t.Parallel()
		o, _ := sim(t, simchild.Script{})
		for e, err := range claude.Query(within(t), o, nil) {
			t.Errorf("got %+v, %v, want nothing", e, err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		t.Parallel()
		n := 0
		for _, err := range claude.Query(within(t), claude.Options{}, nil) {
			if n++; !errors.Is(err, claude.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
		if n != 1 {
			t.Errorf("got %d values, want one error", n)
		}
	})
}

// TestQueryIsLeft ends the process, also while its input waits for something to say.
func TestQueryIsLeft(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{})
	quiet := make(chan struct{})
	defer close(quiet)
	input := func(yield func(claude.Message) bool) {
		if yield(claude.Message{Text: "one"}) {
			<-quiet
		}
	}
	for e, err := range claude.Query(within(t), o, input) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.Payload.(claude.Result); ok {
			break
		}
	}
	all, err := simchild.Log(state)
	if err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.Kind != "exit" {
		t.Errorf("last the process did: got %s, want its exit", last.Kind)
	}
}

func TestQueryIsCancelled(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{IgnoreTerm: true})
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	var last error
	for e, err := range claude.Query(ctx, o, messages("SLEEP:60 "+strings.Repeat("x", 10))) {
		if _, ok := e.Payload.(claude.Init); ok {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || time.Since(began) > 30*time.Second {
		t.Errorf("after %v: got %v, want the context's error at once", time.Since(began), last)
	}
	cancel()
}
