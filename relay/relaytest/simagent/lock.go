package simagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// StaleAfter is the age of a lock directory, by its modification time, after
// which the next writer takes it over.
const StaleAfter = 10 * time.Second

// ErrBlocked says that something in a lock's place is not a lock: a regular
// file, or a directory with content. Claude Code's writers fail until it is
// removed.
var ErrBlocked = errors.New("what stands in the lock's place is not a lock")

// giveUp is the default of [Options.GiveUp].
const giveUp = 600 * time.Millisecond

const (
	lockWaitMin = 5 * time.Millisecond
	lockWaitMax = 100 * time.Millisecond
)

// locked runs body while it holds the lock directory of path. It waits for as
// long as ctx lives.
func locked(ctx context.Context, path string, now func() time.Time, body func() error) error {
	lock := path + ".lock"
	if err := acquire(ctx, lock, now); err != nil {
		return fmt.Errorf("simagent: lock %s: %w", lock, err)
	}
	err := body()
	// rmdir and not os.Remove, which would delete a foreign file too.
	if unlock := syscall.Rmdir(lock); unlock != nil && !errors.Is(unlock, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("simagent: unlock %s: %w", lock, unlock))
	}
	return err
}

func acquire(ctx context.Context, lock string, now func() time.Time) error {
	for wait := lockWaitMin; ; wait = min(2*wait, lockWaitMax) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := os.Mkdir(lock, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := os.Lstat(lock)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return ErrBlocked
		case now().Sub(info.ModTime()) > StaleAfter:
			if err := syscall.Rmdir(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %w", ErrBlocked, err)
			}
			continue
		}
		// Jitter, so that two agents started together do not collide in step.
		if err := sleep(ctx, wait/2+rand.N(wait/2)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
