package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/relay/standin"
	"teambridge/relay/wire"
)

// The transcript of an agent in a real team has each message that it was given, also in the
// middle of a turn, and what it did.
func TestRealTranscriptOfAMember(t *testing.T) {
	eachTeam(t, func(t *testing.T, u *user) {
		ctx := deadline(t, 3*time.Minute)
		given := func(marker string) {
			t.Helper()
			if err := u.team.API.WaitCount(ctx, u.team.Member, marker, 1); err != nil {
				t.Fatalf("%v\n%s", err, u.team.Lead.Screen())
			}
		}
		u.must("send", u.team.Member, "<m-0>\n"+standin.CallLine("Bash", map[string]string{"command": "echo hi", "description": "d"}))
		given("<m-0>")
		u.must("send", u.team.Member, "<m-1> SLEEP:3\n"+standin.CallLine("Bash", map[string]string{"command": "echo ho", "description": "d"}))
		given("<m-1>")
		u.must("send", u.team.Member, "<m-2>")
		u.must("send", u.team.Member, "<m-3>")
		given("<m-3>")
		u.must("send", u.team.Member, "<m-4>")
		given("<m-4>")
		var out string
		var texts, titles []string
		// It is written a little later than it was said.
		for {
			out, texts, titles = u.must("transcript", u.team.Member, "--json"), nil, nil
			open := map[string]int{}
			for line := range strings.Lines(out) {
				var e wire.Envelope
				if err := e.UnmarshalJSON([]byte(line)); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				switch ev := e.Event.(type) {
				case *wire.Text:
					if e.Role == wire.RoleUser {
						texts = append(texts, ev.Text)
					}
				case *wire.ToolCallStart:
					titles = append(titles, ev.Title)
					open[ev.Call]++
				case *wire.ToolCallEnd:
					open[ev.Call]--
				case *wire.TurnStart:
					open[*e.Turn]++
				case *wire.TurnEnd:
					open[*e.Turn]--
				}
			}
			all := strings.Join(texts, "\n")
			paired := true
			for _, n := range open {
				paired = paired && n == 0
			}
			if strings.Contains(all, "<m-4>") && paired {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("the transcript does not end with the last message and the end of its turn: %v\n%s", open, out)
			case <-time.After(100 * time.Millisecond):
			}
		}
		all := strings.Join(texts, "\n")
		for i := range 5 {
			if n := strings.Count(all, fmt.Sprintf("<m-%d>", i)); n != 1 {
				t.Errorf("<m-%d> is there %d times, want once:\n%s", i, n, all)
			}
		}
		for _, want := range []string{"ran `echo hi`", "ran `echo ho`"} {
			if n := strings.Count(strings.Join(titles, "\n"), want); n != 1 {
				t.Errorf("%s is there %d times, want once: %q", want, n, titles)
			}
		}
		// That of the lead, which is at work or waits, is read the same way.
		u.must("transcript", "lead", "--json")
	})
}
