package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A session that was stopped in the background is given a message once: when a person starts it again, or, if the
// person has allowed that, when the message starts it.
func TestRealStoppedSessionIsStartedAgain(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSomebody(t, nil)
		bin := filepath.Join(p.home.Dir, "bin")
		must(t, os.Mkdir(bin, 0o700))
		must(t, os.Symlink(standin.Require(t, v)[0], filepath.Join(bin, "claude")))
		env := append(p.home.Env(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		claude := func(args ...string) {
			t.Helper()
			cmd := exec.CommandContext(p.ctx, filepath.Join(bin, "claude"), args...)
			cmd.Dir, cmd.Env = p.home.Work, env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("claude %q: %v: %s", args, err, out)
			}
		}
		run := func(want api.Code, args ...string) string {
			t.Helper()
			status, out, errs := outcome(t, program(p.home.Work, p.home.Dir, p.home.Root, args, env...))
			if expected := want.Exit(); want != "" && status != int(expected) || want == "" && status != 0 {
				t.Fatalf("teambridge %q: exit status %d\n%s%s", args, status, out, errs)
			}
			return out + errs
		}
		claude("--bg", "[begun]", "--name", "night")
		given(t, p.ctx, p.home.API, standin.Any, "[begun]")
		jobs, err := filepath.Glob(filepath.Join(p.home.Root, "jobs", "*", "state.json"))
		if err != nil || len(jobs) != 1 {
			t.Fatalf("the sessions in the background are %q, %v", jobs, err)
		}
		job := filepath.Base(filepath.Dir(jobs[0]))
		claude("stop", job)
		for _, name := range []string{"night", job} { // nobody has written to it before
			if said := run(api.CodeGone, "send", name, "[none]"); !strings.Contains(said, "claude respawn "+job) {
				t.Errorf("of %s, which was stopped, it says: %s", name, said)
			}
		}
		claude("respawn", job)
		list := decoded[[]api.Session](t, run("", "sessions", "--json"))
		for ; len(list) == 0; list = decoded[[]api.Session](t, run("", "sessions", "--json")) { // it takes some seconds to start
			if err := p.ctx.Err(); err != nil {
				t.Fatalf("the session is not started again: %v", err)
			}
		}
		sent := decoded[api.Sent](t, run("", "send", job, "[one]", "--wait", "seen", "--timeout", "1m", "--json"))
		list = decoded[[]api.Session](t, run("", "sessions", "--json"))
		if len(list) != 1 || sent.State != api.Seen {
			t.Fatalf("the sessions are %+v; the first message is %s", list, sent.State)
		}
		if list[0].Session[:len(job)] != job {
			t.Errorf("the session is %s, and its key %s", list[0].Session, job)
		}
		// Its person looks at it, and clears it: its id changes, and its key does not.
		viewer, first := standin.StartProgram(t, p.home, env, filepath.Join(bin, "claude"), "attach", job), list[0].Session
		must(t, viewer.Prompt(p.ctx, "/clear"))
		for len(list) == 0 || list[0].Session == first {
			if list = decoded[[]api.Session](t, run("", "sessions", "--json")); p.ctx.Err() != nil {
				t.Fatalf("after /clear the sessions are %+v", list)
			}
		}
		run("", "send", first, "[two]", "--wait", "seen", "--timeout", "1m")
		list = decoded[[]api.Session](t, run("", "sessions", "--json"))
		if len(list) != 1 {
			t.Fatalf("after /clear the sessions are %+v", list)
		}
		claude("stop", job)
		for _, name := range []string{"night", job, first, list[0].Session} {
			if said := run(api.CodeGone, "send", name, "[none]"); !strings.Contains(said, "claude respawn "+job) {
				t.Errorf("of %s, which was stopped, it says: %s", name, said)
			}
		}
		run("", "setup", "respawn", "--yes")
		run("", "send", "night", "[three]", "--wait", "seen", "--timeout", "2m")
		p.once("[one]", "[two]", "[three]")
		if n := p.home.API.Count(standin.Any, "[none]"); n != 0 {
			t.Errorf("what was not sent was given %d times", n)
		}
		claude("stop", job)
	})
}
