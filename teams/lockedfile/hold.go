package lockedfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"teambridge/teams/flock"
)

// Handover is how long to wait for a lock whose holder was killed. The kernel frees the lock at once, unless
// the holder was just starting a process: between fork and exec, that process holds the lock, too. One of 600
// kills hit that moment.
const Handover = 2 * time.Second

// Hold takes a lock between our own processes, and keeps it until release. The lock is a flock on a file
// named after key in dir, which is created (0700) if missing. If another process, or another call in this
// one, holds the lock, the error is [ErrLocked]. Hold waits only for calls of [Held], at most 2 s.
func Hold(dir, key string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile(key))
	start := time.Now()
	release, ok, err := flock.TryLock(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, &LockedError{Path: path, Ours: true, Waited: time.Since(start)}
	}
	return release, nil
}

// HoldWithin is [Hold], but waits for the holder until d has passed or ctx ends.
func HoldWithin(ctx context.Context, d time.Duration, dir, key string) (release func() error, err error) {
	return within(ctx, d, func() (func() error, bool, error) {
		release, err := Hold(dir, key)
		return release, errors.Is(err, ErrLocked), err
	})
}

// HoldShared is [HoldWithin] for a lock that several holders share.
func HoldShared(ctx context.Context, d time.Duration, dir, key string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	path, start := filepath.Join(dir, lockFile(key)), time.Now()
	return within(ctx, d, func() (func() error, bool, error) {
		release, ok, err := flock.TryShared(path)
		switch {
		case err != nil:
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		case !ok:
			return nil, true, &LockedError{Path: path, Ours: true, Waited: time.Since(start)}
		}
		return release, false, nil
	})
}

// Held reports whether any process holds the lock of [Hold]. It makes no file.
func Held(dir, key string) (bool, error) { return flock.Held(filepath.Join(dir, lockFile(key))) }

// lockFile returns the name of the lock file for key.
func lockFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16]) + lockSuffix
}

// within calls try every 20 ms while try returns wait, until d has passed or ctx ends. It returns the result
// of the last try.
func within(ctx context.Context, d time.Duration, try func() (release func() error, wait bool, err error)) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		release, wait, err := try()
		if !wait {
			return release, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}
