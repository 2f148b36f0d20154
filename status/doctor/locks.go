package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/relay/process"
	"teambridge/status/api"
	"teambridge/teams/flock"
	"teambridge/teams/lockedfile"
	"teambridge/teams/sharedfile"
)

// objects examines a directory for objects in the place of locks, for locks that no process holds, and for our
// own leftovers. If only is not empty, it examines only the objects of that file.
func (x *examination) objects(team, dir, only string) {
	entries, err := sharedfile.ReadDir(dir)
	if err != nil {
		return // another check reports the error, or the directory does not exist yet
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if of, ok := lockedfile.TempOf(e.Name()); ok && (only == "" || of == only) {
			x.leftover(team, path, e)
			continue
		}
		of, ok := strings.CutSuffix(e.Name(), ".lock")
		if ok && strings.HasSuffix(of, ".json") && (only == "" || of == only) {
			x.lock(team, path, e)
		}
	}
}

// lock examines an object in the place of a lock.
func (x *examination) lock(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return // released in the meantime
	}
	inside, derr := sharedfile.ReadDir(path)
	what, remove := "a file is in the place of a lock: no agent can write to the file that it locks, and no agent reports that", os.Remove
	switch {
	case !e.IsDir():
	case derr != nil:
		return
	case len(inside) > 0:
		what, remove = fmt.Sprintf("a lock directory with something in it (%s): no agent can take it over", inside[0].Name()), os.RemoveAll
	case time.Since(info.ModTime()) > lockedfile.StaleAfter:
		x.add(api.LevelNote, "stale_lock", team, path, fmt.Sprintf("a lock that was not touched for more than %s", lockedfile.StaleAfter), "it does no harm: the next writer takes it over")
		return
	default:
		return
	}
	f := x.add(api.LevelProblem, "foreign_lock", team, path, what, removable)
	if why := lockUser(path); why != "" {
		f.Advice = why + "; look again later"
		return
	}
	f.remedy = func() error {
		if why := lockUser(path); why != "" { // it has come into use since the examination
			return errors.New(why)
		}
		return removeSame(path, info, remove)
	}
}

const removable = "teambridge doctor --fix removes it"

// leftover reports a temporary file of ours, unless it is so young that it may be in use.
func (x *examination) leftover(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < 2*lockedfile.StaleAfter {
		return
	}
	x.add(api.LevelNote, "leftover", team, path, "a temporary file of a teambridge that was killed",
		"the next message to this inbox removes it, as does teambridge doctor --fix").
		remedy = func() error { return removeSame(path, info, os.Remove) }
}

// removeSame removes path unless it has changed.
func removeSame(path string, was fs.FileInfo, remove func(string) error) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()):
		return errors.New("it has changed since the check")
	}
	return remove(path)
}

// lockUser returns why an object in the place of a lock may be in use, or "". A directory is in use if a file in it is.
func lockUser(path string) (why string) {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case time.Since(info.ModTime()) < lockedfile.StaleAfter:
			why = fmt.Sprintf("it is in use: it was changed less than %s ago", lockedfile.StaleAfter)
		case info.Mode().IsRegular(): // opening a pipe would wait for its other end
			why = fileUser(path)
		}
		if why != "" {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && why == "" {
		return fmt.Sprintf("it may be in use: %v", err)
	}
	return why
}

// fileUser is [lockUser] for a regular file.
func fileUser(path string) string {
	if users, _ := sqlite.Users(path); len(users) > 0 {
		return fmt.Sprintf("it is in use: %s has it open", users[0])
	}
	held, err := flock.Held(path)
	switch {
	case err != nil:
		return fmt.Sprintf("it may be in use: %v", err)
	case held:
		return "it is in use: a process holds its lock"
	}
	start, err := readStart(path)
	if err != nil {
		return fmt.Sprintf("it may be in use: %v", err)
	}
	// Programs write their process id into the first line, or use it as the name of the file.
	first, _, _ := strings.Cut(start, "\n")
	for _, text := range []string{first, filepath.Base(path)} {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			continue
		}
		if alive, _ := (process.Predecessor{PID: pid}).Alive(); alive {
			return fmt.Sprintf("it is in use: process %d, which it names, is running", pid)
		}
	}
	return ""
}

// readStart returns the first bytes of a file.
func readStart(path string) (string, error) {
	f, err := sharedfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	return string(data), err
}
