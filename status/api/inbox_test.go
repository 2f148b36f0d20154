package api

import (
	"slices"
	"testing"
)

// Messages of one team are by time, however their times are written, and at the same time in the order of the items.
func TestMessagesAreByTime(t *testing.T) {
	t.Parallel()
	in := Inbox{Items: []Attention{
		{Messages: []Message{{ID: "3", Team: "a", Timestamp: "2026-01-01T01:00:01.5+01:00"}, {ID: "5", Team: "a", Timestamp: "2026-01-01T00:00:02Z"}}},
		{Messages: []Message{{ID: "6", Team: "b", Timestamp: "2026-01-01T00:00:00Z"}}},
		{Messages: []Message{{ID: "2", Team: "a", Timestamp: "2026-01-01T00:00:01.499Z"}, {ID: "4", Team: "a", Timestamp: "2026-01-01T00:00:01.500Z"}}},
		{Messages: []Message{{ID: "1", Team: "a", Timestamp: "yesterday"}}},
	}}
	var ids []string
	for _, m := range in.Messages() {
		ids = append(ids, m.ID)
	}
	if want := []string{"1", "2", "3", "4", "5", "6"}; !slices.Equal(ids, want) {
		t.Errorf("the messages are %v, want %v", ids, want)
	}
}
