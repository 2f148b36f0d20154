package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teambridge/inbox/sqlite"
	"teambridge/inbox/sqlite/sqlitetest"
)

func diskChildren() map[string]func([]string) error {
	return map[string]func([]string) error{"full": childFull, "frozen": childFrozen}
}

// onOwnDisk runs a child with a mount namespace of its own, in which it may
// mount a small disk. Nothing of that is seen outside.
func onOwnDisk(t *testing.T, name string) {
	t.Helper()
	cmd := sqlitetest.Child(t.Context(), name, t.TempDir())
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

func mount(dir string, flags uintptr, size string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, size); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	return nil
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	onOwnDisk(t, "full")
}

func childFull(args []string) error {
	ctx, dir := context.Background(), args[0]
	if err := mount(dir, 0, "size=640k"); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
		return err
	}
	path := filepath.Join(dir, "ledger.db")
	l, err := Open(ctx, path)
	if err != nil {
		return err
	}
	intend := func(i int) error {
		send := aSend(fmt.Sprint(i))
		send.Before = strings.Repeat("x", 5000)
		return l.Intend(ctx, send)
	}
	n := 0
	for err == nil {
		if err = intend(n); err == nil {
			n++
		}
	}
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("after %d intents: %w; want ErrFull with the path", n, err)
	}
	// A ledger that is to be made on a full disk.
	if err := fill(dir); err != nil {
		return err
	}
	if _, err := Open(ctx, filepath.Join(dir, "other.db")); !errors.Is(err, ErrFull) {
		return fmt.Errorf("open: %w; want ErrFull", err)
	}

	// Everything acknowledged is there, and with space it goes on.
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := intend(n); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	for i := range n + 1 {
		if _, found, err := l.Recall(ctx, aKey(fmt.Sprint(i))); err != nil || !found {
			return fmt.Errorf("intent %d of %d: found %v, %w", i, n, found, err)
		}
	}
	return l.Close()
}

// fill leaves not a page on the disk of dir.
func fill(dir string) error {
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

func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	onOwnDisk(t, "frozen")
}

func childFrozen(args []string) error {
	ctx, dir := context.Background(), args[0]
	if err := mount(dir, 0, "size=640k"); err != nil {
		return err
	}
	path := filepath.Join(dir, "ledger.db")
	l, err := Open(ctx, path)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	if err := mount(dir, syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	for path, want := range map[string]error{
		path:                              sqlite.ErrReadOnly,
		filepath.Join(dir, "other.db"):    sqlite.ErrAccess,
		filepath.Join(dir, "x", "new.db"): sqlite.ErrAccess,
	} {
		if _, err := Open(ctx, path); !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), path) {
			return fmt.Errorf("open %s: got %w, want %w", path, err, want)
		}
	}
	return nil
}
