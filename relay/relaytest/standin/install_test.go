package standin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// probe stands in for a test and remembers how it was ended.
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
func (p *probe) Skipf(format string, args ...any) {
	p.skipped = fmt.Sprintf(format, args...)
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
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range tests {
		for _, env := range []struct{ name, interop, path string }{
			{"not installed", empty, empty},
			// Programs that happen to be installed are used by nobody who has not asked for it.
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

// TestRequireFinds looks for made-up installations.
func TestRequireFinds(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	for _, file := range []string{
		"go.mod", "a/b/file", "bin/node",
		".interop/2.1.7/node_modules/@anthropic-ai/claude-code/cli.js",
		".interop/2.1.8/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
		".interop/2.1.8/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
		".interop/opencode/node_modules/opencode-ai/bin/opencode.exe",
		".interop/opencode/node_modules/opencode-linux-x64/bin/opencode",
		".interop/opencode/node_modules/opencode-linux-x64-baseline/bin/opencode",
		".interop/proper-lockfile/node_modules/proper-lockfile/package.json",
	} {
		path := filepath.Join(top, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	interop := filepath.Join(top, ".interop")
	t.Setenv("PATH", filepath.Join(top, "bin"))
	for name, set := range map[string]func(){
		"absolute": func() { t.Setenv(standin.EnvInterop, interop); t.Chdir("/") },
		"relative": func() { t.Setenv(standin.EnvInterop, ".interop"); t.Chdir(deep) },
	} {
		set()
		want := filepath.Join(top, "bin", "node") + " " + filepath.Join(interop, "2.1.7/node_modules/@anthropic-ai/claude-code/cli.js")
		if got := strings.Join(standin.Require(t, teams.Version{Major: 2, Minor: 1, Patch: 7}), " "); got != want {
			t.Errorf("%s: JavaScript: got %s, want %s", name, got, want)
		}
		want = filepath.Join(interop, "2.1.8/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
		if got := strings.Join(standin.Require(t, teams.Version{Major: 2, Minor: 1, Patch: 8}), " "); got != want {
			t.Errorf("%s: native: got %s, want %s", name, got, want)
		}
		want = filepath.Join(interop, "opencode/node_modules/opencode-linux-x64/bin/opencode")
		if got := standin.RequireOpenCode(t); got != want {
			t.Errorf("%s: OpenCode: got %s, want %s", name, got, want)
		}
		want = filepath.Join(interop, "proper-lockfile/node_modules")
		if got := standin.RequireProperLockfile(t); got != want {
			t.Errorf("%s: proper-lockfile: got %s, want %s", name, got, want)
		}
	}
}

// TestVersions selects versions from a made-up list.
func TestVersions(t *testing.T) {
	top := t.TempDir()
	const list = "# a comment\n\n2.1.90 ci # the newest of it\n2.1.8 ci\n2.1.30 ci\n2.1.50 long\nlatest long\n"
	if err := os.MkdirAll(filepath.Join(top, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module m\n", ".ci/versions": list} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Symlink("2.1.331", filepath.Join(interop, "latest")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(standin.Versions(t)); got != "[2.1.50 2.1.331]" {
		t.Errorf("the latest: got %s", got)
	}
	t.Setenv(standin.EnvVersions, "nightly")
	if p := require(t, func(t testing.TB) { standin.Versions(t) }); !strings.Contains(p.failed, `"nightly"`) {
		t.Errorf("no such lane: got failure %q", p.failed)
	}
}

// TestProperLockfile takes a lock with the installed library: a folder beside the file.
func TestProperLockfile(t *testing.T) {
	t.Parallel()
	node, modules := standin.RequireNode(t), standin.RequireProperLockfile(t)
	file := filepath.Join(t.TempDir(), "inbox.json")
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), node, "-e", `
		require("proper-lockfile").lock(process.argv[1]).then(release =>
			{ console.log(require("fs").statSync(process.argv[1] + ".lock").isDirectory()); return release() })`, file)
	cmd.Env = []string{"NODE_PATH=" + modules}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "true\n" {
		t.Errorf("got %s, %v, want a lock folder", out, err)
	}
}

// TestInstallScript runs .ci/install where nothing is left to install, and where it cannot work.
func TestInstallScript(t *testing.T) {
	script, err := filepath.Abs("../../../.ci/install")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		// Without npm and without a home: it must not need them here.
		cmd := exec.CommandContext(within(t), script, args...)
		cmd.Env = []string{"PATH=" + bare(t)}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	packages, err := filepath.Abs(filepath.Join(standin.RequireProperLockfile(t), "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(standin.EnvVersions, "ci")
	versions := standin.Versions(t)
	for _, v := range versions {
		standin.Require(t, v)
	}
	standin.RequireAxe(t)
	standin.RequireOpenCode(t)
	standin.RequireCodex(t)
	standin.RequireQwen(t)
	out, err := run(packages)
	// With OpenCode, Codex, Node.js, Qwen Code, proper-lockfile, axe-core and the packages of the TypeScript client.
	if want := len(versions) + 7; err != nil || strings.Count(out, "there already") != want {
		t.Errorf("complete: got %q, %v, want %d packages that are there", out, err, want)
	}
	out, err = run(t.TempDir())
	if err == nil || !strings.Contains(out, "npm is not installed") {
		t.Errorf("empty, without npm: got %q, %v, want a word about npm", out, err)
	}
	out, err = run(packages, "nightly")
	if err == nil || !strings.Contains(out, "of lane nightly") {
		t.Errorf("no such lane: got %q, %v, want a word about it", out, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = run(file)
	if err == nil || !strings.Contains(out, "cannot create "+file) {
		t.Errorf("a file: got %q, %v, want a word about it", out, err)
	}
}

// bare is a PATH with what the script needs besides npm.
func bare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bash", "env", "uname", "sed", "head", "mkdir", "dirname", "sort", "readlink", "ln", "cmp"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
