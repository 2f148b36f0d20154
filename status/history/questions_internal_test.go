package history

import (
	"fmt"
	"slices"
	"testing"

	"teambridge/status/api"
)

// Questions that are open when a stream begins, or after a reset, are only in the snapshot.
func TestQuestionEvents(t *testing.T) {
	t.Parallel()
	var got []string
	s := Stream{sink: Sink{Event: func(e api.Event) error {
		if e.Question != nil {
			got = append(got, e.Question.Change+" "+e.Question.Question.ID)
			return nil
		}
		got = append(got, fmt.Sprint(e.Name, " ", len(e.Snapshot.Attention)))
		return nil
	}}}
	show := func(ids ...string) {
		t.Helper()
		shot := api.Snapshot{Attention: []api.Attention{{ID: "idle", Kind: api.WaitsIdle}}}
		for _, id := range ids {
			shot.Attention = append(shot.Attention, api.Attention{ID: id, Kind: api.AsksPermission, Question: &api.Question{ID: id}})
		}
		if err := s.show(shot); err != nil {
			t.Error(err)
		}
	}
	show("a")
	show("a")
	show("a", "b", "c")
	show("c")
	s.shot = nil // as by a reset
	show("d")
	show()
	want := []string{"snapshot 2", "snapshot 4", "asked b", "asked c", "snapshot 2", "answered a", "answered b", "snapshot 2", "snapshot 1", "answered d"}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q\nwant %q", got, want)
	}
}
