package main

import (
	"strings"
	"testing"
)

func TestShortID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"f5b4c04b-e8b2-4a6e-ac56-32d66c299b56": "f5b4c04b",
		"39a7bffc-f7d6-5c5c-80e1-ad470b54d409": "39a7bffc",
		"0199a7bf-f7d6-7c5c-80e1-ad470b54d409": "0199a7bf-f7d6-7c5c-80e1-ad470b54d409", // begins with the time
		"inbox-7b4314b620bdd450":               "inbox-7b4314b6",
		"inbox-7b43":                           "inbox-7b43",
		"review-12":                            "review-12",
		"":                                     "",
	} {
		got := shortID(id)
		if got != want {
			t.Errorf("shortID(%q) = %q, want %q", id, got, want)
		}
		if whole, err := wholeID(got, []string{id, "other"}); whole != id || err != nil {
			t.Errorf("wholeID(%q) = %q, %v; want %q", got, whole, err, id)
		}
	}
}

func TestWholeID(t *testing.T) {
	t.Parallel()
	ids := []string{"abcd", "abcde", "abcdf", "abcdf", "xyz1", "review-12"}
	for query, want := range map[string]string{
		"abcd": "abcd", "abcdf": "abcdf", "xyz1": "xyz1", "xyz": "", "revi": "review-12", "none": "", "": "",
	} {
		if got, err := wholeID(query, ids); got != want || err != nil {
			t.Errorf("wholeID(%q) = %q, %v; want %q", query, got, err, want)
		}
	}
	if got, err := wholeID("abcd", ids[1:]); err == nil || got != "" || !strings.Contains(err.Error(), `several ids begin with "abcd"`) {
		t.Errorf(`wholeID("abcd") = %q, %v; want an error`, got, err)
	}
}
