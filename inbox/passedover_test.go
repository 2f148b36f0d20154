package inbox

import (
	"slices"
	"testing"
)

// An entry that is no message is reported with the reason, and all others are rows as before.
func TestPassedOver(t *testing.T) {
	t.Parallel()
	const box = `[1, {"from":"a","text":"x"}, null, {"from":"a"}, {"text":"x"}, {"from":7,"text":"x"}, {"from":"a","text":{}}, {"from":"","text":""}, "x"]`
	rows, passed, err := entries("", []byte(box), nil)
	if err != nil || len(rows) != 6 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := []PassedOver{
		{1, "it is not an object"}, {3, "it is not an object"}, {4, "it has no text"}, {5, "it has no sender"}, {6, "it has no sender"}, {7, "it has no text"}, {9, "it is not an object"},
	}
	if !slices.Equal(passed, want) {
		t.Errorf("passed over: %v, want %v", passed, want)
	}
	if got, want := passed[2].String(), "entry 4 is not a message: it has no text"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
