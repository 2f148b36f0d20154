package tmux_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/relay/tmux"
	"teambridge/teams"
)

var errStop = errors.New("of the test")

func startClaude(t *testing.T, v teams.Version) (*standin.Home, *standin.Terminal, tmux.Ref) {
	t.Helper()
	home := standin.NewHome(t, nil)
	claude := standin.StartTerminal(t, v, home)
	panes, err := tmux.List(t.Context(), claude.Socket)
	if err != nil || len(panes) != 1 {
		t.Fatalf("List: %v, %v", panes, err)
	}
	return home, claude, panes[0].Ref
}

// Claude Code takes each text whole, as a prompt of its own, also if its composer shows only a part or a mark.
func TestRealDeliver(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home, claude, pane := startClaude(t, v)
		for i, text := range []string{
			`ends with \;`,
			"two\n  lines\n",
			"a\tb\n\n\tthree\nand more",
			strings.Repeat("line\n", 300),
			strings.Repeat("0123456789 ", 300),
			strings.Repeat("x", 8100),
			"Grüße, e\u0301, 日本語, Ελληνικά, עברית, العربية, हिन्दी, ไทย, 한국어, 👍 👩‍👩‍👧 🏳️‍🌈",
			"$HOME `id` $(id) \"q\" 'q' | & > < ~ * ? [a] {b} #{pid} %s \\n",
		} {
			m := tmux.Input{Nonce: fmt.Sprintf("3f2a9c0d11%02d", i), From: "worker", Text: text}
			o, err := tmux.Deliver(t.Context(), pane, tmux.Claude, m, tmux.Steps{})
			if err != nil || o.State != tmux.Confirmed {
				t.Fatalf("%.20q: %+v, %v; the screen:\n%s", text, o, err, claude.Screen())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := home.API.Wait(ctx, func(r standin.Request) bool { return !r.Side && r.Has(m.Nonce) })
			if err != nil {
				t.Fatalf("%.20q: %v", text, err)
			}
			// Claude Code itself changes a prompt: tabs become spaces, and accents are composed.
			same := strings.NewReplacer("\t", "    ", "e\u0301", "é")
			if got, want := same.Replace(r.Text()), same.Replace(strings.TrimSpace(m.Line())); !strings.Contains(got, want) {
				t.Errorf("got %+.300q, want %+.300q", got, want)
			}
		}

		// A delivery that did not reach Enter is continued, also if the composer shows a mark for the text.
		for i, text := range []string{"hello", strings.Repeat("line\n", 30)} {
			m := tmux.Input{Nonce: fmt.Sprintf("3f2a9c0d22%02d", i), Text: text}
			stop := tmux.Steps{Entered: func(context.Context) error { return errStop }}
			if o, err := tmux.Deliver(t.Context(), pane, tmux.Claude, m, stop); !errors.Is(err, errStop) || !o.Pasted {
				t.Fatalf("got %+v, %v", o, err)
			}
			if o, err := tmux.Continue(t.Context(), pane, tmux.Claude, m, i > 0, tmux.Steps{}); err != nil || o.State != tmux.Confirmed {
				t.Fatalf("Continue: %+v, %v; the screen:\n%s", o, err, claude.Screen())
			}
		}
	})
}

// A draft is put aside for a message, and comes back; so does a prompt that an urgent message interrupted.
func TestRealDraftComesBack(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home, claude, pane := startClaude(t, v)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		given := func(marker string) standin.Request {
			t.Helper()
			r, err := home.API.Wait(ctx, func(r standin.Request) bool { return !r.Side && r.Has(marker) })
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		draft := func(want string) {
			t.Helper()
			for {
				c, err := pane.Composer(ctx, tmux.Claude)
				if err != nil {
					t.Fatalf("no draft %q: %v; the screen:\n%s", want, err, claude.Screen())
				}
				if c.Draft == want {
					return
				}
			}
		}
		if _, err := claude.Run(ctx, nil, "send-keys", "-l", "my own draft"); err != nil {
			t.Fatal(err)
		}
		draft("my own draft")
		m := tmux.Input{Nonce: "3f2a9c0d0001", Text: "first"}
		if o, err := tmux.Deliver(ctx, pane, tmux.Claude, m, tmux.Steps{}); err != nil || o.Reason != tmux.Draft || o.State != tmux.NotSent {
			t.Fatalf("a draft: %+v, %v", o, err)
		}
		m.SaveDraft = true
		if o, err := tmux.Deliver(ctx, pane, tmux.Claude, m, tmux.Steps{}); err != nil || o.State != tmux.Confirmed || !o.Stashed {
			t.Fatalf("with SaveDraft: %+v, %v; the screen:\n%s", o, err, claude.Screen())
		}
		if got := strings.TrimSpace(given(m.Nonce).Text()); !strings.HasSuffix(got, m.Line()) {
			t.Errorf("got %q, want %q", got, m.Line())
		}
		draft("my own draft")

		// The agent works on a prompt without output so far.
		for range len("my own draft") {
			if err := claude.Keys(ctx, "BSpace"); err != nil {
				t.Fatal(err)
			}
		}
		draft("")
		if err := claude.Prompt(ctx, "SLEEP:300 long"); err != nil {
			t.Fatal(err)
		}
		given("SLEEP:300 long")
		m = tmux.Input{Nonce: "3f2a9c0d0002", Text: "second", Policy: tmux.Urgent}
		o, err := tmux.Deliver(ctx, pane, tmux.Claude, m, tmux.Steps{})
		if err != nil || o.State != tmux.Confirmed || !o.Escaped {
			t.Fatalf("urgent: %+v, %v; the screen:\n%s", o, err, claude.Screen())
		}
		given(m.Nonce)
		if o.Stashed {
			draft("SLEEP:300 long")
		}
	})
}
