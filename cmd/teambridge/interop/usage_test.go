package interop

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// The listed changes are those that a real agent has made to files. A failed edit is none.
func TestRealChanges(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		h.start()
		session := h.up().Session
		file := filepath.Join(h.home.Work, "a.txt")
		for i, line := range []string{
			standin.CallLine("Write", map[string]string{"file_path": file, "content": "one\ntwo\n"}),
			standin.CallLine("Edit", map[string]string{"file_path": file, "old_string": "two", "new_string": "2"}),
			standin.CallLine("Edit", map[string]string{"file_path": file, "old_string": "nowhere", "new_string": "x"}),
		} {
			h.send(fmt.Sprintf("<m-%d>\n%s", i, line))
			h.settled(i + 1)
		}
		h.finish()
		list := decoded[[]api.FileChanges](t, h.must("changes", session, "--diff", "--json"))
		if len(list) != 1 || list[0].File != file || !list[0].Created || list[0].Changes != 2 || list[0].Added != 3 || list[0].Removed != 1 || list[0].Last.IsZero() {
			t.Fatalf("the changes are %+v", list)
		}
		if want := "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"; list[0].Patches[1].Text != want {
			t.Errorf("the edit is %q, want %q", list[0].Patches[1].Text, want)
		}
	})
}

// A real headless agent answers messages, is started again and resumes its session: every answer counts once, and so
// does its cost. The program reports a running total, which some versions reset to zero.
func TestRealUsage(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		of := func(flags ...string) (u api.Usage) {
			t.Helper()
			must(t, json.Unmarshal([]byte(h.must(append([]string{"usage", "--json"}, flags...)...)), &u))
			return u
		}
		one := 0.0
		sent := 0
		for run := range 2 {
			h.start()
			h.up()
			for range 2 {
				h.send(strings.Repeat("<m>", sent+1))
				sent++
				h.settled(sent)
			}
			h.finish()
			u := of()
			n := int64(sent)
			if len(u.Rows) != 1 || u.Rows[0].Member != "team-lead" || u.Rows[0].Team != h.team {
				t.Fatalf("the agents are %+v", u.Rows)
			}
			r := u.Rows[0]
			if r.Answers != n || r.Input != 10*n || r.Output != 5*n || r.Cost == nil || r.Unstated {
				t.Fatalf("after %d answers: %+v", n, r)
			}
			if run == 0 {
				one = *r.Cost / float64(n)
			}
			if want := one * float64(n); one <= 0 || math.Abs(*r.Cost-want) > one/100 {
				t.Errorf("%d answers cost %v, want %v", n, *r.Cost, want)
			}
			if by := of("--by", "model,day", "--team", h.team); len(by.Rows) == 0 || by.Total.Answers != n || !strings.HasPrefix(by.Rows[0].Model, "claude-") {
				t.Errorf("by model: %+v", by)
			}
		}
	})
}
