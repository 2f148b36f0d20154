package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"teambridge/teams"
)

// Entry is a row with where it was found.
type Entry struct {
	Row
	Inbox string // the name whose inbox it is in
	Index int    // of the row among those of the inbox, from 0
}

// Merge puts the rows of several inboxes into one order: by time, rows of one
// time by inbox name, rows of one inbox never out of the order of their file
// where their times are equal. A row whose time cannot be understood stands
// right behind the one in front of it in its file.
func Merge(inboxes map[string][]Row) []Entry {
	type timed struct {
		Entry
		at time.Time
	}
	var all []timed
	for name, rows := range inboxes {
		var last time.Time
		for i, r := range rows {
			if at, ok := r.Time(); ok {
				last = at
			}
			all = append(all, timed{Entry{Row: r, Inbox: name, Index: i}, last})
		}
	}
	slices.SortFunc(all, func(a, b timed) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		if a.Inbox != b.Inbox {
			if a.Inbox < b.Inbox {
				return -1
			}
			return 1
		}
		return a.Index - b.Index
	})
	entries := make([]Entry, len(all))
	for i, t := range all {
		entries[i] = t.Entry
	}
	return entries
}

// Noise reports whether the row says nothing that anybody needs to read or to
// act on: an agent that is idle and has neither a result nor anything it said,
// and the confirmations of a shutdown. A type that is not known is never noise.
func (r *Row) Noise() bool {
	switch r.Kind() {
	case "idle_notification":
		var idle struct {
			IdleReason, Summary, Result, FailureReason, CompletedTaskID string
		}
		if err := json.Unmarshal([]byte(r.Text), &idle); err != nil {
			return false
		}
		return idle.IdleReason == "available" && idle.Summary == "" && idle.Result == "" &&
			idle.FailureReason == "" && idle.CompletedTaskID == ""
	case "shutdown_approved", "teammate_terminated":
		return true
	}
	return false
}

// Feed is all inboxes of one team as one ordered list, kept up to date by
// looking again. A file that has not changed is not parsed again. It may be
// used by several goroutines.
type Feed struct {
	team *teams.Team

	mu     sync.Mutex
	files  map[string]parsed
	merged []Entry // nil where it has to be made again
	parses int     // for tests: files parsed so far
}

// parsed is an inbox as it was when it was last read.
type parsed struct {
	rows   []Row
	info   fs.FileInfo
	settle bool // the file was old enough for its time to tell later changes
}

// racy is how young a file may be at most for its modification time not to
// prove that it was left alone since: file systems keep time in ticks of up to
// 10 ms, and two writes can fall into one.
const racy = 50 * time.Millisecond

// NewFeed returns the feed of a team. Nothing is read before Refresh.
func NewFeed(team *teams.Team) *Feed {
	return &Feed{team: team, files: map[string]parsed{}}
}

// Refresh looks at every inbox of the team and reads those that have changed.
// It returns the names of the inboxes whose rows are not what they were, sorted.
//
// An inbox that cannot be read (corrupt, too large, being written) keeps the
// rows that it had, and is read again by the next Refresh; the error joins what
// is wrong with each, and the feed is usable all the same. An empty and a
// missing inbox hold nothing. [teams.ErrTeamGone] ends it all: the feed stays as
// it was.
func (f *Feed) Refresh(ctx context.Context) (changed []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.team.InboxDir(false)
	switch {
	case errors.Is(err, teams.ErrTeamGone):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return f.forget(nil), nil // no inbox was made yet
	case err != nil:
		return nil, err
	}
	defer dir.Close()
	names, err := f.team.Inboxes()
	if err != nil {
		return nil, err
	}
	changed = f.forget(names)
	var faults []error
	for _, name := range names {
		was, known := f.files[name]
		if known && was.current(dir, name+".json") {
			continue
		}
		now, err := f.parse(ctx, dir, name)
		if errors.Is(err, teams.ErrTeamGone) {
			return nil, err
		}
		if err != nil {
			faults = append(faults, err)
			if ctx.Err() != nil {
				break // the rest would fail too; report what has changed so far
			}
			continue
		}
		f.files[name] = now
		if !known && len(now.rows) > 0 || known && !sameRows(was.rows, now.rows) {
			changed = append(changed, name)
			f.merged = nil
		}
	}
	slices.Sort(changed)
	return changed, errors.Join(faults...)
}

// forget drops the inboxes that are not among names, and returns those of them
// that held something.
func (f *Feed) forget(names []string) (changed []string) {
	for name, p := range f.files {
		if slices.Contains(names, name) {
			continue
		}
		delete(f.files, name)
		if len(p.rows) > 0 {
			changed = append(changed, name)
			f.merged = nil
		}
	}
	return changed
}

func (f *Feed) parse(ctx context.Context, dir *os.Root, name string) (parsed, error) {
	box, err := Open(f.team, name, nil) // reading takes no lock
	if err != nil {
		return parsed{}, err
	}
	f.parses++
	at := time.Now()
	rows, info, err := box.read(ctx, dir)
	if errors.Is(err, ErrEmpty) || errors.Is(err, ErrMissing) {
		return parsed{}, nil
	}
	if err != nil {
		return parsed{}, err
	}
	return parsed{rows: rows, info: info, settle: at.Sub(info.ModTime()) > racy}, nil
}

// current reports whether the file is still the one that was parsed.
func (p parsed) current(dir *os.Root, file string) bool {
	if !p.settle {
		return false
	}
	info, err := dir.Lstat(file)
	return err == nil && sameFile(p.info, info)
}

func sameRows(a, b []Row) bool {
	return slices.EqualFunc(a, b, func(x, y Row) bool { return bytes.Equal(x.Raw, y.Raw) })
}

// Entries returns the feed as of the last Refresh, in the order of [Merge], of
// all inboxes or of those that are named. The entries are the caller's own.
func (f *Feed) Entries(names ...string) []Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.merged == nil {
		inboxes := map[string][]Row{}
		for name, p := range f.files {
			inboxes[name] = p.rows
		}
		f.merged = Merge(inboxes)
	}
	entries := make([]Entry, 0, len(f.merged))
	for _, e := range f.merged {
		if len(names) > 0 && !slices.Contains(names, e.Inbox) {
			continue
		}
		e.Raw = bytes.Clone(e.Raw)
		e.Extra = maps.Clone(e.Extra)
		for key, value := range e.Extra {
			e.Extra[key] = bytes.Clone(value)
		}
		entries = append(entries, e)
	}
	return entries
}

// Rows returns the rows of one inbox as of the last Refresh, in the order of
// the file. They are shared and must not be changed.
func (f *Feed) Rows(name string) []Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[name].rows
}
