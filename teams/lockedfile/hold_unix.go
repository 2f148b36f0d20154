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

// HoldDir locks the directory itself, and keeps the lock until release. It is a flock
// on the open directory: nothing is made in it, all processes that lock this directory
// share it, whatever their state directories are, and the kernel frees it when the
// holder dies. It keeps others from nothing but a flock on that directory.
//
// It waits d at most, or until ctx ends, for a holder that was killed (see [Handover]),
// and not at all for one that is known to be alive.
//
// The error is a [*LockedError] where another process holds it, and
// errors.ErrUnsupported where directories cannot be locked, as on some network file
// systems and on Windows.
func HoldDir(ctx context.Context, d time.Duration, dir string) (release func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		release, ok, err := flock.TryLockDir(dir)
		if ok {
			return release, nil
		}
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
			return nil, fmt.Errorf("lock directory %s: %w", dir, err)
		}
		pid, alive := holder(dir)
		if !alive {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			}
		}
		return nil, &LockedError{Path: dir, Ours: true, PID: pid, Waited: time.Since(start)}
	}
}
