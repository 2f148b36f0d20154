package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A real agent of the service that wants to use a tool waits for a person. What is
// permitted runs, and a rule for the session is not asked about again; the model is told
// the reason of a denial and the answer to its question. Nothing is written to settings.
func TestRealPermit(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, nil)
		ctx := deadline(t, 3*time.Minute)
		h.leaderless()
		command := append([]string{"relay", "add", "lead@mine", "--permissions", "ask", "--dir", h.home.Work, "--"}, standin.Require(t, v)...)
		h.must(command...)
		s := h.serve()
		l := h.ledger()
		turns := 0
		// ask lets the agent use a tool in a turn, which ends.
		ask := func(tool string, input any, answer func(q api.Question)) (results string) {
			t.Helper()
			body, err := json.Marshal(map[string]string{"text": standin.CallLine(tool, input)})
			if err != nil {
				t.Fatal(err)
			}
			var sent api.Sent
			s.post(ctx, "/v1/teams/mine/members/lead/messages", string(body), "", http.StatusCreated, &sent)
			asked := map[string]bool{}
			for turns++; ; time.Sleep(10 * time.Millisecond) {
				var list []api.RelayEntry
				s.ask(ctx, "GET", "/v1/relays", "", "", http.StatusOK, &list)
				for _, r := range list {
					for _, q := range r.Questions {
						if !asked[q.ID] {
							asked[q.ID] = true
							answer(q)
						}
					}
				}
				if ctx.Err() != nil {
					t.Fatalf("%s does not end\n%s", tool, h)
				}
				if len(h.deliveries(l)) == turns && !slices.ContainsFunc(h.deliveries(l), func(d ledger.Delivery) bool { return !d.State.Ended() }) {
					break
				}
			}
			if len(asked) > 1 {
				t.Errorf("%s was asked about %d times", tool, len(asked))
			}
			for _, r := range h.home.API.Log() {
				results = strings.Join(append([]string{results}, r.Results...), "\n")
			}
			if len(asked) == 0 {
				results = "not asked\n" + results
			}
			return results
		}
		bash := func(command string) map[string]string {
			return map[string]string{"command": command, "description": "d"}
		}
		made := func(name string) bool {
			_, err := os.Stat(filepath.Join(h.home.Work, name))
			return err == nil
		}

		ask("Bash", bash("touch one"), func(q api.Question) {
			if q.Tool != "Bash" || !strings.Contains(string(q.Input), "touch one") {
				t.Errorf("asked %+v", q)
			}
			if made("one") {
				t.Error("the tool ran before it was allowed")
			}
			h.must("permit", q.ID)
		})
		if !made("one") {
			t.Error("what was permitted did not run")
		}
		if told := ask("Bash", bash("touch two"), func(q api.Question) { h.must("deny", q.ID, "--reason", "not on <Fridays>") }); !strings.Contains(told, "not on <Fridays>") || made("two") {
			t.Errorf("denied: it ran: %t; the model was told %s", made("two"), told)
		}
		rule := ""
		ask("Bash", bash("touch three"), func(q api.Question) {
			if rule = strings.Join(q.Session, ""); rule == "" { // older versions suggest none for this command
				h.must("permit", q.ID)
				return
			}
			h.must("permit", q.ID, "--session")
		})
		told := ask("Bash", bash("touch three"), func(q api.Question) { h.must("permit", q.ID) })
		t.Logf("%s: the rule %q; the same again: %.9s", v, rule, told)
		if again := !strings.HasPrefix(told, "not asked"); !made("three") || again != (rule == "") {
			t.Errorf("after the rule %q: %s", rule, told)
		}
		colour := map[string]any{"questions": []any{map[string]any{"question": "Which colour?", "header": "Colour", "multiSelect": false,
			"options": []any{map[string]string{"label": "Red", "description": "r"}, map[string]string{"label": "Blue", "description": "b"}}}}}
		if told := ask("AskUserQuestion", colour, func(q api.Question) { h.must("permit", q.ID, "--answer", "Blue") }); !strings.Contains(told, "Blue") {
			t.Errorf("answered: the model was told %s", told)
		}
		if data, err := os.ReadFile(filepath.Join(h.home.Work, ".claude", "settings.local.json")); err == nil {
			t.Errorf("settings were written: %s", data)
		}
	})
}
