package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teambridge/teams/flock"
)

// displaced is the directory, in the state directory, in which a file is exchanged with its new content. It
// contains new content under names that begin with newPrefix. It also contains old content, named after the
// time of the exchange, for at least displacedLife. Only a holder of the flock may make or remove files here.
//
// Before Claude Code locks an inbox, it looks up the real path: it opens the file and asks the kernel for the
// open file's name. If a rename replaces the file in between, within some 35 µs, that file no longer has a
// name. The agent then takes no lock, cannot remove the rows that it has read, and takes them again: at 100
// messages a second, up to 11 of 1000 arrived twice. An exchanged file still has a name, and the agent locks
// that name instead of the inbox. The exchange preserves earlier changes of the agent, and await waits for
// such locks before our lock is released.
type displaced struct {
	dir      *os.Root // nil if there is no state directory, or if the system cannot exchange files
	unusable bool     // the file system cannot exchange files
	refused  error    // the error of [Options.refused]
}

// displacedLife is how long old content is kept. It is longer than a busy machine delays an agent between its
// two system calls.
const displacedLife = 50 * time.Millisecond

const newPrefix = "new-"

// displaced opens the directory for f and removes old files. The caller holds the flock.
func (l *Locker) displaced(f File) (*displaced, error) {
	if l.opts.Dir == "" || !canExchange {
		return &displaced{}, nil
	}
	path := strings.TrimSuffix(l.flockPath(f), lockSuffix)
	dir, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(path, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			dir, err = os.OpenRoot(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: a place for its old content: %w", f.Path(), err)
	}
	d := &displaced{dir: dir, refused: l.opts.refused}
	if err := d.tidy(); err != nil {
		d.close()
		return nil, fmt.Errorf("lock %s: its old content in %s: %w", f.Path(), path, err)
	}
	return d, nil
}

// tidy removes old content that was kept long enough, and new content of killed processes. The caller holds
// the flock.
func (d *displaced) tidy() error {
	names, err := d.names()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, name := range names {
		if !strings.HasPrefix(name, newPrefix) {
			ns, err := strconv.ParseInt(strings.TrimSuffix(name, lockSuffix), 10, 64)
			if err != nil {
				continue // the file is not ours
			}
			at := time.Unix(0, ns)
			if strings.HasSuffix(name, lockSuffix) {
				at = at.Add(StaleAfter) // the lock of a killed agent: living agents remove theirs
			}
			// A time in the future means that the clock was set back.
			if now.Sub(at) <= displacedLife && at.Sub(now) <= StaleAfter {
				continue
			}
		}
		if err := ignoreNotExist(d.dir.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// Sweep removes old content in dir, the state directory of a [Locker], that was kept long enough. Without
// Sweep, a file's old content stays until the file is changed again. Sweep skips files that are being
// changed. dir need not exist.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, ignoreNotExist(sweep(filepath.Join(dir, e.Name()))))
		}
	}
	return errors.Join(errs...)
}

func sweep(path string) error {
	unlock, ok, err := flock.TryLock(path + lockSuffix)
	if err != nil || !ok {
		return err
	}
	defer unlock()
	dir, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	d := &displaced{dir: dir}
	defer d.close()
	return d.tidy()
}

func (d *displaced) names() ([]string, error) {
	r, err := d.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Readdirnames(-1)
}

// usable reports whether f can be exchanged with a file in this directory. Both must be on the same file
// system.
func (d *displaced) usable(f File) bool {
	return d.dir != nil && !d.unusable && sameDevice(d.dir, f.Dir)
}

// await waits for agents that have locked the name of the old content, and change it as if it were the inbox.
// It returns true if there was such an agent, and it has finished. An agent needs less than a millisecond;
// after [MaxHold]/4 it is presumed dead.
func (d *displaced) await() bool {
	if d.dir == nil {
		return false
	}
	start := time.Now()
	for came := false; ; came = true {
		names, err := d.names()
		if err != nil {
			return came
		}
		there := false
		for _, name := range names {
			there = there || strings.HasSuffix(name, lockSuffix)
		}
		if !there || time.Since(start) > MaxHold/4 {
			return came && !there
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *displaced) close() {
	if d.dir != nil {
		_ = d.dir.Close() // ignore the error: all written data was flushed
	}
}
