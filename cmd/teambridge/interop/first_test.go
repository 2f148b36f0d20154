package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// firstHour is what a user types who has three sessions, with what has to be printed. NAME is the name of a session,
// TYPO the same with a letter missing, and TEXT a message to it that an earlier line has sent.
var firstHour = []struct {
	command   string
	status    int
	out, errs string // expressions; an empty one means that nothing is printed
}{
	{"inbox", 0, ``, `^note: nothing needs you\n$`},
	{"ask NAME TEXT", 0, `^ACK: .*TEXT`, ``},
	{"ask TYPO TEXT", api.ExitNotFound, ``, `"TYPO"(?s).*NAME`},
	{"send TYPO TEXT", api.ExitNotFound, ``, `"TYPO"(?s).*NAME`},
	{"status TYPO", api.ExitNotFound, ``, `"TYPO"(?s).*NAME`},
	{"wait NAME", 0, `(?m)^NAME +idle `, ``},
	{"history --with NAME", 0, `(?m)^\S+  you → NAME  .*\n    TEXT\n    done, .*\n\S+  NAME answers  .*\n    ACK: `, ``},
	{"search TEXT", 0, `you → NAME(?s).*TEXT`, ``},
	{"transcript NAME", 0, `(?m)^\S+  you\n    TEXT\n\S+  NAME\n    ACK: `, ``},
	{"usage", 0, `(?m)^NAME@sessions +\d+ `, ``},
	{"tasks", 0, ``, `^note: no tasks`},
	{"read NAME", 0, ``, `^note: no messages wait for NAME\n$`},
	{"reply last TEXT", api.ExitNotFound, ``, `there is no message to you\nhint: list messages with: teambridge history\n$`},
	{"permit", api.ExitNotFound, ``, `^teambridge: no agent waits for an answer`},
	{"members", 0, `^MEMBER `, ``},
	{"doctor", 0, `(?m)takes messages on its socket$`, ``},
}

// A user with three sessions and no team can list and ask them, sees what became of it, and after a typo the error
// names them.
// The same holds with a team besides. A session that is killed and resumed keeps the name that its user gave it.
func TestRealFirstHour(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		p := newSessionUser(t, v)
		idle := func(terminal *standin.Terminal) api.Session {
			t.Helper()
			return p.sessionThat(p.ctx, func(s api.Session) bool { return s.PID == terminal.Pid() && s.Word == api.WordIdle })
		}
		names := []string{idle(p.terminal).Name}
		for range 2 {
			names = append(names, idle(standin.StartSession(t, v, p.home)).Name)
		}
		types := func(command string, is *strings.Replacer, status int, out, errs string) {
			t.Helper()
			var args []string
			for _, arg := range strings.Fields(command) {
				args = append(args, is.Replace(arg))
			}
			got, stdout, stderr := p.run(args...)
			for what, printed := range map[string][2]string{"stdout": {is.Replace(out), stdout}, "stderr": {is.Replace(errs), stderr}} {
				if want, text := printed[0], printed[1]; want == "" && text != "" || !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("%q: %s is not %q:\n%s", args, what, want, text)
				}
			}
			if got != status {
				t.Errorf("%q: exit status %d, want %d", args, got, status)
			}
		}
		looks := func(when string) {
			t.Helper()
			for _, args := range [][]string{nil, {"status"}} {
				out := "\n" + p.must(args...)
				for _, name := range names {
					if strings.Count(out, "\n"+name+" ") != 1 {
						t.Errorf("%s, %q does not show %s once:\n%s", when, args, name, out)
					}
				}
			}
			for i, name := range names {
				text := fmt.Sprintf("%s-%d.", when, i)
				is := strings.NewReplacer("NAME", name, "TYPO", name[:1]+name[2:], "TEXT", text)
				for _, c := range firstHour {
					types(c.command, is, c.status, c.out, c.errs)
				}
				p.once(text)
			}
		}
		looks("alone")

		first := idle(p.terminal)
		p.must("name", names[0], "backend")
		must(t, p.terminal.Kill())
		types("ask backend hello", strings.NewReplacer(), api.ExitNotFound, ``, `^teambridge: backend@sessions: the session has ended\n`)
		types("transcript backend", strings.NewReplacer(), 0, `(?m)^\S+  backend\n    ACK: `, ``)
		if s := idle(standin.StartSession(t, v, p.home, "--resume", first.Session)); s.As != "backend" || s.Session != first.Session {
			t.Errorf("resumed, %s is %+v", first.Session, s)
		}
		names[0] = "backend"

		p.home.Extra = append(p.home.Extra, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")
		if s := idle(standin.StartSession(t, v, p.home)); s.Team == "" {
			t.Fatalf("the fourth session leads no team: %+v", s)
		}
		looks("beside")
	})
}
