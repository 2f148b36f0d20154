package standin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"teambridge/teams"
)

// The environment variables for the folder of the programs, the selected versions, and whether tests may skip.
const (
	// EnvInterop names the folder that .ci/install filled, from the top of the repository if it is relative.
	// Unset, no test runs a program from outside: neither Claude Code nor OpenCode, node, tmux or Chromium.
	EnvInterop = "TEAMBRIDGE_INTEROP"
	// EnvRequired, set to 1, turns every skip for a missing program into a failure. CI sets it: there a skipped interop
	// test is one that nobody runs.
	EnvRequired = "TEAMBRIDGE_INTEROP_REQUIRED"
	// EnvVersions selects versions of Claude Code: lanes of .ci/versions and versions, separated by commas or spaces.
	// Unset, it is the lane ci.
	EnvVersions = "TEAMBRIDGE_VERSIONS"
)

const howToInstall = "run .ci/install at the top of the repository, and set " + EnvInterop + " to the folder it filled, .interop"

// WriteProgram writes a program for the test to run. Nothing is forked meanwhile: a child inherits all open files until it
// calls exec, and Linux does not run a file that is open for writing.
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// Require returns the command that starts a version of Claude Code, program first: the native binary, or node and
// cli.js for one that has none. If it is not installed the test is skipped, with what to run, or fails if EnvRequired
// is 1.
func Require(t testing.TB, v teams.Version) []string {
	t.Helper()
	program, err := find(v)
	if err != nil {
		missing(t, fmt.Errorf("the program Claude Code %s is not installed: %w; %s", v, err, howToInstall))
	}
	if filepath.Base(program) == "cli.js" {
		return []string{RequireNode(t), program}
	}
	return []string{program}
}

// RequireOpenCode returns the path of OpenCode, or skips or fails the test as Require does.
func RequireOpenCode(t testing.TB) string {
	t.Helper()
	dir, err := interop()
	if err != nil {
		missing(t, fmt.Errorf("OpenCode is not used: %w; %s", err, howToInstall))
	}
	// The package of the platform comes first, before one for older processors.
	found, err := filepath.Glob(filepath.Join(dir, "opencode", "node_modules", "opencode-*-*", "bin", "opencode*"))
	if err != nil || len(found) == 0 {
		missing(t, fmt.Errorf("OpenCode is not installed: no opencode-*-*/bin/opencode is in %s; %s", filepath.Join(dir, "opencode", "node_modules"), howToInstall))
	}
	return found[0]
}

// RequireNpm returns the path of npm, or skips or fails the test as Require does.
func RequireNpm(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "npm", "it comes with Node.js 20 or newer")
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

// RequireSSHD returns the path of OpenSSH's server, or skips or fails the test as Require does.
func RequireSSHD(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "sshd", "install it, on Debian with: apt-get install openssh-server", "/usr/sbin/sshd")
}

// RequireChromium returns the path of a Chromium, or skips or fails the test as Require does. It prefers the headless shell,
// in which the same tests take half as long.
func RequireChromium(t testing.TB) string {
	t.Helper()
	return requireProgram(t, "chromium-headless-shell", "install it, on Debian with: apt-get install chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
}

// RequireProperLockfile returns the node_modules folder that holds proper-lockfile 4.1.2, for NODE_PATH or as the
// folder of a script, or skips or fails the test as Require does. It needs no node; ask for that with RequireNode.
func RequireProperLockfile(t testing.TB) string {
	t.Helper()
	return requirePackage(t, "proper-lockfile")
}

// RequireAxe returns the path of axe-core, a script that finds faults of accessibility in a page, or skips or fails
// the test as Require does.
func RequireAxe(t testing.TB) string {
	t.Helper()
	return filepath.Join(requirePackage(t, "axe-core"), "axe-core", "axe.min.js")
}

// RequireTypeScript returns the node_modules folder with the packages of the TypeScript client, in the versions of its
// package-lock.json, or skips or fails the test as Require does.
func RequireTypeScript(t testing.TB) string {
	t.Helper()
	modules := requirePackage(t, "typescript")
	top, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(top, "status", "client", "typescript", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(filepath.Join(filepath.Dir(modules), "package-lock.json")); err != nil || !bytes.Equal(have, want) {
		missing(t, fmt.Errorf("the packages of the TypeScript client in %s are not those of its package-lock.json; %s", modules, howToInstall))
	}
	return modules
}

// requirePackage returns the node_modules folder that holds a package.
func requirePackage(t testing.TB, name string) string {
	t.Helper()
	dir, err := interop()
	if err == nil {
		dir = filepath.Join(dir, name, "node_modules")
		err = readable(filepath.Join(dir, name, "package.json"))
	}
	if err != nil {
		missing(t, fmt.Errorf("%s is not installed: %w; %s", name, err, howToInstall))
	}
	return dir
}

// missing ends the test: a skip on a developer's machine, a failure if the programs are required.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(EnvRequired) == "1" {
		t.Fatalf("%v (%s=1)", err, EnvRequired)
	}
	t.Skip(err)
}

// requireProgram looks for a program under its name, then under its other names.
func requireProgram(t testing.TB, name, how string, others ...string) string {
	t.Helper()
	_, err := interop()
	if err != nil {
		missing(t, fmt.Errorf("%s is not used: %w", name, err))
	}
	for _, n := range append([]string{name}, others...) {
		var path string
		if path, err = exec.LookPath(n); err == nil {
			return path
		}
	}
	missing(t, fmt.Errorf("%s is not installed: %w; %s", name, err, how))
	return ""
}

// find returns the native binary of a version, or its cli.js.
func find(v teams.Version) (string, error) {
	dir, err := interop()
	if err != nil {
		return "", err
	}
	packages := filepath.Join(dir, v.String(), "node_modules", "@anthropic-ai")
	// npm installs only the package of its own platform, so what is there is the one to run; spelling its name
	// (claude-code-linux-x64) would need npm's names for systems and processors.
	if found, err := filepath.Glob(filepath.Join(packages, "claude-code-*", "claude*")); err == nil && len(found) > 0 {
		return found[0], nil
	}
	cli := filepath.Join(packages, "claude-code", "cli.js")
	if err := readable(cli); err != nil {
		return "", fmt.Errorf("neither claude-code-*/claude nor claude-code/cli.js is in %s", packages)
	}
	return cli, nil
}

// interop is the folder with the installed programs, absolute because the programs run in a folder of their own.
func interop() (string, error) {
	dir := os.Getenv(EnvInterop)
	if dir == "" {
		return "", errors.New(EnvInterop + " is not set")
	}
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	// The working directory of a test is its package's.
	top, err := moduleRoot()
	return filepath.Join(top, dir), err
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}
