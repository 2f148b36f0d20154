package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A real agent of the service that wants to use a tool waits for a person. What is
// permitted runs, and a rule for the session is not asked about again; the model gets
// the reason of a denial. Nothing is written to settings.
func TestRealPermit(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		a := newAsking(t, v, nil)
		made := func(name string) bool {
			_, err := os.Stat(filepath.Join(a.home.Work, name))
			return err == nil
		}

		asked, _ := a.turn("", bashLine("touch one"), func(q api.Question) {
			if made("one") {
				t.Error("the tool ran before it was allowed")
			}
			a.permit(q)
		})
		if len(asked) != 1 || asked[0].Tool != "Bash" || !strings.Contains(string(asked[0].Input), "touch one") || !made("one") {
			t.Errorf("permitted: asked %+v; it ran: %t", asked, made("one"))
		}
		if asked, told := a.turn("", bashLine("touch two"), a.deny); len(asked) != 1 || !strings.Contains(told, reason) || made("two") {
			t.Errorf("denied: asked %+v; it ran: %t; the model was told %s", asked, made("two"), told)
		}
		rule := ""
		a.turn("", bashLine("touch three"), func(q api.Question) {
			if rule = strings.Join(q.Session, ""); rule == "" { // older versions suggest none for this command
				a.permit(q)
				return
			}
			a.permitRule(q)
		})
		asked, _ = a.turn("", bashLine("touch three"), a.permit)
		if again := len(asked) > 0; !made("three") || again != (rule == "") {
			t.Errorf("after the rule %q: asked %+v", rule, asked)
		}
		if data, err := os.ReadFile(filepath.Join(a.home.Work, ".claude", "settings.local.json")); err == nil {
			t.Errorf("settings were written: %s", data)
		}
	})
}
