package teams

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/teams/lockedfile"
)

const (
	configFile = "config.json"
	inboxesDir = "inboxes"
)

// How long a read waits for a config.json that another program is rewriting. tornWait is for a rewrite in
// place, which takes Claude under a millisecond, and lockWait for one whose lock is held.
const (
	tornWait = 250 * time.Millisecond
	lockWait = lockedfile.DefaultWait
	tornPoll = 10 * time.Millisecond
)

// Team is the directory of a team, as it was when it was opened. It is safe for concurrent use. Close it.
type Team struct {
	root *Root
	name string
	path string
	dir  *os.Root
}

// Name returns the name of the team, which is the name of its directory.
func (t *Team) Name() string { return t.name }

// Path returns the path of the directory, even if it is gone.
func (t *Team) Path() string { return t.path }

func (t *Team) file() string { return filepath.Join(t.path, configFile) }

// Root returns the Claude directory that the team was opened from.
func (t *Team) Root() *Root { return t.root }

// Close releases the directory.
func (t *Team) Close() error { return t.dir.Close() }

// Stat describes the directory that t was opened on, even if its name now leads elsewhere.
func (t *Team) Stat() (fs.FileInfo, error) { return t.dir.Stat(".") }

// Exists returns nil if the directory that t was opened on has a config.json, and the team's name still leads
// to that directory. Otherwise the error is [ErrTeamGone]. It takes only three system calls, so it can be
// called under a lock.
func (t *Team) Exists() error {
	if _, err := t.dir.Lstat(configFile); err != nil {
		return t.wrap("look for "+configFile, err)
	}
	held, err := t.dir.Stat(".")
	if err != nil {
		return t.wrap("look at the directory", err)
	}
	now, err := t.root.dir.Lstat("teams/" + t.name)
	if err != nil {
		return t.wrap("look for the directory", err)
	}
	if !os.SameFile(held, now) {
		return fmt.Errorf("teams: %s: made again since it was opened: %w", t.path, ErrTeamGone)
	}
	return nil
}

// wrap adds the team's name to err, and turns a missing file into ErrTeamGone.
func (t *Team) wrap(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrTeamGone
	}
	return fmt.Errorf("teams: %s: %s: %w", t.path, what, reason(err))
}

// Config reads config.json, without its lock. If the file is empty or not JSON, Config reads it again for 250
// ms, or as long as a fresh lock directory is next to it, but at most 15 s; then the error is a
// [*CorruptError]. For a missing file the error is [ErrTeamGone], without a wait. For a file over
// [lockedfile.MaxSize] it is [lockedfile.ErrTooLarge].
func (t *Team) Config(ctx context.Context) (*Config, error) {
	start := time.Now()
	for {
		data, err := t.read()
		if err != nil {
			return nil, err
		}
		c, err := t.parse(data)
		if err == nil {
			return c, nil
		}
		if waited := time.Since(start); waited >= lockWait || waited >= tornWait && !lockedfile.Busy(t.dir, configFile) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("teams: %s: wait for a whole %s: %w", t.path, configFile, context.Cause(ctx))
		case <-time.After(tornPoll):
		}
	}
}

// parse is Parse with the path of the team's file in the error.
func (t *Team) parse(data []byte) (*Config, error) {
	c, err := Parse(t.name, data)
	if ce, ok := errors.AsType[*CorruptError](err); ok {
		ce.Path = t.file()
	}
	return c, err
}

// read returns the current content of config.json.
func (t *Team) read() ([]byte, error) {
	data, _, err := lockedfile.Read(t.dir, configFile)
	switch {
	case errors.Is(err, lockedfile.ErrNotRegular):
		return nil, t.corrupt(0, "not a regular file")
	case errors.Is(err, lockedfile.ErrTooLarge):
		return nil, fmt.Errorf("teams: read %s: %w", t.file(), lockedfile.ErrTooLarge)
	case err != nil:
		return nil, t.wrap("read "+configFile, err)
	}
	return data, nil
}

// Inboxes lists the names that have an inbox file, sorted; a name need not be a member's. Only regular files
// NAME.json with a valid NAME ([CheckName]) are inboxes. If the team has no inboxes directory, the list is
// empty; if the team is gone, the error is [ErrTeamGone].
func (t *Team) Inboxes() ([]string, error) {
	dir, err := t.InboxDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := list(dir, ".")
	if err != nil {
		return nil, t.wrap("list "+inboxesDir, err)
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && e.Type().IsRegular() && badName(name) == "" {
			names = append(names, name)
		}
	}
	// "a.json" sorts after "a-b.json", but "a" before "a-b".
	slices.Sort(names)
	return names, nil
}

// InboxDir opens the team's inboxes directory; close it. If a link is in its place, the error is [ErrNotDir].
//
// With create, InboxDir is for writing: it makes a missing directory (mode 0700), and fails with
// [ErrTeamGone] if the team has no config.json. Without create, it also opens the inboxes of such a team. If
// the directory is missing, the error is then fs.ErrNotExist, or [ErrTeamGone] if the team is gone, too.
func (t *Team) InboxDir(create bool) (*os.Root, error) {
	if create {
		if err := t.Exists(); err != nil {
			return nil, err
		}
	}
	dir, err := step(t.dir, inboxesDir)
	if create && errors.Is(err, fs.ErrNotExist) {
		if dir, err = t.makeInboxes(); errors.Is(err, ErrTeamGone) {
			return nil, err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if gone := t.Exists(); gone != nil {
			return nil, gone
		}
	}
	if err != nil {
		return nil, fmt.Errorf("teams: open %s: %w", filepath.Join(t.path, inboxesDir), reason(err))
	}
	return dir, nil
}

// Sweep removes the empty directories of a team without config.json: a lock of ours may have prevented its
// complete deletion. It does not touch a later team of the same name.
func (t *Team) Sweep() error {
	if err := t.Exists(); !errors.Is(err, ErrTeamGone) {
		return err
	}
	if err := removeEmpty(t.dir, inboxesDir, nil); err != nil {
		return fmt.Errorf("teams: tidy %s: %w", t.path, err)
	}
	held, err := t.dir.Stat(".")
	if err == nil {
		err = removeEmpty(t.root.dir, "teams/"+t.name, held)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("teams: tidy %s: %w", t.path, err)
	}
	return nil
}

// removeEmpty removes the directory name in parent if it is empty. If is is not nil, the directory must be
// that one.
func removeEmpty(parent *os.Root, name string, is fs.FileInfo) error {
	info, err := parent.Lstat(name)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.IsDir() || is != nil && !os.SameFile(info, is) {
		return nil
	}
	entries, err := list(parent, name)
	if err != nil || len(entries) > 0 {
		return ignoreMissing(err)
	}
	// A new entry may have appeared meanwhile. The directory then stays.
	if err := parent.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if entries, lerr := list(parent, name); lerr != nil || len(entries) == 0 {
			return err
		}
	}
	return nil
}

func (t *Team) makeInboxes() (*os.Root, error) {
	switch err := t.dir.Mkdir(inboxesDir, 0o700); {
	case err == nil:
		// Claude may be deleting the team. If it has removed config.json meanwhile, our directory may have
		// prevented it from removing the team's directory.
		if err := t.Exists(); errors.Is(err, ErrTeamGone) {
			return nil, errors.Join(err, t.Sweep())
		} else if err != nil {
			return nil, errors.Join(err, ignoreMissing(t.dir.Remove(inboxesDir)))
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	return step(t.dir, inboxesDir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Resolve is [Config.Resolve] with the current files.
func (t *Team) Resolve(ctx context.Context, query string) (string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	inboxes, err := t.Inboxes()
	if err != nil {
		return "", err
	}
	return c.Resolve(query, inboxes)
}
