package main

import (
	"slices"
	"testing"
)

func TestSimilar(t *testing.T) {
	t.Parallel()
	names := []string{"force", "from", "id", "protocol", "summary", "timeout", "ui", "wait", "watch"}
	for typed, want := range map[string][]string{
		"wiat": {"wait"}, "wat": {"wait", "watch"}, "Wait": {"wait"}, "timout": {"timeout"},
		"sumary": {"summary"}, "form": {"force", "from"}, "fro": {"from"}, "pro": {"protocol"}, "i": nil, "xy": nil, "is": {"id"},
		"frobnicate": nil, "message": nil, "": nil,
	} {
		if got := similar(typed, names); !slices.Equal(got, want) {
			t.Errorf("similar(%q) = %v, want %v", typed, got, want)
		}
	}
}
