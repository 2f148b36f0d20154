package view

import (
	"strings"
	"testing"
)

func TestWholeID(t *testing.T) {
	t.Parallel()
	ids := []string{"abcd", "abcde", "abcdf", "abcdf", "xyz1", "review-12"}
	for query, want := range map[string]string{
		"abcd": "abcd", "abcdf": "abcdf", "xyz1": "xyz1", "xyz": "", "revi": "review-12", "none": "", "": "",
	} {
		if got, err := WholeID(query, ids); got != want || err != nil {
			t.Errorf("WholeID(%q) = %q, %v; want %q", query, got, err, want)
		}
	}
	if got, err := WholeID("abcd", ids[1:]); err == nil || got != "" || !strings.Contains(err.Error(), `several ids begin with "abcd"`) {
		t.Errorf(`WholeID("abcd") = %q, %v; want an error`, got, err)
	}
}
