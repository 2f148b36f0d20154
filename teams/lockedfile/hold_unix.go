//go:build unix

package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/teams/flock"
)

// HoldDir locks a directory, and keeps the lock until release. The lock is a flock on the open directory. It
// needs no file, and works between all our processes, whatever their state directories are. Other programs do
// not notice it.
//
// If the holder was killed, HoldDir waits until d has passed or ctx ends (see [Handover]). If the holder is
// known to be alive, HoldDir does not wait. The error is a [*LockedError] if another process holds the lock,
// and errors.ErrUnsupported if directories cannot be locked, as on some network file systems and on Windows.
func HoldDir(ctx context.Context, d time.Duration, dir string) (release func() error, err error) {
	start := time.Now()
	return within(ctx, d, func() (func() error, bool, error) {
		release, ok, err := flock.TryLockDir(dir)
		if ok {
			return release, false, nil
		}
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
			return nil, false, fmt.Errorf("lock directory %s: %w", dir, err)
		}
		pid, alive := holder(dir)
		return nil, !alive, &LockedError{Path: dir, Ours: true, PID: pid, Waited: time.Since(start)}
	})
}
