package claudetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The environment variables that say where the programs are and whether a test may do without them.
const (
	// EnvInterop names the folder that .ci/install-claude filled. Unset, it is .interop beside go.mod.
	EnvInterop = "TEAMBRIDGE_INTEROP"
	// EnvRequired, set to 1, turns every skip for a missing program into a failure. CI sets it: there a skipped interop
	// test is one that nobody runs.
	EnvRequired = "TEAMBRIDGE_INTEROP_REQUIRED"
)

const howToInstall = "run .ci/install-claude at the top of the repository, or set " + EnvInterop + " to the folder it filled"

// Require returns the command that starts Claude Code of the given generation, program first: node and cli.js for G1,
// the native binary for G2. If it is not installed the test is skipped, with what to run, or fails if EnvRequired is 1.
func Require(t testing.TB, g Generation) []string {
	t.Helper()
	command, err := find(g)
	if err != nil {
		missing(t, err)
	}
	if g == G1 {
		command = append([]string{RequireNode(t)}, command...)
	}
	return command
}

// RequireNode returns the path of node, or skips or fails the test as Require does.
func RequireNode(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "node", "install Node.js 20 or newer")
}

// RequireTmux returns the path of tmux, or skips or fails the test as Require does.
func RequireTmux(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "tmux", "install tmux 3.3 or newer")
}

// RequireChromium returns the path of a Chromium, or skips or fails the test as Require does.
func RequireChromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return requireProgram(t, "chromium", "install it, on Debian with: apt-get install chromium")
}

// RequireProperLockfile returns the node_modules folder that holds proper-lockfile 4.1.2, for NODE_PATH or as the
// folder of a script, or skips or fails the test as Require does. It needs no node; ask for that with RequireNode.
func RequireProperLockfile(t testing.TB) string {
	t.Helper()
	dir, err := interop()
	if err == nil {
		dir = filepath.Join(dir, "proper-lockfile", "node_modules")
		err = readable(filepath.Join(dir, "proper-lockfile", "package.json"))
	}
	if err != nil {
		missing(t, fmt.Errorf("proper-lockfile is not installed: %w; %s", err, howToInstall))
	}
	return dir
}

// missing ends the test: a skip on a developer's machine, a failure where the programs have to be there.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(EnvRequired) == "1" {
		t.Fatalf("%v (%s=1)", err, EnvRequired)
	}
	t.Skip(err)
}

func requireProgram(t testing.TB, name, how string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, fmt.Errorf("%s is not installed: %w; %s", name, err, how))
	}
	return path
}

// find returns the command of a generation without node.
func find(g Generation) ([]string, error) {
	dir, err := interop()
	if err != nil {
		return nil, err
	}
	packages := filepath.Join(dir, g.Version(), "node_modules", "@anthropic-ai")
	switch g {
	case G1:
		cli := filepath.Join(packages, "claude-code", "cli.js")
		if err := readable(cli); err != nil {
			return nil, fmt.Errorf("Claude Code %s is not installed: %w; %s", g.Version(), err, howToInstall)
		}
		return []string{cli}, nil
	case G2:
		// npm installs only the package of its own platform, so what is there is the one to run; spelling its name
		// (claude-code-linux-x64) would need npm's names for systems and processors.
		found, err := filepath.Glob(filepath.Join(packages, "claude-code-*", "claude*"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("Claude Code %s is not installed: no claude-code-*/claude in %s; %s", g.Version(), packages, howToInstall)
		}
		return found[:1], nil
	}
	return nil, fmt.Errorf("claudetest: there is no generation %d; want G1 or G2", int(g))
}

// interop is the folder with the installed programs, absolute because the programs run in a folder of their own.
func interop() (string, error) {
	if dir := os.Getenv(EnvInterop); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if readable(filepath.Join(dir, "go.mod")) == nil {
			return filepath.Join(dir, ".interop"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("claudetest: no go.mod above the working directory, so no .interop beside it; set " + EnvInterop)
		}
		dir = up
	}
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}
