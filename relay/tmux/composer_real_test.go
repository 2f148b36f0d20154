package tmux

import (
	"context"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// TestRealComposer: the screens of the real program are read rightly as it goes from state to state.
func TestRealComposer(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// The model answers a text with HOLD in it once release is closed.
		release := make(chan struct{})
		home := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
			if r.Has("HOLD") && !r.Side {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return standin.Script(ctx, r)
		}))
		agent := standin.StartPane(t, v, home)

		screen := func() string {
			t.Helper()
			screen, err := agent.Run(ctx, nil, "capture-pane", "-p", "-e", "-t", "%0")
			must(t, err)
			return screen
		}
		// until waits for a state, and gives up after a while.
		until := func(limit time.Duration, match func(Composer) bool) (Composer, bool) {
			t.Helper()
			for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
				c := Claude.Read(screen())
				if ok := match(c); ok || time.Now().After(end) {
					return c, ok
				}
			}
		}
		shows := func(what string, match func(Composer) bool) {
			t.Helper()
			if c, ok := until(time.Minute, match); !ok {
				t.Fatalf("want %s, got %+v", what, c)
			}
			if got := Generic.Read(screen()).State(); got != Unknown {
				t.Errorf("%s: generic: %s", what, got)
			}
		}
		// press presses a key until it has an effect. Some versions lose keys while they start or redraw.
		press := func(key, what string, match func(Composer) bool) {
			t.Helper()
			before, _ := until(0, match)
			for range 10 {
				must(t, agent.Keys(ctx, key))
				if _, changed := until(20*time.Second, func(c Composer) bool { return c != before }); changed {
					break
				}
			}
			shows(what, match)
		}
		typed := func(text string, match func(Composer) bool) {
			t.Helper()
			must(t, agent.Keys(ctx, "-l", text))
			shows(text, match)
		}
		state := func(want Reason) func(Composer) bool { return func(c Composer) bool { return c.State() == want } }
		draft := func(want string) func(Composer) bool {
			return func(c Composer) bool { return c.State() == Draft && c.Draft == want }
		}

		shows("an empty prompt", state(Empty))
		typed("my draft", draft("my draft"))
		press("C-s", "an empty prompt and a stashed draft", func(c Composer) bool { return c.State() == Empty && c.Stashed })
		typed("HOLD one", draft("HOLD one"))
		press("Enter", "the draft again, and work", func(c Composer) bool { return draft("my draft")(c) && c.Busy && !c.Stashed })
		press("C-u", "work", state(Busy))
		typed("next", draft("next"))
		press("Enter", "a queued message", func(c Composer) bool { return c.State() == Busy && c.Queued > 0 })
		close(release)
		shows("an empty prompt after work", func(c Composer) bool { return c.State() == Empty && c.Queued == 0 })

		question := standin.CallLine("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": "Which?", "header": "Pick", "multiSelect": false,
			"options": []any{map[string]string{"label": "One", "description": "1"}, map[string]string{"label": "Two", "description": "2"}},
		}}})
		typed(question, state(Draft))
		press("Enter", "a question", func(c Composer) bool { return c.State() == Dialog && c.Dialog == "Which?" })
		press("Escape", "an empty prompt after the question", state(Empty))
	})
}
