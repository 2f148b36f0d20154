package probe_test

import (
	"bytes"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"teambridge/relay/probe"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// watchHome gives the test a home directory. done returns the accesses to it, and to files of Claude Code in the home
// directory of the account.
func watchHome(t *testing.T) (done func() []string) {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{".claude", ".claude/projects", ".claude/teams", ".config"} {
		must(t, os.Mkdir(filepath.Join(home, dir), 0o700))
	}
	for _, file := range []string{".claude.json", ".claude/settings.json", ".profile"} {
		must(t, os.WriteFile(filepath.Join(home, file), []byte("{}"), 0o600))
	}
	t.Setenv("HOME", home)
	t.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(home, ".claude"))
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	dirs := map[int32]string{}
	watch := func(dir string) {
		wd, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_OPEN|syscall.IN_ACCESS|syscall.IN_MODIFY|syscall.IN_CREATE|syscall.IN_DELETE|syscall.IN_MOVE|syscall.IN_ATTRIB)
		if err == nil {
			dirs[int32(wd)] = dir
		}
	}
	watch(home)
	for _, dir := range []string{".claude", ".claude/projects", ".claude/teams", ".config"} {
		watch(filepath.Join(home, dir))
	}
	if u, err := user.Current(); err == nil {
		watch(u.HomeDir)
		watch(filepath.Join(u.HomeDir, ".claude"))
	}
	return func() (all []string) {
		buf := make([]byte, 64<<10)
		for {
			n, err := syscall.Read(fd, buf)
			if errors.Is(err, syscall.EAGAIN) {
				return all
			} else if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < n; {
				e := (*syscall.InotifyEvent)(unsafe.Pointer(&buf[at]))
				at += syscall.SizeofInotifyEvent
				name := string(bytes.TrimRight(buf[at:at+int(e.Len)], "\x00"))
				at += int(e.Len)
				if path := filepath.Join(dirs[e.Wd], name); strings.HasPrefix(path, home) || strings.Contains(path, "claude") {
					all = append(all, path)
				}
			}
		}
	}
}

// The probe accesses nothing in the person's home directory.
func TestHome(t *testing.T) {
	done := watchHome(t)
	if r, err := probe.Run(t.Context(), quick(teams.Measured, "nothing", true)); err != nil || len(r.Changed()) > 0 {
		t.Errorf("%v, %v", r.Changed(), err)
	}
	if did := done(); len(did) > 0 {
		t.Errorf("files of the person were used: %q", did)
	}
	if _, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".profile")); err != nil || len(done()) == 0 {
		t.Error("nothing would have been noticed")
	}
}

// Each version behaves as expected, and accesses nothing in the person's home directory.
func TestRealVersions(t *testing.T) { standin.ForEach(t, measure) }

func measure(t *testing.T, v teams.Version) {
	command := standin.Require(t, v)
	done := watchHome(t)
	// Other tests run at the same time.
	r, err := probe.Run(t.Context(), probe.Options{Command: command, Step: 2 * probe.Step, Limit: 3 * probe.Limit})
	must(t, err)
	t.Logf("%s took %s", r.Version, r.Took.Round(time.Second))
	for _, f := range r.Points {
		switch {
		case f.Unmeasured():
			t.Errorf("%s was not measured: %s", f.Name, f.Why)
		case f.Changed():
			t.Errorf("%s: found %s, expected %s", f.Name, f.Found, f.Expected)
		}
	}
	if did := done(); len(did) > 0 {
		t.Errorf("files of the person were used: %q", did)
	}
}
