package watch

import (
	"os"
	"testing"
	"time"

	"teambridge/teams/winetest"
)

// Task lists are watched like inboxes: tasks that are written in place, replaced or removed, and whole lists.
func TestTasks(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "the time of creation of a directory changes with what is made in it, so that the list appears again")
	p := newClaude(t)
	p.mkdir("teams/myteam/inboxes") // not watched
	w := start(t, New(Options{Root: p.root, Tasks: true, sweep: time.Hour}))
	// An event may come more than once, even later, and a file that is written in place may first be read in part.
	var last Event
	expect := func(what Kind, list, task, content string) {
		t.Helper()
		for {
			e := next(t, w)
			if e.Inbox != task && e.Team == last.Team && e.Inbox == last.Inbox && e.Kind == last.Kind {
				e.Close()
				continue
			}
			if e.Team != list || e.Inbox != task && what != TeamGone {
				t.Fatalf("%s of %s/%s, want %s of %s/%s", e.Kind, e.Team, e.Inbox, what, list, task)
			}
			got := contents(t, e)
			if e.Kind == what && (content == "" || e.Unkept || len(got) > 0 && got[len(got)-1] == content) {
				last = e
				return
			}
		}
	}
	p.mkdir("tasks/myteam")
	expect(TeamAppeared, "myteam", "", "")
	task := p.path("tasks/myteam/1.json")
	p.write(p.path("tasks/myteam/.lock"), "")
	p.replace(task, "{}")
	expect(Changed, "myteam", "1", "{}")
	p.must(locked(task, func() error { return replace(task, `{"status": "completed"}`) }))
	expect(Changed, "myteam", "1", `{"status": "completed"}`)
	p.write(p.path("tasks/myteam/config.json"), "{ }") // in a list, a name like any other
	expect(Changed, "myteam", "config", "{ }")
	p.must(os.Remove(task))
	expect(Removed, "myteam", "1", "")
	p.must(os.RemoveAll(p.path("tasks")))
	expect(TeamGone, "myteam", "", "")
	p.mkdir("tasks/other")
	expect(TeamAppeared, "other", "", "")
}

// A sweep finds changes without events.
func TestTasksWithoutEvents(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "the time of creation of a directory changes with what is made in it")
	p := newClaude(t)
	p.mkdir("tasks/myteam")
	w := New(Options{Root: p.root, Tasks: true})
	w.open = func() (source, error) { return nil, os.ErrInvalid }
	w.opts.Warn = func(error) {}
	start(t, w)
	if e := next(t, w); e.Kind != TeamAppeared {
		t.Fatalf("%s of %q", e.Kind, e.Team)
	}
	for _, name := range []string{"1", "2"} {
		p.write(p.path("tasks/myteam/"+name+".json"), "{}")
		e := next(t, w)
		for e.Inbox != name {
			e.Close()
			e = next(t, w)
		}
		e.Close()
	}
}

// The first check of a list finds its tasks even if the list has not changed for long and has no kernel events.
func TestTasksOfAnOldListArePolled(t *testing.T) {
	t.Parallel()
	p := newClaude(t)
	p.mkdir("tasks/myteam")
	task := p.path("tasks/myteam/1.json")
	p.write(task, "{}")
	old := time.Now().Add(-time.Hour)
	p.must(os.Chtimes(p.path("tasks/myteam"), old, old))
	w := New(Options{Root: p.root, Tasks: true, sweep: time.Hour, poll: time.Millisecond})
	w.open = func() (source, error) { return nil, os.ErrInvalid }
	start(t, w)
	v := view{}
	v.follow(t, w, view{"myteam": "", "myteam/1": "{}"})
	p.write(task, `{"status": "completed"}`)
	v.follow(t, w, view{"myteam": "", "myteam/1": `{"status": "completed"}`})
}
