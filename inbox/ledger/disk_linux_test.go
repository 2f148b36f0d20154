package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teambridge/inbox/sqlite"
	"teambridge/relay/relaytest/killtest"
)

func diskChildren() killtest.Roles {
	return killtest.Roles{"full": childFull, "frozen": childFrozen}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	killtest.OnOwnDisk(t, 0, "full", t.TempDir())
}

func childFull(args []string) error {
	ctx, dir := context.Background(), args[0]
	if err := killtest.Mount(dir, 0, "size=640k"); err != nil {
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
		return l.Sends.Intend(ctx, send)
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
	// A new ledger on a full disk.
	if err := killtest.Fill(dir); err != nil {
		return err
	}
	if _, err := Open(ctx, filepath.Join(dir, "other.db")); !errors.Is(err, ErrFull) {
		return fmt.Errorf("open: %w; want ErrFull", err)
	}

	// Every acknowledged message is there, and with space again, sends succeed.
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := intend(n); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	for i := range n + 1 {
		if _, found, err := l.Sends.Recall(ctx, aKey(fmt.Sprint(i))); err != nil || !found {
			return fmt.Errorf("intent %d of %d: found %v, %w", i, n, found, err)
		}
	}
	return l.Close()
}

func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	killtest.OnOwnDisk(t, 0, "frozen", t.TempDir())
}

func childFrozen(args []string) error {
	ctx, dir := context.Background(), args[0]
	if err := killtest.Mount(dir, 0, "size=640k"); err != nil {
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
	if err := killtest.Mount(dir, syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
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
