//go:build unix

package probe_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/probe"
	"teambridge/relay/probe/probetest"
	"teambridge/relay/process"
	"teambridge/relay/sim/model"
	"teambridge/teams"
)

func TestMain(m *testing.M) {
	probetest.Main()
	os.Exit(m.Run())
}

// quick are options for a Claude Code that does at once what it does.
func quick(v, changed string) probe.Options {
	return probe.Options{Command: probetest.Command(v, changed), Quiet: 1500 * time.Millisecond, Step: 12 * time.Second}
}

// patient are quick options for a busy machine: it takes as long only if something does not come that is expected.
func patient(v, changed string) probe.Options {
	o := quick(v, changed)
	o.Step, o.Limit = 2*time.Minute, 10*time.Minute
	return o
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
	slots := make(chan struct{}, 8)
	for _, a := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			var want []string
			options := patient
			if a.point != "nothing" {
				want, options = []string{a.point}, quick
			}
			r, err := probe.Run(t.Context(), options(a.v, a.point))
			last := r
			if err == nil && !slices.Equal(changed(r), want) { // a busy machine, or a fault: only the latter is found again
				last, err = probe.Run(t.Context(), patient(a.v, a.point))
				if missed := want != nil && !slices.Contains(changed(r), a.point); missed {
					r = last // Confirm adds nothing
				} else {
					r = r.Confirm(last)
				}
			}
			if err != nil {
				t.Errorf("%s, %s: %v", a.v, a.point, err)
				return
			}
			if !slices.Equal(changed(r), want) {
				t.Errorf("%s, %s is altered: changed is %q", a.v, a.point, changed(r))
			}
			for _, f := range last.Unmeasured() { // not what the first run has found alone
				if a.point == "nothing" {
					t.Errorf("%s: %s was not measured: %s", a.v, f.Name, f.Why)
				}
			}
		})
	}
	running.Wait()
}

func changed(r probe.Result) (names []string) {
	for _, f := range r.Changed() {
		names = append(names, f.Name)
	}
	return names
}

// A change that only one of two runs has found is none.
func TestConfirm(t *testing.T) {
	point := func(found teams.Answer) probe.Found {
		return probe.Found{Point: probe.Points()[0], Expected: teams.Yes, Found: found}
	}
	first := probe.Result{Took: time.Second, Points: []probe.Found{point(teams.No), point(teams.No), point(teams.No), point(teams.Yes)}}
	again := probe.Result{Took: time.Second, Points: []probe.Found{point(teams.No), point(teams.Yes), point(teams.Unsure), point(teams.No)}}
	r := first.Confirm(again)
	var got []teams.Answer
	for _, f := range r.Points {
		got = append(got, f.Found)
	}
	if want := []teams.Answer{teams.No, teams.Unsure, teams.Unsure, teams.Yes}; !slices.Equal(got, want) || len(r.Unmeasured()) != 2 || r.Took != 2*time.Second || first.Points[1].Found != teams.No {
		t.Errorf("found %v, want %v", got, want)
	}
}

// Nothing is left behind by one that is interrupted, or takes too long: no process and no file.
func TestHangs(t *testing.T) {
	for _, how := range []string{"interrupted", "too slow"} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := quick(teams.Newest().String(), probetest.Hangs)
		ours := func() (homes []string) {
			return slices.DeleteFunc(process.Values("CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY="+model.Key), func(dir string) bool { return !strings.HasPrefix(dir, tmp) })
		}
		if how == "interrupted" {
			o.Step = time.Hour
			go func() {
				for len(ours()) < 2 && ctx.Err() == nil { // both run
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
		} else {
			o.Step = 10 * time.Second
		}
		r, err := probe.Run(ctx, o)
		if want := map[string]error{"interrupted": context.Canceled, "too slow": probe.ErrNothing}[how]; !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", how, r, err)
		} else if how == "too slow" && !strings.Contains(err.Error(), "was not given PROBE-T1: it did not come within 10s") {
			t.Errorf("%s: the error does not say what did not come: %v", how, err)
		}
		if left := ours(); len(left) > 0 {
			t.Errorf("%s: processes are left in %q", how, left)
		}
		if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
			t.Errorf("%s: left behind: %q", how, left)
		}
	}
}

// What cannot be measured at all is an error.
func TestNoProgram(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"no program": {filepath.Join(t.TempDir(), "claude")}, "another program": {"/bin/sh", "-c", "echo hello"}, "one that fails": {"/bin/sh", "-c", "exit 3"},
	} {
		if r, err := probe.Run(t.Context(), probe.Options{Command: command}); !errors.Is(err, probe.ErrNothing) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
