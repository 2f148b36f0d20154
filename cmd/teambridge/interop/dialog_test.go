package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A person can answer a dialog of a session from another place, with and without a service. The dialog can always be
// answered at the terminal, even when the hook was killed.
func TestRealDialogs(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := &hookedUser{sessionUser: newSomebody(t, nil), version: v}
		p.must("setup", "questions", "--yes")
		p.hooks()
		p.begins(v, "--permission-mode", "default")
		p.sessionUser.session()
		made := func(name string) bool {
			_, err := os.Stat(filepath.Join(p.home.Work, name))
			return err == nil
		}
		// asked makes the session ask to use a tool, and waits until the question is listed.
		asked := func(tool string, input any) (q api.Asked) {
			t.Helper()
			p.prompts(standin.CallLine(tool, input))
			until(t, p.ctx, func() bool {
				status, out, _ := p.run("permit", "--json")
				if status != 0 {
					return false
				}
				list := decoded[[]api.Asked](t, out)
				if len(list) == 1 {
					q = list[0]
				}
				return len(list) == 1
			}, func() string { return "nothing is asked:\n" + p.terminal.Screen() })
			return q
		}
		makes := func(name string) map[string]string {
			return map[string]string{"command": `python3 -c 'open("` + name + `","w")'`, "description": "make it"}
		}
		shows := func(text string) {
			t.Helper()
			until(t, p.ctx, func() bool { return strings.Contains(p.terminal.Screen(), text) }, func() string { return "the terminal does not show " + text + ":\n" + p.terminal.Screen() })
		}

		q := asked("Bash", makes("one"))
		p.must("permit", q.ID[:8])
		p.sessionUser.session() // waits until it is idle again
		if !made("one") {
			t.Errorf("it was allowed, and not run:\n%s", p.terminal.Screen())
		}
		q = asked("Bash", makes("two"))
		p.must("deny", q.ID[:8], "--reason", "not on Fridays")
		p.sessionUser.session()
		if _, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return strings.Contains(strings.Join(r.Results, "\n"), "not on Fridays") }); err != nil || made("two") {
			t.Errorf("it was denied, run: %t, and the reason: %v", made("two"), err)
		}

		p.serves()
		q = asked("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": "Which colour?", "header": "Colour", "multiSelect": false,
			"options": []any{map[string]string{"label": "Blue", "description": "b"}, map[string]string{"label": "Red", "description": "r"}},
		}}})
		if out := p.must("inbox"); !strings.Contains(out, "Which colour?") {
			t.Errorf("inbox:\n%s", out)
		}
		p.must("permit", q.ID, "--answer", "Blue")
		p.sessionUser.session()
		if shows("Which colour?"); !strings.Contains(p.terminal.Screen(), "Blue") {
			t.Errorf("the answer is not there:\n%s", p.terminal.Screen())
		}

		// The person answers at the terminal first.
		q = asked("Bash", makes("three"))
		shows("1. Yes")
		must(t, p.terminal.Keys(p.ctx, "Enter"))
		p.sessionUser.session()
		if status, out, errs := p.run("deny", q.ID); status != api.ExitRefused || !made("three") {
			t.Errorf("an answer after that at the terminal: %d, %s%s", status, out, errs)
		}

		// The dialog stays if the hook is killed.
		q = asked("Bash", makes("four"))
		if out, err := exec.Command("pkill", "-KILL", "-f", fmt.Sprintf("hook permit --state-dir %s --pid %d", p.state(), p.terminal.Pid())).CombinedOutput(); err != nil {
			t.Fatalf("the hook is not killed: %v: %s", err, out)
		}
		if status, out, errs := p.run("permit", q.ID); status == 0 || made("four") {
			t.Errorf("an answer to one whose hook was killed: %d, %s%s", status, out, errs)
		}
		shows("1. Yes")
		must(t, p.terminal.Keys(p.ctx, "Enter"))
		p.sessionUser.session()
		if !made("four") {
			t.Errorf("allowed at the terminal, and not run:\n%s", p.terminal.Screen())
		}
	})
}
