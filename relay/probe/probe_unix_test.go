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
	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
	"teambridge/relay/relaytest/probetest"
	"teambridge/teams"
)

func TestMain(m *testing.M) {
	probetest.Main()
	os.Exit(m.Run())
}

// unexpected are the points that are true if nothing comes.
var unexpected = []string{"MarksFirst", "RefusesUser", "HeadlessDeaf", "MemberDeaf"}

// quick returns options for a version of Claude Code with one changed point: the probe waits long enough for output
// on a busy machine, and not at all for missing output. Unless all, only the half with the point is measured.
func quick(v teams.Version, changed string, all bool) probe.Options {
	is := func(p probe.Point) bool { return p.Name == changed }
	patience := func(point string) time.Duration {
		i := slices.IndexFunc(probe.Points(), func(p probe.Point) bool { return p.Name == point })
		does := i < 0 || (probe.Points()[i].Expected(v) == probe.Yes) != (point == changed)
		if does == slices.Contains(unexpected, point) {
			return 0
		}
		return time.Minute
	}
	half := func(points []probe.Point) bool { return all || slices.ContainsFunc(points, is) }
	return probe.Quick(probe.Options{Command: probetest.Command(v.String(), changed)}, patience, half)
}

// The probe reports exactly the changed point, and none if nothing is changed.
func TestChanged(t *testing.T) {
	t.Parallel()
	type altered struct {
		v     teams.Version
		point string
	}
	const nothing = "nothing"
	all := []altered{{teams.Oldest, nothing}, {teams.Measured, nothing}}
	for _, p := range probe.Points() {
		all = append(all, altered{teams.Measured, p.Name})
		if p.Expected(teams.Oldest) == probe.No {
			all = append(all, altered{teams.Oldest, p.Name})
		}
	}
	// They mostly wait, so more of them run at a time than tests would.
	var running sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, a := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			r, err := probe.Run(t.Context(), quick(a.v, a.point, a.point == nothing))
			if err != nil {
				t.Errorf("%s, %s: %v", a.v, a.point, err)
				return
			}
			var want []string
			if a.point != nothing {
				want = []string{a.point}
			}
			if !slices.Equal(changed(r), want) {
				t.Errorf("%s, %s is altered: changed is %q", a.v, a.point, changed(r))
			}
			if unmeasured := r.Unmeasured(); want == nil && (len(r.Points) != len(probe.Points()) || len(unmeasured) > 0) {
				t.Errorf("%s: %d of %d points, not measured: %v", a.v, len(r.Points), len(probe.Points()), unmeasured)
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

// A change that only one of two runs has found does not count.
func TestConfirm(t *testing.T) {
	point := func(found probe.Answer) probe.Found {
		return probe.Found{Point: probe.Points()[0], Expected: probe.Yes, Found: found}
	}
	first := probe.Result{Took: time.Second, Points: []probe.Found{point(probe.No), point(probe.No), point(probe.No), point(probe.Yes)}}
	again := probe.Result{Took: time.Second, Points: []probe.Found{point(probe.No), point(probe.Yes), point(probe.Unsure), point(probe.No)}}
	r := first.Confirm(again)
	var got []probe.Answer
	for _, f := range r.Points {
		got = append(got, f.Found)
	}
	if want := []probe.Answer{probe.No, probe.Unsure, probe.Unsure, probe.Yes}; !slices.Equal(got, want) || len(r.Unmeasured()) != 2 || r.Took != 2*time.Second || first.Points[1].Found != probe.No {
		t.Errorf("found %v, want %v", got, want)
	}
}

// A probe that is interrupted, or takes too long, leaves no process and no file.
func TestHangs(t *testing.T) {
	for _, how := range []string{"interrupted", "too slow"} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ours := func() (homes []string) {
			return slices.DeleteFunc(process.Values("CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY="+model.Key), func(dir string) bool { return !strings.HasPrefix(dir, tmp) })
		}
		o := quick(teams.Measured, probetest.Hangs, true)
		if how == "interrupted" {
			go func() {
				for len(ours()) < 2 && ctx.Err() == nil { // both run
					time.Sleep(20 * time.Millisecond)
				}
				cancel()
			}()
		} else {
			o = probe.Quick(o, func(string) time.Duration { return time.Second }, nil)
		}
		r, err := probe.Run(ctx, o)
		if want := map[string]error{"interrupted": context.Canceled, "too slow": probe.ErrNothing}[how]; !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", how, r, err)
		} else if how == "too slow" && !strings.Contains(err.Error(), "was not given PROBE-T1: it did not come within 1s") {
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

// An unsupported version is refused before anything else of it runs. The version is known even if
// a process that the program started goes on and keeps the output open.
func TestOutdated(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"outdated": probetest.Command("2.1.200", probetest.Hangs), "output kept open": {"/bin/sh", "-c", "sleep 600 & echo '2.1.200 (Claude Code)'"},
	} {
		var refused *teams.OutdatedError
		r, err := probe.Run(t.Context(), probe.Options{Command: command})
		if !errors.As(err, &refused) || refused.Version != (teams.Version{Major: 2, Minor: 1, Patch: 200}) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// If nothing can be measured, there is an error.
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
