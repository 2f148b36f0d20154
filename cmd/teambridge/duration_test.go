package main

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "5s": 5 * time.Second, "1h30m": 90 * time.Minute, "100ms": 100 * time.Millisecond,
		"30d": 30 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour, "1.5d": 36 * time.Hour, "2d0.5h": 2*day + 30*time.Minute,
	} {
		var d duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("Set(%q): %v, %v; want %v", text, time.Duration(d), err, want)
		}
		var again duration
		if err := again.Set(d.String()); err != nil || again != d {
			t.Errorf("%q prints as %q, which is %v (%v)", text, d.String(), time.Duration(again), err)
		}
	}
	for _, text := range []string{"", "5", "1.5", "d", "w", "-5s", "-1d", "5x", "1dd", "1d5", "1e300d", "999999w", "soon"} {
		d := duration(time.Second)
		if err := d.Set(text); err == nil || d != duration(time.Second) {
			t.Errorf("Set(%q): %v, %v; want an error and no change", text, time.Duration(d), err)
		}
	}
}
