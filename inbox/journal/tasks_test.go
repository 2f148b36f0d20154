package journal

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// taskAt returns a task whose file was written at a time.
func taskAt(id, status, owner string, when float64, blockedBy ...string) Task {
	return Task{ID: id, Subject: "task " + id, Status: status, Owner: owner, BlockedBy: blockedBy, Changed: at(when)}
}

// taskHistory returns the recorded changes of tasks, oldest first: "ID WHAT WAS>NOW AT", or "… AFTER-AT".
func taskHistory(t *testing.T, j *Journal, q TaskQuery) string {
	t.Helper()
	list, _, err := j.Tasks.Changes(t.Context(), q)
	must(t, err)
	var lines []string
	for _, c := range list {
		when := fmt.Sprint(c.At.Sub(at(0)).Seconds())
		if !c.After.IsZero() {
			when = fmt.Sprint(c.After.Sub(at(0)).Seconds()) + "-" + when
		}
		lines = append([]string{fmt.Sprintf("%s %s %s>%s %s", c.ID, c.What, c.Was, c.Now, when)}, lines...)
	}
	return strings.Join(lines, "; ")
}

func TestTaskHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := mustOpen(t, path)
	see := func(gap, partial bool, when float64, tasks ...Task) {
		t.Helper()
		_, err := j.Tasks.Observe(t.Context(), "/r", TaskLook{List: "l", Tasks: tasks, At: at(when), Gap: gap, Partial: partial})
		must(t, err)
	}
	want := func(text string, q TaskQuery) {
		t.Helper()
		if got := taskHistory(t, j, q); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
	if since, err := j.Tasks.RecordedSince(t.Context(), "/r"); err != nil || !since.IsZero() {
		t.Errorf("recorded since %v, %v", since, err)
	}
	// The tasks of the first look are not new, in any of the lists.
	_, err := j.Tasks.Observe(t.Context(), "/r", TaskLook{List: "other", Tasks: []Task{taskAt("1", "pending", "", 1)}, At: at(10), Gap: true},
		TaskLook{List: "l", Tasks: []Task{taskAt("1", "pending", "", 1), taskAt("2", "pending", "", 1, "1")}, At: at(10), Gap: true})
	must(t, err)
	want("", TaskQuery{})
	if since, err := j.Tasks.RecordedSince(t.Context(), "/r"); err != nil || !since.Equal(at(10)) {
		t.Errorf("recorded since %v, %v", since, err)
	}
	see(false, false, 12, taskAt("1", "in_progress", "worker", 11), taskAt("2", "pending", "", 1, "1"))
	see(false, false, 12, taskAt("1", "in_progress", "worker", 11), taskAt("2", "pending", "", 1, "1")) // nothing new
	see(false, false, 15, taskAt("1", "completed", "worker", 14), taskAt("2", "pending", "", 1, "1"), taskAt("3", "pending", "", 15))
	const first = "1 status pending>in_progress 11; 1 owner >worker 11; 1 status in_progress>completed 14; 3 created >pending 15"
	want(first, TaskQuery{})
	// A file that cannot be read was not deleted.
	see(false, true, 16, taskAt("1", "completed", "worker", 14), taskAt("2", "pending", "", 1, "1"))
	want(first, TaskQuery{})

	// While no process observes the tasks.
	must(t, j.Tasks.KnownUntil(t.Context(), "/r", at(20)))
	must(t, j.Close())
	j = mustOpen(t, path)
	see(true, false, 40, taskAt("1", "completed", "worker", 14), taskAt("2", "in_progress", "tester@x", 30), taskAt("4", "pending", "", 5))
	const later = first + "; 2 status pending>in_progress 20-30; 2 owner >tester@x 20-30; 2 blockedBy 1> 20-30; 4 created >pending 20-40; 3 deleted pending> 20-40"
	want(later, TaskQuery{})
	// The list is gone.
	see(false, false, 50)
	want("1 deleted completed> 50", TaskQuery{Lists: []string{"l"}, Who: "worker", Before: 0, Limit: 1})
	want(strings.Join([]string{"1 status pending>in_progress 11; 1 owner >worker 11; 1 status in_progress>completed 14", "1 deleted completed> 50"}, "; "), TaskQuery{Who: "worker"})
	want("2 status pending>in_progress 20-30; 2 owner >tester@x 20-30; 2 blockedBy 1> 20-30; 2 deleted in_progress> 50", TaskQuery{Who: "tester"})
	want("", TaskQuery{Root: "/another"})
	want("", TaskQuery{Lists: []string{}})
	list, more, err := j.Tasks.Changes(t.Context(), TaskQuery{Root: "/r", Limit: 2})
	if err != nil || len(list) != 2 || !more {
		t.Errorf("%+v, %t, %v", list, more, err)
	}
	older, more, err := j.Tasks.Changes(t.Context(), TaskQuery{Root: "/r", Limit: 100, Before: list[1].Seq})
	if err != nil || len(older) != 10 || more {
		t.Errorf("%d, %t, %v", len(older), more, err)
	}
	if lists, err := j.Tasks.Lists(t.Context(), "/r"); err != nil || fmt.Sprint(lists) != "[other]" {
		t.Errorf("lists %q, %v", lists, err)
	}
	if lists, err := j.Tasks.ChangedLists(t.Context(), "/r"); err != nil || fmt.Sprint(lists) != "[l]" {
		t.Errorf("changed lists %q, %v", lists, err)
	}

	// The task changes are pruned like the rest.
	p, err := j.PruneEnvelopes(t.Context(), at(20))
	if must(t, err); p.TaskChanges != 4 {
		t.Errorf("pruned %+v", p)
	}
	for n := range 500 {
		see(false, false, float64(60+n), taskAt("1", fmt.Sprintf("%d%s", n, strings.Repeat("x", 10_000)), "", float64(60+n)))
	}
	size, err := j.Size(t.Context())
	must(t, err)
	p, err = j.Prune(t.Context(), time.Time{}, size/2)
	if must(t, err); p.TaskChanges == 0 || p.Bytes > size/2 {
		t.Errorf("of %d bytes, pruned %+v", size, p)
	}
	list, _, err = j.Tasks.Changes(t.Context(), TaskQuery{Limit: 1})
	if must(t, err); len(list) != 1 || len(list[0].Now) > 300 || !strings.HasPrefix(list[0].Now, "499") {
		t.Errorf("the last change is %+v", list)
	}
}

// The member in an owner ends at the last "@", as in every address.
func TestOwnersOfTasks(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for n, owner := range []string{"", "bob@x", "ann@build@x", "bob@", "@x"} {
		_, err := j.Tasks.Observe(t.Context(), "/r", TaskLook{List: "l", At: at(float64(10 + n)), Tasks: []Task{taskAt("1", "pending", owner, float64(10+n))}})
		must(t, err)
	}
	for who, want := range map[string]bool{"bob": true, "bob@x": true, "ann@build": true, "ann@build@x": true, "ann": false, "bob@": true, "@x": true, "x": false} {
		if got := taskHistory(t, j, TaskQuery{Who: who}); (got != "") != want {
			t.Errorf("of %s: %q", who, got)
		}
	}
}

// A task whose file cannot be read was not deleted. Other missing ones were, at a time that may be unknown.
func TestTasksThatCannotBeRead(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	look := func(l TaskLook, ids ...string) {
		t.Helper()
		l.List = "l"
		for _, id := range ids {
			l.Tasks = append(l.Tasks, taskAt(id, "pending", "", 1))
		}
		_, err := j.Tasks.Observe(t.Context(), "/r", l)
		must(t, err)
	}
	look(TaskLook{At: at(10), Gap: true}, "1", "2", "3", "4")
	look(TaskLook{At: at(12), Unread: []string{"3", "4"}}, "1")
	look(TaskLook{At: at(14), Partial: true})
	look(TaskLook{At: at(16), Missed: true}, "3", "4")
	look(TaskLook{At: at(18)}, "4")
	if got, want := taskHistory(t, j, TaskQuery{}), "2 deleted pending> 12; 1 deleted pending> 1-16; 3 deleted pending> 18"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
