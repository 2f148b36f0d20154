package main

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "just now", time.Minute - 1: "just now", time.Minute: "1 min ago", time.Hour - 1: "59 min ago",
		time.Hour: "1 h ago", 48*time.Hour - 1: "47 h ago", 48 * time.Hour: "2 days ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
