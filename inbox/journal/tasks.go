package journal

import (
	"context"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams"
	"teambridge/teams/excerpt"
)

// Tasks are the tasks of Claude Code. The tables are task_recordings, tasks and task_changes.
type Tasks struct{ *database }

// The kinds of changes of a task: [TaskChange.What].
const (
	TaskCreated   = "created" // Now is its first status
	TaskDeleted   = "deleted" // Was is its last status
	TaskStatus    = "status"
	TaskOwner     = "owner"
	TaskBlockedBy = "blockedBy" // ids, separated by ", "
)

// A Task is a task as a look at its list found it. Long texts are cut.
type Task struct {
	ID        string
	Subject   string
	Status    string
	Owner     string
	BlockedBy []string
	Changed   time.Time // when its file was last written
}

// A TaskLook is the result of a look at a list of tasks.
type TaskLook struct {
	List   string
	Tasks  []Task
	Unread []string // ids of tasks that exist but could not be read
	// Partial means that the list may have more tasks, so a missing one may still exist.
	Partial bool
	// Missed means that the looks before were partial: a missing task may have been deleted since it was last seen.
	Missed bool
	At     time.Time
	// Gap means that changes from before the look may have been missed, since no process looked.
	Gap bool
}

// A TaskChange is a change of a task.
type TaskChange struct {
	Seq     int64 // its number among these changes
	Root    string
	List    string
	ID      string // of the task
	Subject string // at the time of the change
	What    string // [TaskCreated] or another kind
	Was     string
	Now     string
	// After, if not zero, means that the change was made between After and At, while no process looked.
	After time.Time
	At    time.Time
}

// TaskQuery selects changes of tasks; a zero field selects all.
type TaskQuery struct {
	Root  string
	Lists []string
	// Who is the id of a task, or the name of a present, former or new owner.
	Who    string
	Before int64 // only changes with lower numbers
	Limit  int
}

// Observe records how lists of a Claude root, by its real path, differ from the last looks at them, and returns the
// number of changes. The first call takes all lists: their tasks are not new, so it records no changes.
func (j Tasks) Observe(ctx context.Context, root string, looks ...TaskLook) (changes int, err error) {
	for _, look := range looks {
		if err := names("root", root, "list", look.List); err != nil {
			return 0, err
		}
	}
	err = j.db.Transaction(ctx, "observe tasks", "IMMEDIATE", func(c *sqlite.Conn) error {
		changes = 0 // this function runs again if the file was busy
		o := taskObservation{root: root, c: c, first: true}
		err := c.Query(func(v sqlite.Row) { o.first, o.until = false, v.Int(0) }, "SELECT until FROM task_recordings WHERE root=?", root)
		if err != nil {
			return err
		}
		for _, look := range looks {
			if err := o.look(look); err != nil {
				return err
			}
		}
		changes = o.changes
		if changes == 0 && !o.first || len(looks) == 0 {
			return nil
		}
		return knownUntil(c, root, looks[len(looks)-1].At)
	})
	return changes, err
}

// KnownUntil records that all changes of tasks up to a time were observed.
func (j Tasks) KnownUntil(ctx context.Context, root string, at time.Time) error {
	return j.db.Do(ctx, "observe tasks", func(c *sqlite.Conn) error { return knownUntil(c, root, at) })
}

func knownUntil(c *sqlite.Conn, root string, at time.Time) error {
	_, err := c.Exec("INSERT INTO task_recordings VALUES (?1, ?2, ?2) ON CONFLICT DO UPDATE SET until=max(until, excluded.until)", root, at.UnixMicro())
	return err
}

// Lists returns the lists of a root that had tasks at their last look.
func (j Tasks) Lists(ctx context.Context, root string) (lists []string, err error) {
	err = j.db.Do(ctx, "list tasks", func(c *sqlite.Conn) error {
		lists = nil
		return c.Query(func(v sqlite.Row) { lists = append(lists, v.Text(0)) }, "SELECT DISTINCT list FROM tasks WHERE root=? ORDER BY list", root)
	})
	return lists, err
}

// ChangedLists returns the lists of a root that have recorded changes.
func (j Tasks) ChangedLists(ctx context.Context, root string) (lists []string, err error) {
	err = j.db.Do(ctx, "list tasks", func(c *sqlite.Conn) error {
		lists = nil
		return c.Query(func(v sqlite.Row) { lists = append(lists, v.Text(0)) }, "SELECT DISTINCT list FROM task_changes WHERE root=? ORDER BY list", root)
	})
	return lists, err
}

// RecordedSince returns the time since which changes of tasks are recorded; zero if they never were.
func (j Tasks) RecordedSince(ctx context.Context, root string) (began time.Time, err error) {
	err = j.db.Do(ctx, "list tasks", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) { began = v.Time(0) }, "SELECT began FROM task_recordings WHERE root=?", root)
	})
	return began, err
}

// memberOf returns the member in the address of an owner.
func memberOf(owner string) string {
	member, _ := teams.Split(owner)
	return member
}

// Changes returns changes of tasks, the newest first, and whether there are more.
func (j Tasks) Changes(ctx context.Context, q TaskQuery) (list []TaskChange, more bool, err error) {
	where, args := []string{"1"}, []sqlite.Value{}
	add := func(condition string, values ...sqlite.Value) {
		where, args = append(where, condition), append(args, values...)
	}
	if q.Root != "" {
		add("c.root=?", q.Root)
	}
	if q.Before > 0 {
		add("c.seq<?", q.Before)
	}
	if q.Lists != nil {
		var lists []sqlite.Value
		for _, name := range q.Lists {
			lists = append(lists, name)
		}
		add("c.list IN ("+strings.TrimSuffix(strings.Repeat("?,", len(lists)), ",")+")", lists...)
	}
	if q.Who != "" {
		owner := func(column string) string { return "? IN (member_of(" + column + "), " + column + ")" }
		add("(c.task=? OR EXISTS (SELECT 1 FROM tasks t WHERE t.root=c.root AND t.list=c.list AND t.task=c.task AND "+owner("t.owner")+
			") OR EXISTS (SELECT 1 FROM task_changes o WHERE o.root=c.root AND o.list=c.list AND o.task=c.task AND o.what='owner' AND ("+owner("o.was")+" OR "+owner("o.now")+")))",
			q.Who, q.Who, q.Who, q.Who)
	}
	query := "SELECT seq, root, list, task, subject, what, was, now, after, at FROM task_changes c WHERE " + strings.Join(where, " AND ") + " ORDER BY seq DESC"
	if q.Limit > 0 {
		query, args = query+" LIMIT ?+0", append(args, q.Limit+1)
	}
	err = j.db.Do(ctx, "list tasks", func(c *sqlite.Conn) error {
		list = nil
		if err := c.Function("member_of", memberOf); err != nil {
			return err
		}
		return c.Query(func(v sqlite.Row) {
			list = append(list, TaskChange{
				Seq: v.Int(0), Root: v.Text(1), List: v.Text(2), ID: v.Text(3), Subject: v.Text(4), What: v.Text(5), Was: v.Text(6), Now: v.Text(7), After: v.Time(8), At: v.Time(9),
			})
		}, query, args...)
	})
	if q.Limit > 0 && len(list) > q.Limit {
		list, more = list[:q.Limit], true
	}
	return list, more, err
}

// taskObservation records one or more looks.
type taskObservation struct {
	TaskLook
	root    string
	c       *sqlite.Conn
	first   bool // the first look at the root
	until   int64
	known   map[string]seenTask // by id; tasks that are found again are removed
	changes int
}

// seenTask is a task as it was last seen.
type seenTask struct {
	id                                int64
	subject, status, owner, blockedBy string
	changed                           int64
}

// look records one look.
func (o *taskObservation) look(look TaskLook) error {
	o.TaskLook, o.known = look, map[string]seenTask{}
	err := o.c.Query(func(v sqlite.Row) {
		o.known[v.Text(1)] = seenTask{v.Int(0), v.Text(2), v.Text(3), v.Text(4), v.Text(5), v.Int(6)}
	}, "SELECT id, task, subject, status, owner, blocked_by, changed FROM tasks WHERE root=? AND list=?", o.root, o.List)
	if err != nil {
		return err
	}
	for _, t := range look.Tasks {
		if err := o.task(t); err != nil {
			return err
		}
	}
	return o.rest()
}

// The longest recorded texts, in bytes. They are for people: a difference beyond this length is no change.
const (
	mostTaskText  = 200
	mostBlockedBy = 1000
)

// task records one task that was found.
func (o *taskObservation) task(t Task) error {
	if teams.CheckName("task", t.ID) != nil {
		return nil // not the name of a file
	}
	now := seenTask{
		subject: excerpt.Bytes(t.Subject, mostTaskText), status: excerpt.Bytes(t.Status, mostTaskText), owner: excerpt.Bytes(t.Owner, mostTaskText),
		blockedBy: excerpt.Bytes(strings.Join(t.BlockedBy, ", "), mostBlockedBy), changed: t.Changed.UnixMicro(),
	}
	was, known := o.known[t.ID]
	delete(o.known, t.ID)
	if now.id = was.id; now == was {
		return nil
	}
	at := t.Changed
	if at.After(o.At) || !o.Gap && at.UnixMicro() < max(was.changed, o.until) {
		at = o.At // a time of another clock, or the clock was set
	}
	type change struct{ what, was, now string }
	changes := []change{{TaskStatus, was.status, now.status}, {TaskOwner, was.owner, now.owner}, {TaskBlockedBy, was.blockedBy, now.blockedBy}}
	if !known {
		changes[0].what = TaskCreated
	}
	for _, c := range changes {
		if c.what != TaskCreated && c.was == c.now || o.first {
			continue
		}
		if err := o.record(t.ID, now.subject, c.what, c.was, c.now, at, was.changed); err != nil {
			return err
		}
	}
	_, err := o.c.Exec(`INSERT INTO tasks (root, list, task, subject, status, owner, blocked_by, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET subject=excluded.subject, status=excluded.status, owner=excluded.owner, blocked_by=excluded.blocked_by, changed=excluded.changed`,
		o.root, o.List, t.ID, now.subject, now.status, now.owner, now.blockedBy, now.changed)
	return err
}

// rest records that the tasks that were not found again are deleted.
func (o *taskObservation) rest() error {
	if o.Partial {
		return nil
	}
	if o.Missed { // until is then the time of looks that did not find all tasks
		defer func(until int64) { o.until = until }(o.until)
		o.Gap, o.until = true, 0
	}
	for id, was := range o.known {
		if slices.Contains(o.Unread, id) {
			continue
		}
		if err := o.record(id, was.subject, TaskDeleted, was.status, "", o.At, was.changed); err != nil {
			return err
		}
		if _, err := o.c.Exec("DELETE FROM tasks WHERE id=?", was.id); err != nil {
			return err
		}
	}
	return nil
}

// record records a change at a time. After a gap, the change was made between the last known state and this time.
func (o *taskObservation) record(id, subject, what, was, now string, at time.Time, changed int64) error {
	var after sqlite.Value
	if o.Gap {
		from := max(o.until, changed)
		if at.UnixMicro() <= from { // the file's time is from before the last known state
			at = o.At
		}
		after = min(from, at.UnixMicro())
	}
	_, err := o.c.Exec("INSERT INTO task_changes (root, list, task, subject, what, was, now, after, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		o.root, o.List, id, subject, what, was, now, after, at.UnixMicro())
	o.changes++
	return err
}
