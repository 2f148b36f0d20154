package terminal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/relay/standin"
	"teambridge/relay/terminal"
	"teambridge/teams"
)

// Claude Code takes each text whole, as a prompt of its own, also those of which its composer shows a part or a mark.
func TestRealDeliver(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home := standin.NewHome(t, nil)
		claude := standin.StartTerminal(t, v, home)
		panes, err := terminal.List(t.Context(), claude.Socket)
		if err != nil || len(panes) != 1 {
			t.Fatalf("List: %v, %v", panes, err)
		}
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
			m := terminal.Message{Nonce: fmt.Sprintf("3f2a9c0d11%02d", i), From: "worker", Text: text}
			o, err := terminal.Deliver(t.Context(), panes[0].Ref, terminal.Claude, m, terminal.Steps{})
			if err != nil || o.State != terminal.Confirmed {
				t.Fatalf("%.20q: %+v, %v; the screen:\n%s", text, o, err, claude.Screen())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := home.API.Wait(ctx, func(r standin.Request) bool { return !r.Side && r.Has(m.Nonce) })
			if err != nil {
				t.Fatalf("%.20q: %v", text, err)
			}
			// What Claude Code itself does to a prompt: tabs become spaces, and newer versions compose accents.
			same := strings.NewReplacer("\t", "    ", "e\u0301", "é")
			if got, want := same.Replace(r.Text()), same.Replace(strings.TrimSpace(m.Line())); !strings.Contains(got, want) {
				t.Errorf("got %+.300q, want %+.300q", got, want)
			}
		}
	})
}
