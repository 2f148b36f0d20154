package claudetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/claude/claudetest"
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
func (p *probe) Fatalf(_ string, args ...any) {
	p.failed = args[0].(error).Error()
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
	tests := []struct {
		name, names string
		require     func(testing.TB)
	}{
		{"G1", "Claude Code 2.1.80", func(t testing.TB) { claudetest.Require(t, claudetest.G1) }},
		{"G2", "Claude Code 2.1.329", func(t testing.TB) { claudetest.Require(t, claudetest.G2) }},
		{"no generation", "no generation 3", func(t testing.TB) { claudetest.Require(t, 3) }},
		{"proper-lockfile", "proper-lockfile", func(t testing.TB) { claudetest.RequireProperLockfile(t) }},
		{"node", "node", func(t testing.TB) { claudetest.RequireNode(t) }},
		{"tmux", "tmux", func(t testing.TB) { claudetest.RequireTmux(t) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(claudetest.EnvInterop, t.TempDir())
			t.Setenv("PATH", t.TempDir())
			t.Setenv(claudetest.EnvRequired, "")
			if p := require(t, tt.require); !strings.Contains(p.skipped, tt.names) || p.failed != "" {
				t.Errorf("got skip %q, failure %q, want a skip that names %s", p.skipped, p.failed, tt.names)
			}
			t.Setenv(claudetest.EnvRequired, "1")
			if p := require(t, tt.require); !strings.Contains(p.failed, tt.names) || p.skipped != "" {
				t.Errorf("required: got failure %q, skip %q, want a failure that names %s", p.failed, p.skipped, tt.names)
			}
		})
	}
}

// TestRequireFinds looks for made-up installations, named by the environment and beside go.mod.
func TestRequireFinds(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	for _, file := range []string{
		"go.mod", "a/b/file", "bin/node",
		".interop/2.1.80/node_modules/@anthropic-ai/claude-code/cli.js",
		".interop/2.1.329/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
		".interop/2.1.329/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
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
		"beside go.mod":  func() { t.Setenv(claudetest.EnvInterop, ""); t.Chdir(deep) },
		"absolute":       func() { t.Setenv(claudetest.EnvInterop, interop); t.Chdir("/") },
		"relative":       func() { t.Setenv(claudetest.EnvInterop, "../.interop"); t.Chdir(filepath.Join(top, "a")) },
		"no go.mod, set": func() { t.Setenv(claudetest.EnvInterop, interop); t.Chdir(t.TempDir()) },
	} {
		set()
		want := filepath.Join(top, "bin", "node") + " " + filepath.Join(interop, "2.1.80/node_modules/@anthropic-ai/claude-code/cli.js")
		if got := strings.Join(claudetest.Require(t, claudetest.G1), " "); got != want {
			t.Errorf("%s: G1: got %s, want %s", name, got, want)
		}
		want = filepath.Join(interop, "2.1.329/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
		if got := strings.Join(claudetest.Require(t, claudetest.G2), " "); got != want {
			t.Errorf("%s: G2: got %s, want %s", name, got, want)
		}
		want = filepath.Join(interop, "proper-lockfile/node_modules")
		if got := claudetest.RequireProperLockfile(t); got != want {
			t.Errorf("%s: proper-lockfile: got %s, want %s", name, got, want)
		}
	}
}

// TestProperLockfile takes a lock with the installed library: a folder beside the file.
func TestProperLockfile(t *testing.T) {
	t.Parallel()
	node, modules := claudetest.RequireNode(t), claudetest.RequireProperLockfile(t)
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

// TestInstallScript runs .ci/install-claude where nothing is left to install, and where it cannot work.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../../.ci/install-claude")
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
	packages, err := filepath.Abs(filepath.Join(claudetest.RequireProperLockfile(t), "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	claudetest.Require(t, claudetest.G1)
	claudetest.Require(t, claudetest.G2)
	out, err := run(packages)
	if err != nil || strings.Count(out, "there already") != 3 {
		t.Errorf("complete: got %q, %v, want three packages that are there", out, err)
	}
	out, err = run(t.TempDir())
	if err == nil || !strings.Contains(out, "npm is not installed") {
		t.Errorf("empty, without npm: got %q, %v, want a word about npm", out, err)
	}
	out, err = run("a", "b")
	if err == nil || !strings.Contains(out, "at most one argument") {
		t.Errorf("two arguments: got %q, %v, want a word about them", out, err)
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
	for _, name := range []string{"bash", "env", "uname", "sed", "head", "mkdir", "dirname"} {
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
