package inbox

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMergeOrder(t *testing.T) {
	t.Parallel()
	at := func(s string) Row { return Row{Timestamp: "2026-01-01T00:00:0" + s + "Z"} }
	odd := Row{Timestamp: "yesterday"}
	got := Merge(map[string][]Row{
		"b": {odd, at("1"), odd, at("3"), at("2")},
		"a": {at("1"), at("1"), at("2.5")},
		"c": nil,
	})
	var names []string
	for _, e := range got {
		names = append(names, fmt.Sprint(e.Inbox, e.Index))
	}
	// b4 is older than the row before it: the time decides between rows.
	want := []string{"b0", "a0", "a1", "b1", "b2", "b4", "a2", "b3"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"hello": false,
		`{"type":"idle_notification","idleReason":"available"}`:                        true,
		`{"type":"idle_notification","idleReason":"available","result":"done"}`:        false,
		`{"type":"idle_notification","idleReason":"available","summary":"[to user]"}`:  false,
		`{"type":"idle_notification","idleReason":"failed"}`:                           false,
		`{"type":"idle_notification","idleReason":"interrupted"}`:                      false,
		`{"type":"idle_notification","idleReason":"available","completedTaskId":"12"}`: false,
		`{"type":"idle_notification"}`:                                                 false,
		`{"type":"shutdown_approved"}`:                                                 true,
		`{"type":"teammate_terminated"}`:                                               true,
		`{"type":"shutdown_request"}`:                                                  false,
		`{"type":"brand_new"}`:                                                         false,
	} {
		if got := (&Row{Text: text}).Noise(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
