package interop

import (
	"fmt"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A user with three sessions and no team can list and ask them, and after a typo the error names them. The same holds
// with a team besides. A session that is killed and resumed keeps the name that its user gave it.
func TestRealFirstHour(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSessionUser(t, v)
		idle := func(terminal *standin.Terminal) api.Session {
			t.Helper()
			return p.sessionThat(p.ctx, func(s api.Session) bool { return s.PID == terminal.Pid() && s.Word == api.WordIdle })
		}
		names := []string{idle(p.terminal).Name}
		for range 2 {
			names = append(names, idle(standin.StartSession(t, v, p.home)).Name)
		}
		looks := func(when string) {
			t.Helper()
			for _, args := range [][]string{nil, {"status"}} {
				if out := p.must(args...); strings.Count("\n"+out, "\n"+names[0]+" ")+strings.Count(out, "\n"+names[1]+" ")+strings.Count(out, "\n"+names[2]+" ") != 3 {
					t.Errorf("%s, %q does not show %q once each:\n%s", when, args, names, out)
				}
			}
			if out := p.must("inbox"); out != "" {
				t.Errorf("%s, the inbox is not empty:\n%s", when, out)
			}
			for i, name := range names {
				text := fmt.Sprintf("[%s %d]", when, i)
				if a := decoded[api.Answered](t, p.must("ask", name, text, "--json")); !strings.HasPrefix(a.Text, "ACK") || a.Sent.Member != name {
					t.Errorf("ask %s %s: %+v", name, text, a)
				}
				p.once(text)
			}
			typo := names[0][:1] + names[0][2:]
			if status, _, errs := p.run("ask", typo, "hello"); status != api.ExitNotFound || !strings.Contains(errs, typo) || !strings.Contains(errs, names[0]) {
				t.Errorf("%s, ask %s: %d, %s", when, typo, status, errs)
			}
		}
		looks("alone")

		first := idle(p.terminal)
		p.must("name", names[0], "backend")
		if err := p.terminal.Kill(); err != nil {
			t.Fatal(err)
		}
		if s := idle(standin.StartSession(t, v, p.home, "--resume", first.Session)); s.As != "backend" || s.Session != first.Session {
			t.Errorf("resumed, %s is %+v", first.Session, s)
		}
		names[0] = "backend"

		p.home.Extra = append(p.home.Extra, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")
		if s := idle(standin.StartSession(t, v, p.home)); s.Team == "" {
			t.Fatalf("the fourth session leads no team: %+v", s)
		}
		looks("beside a team")
	})
}
