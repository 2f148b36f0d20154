package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTeams(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	ann, red, later, other := look(t, 2, row("b")), look(t, 3, row("c")), look(t, 4, row("d")), look(t, 5, row("e"))
	ann.Inbox, red.Team, other.Root = "ann", "red", "/other"
	later.CreatedAt++
	observe(t, j, look(t, 1, row("a")), ann, red, later, other)
	gone := look(t, 9)
	gone.Gone = true
	observe(t, j, gone) // not an observation
	record(t, j, said("e-1", 7, "an envelope"))
	blue := TeamRecord{root, blue(), at(7)}
	next := TeamRecord{root, later.Instance(), at(4)}
	for _, test := range []struct {
		q    Query
		want []TeamRecord
	}{
		{Query{Root: root}, []TeamRecord{blue, next, {root, red.Instance(), at(3)}}},
		{Query{Root: root, Team: "blue"}, []TeamRecord{blue, next}},
		{Query{Team: "red"}, []TeamRecord{{root, red.Instance(), at(3)}}},
		{Query{Team: "green"}, nil},
	} {
		got, err := j.Messages.Teams(t.Context(), test.q)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", test.q, err, diff)
		}
	}
}
