// Package tasks reads the lists of tasks that Claude Code keeps, below tasks in its directory: one for each team, and
// one for each session that is in none. It writes nothing.
//
// A task is a file, ID.json. Other programs write the lists, and may write anything: a file that is no task
// becomes a problem of its list, and the others are still read.
package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/transcript"
)

// Limits for one list. Files beyond them become a problem of the list.
const (
	MaxTasks = 10_000
	MaxSize  = 1 << 20  // bytes of a file
	MaxTotal = 64 << 20 // bytes of all files
)

// The statuses that Claude Code gives. There can be others.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Completed  = "completed"
)

// Task is a task as its file has it. A field that is missing, or of another type, is empty.
type Task struct {
	ID          string // the name of its file
	Subject     string
	Description string
	ActiveForm  string // its name while it is in progress, such as "Running tests"
	Status      string
	Owner       string   // the name of a member, or any other text
	Blocks      []string // ids of tasks that wait for this one
	BlockedBy   []string // ids of tasks that this one depends on, even completed ones
	WaitsFor    []string // those that are not completed; they may be missing from the list
	Metadata    json.RawMessage
	Internal    bool      // Claude Code shows it to nobody
	Changed     time.Time // when its file was last written
}

// List is the content of a list.
type List struct {
	Name     string
	Tasks    []Task   // by number, as Claude Code lists them; then those whose id is no number
	Problems []error  // what could not be read
	Unread   []string // ids of tasks that exist but could not be read
	Partial  bool     // there may be more tasks than these
	Bytes    int64    // that were read
}

// Error is a problem of a list.
type Error struct {
	Path string // of the file or, if it is about several, of the list
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("tasks: %s: %v", e.Path, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Sentinels that problems wrap.
var (
	ErrNoTask  = errors.New("not a task")
	ErrTooMany = fmt.Errorf("more than %d tasks or %d MiB: the rest is not shown", MaxTasks, MaxTotal>>20)
)

// How long reading waits for a file that another program is writing in place, which takes Claude Code
// less than a millisecond. One that was last written longer ago than tornAge is not being written.
const (
	tornWait = 250 * time.Millisecond
	tornPoll = 5 * time.Millisecond
	tornAge  = 2 * time.Second
)

// Read reads the list called name. It takes no lock. A file that was just
// written, and is no JSON, is read again for 250 ms. The error is that
// of [teams.Root.TaskList]: fs.ErrNotExist if there is no such list.
func Read(ctx context.Context, root *teams.Root, name string) (List, error) {
	dir, err := root.TaskList(name)
	if err != nil {
		return List{}, err
	}
	defer dir.Close()
	l := &reading{dir: dir, path: filepath.Join(root.Path(), "tasks", name), List: List{Name: name}}
	err = l.read(ctx)
	return l.List, err
}

// reading is a list that is being read.
type reading struct {
	List
	dir   *os.Root
	path  string
	until time.Time // deadline for files that are being written

	// For tests.
	wait  func() // called before it is waited
	tasks int    // in place of MaxTasks
}

func (l *reading) read(ctx context.Context) error {
	l.tasks = cmp.Or(l.tasks, MaxTasks)
	names, err := l.names()
	if err != nil {
		return fmt.Errorf("tasks: list %s: %w", l.path, err)
	}
	for _, name := range names {
		if l.Bytes >= MaxTotal || len(l.Tasks) >= l.tasks {
			l.problem("", ErrTooMany)
			l.Partial = true
			break
		}
		if err := l.file(ctx, name); err != nil {
			return err
		}
	}
	slices.SortStableFunc(l.Tasks, func(a, b Task) int { return compareIDs(a.ID, b.ID) })
	completed := map[string]bool{}
	for _, t := range l.Tasks {
		completed[t.ID] = t.Status == Completed
	}
	for i, t := range l.Tasks {
		l.Tasks[i].WaitsFor = slices.DeleteFunc(slices.Clone(t.BlockedBy), func(id string) bool { return completed[id] })
	}
	return nil
}

// names returns the names of files that can be tasks, in directory order.
func (l *reading) names() (names []string, err error) {
	f, err := l.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		some, err := f.ReadDir(1000) // there may be anything in it, and any number
		for _, e := range some {
			id, ok := strings.CutSuffix(e.Name(), ".json")
			if !ok || strings.HasPrefix(id, ".") {
				continue // locks, and other files that Claude Code keeps with the tasks
			}
			if err := teams.CheckName("task", id); err != nil {
				l.problem("", err)
				continue
			}
			if !e.Type().IsRegular() {
				l.unread(e.Name(), lockedfile.ErrNotRegular)
				continue
			}
			if names = append(names, e.Name()); len(names) > l.tasks {
				l.Partial = true
				return names, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxProblems limits the reported problems of a list.
const maxProblems = 20

func (l *reading) problem(name string, err error) {
	if len(l.Problems) < maxProblems {
		l.Problems = append(l.Problems, &Error{Path: filepath.Join(l.path, name), Err: err})
	}
}

// unread notes that a task's file exists but cannot be read.
func (l *reading) unread(name string, err error) {
	l.Unread = append(l.Unread, strings.TrimSuffix(name, ".json"))
	l.problem(name, err)
}

// file reads the task in the file called name. The only error is ctx's.
func (l *reading) file(ctx context.Context, name string) error {
	for {
		data, info, err := l.content(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was deleted since
		}
		if err != nil {
			l.unread(name, err)
			return nil
		}
		task, err := Parse(strings.TrimSuffix(name, ".json"), data)
		if err == nil {
			task.Changed = transcript.ValidTime(info.ModTime())
			l.Tasks = append(l.Tasks, task)
			return nil
		}
		if l.until.IsZero() {
			l.until = time.Now().Add(tornWait)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(info.ModTime()) > tornAge || time.Now().After(l.until) {
			l.unread(name, err)
			return nil
		}
		if l.wait != nil {
			l.wait()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("tasks: %s: wait for a whole %s: %w", l.path, name, context.Cause(ctx))
		case <-time.After(tornPoll):
		}
	}
}

func (l *reading) content(name string) ([]byte, fs.FileInfo, error) {
	info, err := l.dir.Lstat(name)
	if err == nil && info.Size() > MaxSize {
		err = fmt.Errorf("%w: %d bytes, and at most %d are read", lockedfile.ErrTooLarge, info.Size(), MaxSize)
	}
	if err != nil {
		return nil, nil, reason(err)
	}
	data, info, err := lockedfile.Read(l.dir, name)
	l.Bytes += int64(len(data))
	return data, info, reason(err)
}

// reason removes the path from err, which is relative to the list.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Parse parses the content of a task's file. The error is [ErrNoTask] and, if the content may be incomplete,
// also io.ErrUnexpectedEOF.
func Parse(id string, data []byte) (Task, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		// In place, a file is cut off before it is written: everything up to the end is a beginning.
		if len(data) == 0 || json.Unmarshal(data, new(json.RawMessage)) != nil {
			return Task{}, fmt.Errorf("%w: %w (%w)", ErrNoTask, err, io.ErrUnexpectedEOF)
		}
		return Task{}, fmt.Errorf("%w, which is a JSON object", ErrNoTask)
	}
	if fields == nil {
		return Task{}, fmt.Errorf("%w, which is a JSON object", ErrNoTask)
	}
	t := Task{ID: id, Blocks: []string{}, BlockedBy: []string{}}
	for name, to := range map[string]*string{
		"subject": &t.Subject, "description": &t.Description, "activeForm": &t.ActiveForm, "status": &t.Status, "owner": &t.Owner,
	} {
		*to = text(fields[name])
	}
	for name, to := range map[string]*[]string{"blocks": &t.Blocks, "blockedBy": &t.BlockedBy} {
		var list []json.RawMessage
		_ = json.Unmarshal(fields[name], &list) // of another type, it counts as missing
		for _, v := range list {
			if other := text(v); other != "" {
				*to = append(*to, other)
			}
		}
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(fields["metadata"], &metadata) == nil && metadata != nil {
		t.Metadata = fields["metadata"]
		_ = json.Unmarshal(metadata["_internal"], &t.Internal) // as above
	}
	return t, nil
}

// text is a string, or a number as a string; "" for all else.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(value, &n) == nil {
		return n.String()
	}
	return ""
}

// compareIDs sorts numbers by size, and puts other ids behind them.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(a, b))
}

func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}
