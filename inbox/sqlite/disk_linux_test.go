package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/killtest"
)

func diskChildren() killtest.Roles {
	return killtest.Roles{"full": childFull}
}

// A database is not upgraded if there is no space for a copy of it.
func TestNoSpaceForACopy(t *testing.T) {
	t.Parallel()
	killtest.OnOwnDisk(t, 0, "full", t.TempDir())
}

func childFull(args []string) error {
	ctx, dir := context.Background(), args[0]
	if err := killtest.Mount(dir, 0, "size=640k"); err != nil {
		return err
	}
	path := filepath.Join(dir, "diary.db")
	d, err := Open(ctx, path, aFormat())
	if err == nil {
		err = d.Do(ctx, "write", func(c *Conn) error {
			_, err := c.Exec("INSERT INTO days (text) VALUES ('kept'), (hex(zeroblob(50000)))")
			return err
		})
		err = errors.Join(err, d.Close())
	}
	if err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil { // enough for the log
		return err
	}
	if err := killtest.Fill(dir); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if _, err := Open(ctx, path, twoSteps()); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "keep a copy") {
		return fmt.Errorf("got %w, want ErrFull for the copy", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(before) {
		return fmt.Errorf("the database was changed: %w", err)
	}
	if _, err := os.Lstat(path + ".copying"); err == nil {
		return errors.New("half a copy is left")
	}
	// With space again, the upgrade succeeds.
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		return err
	}
	d, err = Open(ctx, path, twoSteps())
	if err != nil {
		return err
	}
	return d.Close()
}
