package relay

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude/simchild"
)

// envFull makes the test binary the process in which the disk of the ledger is
// full for a while: it is mounted there alone.
const envFull = "RELAY_TEST_FULL"

// The disk that the ledger is on is full for a while. The relay says so and stays;
// the rows stay in the inbox, unread; with room again they are delivered, once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envFull+"="+s.dir, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || strings.Contains(string(out), "cannot mount")) {
		t.Skipf("no mount namespace to be had here: %v %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func runFull(dir string) int {
	if err := syscall.Mount("tmpfs", filepath.Join(dir, "state"), "tmpfs", 0, "size=2m"); err != nil {
		fmt.Println("cannot mount:", err)
		return 1
	}
	t := &bridgeT{}
	defer t.cleanup()
	s := openStation(t, dir, simchild.Script{State: filepath.Join(dir, "root")})
	s.agent().write("[m-1]")
	_, stop := s.relay(s.options())
	s.settled(1)

	ballast := filepath.Join(dir, "state", "ballast")
	f, err := os.Create(ballast)
	for size := 64 << 10; err == nil && size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if errors.Is(err, syscall.ENOSPC) {
			err = nil
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	large := strings.Repeat("x", 98<<10) // what is free inside the ledger's files does not do
	s.agent().write("[m-2]"+large, "[m-3]"+large, "[m-4]")
	s.await("the relay says that the disk is full", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.warned, func(err error) bool { return errors.Is(err, ledger.ErrFull) })
	})
	data, err := os.ReadFile(s.agent().path)
	if n := strings.Count(string(data), `"read": false`); err != nil || n != 3 {
		t.Fatalf("%d rows wait, %v; want 3", n, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.settled(4) {
		if d.State != ledger.Done {
			t.Fatalf("%s is %s (%s)", d.ID, d.State, d.Reason)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := s.works("[m-1]", "[m-2]", "[m-3]", "[m-4]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 || n["[m-3]"] != 1 || n["[m-4]"] != 1 {
		t.Fatalf("worked on %v", n)
	}
	if n := s.logged("start"); n != 1 {
		t.Fatalf("%d agents, want one", n)
	}
	return 0
}
