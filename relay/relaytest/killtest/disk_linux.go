package killtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// OnOwnDisk runs a role as a user, in a mount namespace of its own, in which the user 0 may mount a small disk that
// other processes do not see.
func OnOwnDisk(t testing.TB, uid int, role string, args ...any) {
	t.Helper()
	cmd := Command(t.Context(), role, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getgid(), Size: 1}},
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

// Mount mounts a small disk, or changes one.
func Mount(dir string, flags uintptr, size string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, size); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	return nil
}

// Fill leaves not a page on the disk of dir.
func Fill(dir string) error {
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}
