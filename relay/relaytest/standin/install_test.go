package standin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// probe is a simulated test that records how it ended.
type probe struct {
	testing.TB
	skipped, failed string
}

type ended struct{}

func (p *probe) Helper() {}
func (p *probe) Skip(args ...any) {
	p.skipped = args[0].(error).Error()
	panic(ended{})
}
func (p *probe) Fatalf(format string, args ...any) {
	p.failed = fmt.Sprintf(format, args...)
	panic(ended{})
}

// require runs a Require function to its end.
func require(t *testing.T, f func(testing.TB)) (p *probe) {
	t.Helper()
	p = &probe{TB: t}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); !ok {
				panic(r)
			}
		}
	}()
	f(p)
	return p
}

func TestRequireMissing(t *testing.T) {
	version := teams.Version{Major: 2, Minor: 1, Patch: 7}
	tests := []struct {
		name, names string
		require     func(testing.TB)
	}{
		{"Claude Code", "Claude Code 2.1.7", func(t testing.TB) { standin.Require(t, version) }},
		{"OpenCode", "OpenCode", func(t testing.TB) { standin.RequireOpenCode(t) }},
		{"proper-lockfile", "proper-lockfile", func(t testing.TB) { standin.RequireProperLockfile(t) }},
		{"node", "node", func(t testing.TB) { standin.RequireNode(t) }},
		{"tmux", "tmux", func(t testing.TB) { standin.RequireTmux(t) }},
		{"chromium", "chromium", func(t testing.TB) { standin.RequireChromium(t) }},
	}
	empty, programs := t.TempDir(), t.TempDir()
	for _, name := range []string{"node", "tmux", "chromium"} {
		must(t, os.WriteFile(filepath.Join(programs, name), nil, 0o700))
	}
	for _, tt := range tests {
		for _, env := range []struct{ name, interop, path string }{
			{"not installed", empty, empty},
			// Installed programs are used only on request.
			{"not asked for", "", programs},
		} {
			t.Run(tt.name+" "+env.name, func(t *testing.T) {
				t.Setenv(standin.EnvInterop, env.interop)
				t.Setenv("PATH", env.path)
				t.Setenv(standin.EnvRequired, "")
				if p := require(t, tt.require); !strings.Contains(p.skipped, tt.names) || p.failed != "" {
					t.Errorf("got skip %q, failure %q, want a skip that names %s", p.skipped, p.failed, tt.names)
				}
				t.Setenv(standin.EnvRequired, "1")
				if p := require(t, tt.require); !strings.Contains(p.failed, tt.names) || p.skipped != "" {
					t.Errorf("required: got failure %q, skip %q, want a failure that names %s", p.failed, p.skipped, tt.names)
				}
			})
		}
	}
}

// TestVersions selects versions from a made-up list.
func TestVersions(t *testing.T) {
	top := t.TempDir()
	const list = "# a comment\n\n2.1.90 ci # the newest of it\n2.1.8 ci\n2.1.30 ci\n2.1.50 long\nlatest long\n"
	must(t, os.MkdirAll(filepath.Join(top, ".ci"), 0o700))
	for name, text := range map[string]string{"go.mod": "module m\n", ".ci/versions": list} {
		must(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o600))
	}
	interop := t.TempDir()
	t.Chdir(top)
	t.Setenv(standin.EnvInterop, interop)
	t.Setenv(standin.EnvRequired, "")
	for _, tt := range []struct{ selected, want, some string }{
		{"", "[2.1.8 2.1.30 2.1.90]", "[2.1.30]"},
		{"ci", "[2.1.8 2.1.30 2.1.90]", "[2.1.8 2.1.30 2.1.90]"},
		{"2.1.60", "[2.1.60]", "[2.1.60]"},
		{"2.1.60,ci 2.1.8", "[2.1.8 2.1.30 2.1.60 2.1.90]", "[2.1.8 2.1.30 2.1.60 2.1.90]"},
	} {
		t.Setenv(standin.EnvVersions, tt.selected)
		if got := fmt.Sprint(standin.Versions(t)); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.selected, got, tt.want)
		}
		var some []teams.Version
		standin.ForSome(t, func(_ *testing.T, v teams.Version) { some = append(some, v) })
		if got := fmt.Sprint(some); got != tt.some {
			t.Errorf("%q: some: got %s, want %s", tt.selected, got, tt.some)
		}
	}
	t.Setenv(standin.EnvVersions, "ci")
	if got := fmt.Sprint(standin.Oldest(t), standin.Newest(t)); got != "2.1.8 2.1.90" {
		t.Errorf("oldest and newest: got %s", got)
	}
	t.Setenv(standin.EnvVersions, "long")
	if p := require(t, func(t testing.TB) { standin.Versions(t) }); !strings.Contains(p.skipped, "latest Claude Code is not installed") {
		t.Errorf("the latest, not installed: got skip %q, failure %q", p.skipped, p.failed)
	}
	must(t, os.Symlink("2.1.331", filepath.Join(interop, "latest")))
	if got := fmt.Sprint(standin.Versions(t)); got != "[2.1.50 2.1.331]" {
		t.Errorf("the latest: got %s", got)
	}
	t.Setenv(standin.EnvVersions, "nightly")
	if p := require(t, func(t testing.TB) { standin.Versions(t) }); !strings.Contains(p.failed, `"nightly"`) {
		t.Errorf("no such lane: got failure %q", p.failed)
	}
}
