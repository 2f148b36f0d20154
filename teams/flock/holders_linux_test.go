package flock

import (
	"maps"
	"testing"
)

func TestHoldersIn(t *testing.T) {
	t.Parallel()
	const locks = `1: POSIX  ADVISORY  WRITE 11 fe:00:5678 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fe:01:5678 0 EOF
3: FLOCK  ADVISORY  WRITE 13 fe:00:5678 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 fe:00:5678 0 EOF
4: FLOCK  ADVISORY  WRITE 0 fe:00:9 0 EOF
`
	got := map[string]int{}
	holdersIn(locks, got)
	if want := map[string]int{"fe:00:5678": 13, "fe:01:5678": 12}; !maps.Equal(got, want) {
		t.Errorf("the holders are %v, want %v", got, want)
	}
}
