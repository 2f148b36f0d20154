package journal

import (
	"strings"
	"testing"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	named := func(id string) string { return row(id, `"messageId":"`+id+`"`) }
	red := look(t, 2, named("plan-3"))
	red.Team = "red"
	observe(t, j, look(t, 1, named("plan-1"), named("plan-12"), named("plot"), named("pla"), named("plan%"), named("plan\U0010fffd")), red)
	record(t, j, said("plan-e", 1, "an envelope"))
	for _, test := range []struct {
		prefix string
		q      Query
		want   string
	}{
		{"plan-", Query{}, "plan-1 plan-12 plan-3 plan-e"},
		{"plan-1", Query{}, "plan-1 plan-12"},
		{"plan", Query{Limit: 2}, "plan% plan-1"},
		{"plan\U0010fffd", Query{}, "plan\U0010fffd"},
		{"plan-", Query{Team: "red"}, "plan-3"},
		{"plan-", Query{Team: "red", Inbox: "nobody"}, ""},
		{"PLAN", Query{}, ""},
		{"plan_", Query{}, ""},
	} {
		got, err := j.Messages.IDs(t.Context(), test.q, test.prefix)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%q %+v: %q, %v; want %q", test.prefix, test.q, got, err, test.want)
		}
	}
}
