package tasks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
)

// lists is a Claude directory with lists of tasks.
type lists struct {
	*testing.T
	root *teams.Root
}

var must = errtest.Must

func newLists(t *testing.T, names ...string) *lists {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		must(t, os.MkdirAll(filepath.Join(dir, "tasks", name), 0o700))
	}
	root, err := teams.Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return &lists{t, root}
}

func (l *lists) path(name string) string { return filepath.Join(l.root.Path(), "tasks", name) }

func (l *lists) write(name, content string) {
	l.Helper()
	if err := os.WriteFile(l.path(name), []byte(content), 0o600); err != nil {
		l.Fatal(err)
	}
}

func (l *lists) read(name string) List {
	l.Helper()
	got, err := Read(l.Context(), l.root, name)
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// reading returns a reading of a list, whose limits can be changed.
func (l *lists) reading(name string) *reading {
	l.Helper()
	dir, err := l.root.TaskList(name)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = dir.Close() })
	return &reading{path: name, dir: dir}
}

func ids(l List) (list []string) {
	for _, t := range l.Tasks {
		list = append(list, t.ID)
	}
	return list
}

// Lists that real versions have written are read as they are; see CONTRACT.md.
func TestCaptured(t *testing.T) {
	t.Parallel()
	captured, err := filepath.Glob("../../testdata/claude-*/tasks/*")
	if err != nil || len(captured) < 2 {
		t.Fatalf("%d captured lists (%v)", len(captured), err)
	}
	for _, dir := range captured {
		l := newLists(t, "list")
		must(t, os.CopyFS(l.path("list"), os.DirFS(dir)))
		got := l.read("list")
		if len(got.Problems) > 0 {
			t.Errorf("%s: %v", dir, got.Problems)
		}
		var shown []string
		for _, task := range got.Tasks {
			shown = append(shown, fmt.Sprintf("%s %s %q %q %v %v %v %s", task.ID, task.Status, task.Owner, task.Subject, task.Blocks, task.BlockedBy, task.WaitsFor, task.Metadata))
			if task.Changed.IsZero() || task.Internal {
				t.Errorf("%s: %+v", dir, task)
			}
		}
		want := []string{
			`1 completed "worker" "Read the code" [2] [] [] `,
			`2 in_progress "worker" "Write the test" [4] [1] [] `,
			`4 pending "" "Run everything" [] [2] [2] `,
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
	}
}

// Other files in a list do not prevent its tasks from being read. Each is a problem or is ignored.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	l := newLists(t, "list")
	l.write("outside.json", `{"subject": "outside"}`)
	l.write("list/2.json", `{"id": "77", "subject": "another id", "status": "odd", "blockedBy": ["1", 10, "nobody", {}, ""], "blocks": "none"}`)
	l.write("list/10.json", `{"subject": 5, "description": null, "owner": ["x"], "status": "completed", "metadata": {"_internal": true, "k": [1]}}`)
	l.write("list/1.json", `{"id": 1, "metadata": "text"}`)
	l.write("list/abc.json", "{}")
	l.write("list/.lock", "")
	l.write("list/.highwatermark", "12")
	l.write("list/.3.json", "{}")
	l.write("list/3.json.tmp.0a1b2c3d", "{")
	l.write("list/README", "hello")
	l.write("list/4.json", `["no object"]`)
	l.write("list/5.json", "null")
	l.write("list/6.json", `{"subject": "cut of`)
	l.write("list/7.json", "")
	l.write("list/8.json", strings.Repeat(" ", MaxSize+1))
	problems := 5
	if runtime.GOOS != "windows" { // it is no file there
		l.write("list/CON.json", "{}")
		problems++
	}
	for _, dir := range []string{"list/9.json", "list/1.json.lock", "list/subdir"} {
		must(t, os.Mkdir(l.path(dir), 0o700))
	}
	problems++ // the directory 9.json
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{"list/11.json": "../outside.json", "list/12.json": "2.json"} {
			must(t, os.Symlink(to, l.path(link)))
			problems++
		}
	}
	got := l.read("list")
	if diff := cmp.Diff([]string{"1", "2", "10", "abc"}, ids(got)); diff != "" {
		t.Errorf("the tasks (-want +got):\n%s", diff)
	}
	if len(got.Problems) != problems {
		t.Errorf("%d problems, want %d: %v", len(got.Problems), problems, got.Problems)
	}
	if slices.Sort(got.Unread); got.Partial || len(got.Unread) < 6 || !cmp.Equal(got.Unread[len(got.Unread)-6:], []string{"4", "5", "6", "7", "8", "9"}) {
		t.Errorf("unread are %q, partial %t", got.Unread, got.Partial)
	}
	two, ten := got.Tasks[1], got.Tasks[2]
	if two.Status != "odd" || two.Subject != "another id" || !cmp.Equal(two.BlockedBy, []string{"1", "10", "nobody"}) || !cmp.Equal(two.WaitsFor, []string{"1", "nobody"}) || len(two.Blocks) != 0 {
		t.Errorf("a task with an odd status is %+v", two)
	}
	if ten.Subject != "5" || ten.Owner != "" || !ten.Internal || string(ten.Metadata) != `{"_internal": true, "k": [1]}` {
		t.Errorf("a task with wrong types is %+v", ten)
	}
	tooLarge, noTask := 0, 0
	for _, p := range got.Problems {
		switch {
		case errors.Is(p, lockedfile.ErrTooLarge):
			tooLarge++
		case errors.Is(p, ErrNoTask):
			noTask++
		}
		if !strings.HasPrefix(p.Error(), "tasks: ") {
			t.Errorf("a problem is %q", p)
		}
	}
	if tooLarge != 1 || noTask != 4 {
		t.Errorf("%d too large, %d no tasks: %v", tooLarge, noTask, got.Problems)
	}
}

// Only directories below tasks are lists, and no name leads out of it.
func TestNames(t *testing.T) {
	t.Parallel()
	l := newLists(t, "a", "b", ".hidden")
	l.write("file", "")
	if runtime.GOOS != "windows" {
		must(t, os.Symlink(t.TempDir(), l.path("link")))
		if _, err := Read(t.Context(), l.root, "link"); !errors.Is(err, teams.ErrNotDir) {
			t.Errorf("a link: %v", err)
		}
	}
	names, err := l.root.TaskLists()
	if err != nil || !cmp.Equal(names, []string{"a", "b"}) {
		t.Errorf("the lists are %q (%v)", names, err)
	}
	for name, want := range map[string]error{"c": fs.ErrNotExist, "..": teams.ErrBadName, "a/../../x": teams.ErrBadName, "": teams.ErrBadName, "file": teams.ErrNotDir} {
		if _, err := Read(t.Context(), l.root, name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	if names, err := newLists(t).root.TaskLists(); err != nil || len(names) != 0 {
		t.Errorf("without a list: %q (%v)", names, err)
	}
}

// Of a list with any number of files, only so many are read, and one problem reports the rest.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	l := newLists(t, "list")
	for i := range 15 {
		l.write(fmt.Sprintf("list/%d.json", i), "{}")
	}
	r := l.reading("list")
	r.tasks = 10
	if err := r.read(t.Context()); err != nil || !r.Partial || len(r.Tasks) != 10 || len(r.Problems) != 1 || !errors.Is(r.Problems[0], ErrTooMany) {
		t.Errorf("%d tasks, problems %v, %v", len(r.Tasks), r.Problems, err)
	}
	r = l.reading("list")
	r.Bytes = MaxTotal - 3
	if err := r.read(t.Context()); err != nil || !r.Partial || len(r.Tasks) != 2 || len(r.Problems) != 1 || !errors.Is(r.Problems[0], ErrTooMany) {
		t.Errorf("%d tasks of many bytes, problems %v, %v", len(r.Tasks), r.Problems, err)
	}
}

// A task is written in place, so that its file is empty or incomplete for a moment, and Read waits for the whole
// task. With the bubble's clock, only the waiting takes time.
func TestTornIsWaitedFor(t *testing.T) {
	t.Parallel()
	l := newLists(t, "list")
	synctest.Test(t, func(t *testing.T) {
		for _, torn := range []string{"", `{"subject": "on`} {
			l.write("list/1.json", torn)
			looked := 0
			r := l.reading("list")
			r.wait = func() {
				if looked++; looked == 2 {
					l.write("list/1.json", `{"subject": "one"}`)
				}
			}
			if err := r.read(t.Context()); err != nil || len(r.Problems) > 0 || len(r.Tasks) != 1 || r.Tasks[0].Subject != "one" {
				t.Errorf("after %q: %+v, %v", torn, r.List, err)
			}
		}
		l.write("list/1.json", "{")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Read(ctx, l.root, "list"); !errors.Is(err, context.Canceled) {
			t.Errorf("while it is waited: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"id":"1","subject":"a","status":"pending","blocks":["2"],"blockedBy":[],"metadata":{"_internal":true}}`, `{"blocks":[1,null,{}]}`, "", "[", "null", `{"subject":"\ud800"}`, `{"metadata":{"_internal":1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := Parse("1", data)
		if err != nil {
			if !errors.Is(err, ErrNoTask) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if task.ID != "1" || task.Blocks == nil || task.BlockedBy == nil {
			t.Errorf("the task is %+v", task)
		}
		for _, id := range append(task.Blocks, task.BlockedBy...) {
			if id == "" {
				t.Errorf("an empty id in %+v", task)
			}
		}
	})
}
