package flock

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TryLock waits for a process that only looks whether the lock is held, and does not wait for a holder.
func TestTryLockWaitsForLooks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		looked, ok, err := TryShared(path)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.AfterFunc(time.Second, func() {
			if err := looked(); err != nil {
				t.Error(err)
			}
		})
		start := time.Now()
		unlock, ok, err := TryLock(path)
		if took := time.Since(start); !ok || err != nil || took < time.Second {
			t.Fatalf("locked: %t, after %s, %v", ok, took, err)
		}
		defer unlock()
		start = time.Now()
		if _, ok, err := TryLock(path); ok || err != nil || time.Since(start) > 0 {
			t.Errorf("locked again: %t, after %s, %v", ok, time.Since(start), err)
		}
	})
}
