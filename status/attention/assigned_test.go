package attention

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teambridge/teams/teamstest"
)

// An agent's task in progress is in the snapshot, and changes with its list. With notifications, the list is
// read only after one.
func TestAssigned(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		w := open(t, teamstest.New(t))
		w.Make("t", 1, "team-lead", "a", "b")
		w.Make("u", 2, "team-lead", "a")
		dir := filepath.Join(w.Options.Root.Path(), "tasks", "t")
		must(t, os.MkdirAll(dir, 0o700))
		write := func(id, text string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(dir, id+".json"), []byte(text), 0o600))
		}
		w.TasksNotified = told
		c := New(w.Options)
		want := func(text string) {
			t.Helper()
			s, err := c.Snapshot(t.Context(), "", 0)
			must(t, err)
			got := ""
			for _, s := range s.Status {
				if s.Member != "team-lead" {
					got += fmt.Sprintf("%s@%s %q %q %s; ", s.Member, s.Team, s.Task, s.TaskID, s.TaskList)
				}
			}
			if got != text {
				t.Errorf("told: %t, it is  %s\nwant %s", told, got, text)
			}
		}
		write("1", `{"subject": "Read", "activeForm": "Reading", "status": "in_progress", "owner": "a@t"}`)
		write("2", `{"subject": "Write", "status": "pending", "owner": "b"}`)
		write("3", `{"subject": "Hidden", "status": "in_progress", "owner": "b", "metadata": {"_internal": true}}`)
		want(`a@t "Reading" "1" t; b@t "" "" t; a@u "" "" ; `)
		write("1", `{"subject": "Read", "status": "completed", "owner": "a"}`)
		write("2", `{"subject": "Write", "status": "in_progress", "owner": "b"}`)
		if told {
			want(`a@t "Reading" "1" t; b@t "" "" t; a@u "" "" ; `)
		}
		c.TasksChanged("t")
		want(`a@t "" "" t; b@t "Write" "2" t; a@u "" "" ; `)
		must(t, os.RemoveAll(dir))
		c.TasksChanged("t")
		want(`a@t "" "" ; b@t "" "" ; a@u "" "" ; `)
	}
}
