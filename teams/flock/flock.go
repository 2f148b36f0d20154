// Package flock locks files between processes, with flock(2) or, on Windows,
// LockFileEx. The kernel frees a lock when its holder ends, even if the holder is
// killed. Other programs are not kept from a file by its lock.
//
// A lock also keeps out other calls of the same process.
package flock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// retry is how often [Lock] tries.
const retry = 3 * time.Millisecond

// Lock locks the file path, which it creates with mode 0600 if it is missing. It waits
// until the lock is free or ctx ends.
func Lock(ctx context.Context, path string) (unlock func() error, err error) {
	l := open(path)
	if ok, err := l.TryLockContext(ctx, retry); err != nil || !ok {
		return nil, errors.Join(err, l.Close())
	}
	return l.Close, nil
}

// TryLock is [Lock], but does not wait: ok is false if the lock is not free. Only for calls of [Held], which have it for a moment, it
// waits, 2 s at most.
func TryLock(path string) (unlock func() error, ok bool, err error) {
	for start := time.Now(); ; time.Sleep(rand.N(2 * time.Millisecond)) {
		if unlock, ok, err = try(open(path)); ok || err != nil {
			return unlock, ok, err
		}
		if held, err := Held(path); held || err != nil || time.Since(start) > 2*time.Second {
			return nil, false, err
		}
	}
}

// TryShared is [TryLock], but others can have the lock at the same time if they share it, too.
func TryShared(path string) (unlock func() error, ok bool, err error) {
	l := open(path)
	if ok, err = l.TryRLock(); ok {
		return l.Close, true, nil
	}
	return nil, false, errors.Join(err, l.Close())
}

// TryLockDir is [TryLock] for a directory. Nothing is created in it. Some network file
// systems, and Windows, cannot lock a directory.
func TryLockDir(dir string) (unlock func() error, ok bool, err error) {
	return try(flock.New(dir, flock.SetFlag(os.O_RDONLY)))
}

// Held reports whether somebody holds the lock of the file path. It does not create the
// file.
func Held(path string) (bool, error) {
	// A shared lock: two that look at the same time do not see each other.
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return false, fmt.Errorf("look at lock %s: %w", path, err)
	}
	return !free, nil
}

func open(path string) *flock.Flock { return flock.New(path, flock.SetPermissions(0o600)) }

func try(l *flock.Flock) (unlock func() error, ok bool, err error) {
	if ok, err = l.TryLock(); ok {
		return l.Close, true, nil
	}
	return nil, false, errors.Join(err, l.Close())
}
