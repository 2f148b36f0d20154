//go:build unix

package probe_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"teambridge/relay/probe"
	"teambridge/teams"
)

// quick are options for a Claude Code that does at once what it does.
func quick(v, changed string) probe.Options {
	return probe.Options{Command: fakeCommand(v, changed), Quiet: time.Second, Step: 6 * time.Second}
}

// What is changed is found, and nothing else, and nothing if nothing is.
func TestChanged(t *testing.T) {
	t.Parallel()
	oldest, newest := "2.1.80", teams.Newest().String()
	type altered struct{ v, point string }
	all := []altered{{oldest, "nothing"}, {newest, "nothing"}}
	for _, p := range probe.Points() {
		all = append(all, altered{newest, p.Name})
		if v, _ := teams.ParseVersion(oldest); p.Expected(v) == teams.No && !testing.Short() {
			all = append(all, altered{oldest, p.Name})
		}
	}
	// They mostly wait, so that more of them run at a time than tests would.
	var running sync.WaitGroup
	slots := make(chan struct{}, 6)
	for _, a := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			r, err := probe.Run(t.Context(), quick(a.v, a.point))
			if err != nil {
				t.Errorf("%s, %s: %v", a.v, a.point, err)
				return
			}
			var changed, want []string
			for _, f := range r.Changed() {
				changed = append(changed, f.Name)
			}
			if a.point != "nothing" {
				want = []string{a.point}
			}
			if !slices.Equal(changed, want) {
				t.Errorf("%s, %s is altered: changed is %q", a.v, a.point, changed)
			}
			for _, f := range r.Unmeasured() {
				if a.point == "nothing" {
					t.Errorf("%s: %s was not measured: %s", a.v, f.Name, f.Why)
				}
			}
		})
	}
	running.Wait()
}
