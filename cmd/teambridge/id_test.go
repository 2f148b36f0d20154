package main

import (
	"teambridge/status/view"
	"testing"
)

func TestShortID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"f5b4c04b-e8b2-4a6e-ac56-32d66c299b56": "f5b4c04b",
		"39a7bffc-f7d6-5c5c-80e1-ad470b54d409": "39a7bffc",
		"0199a7bf-f7d6-7c5c-80e1-ad470b54d409": "0199a7bf-f7d6-7c5c-80e1-ad470b54d409", // begins with a time
		"inbox-7b4314b620bdd450":               "inbox-7b4314b6",
		"inbox-7b43":                           "inbox-7b43",
		"review-12":                            "review-12",
		"":                                     "",
	} {
		got := shortID(id)
		if got != want {
			t.Errorf("shortID(%q) = %q, want %q", id, got, want)
		}
		if whole, err := view.WholeID(got, []string{id, "other"}); whole != id || err != nil {
			t.Errorf("view.WholeID(%q) = %q, %v; want %q", got, whole, err, id)
		}
	}
}
