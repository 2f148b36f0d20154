package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// Panes are the known panes, and the sessions that were sent messages. The table is panes.
type Panes struct{ *file }

// PaneMessages are the messages to panes and sessions, which are deliveries too, and their tasks. The table is
// pane_messages.
type PaneMessages struct{ *file }

// PaneTeam is the name of the team of registered terminal panes. It has no directory. All panes of a Claude root that
// are registered at the same time are in one instance of it, which was created with its first pane.
const PaneTeam = "tmux"

// SessionTeam is the name of the team of the recorded sessions, which are in no team of Claude Code. Like [PaneTeam],
// it has no directory.
const SessionTeam = teams.SessionTeam

// SessionTeamCreated stands for the creation time of that team, which has none, in milliseconds.
const SessionTeamCreated = teams.SessionTeamCreated

// A Pane is a terminal pane or a session. If its Team is [PaneTeam], it is a pane registered under the name Inbox. If
// its Team is [SessionTeam], it is a session with the name Inbox. Otherwise it is the pane of member Inbox of the
// team.
type Pane struct {
	inbox.InboxKey
	Socket  string    // of the tmux server, or of the session, which may have none
	Server  int       // pid of the tmux server; 0 for a session
	ID      string    // such as "%12", or the id of the session
	PID     int       // of the first process in the pane, or of the session; 0 if that has no process
	Start   string    // start time of a session's process, as it reports; else ""
	Cwd     string    // of a session; else ""
	Home    string    // the directory in which another program than Claude Code keeps the session; else ""
	Profile string    // how the screen of its program is read
	At      time.Time // when it was recorded; kept to the microsecond, returned in UTC
}

// same reports whether both are the same pane of the same tmux server.
func (p Pane) same(q Pane) bool {
	return p.Socket == q.Socket && p.Server == q.Server && p.ID == q.ID && p.PID == q.PID
}

func (p *Pane) check() error {
	err := cmp.Or(checkInbox(p.InboxKey), names("pane", p.ID, "profile", p.Profile))
	if p.Team != SessionTeam {
		err = cmp.Or(err, names("socket", p.Socket))
	}
	if session := p.Team == SessionTeam; err == nil && (p.PID < 0 || p.PID == 0 && !session || (p.Server <= 0) != session) {
		err = invalid("pid", "of the pane or its server is missing")
	}
	return err
}

// PaneExistsError means that a name or a pane is registered already. It wraps [ErrConflict].
type PaneExistsError struct{ Pane Pane }

func (e *PaneExistsError) Error() string {
	return fmt.Sprintf("ledger: %s is registered already, for pane %s of %s", e.Pane.Inbox, e.Pane.ID, e.Pane.Socket)
}

func (e *PaneExistsError) Unwrap() error { return ErrConflict }

// Add registers a pane, durably, under the name p.Inbox, and returns it with its key: Team and CreatedAt are set
// here, and a zero At is now. With replace, a registered name gets this pane in place of its own, and its waiting
// messages go to this pane. Add fails with *[PaneExistsError] and *[ValueError].
func (l Panes) Add(ctx context.Context, p Pane, replace bool) (Pane, error) {
	p.Team = PaneTeam
	if err := p.check(); err != nil {
		return Pane{}, err
	}
	p.At = time.UnixMicro(micros(p.At)).UTC()
	err := l.write(ctx, "add pane", durable, func(c *sqlite.Conn) error {
		p.CreatedAt = max(p.At.UnixMilli(), 1)
		all, err := panes(c, "root=? AND team=?", p.Root, PaneTeam)
		if err != nil {
			return err
		}
		for _, old := range all {
			p.CreatedAt = old.CreatedAt
			if old.Inbox == p.Inbox && !replace || old.Inbox != p.Inbox && old.same(p) {
				return &PaneExistsError{old}
			}
		}
		return setPane(c, p)
	})
	if err != nil {
		return Pane{}, err
	}
	return p, nil
}

// AddSession records a session, durably, and returns it with its key: Team and CreatedAt are set here, and a zero At
// is now. A session that is recorded already, by its id or by its process, keeps its name; its other fields are
// replaced. A session of another program with the same id in another directory is another session. A new session gets the name p.Inbox or, if another session has it, this name with the beginning of its
// id. was are earlier ids of the session. AddSession fails with *[ValueError].
func (l Panes) AddSession(ctx context.Context, p Pane, was ...string) (Pane, error) {
	p.Team, p.CreatedAt, p.Server = SessionTeam, SessionTeamCreated, 0
	if err := p.check(); err != nil {
		return Pane{}, err
	}
	p.At = time.UnixMicro(micros(p.At)).UTC()
	name := p.Inbox
	err := l.write(ctx, "add session", durable, func(c *sqlite.Conn) error {
		p.Inbox = name
		all, err := panes(c, "root=? AND team=?", p.Root, SessionTeam)
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		same := -1
		for i, old := range all {
			taken[old.Inbox] = true
			if old.Home == p.Home && (p.PID != 0 && old.PID == p.PID && old.Start == p.Start || (old.ID == p.ID || slices.Contains(was, old.ID)) && same < 0) {
				same = i
			}
		}
		if same >= 0 {
			p.Inbox = all[same].Inbox
			return setPane(c, p)
		}
		for n := 4; taken[p.Inbox] && n <= len(p.ID); n++ {
			p.Inbox = name + "-" + p.ID[:n]
		}
		for n := 2; taken[p.Inbox]; n++ { // not with ids of Claude Code
			p.Inbox = fmt.Sprintf("%s-%d", name, n)
		}
		return setPane(c, p)
	})
	if err != nil {
		return Pane{}, err
	}
	return p, nil
}

// Set records, durably, the pane of a member of a team.
func (l Panes) Set(ctx context.Context, p Pane) error {
	if err := p.check(); err != nil {
		return err
	}
	return l.write(ctx, "set pane", durable, func(c *sqlite.Conn) error { return setPane(c, p) })
}

func setPane(c *sqlite.Conn, p Pane) error {
	inboxID, err := addInbox(c, p.InboxKey)
	if err != nil {
		return err
	}
	_, err = c.Exec(`INSERT INTO panes (inbox_id, socket, server, pane, pid, start, cwd, home, profile, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET socket=excluded.socket, server=excluded.server, pane=excluded.pane, pid=excluded.pid, start=excluded.start, cwd=excluded.cwd,
		home=excluded.home, profile=excluded.profile, at=excluded.at`, inboxID, p.Socket, p.Server, p.ID, p.PID, p.Start, p.Cwd, p.Home, p.Profile, micros(p.At))
	return err
}

// Remove removes a registered pane, durably. Its waiting messages are [Dropped], messages that are being delivered
// have [Failed], and the tasks of its messages end as lost, all with the reason. It returns the number of dropped
// messages. It fails with [ErrUnknown].
func (l Panes) Remove(ctx context.Context, k inbox.InboxKey, reason string) (dropped int, err error) {
	if err := checkInbox(k); err != nil {
		return 0, err
	}
	err = l.write(ctx, "remove pane", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec("DELETE FROM panes WHERE inbox_id="+thisInboxID, inboxArgs(k)...)
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("ledger: remove pane %s: %w", k.Inbox, ErrUnknown)
		}
		at := micros(time.Time{})
		if f, found, err := inFlight(c, k); err != nil {
			return err
		} else if found {
			if err := advance(c, f, Failed, CauseUnknown.Reason(reason), at); err != nil {
				return err
			}
		}
		if err := loseTasks(c, k, reason, at); err != nil {
			return err
		}
		gone, err := c.Exec("UPDATE deliveries SET state='dropped', reason=?, at=? WHERE state='claimed' AND inbox_id="+thisInboxID, inboxArgs(k, reason, at)...)
		dropped = int(gone)
		return err
	})
	return dropped, err
}

// List returns the panes of a Claude root, both registered ones and those of members, or of every root if root is "".
// They are sorted by root, team and name.
func (l Panes) List(ctx context.Context, root string) ([]Pane, error) {
	return l.list(ctx, inRoot, root)
}

// Pane returns the pane of an inbox, and whether there is one.
func (l Panes) Pane(ctx context.Context, k inbox.InboxKey) (Pane, bool, error) {
	if err := checkInbox(k); err != nil {
		return Pane{}, false, err
	}
	return first(l.list(ctx, thisInbox, inboxArgs(k)...))
}

func (l Panes) list(ctx context.Context, rest string, args ...sqlite.Value) (list []Pane, err error) {
	err = l.db.Do(ctx, "panes", func(c *sqlite.Conn) error {
		list, err = panes(c, rest, args...)
		return err
	})
	return list, err
}

func panes(c *sqlite.Conn, rest string, args ...sqlite.Value) ([]Pane, error) {
	return sqlite.All(c, func(v sqlite.Row) Pane {
		return Pane{
			InboxKey: scanKey(v, 0), Socket: v.Text(4), Server: int(v.Int(5)), ID: v.Text(6), PID: int(v.Int(7)),
			Profile: v.Text(8), At: v.Time(9), Start: v.Text(10), Cwd: v.Text(11), Home: v.Text(12),
		}
	}, "SELECT root, team, created_at, inbox, socket, server, pane, pid, profile, at, start, cwd, home FROM inboxes JOIN panes USING (inbox_id) WHERE "+rest, args...)
}

// Task is the state of the task that a message to a pane began.
type Task string

// The states of a task. With a transcript the states are sent, given and ended. Without one a task begins as staged
// or armed; staged becomes armed, and armed becomes ended.
const (
	TaskNone   Task = ""       // the message is not confirmed
	TaskSent   Task = "sent"   // the transcript will show when the agent is given the message
	TaskGiven  Task = "given"  // the transcript shows that the agent was given it
	TaskStaged Task = "staged" // the second end of a turn from now ends it
	TaskArmed  Task = "armed"  // the next end of a turn ends it
	TaskEnded  Task = "ended"
)

// Open reports whether the task has begun but not ended.
func (t Task) Open() bool { return t != TaskNone && t != TaskEnded }

// openTask is Open in SQL, spelled as in the index.
const openTask = "task IN ('sent', 'given', 'staged', 'armed')"

// A PaneMessage is a message to a pane. Its delivery is claimed while the message waits, written when it is about to
// be pasted, accepted when Enter was pressed and done when the program has taken it. The delivery has failed if the
// message was not sent in time, or if it is unknown whether it was sent.
type PaneMessage struct {
	Delivery
	Policy    string // such as "queued"
	SaveDraft bool   // a person's draft may be cut for it, and is put back

	// Notify asks for a notification at the end of the task. It goes to the inbox NotifyTo or, if that is zero, to
	// the person.
	Notify   bool
	NotifyTo inbox.InboxKey

	Since     time.Time // when it began to wait
	Tries     int       // tries that sent nothing
	NextTry   time.Time // zero: now
	Held      string    // why the last try sent nothing, or why it has failed, in one word; may be empty
	Detail    string    // the same for people
	HeldSince time.Time // since when Held is this reason; zero if it is not held
	SentAt    time.Time // when it was pasted; zero if it was not

	Transcript string // path of the transcript with this message; "" if unknown
	Task       Task
	TaskAt     time.Time // when the task reached its state; zero for TaskNone
	Lost       string    // why the end of the task was not seen; "" if it was
	Notified   bool
	Answer     []byte // row of the answer, as in [Event.Row]; nil if there is none
}

// queueOrder is the order of delivery: messages that were sent, then important ones, then all others.
const queueOrder = "state='claimed', policy IN ('important', 'urgent') DESC, seq"

// Add records a message to a pane as [Deliveries.AddPrompts] does. Of m it takes the delivery, the policy, SaveDraft,
// Notify and NotifyTo; digest must cover them. It returns the recorded message, and whether it was recorded before.
// It fails as AddPrompts does, with [ErrUnknown] if the inbox has no pane, and with [ErrConflict] if it has a relay.
func (l PaneMessages) Add(ctx context.Context, m PaneMessage, digest [32]byte) (_ PaneMessage, again bool, err error) {
	p := Prompt{m.Delivery, digest}
	if err := cmp.Or(checkKey(p.key()), p.check(), names("policy", m.Policy)); err != nil {
		return PaneMessage{}, false, err
	}
	if !m.Person || m.Notify && m.NotifyTo != (inbox.InboxKey{}) && checkInbox(m.NotifyTo) != nil {
		return PaneMessage{}, false, invalid("message", "is no person's input, or is to notify nobody")
	}
	err = l.write(ctx, "add pane message", durable, func(c *sqlite.Conn) error {
		inboxID, err := addInbox(c, m.InboxKey)
		if err != nil {
			return err
		}
		for _, there := range []struct {
			query string
			want  int64
			err   error
		}{
			{"SELECT count(*) FROM panes WHERE inbox_id=?", 1, fmt.Errorf("ledger: message to %s: it has no pane: %w", m.Inbox, ErrUnknown)},
			{"SELECT count(*) FROM sessions WHERE inbox_id=? AND state NOT IN ('', 'ended', 'dead')", 0, fmt.Errorf("ledger: message to the pane of %s: a relay serves its inbox: %w", m.Inbox, ErrConflict)},
		} {
			if n, err := c.Number(there.query, inboxID); err != nil || n != there.want {
				return cmp.Or(err, there.err)
			}
		}
		added, err := addPrompt(c, &p)
		if again = added.Again; err != nil || again {
			return err
		}
		var to int64
		if m.NotifyTo != (inbox.InboxKey{}) {
			if to, err = addInbox(c, m.NotifyTo); err != nil {
				return err
			}
		}
		_, err = c.Exec(`INSERT INTO pane_messages (seq, policy, save_draft, notify, notify_to, since, tries, next_try, held, detail, held_since,
			sent_at, transcript, task, task_at, lost, notified, answer) VALUES (?, ?, ?, ?, ?, ?, 0, 0, '', '', 0, 0, '', '', 0, '', 0, 0)`,
			added.Seq, m.Policy, m.SaveDraft, m.Notify, to, micros(m.At))
		return err
	})
	if err != nil {
		return PaneMessage{}, false, err
	}
	m, _, err = l.Message(ctx, p.UUID)
	return m, again, err
}

// openPaneMessage is the condition that a message or its task has not ended. It names the indexes, and list fixes the
// order of the joins. Otherwise SQLite would read all messages, which took 60 ms with 50,000 of them.
const openPaneMessage = `seq IN (SELECT seq FROM deliveries INDEXED BY deliveries_open WHERE ` + unended + `
	UNION ALL SELECT seq FROM pane_messages INDEXED BY pane_messages_task WHERE ` + openTask + `)`

// Message returns the message to a pane with that uuid, and whether there is one.
func (l PaneMessages) Message(ctx context.Context, uuid string) (PaneMessage, bool, error) {
	return first(l.list(ctx, "seq=(SELECT seq FROM deliveries WHERE uuid=?)", uuid))
}

// List returns the messages to a pane that have not ended, or whose task has not, in
// the order in which they are delivered.
func (l PaneMessages) List(ctx context.Context, k inbox.InboxKey) ([]PaneMessage, error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	return l.list(ctx, thisInbox+" AND "+openPaneMessage, inboxArgs(k)...)
}

// Open is [PaneMessages.List] for all panes of a Claude root.
func (l PaneMessages) Open(ctx context.Context, root string) ([]PaneMessage, error) {
	return l.list(ctx, "root=? AND "+openPaneMessage, root)
}

// EndedTasks lists the messages of a Claude root whose tasks have ended, and whose senders still wait for the
// notification that they asked for. Notifications of the person stay in the list until they are dismissed, by the
// uuid of the delivery: see [Person.Dismiss].
func (l PaneMessages) EndedTasks(ctx context.Context, root string) ([]PaneMessage, error) {
	return l.list(ctx, `root=?1 AND seq IN (SELECT seq FROM pane_messages INDEXED BY pane_messages_notify
		WHERE notify<>0 AND notified=0 AND task='ended') AND NOT (notify_to=0 AND uuid IN (SELECT id FROM dismissed WHERE root=?1))`, root)
}

// list returns the messages that match a condition, in the order of delivery.
func (l PaneMessages) list(ctx context.Context, rest string, args ...sqlite.Value) ([]PaneMessage, error) {
	return sqlite.Select(ctx, l.db, "pane messages", scanPaneMessage, `SELECT `+deliveryColumns+`, mode, contents.raw,
		policy, save_draft, notify, since, tries, next_try, held, detail, held_since, sent_at, transcript, task, task_at, lost, notified,
		(SELECT raw FROM messages WHERE message=answer),
		coalesce(to_root, ''), coalesce(to_team, ''), coalesce(to_created, 0), coalesce(to_inbox, '')
		FROM (SELECT * FROM pane_messages CROSS JOIN deliveries USING (seq) CROSS JOIN inboxes USING (inbox_id) WHERE `+rest+`) JOIN contents USING (seq)
		LEFT JOIN (SELECT inbox_id AS peer, root AS to_root, team AS to_team, created_at AS to_created, inbox AS to_inbox FROM inboxes) ON peer=notify_to
		ORDER BY `+queueOrder, args...)
}

func scanPaneMessage(v sqlite.Row) PaneMessage {
	optional := func(i int) time.Time {
		if v.Int(i) == 0 {
			return time.Time{}
		}
		return v.Time(i)
	}
	m := PaneMessage{
		Delivery: scanDelivery(v), Policy: v.Text(23), SaveDraft: v.Bool(24), Notify: v.Bool(25), Since: v.Time(26),
		Tries: int(v.Int(27)), NextTry: optional(28), Held: v.Text(29), Detail: v.Text(30), HeldSince: optional(31), SentAt: optional(32),
		Transcript: v.Text(33), Task: Task(v.Text(34)), TaskAt: optional(35), Lost: v.Text(36), Notified: v.Bool(37), Answer: v.Blob(38),
		NotifyTo: scanKey(v, 39),
	}
	m.Mode, m.Raw = v.Blob(21), v.Blob(22)
	return m
}

// ofPane selects a row of pane_messages by the uuid of its delivery.
const ofPane = " WHERE seq=(SELECT seq FROM deliveries WHERE uuid=?)"

// Hold records that a try sent nothing, why, and when the next try is due. It
// does not wait for the disk.
func (l PaneMessages) Hold(ctx context.Context, uuid, held, detail string, next time.Time) error {
	now := micros(time.Time{})
	return l.exec(ctx, "hold pane message", quick, `UPDATE pane_messages SET tries=tries+1, next_try=?, held_since=iif(held=?, held_since, ?), held=?, detail=?`+ofPane,
		micros(next), held, now, held, detail, uuid)
}

// PasteFrame records, durably, the frame of messages to a pane, before it is pasted: see [Frames.Commit]. It fails
// with *[StateError] if one of them no longer waits.
func (l PaneMessages) PasteFrame(ctx context.Context, f Frame, uuids ...string) error {
	if err := f.check(len(uuids)); err != nil {
		return err
	}
	return l.write(ctx, "paste", durable, func(c *sqlite.Conn) error {
		err := commitFrame(c, f, uuids)
		for _, uuid := range uuids {
			if err != nil {
				return err
			}
			_, err = c.Exec("UPDATE pane_messages SET sent_at=?, held='', detail='', held_since=0"+ofPane, micros(f.At), uuid)
		}
		return err
	})
}

// ReturnFrame takes back a frame of messages to a pane that was certainly not pasted, durably. The frame is
// [Cancelled], and the messages wait again.
func (l PaneMessages) ReturnFrame(ctx context.Context, frame, reason string) error {
	return l.write(ctx, "return", durable, func(c *sqlite.Conn) error {
		f, err := unendedFrame(c, "return", frame)
		if err != nil {
			return err
		}
		if f.State != FrameWritten {
			return &StateError{Op: "return", UUID: frame, State: f.State, Want: "it was sent"}
		}
		at := micros(time.Time{})
		if err := setFrame(c, frame, Cancelled, reason, at); err != nil {
			return err
		}
		if _, err := c.Exec("UPDATE pane_messages SET sent_at=0 WHERE seq IN (SELECT seq FROM deliveries WHERE frame=?)", frame); err != nil {
			return err
		}
		_, err = c.Exec("UPDATE deliveries SET frame='', state='claimed', reason=?, at=? WHERE frame=? AND "+unended, reason, at, frame)
		return err
	})
}

// ConfirmFrame ends the frame of a message that its program has taken: it is [Done], and its task begins, in one
// commit. transcript is the file that has the message, or "". A task is staged instead of armed while another task of
// the pane is staged or armed.
func (l PaneMessages) ConfirmFrame(ctx context.Context, frame, reason string, task Task, transcript string) error {
	return l.endFrame(ctx, "confirm", frame, Done, reason, "", task, transcript)
}

// FailFrame ends the frame of a message that its program has refused, or perhaps not taken: it has [Failed]. held, if
// not "", becomes the message's Held. The task begins anyway, unless it is TaskNone.
func (l PaneMessages) FailFrame(ctx context.Context, frame, reason, held string, task Task) error {
	return l.endFrame(ctx, "fail", frame, Failed, reason, held, task, "")
}

func (l PaneMessages) endFrame(ctx context.Context, op, frame string, state DeliveryState, reason, held string, task Task, transcript string) error {
	return l.write(ctx, op, durable, func(c *sqlite.Conn) error {
		f, err := unendedFrame(c, op, frame)
		if err != nil {
			return err
		}
		at := micros(time.Time{})
		if task == TaskArmed {
			others, err := c.Number(`SELECT count(*) FROM deliveries JOIN pane_messages USING (seq)
				WHERE task IN ('staged', 'armed') AND inbox_id=`+thisInboxID, inboxArgs(f.InboxKey)...)
			if err != nil {
				return err
			}
			if others > 0 {
				task = TaskStaged
			}
		}
		err = advance(c, f, state, reason, at)
		if err == nil && held != "" {
			_, err = c.Exec("UPDATE pane_messages SET held=? WHERE seq IN (SELECT seq FROM deliveries WHERE frame=?)", held, frame)
		}
		if err != nil || task == TaskNone {
			return err
		}
		_, err = c.Exec("UPDATE pane_messages SET task=?, task_at=?, transcript=? WHERE seq IN (SELECT seq FROM deliveries WHERE frame=?)",
			string(task), at, transcript, frame)
		return err
	})
}

// SendAgain makes messages of one session wait again, durably. Its program had taken them, but its model was not
// given them: the process has ended, and had them only in its memory. They keep their places in the queue. SendAgain
// fails with *[StateError] for a message in another state.
func (l PaneMessages) SendAgain(ctx context.Context, k inbox.InboxKey, uuids ...string) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.write(ctx, "send again", durable, func(c *sqlite.Conn) error {
		for _, uuid := range uuids {
			n, err := c.Exec("UPDATE pane_messages SET task='', task_at=0, sent_at=0, next_try=0, tries=0"+ofPane+" AND task='sent'", uuid)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // another process has already done this
			}
			if err := move(c, "send again", uuid, Claimed, "", func(d Delivery) (bool, string) {
				if d.State != Done || d.InboxKey != k {
					return false, "only what its program has taken can be sent again"
				}
				return false, ""
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// SentSince returns the sorted times at which messages that are on their way, or were taken, were sent to a session
// or pane since a time.
func (l PaneMessages) SentSince(ctx context.Context, k inbox.InboxKey, since time.Time) (list []time.Time, err error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	return sqlite.Select(ctx, l.db, "sent since", func(v sqlite.Row) time.Time { return v.Time(0) },
		"SELECT sent_at FROM pane_messages WHERE sent_at>=? AND seq IN (SELECT seq FROM deliveries WHERE inbox_id="+thisInboxID+") ORDER BY sent_at",
		inboxArgs(k, micros(since))...)
}

// A TaskEnd is the end of a task. A time that is zero, or in the future, means now.
type TaskEnd struct {
	At     time.Time // when its turn ended
	Answer string    // the agent's last text in the turn, or ""
	Said   time.Time // the time of the answer
	Lost   string    // why no end was seen; "" if one was
}

// past returns a time in its recorded form: now for a time that is zero or in the future.
func past(at time.Time) int64 { return min(micros(at), micros(time.Time{})) }

// TaskGiven records that the transcript shows that the agent was given a message whose task
// is open.
func (l PaneMessages) TaskGiven(ctx context.Context, uuid string, at time.Time, transcript string) error {
	return l.exec(ctx, "task given", quick, "UPDATE pane_messages SET task='given', task_at=?, transcript=?"+ofPane+" AND "+openTask+" AND task<>'given'",
		past(at), transcript, uuid)
}

// TaskRecorded records that a transcript has a message whose task is staged or armed. The transcript will show when
// the agent is given the message.
func (l PaneMessages) TaskRecorded(ctx context.Context, uuid, transcript string) error {
	return l.exec(ctx, "task recorded", quick, "UPDATE pane_messages SET task='sent', task_at=?, transcript=?"+ofPane+" AND task IN ('staged', 'armed')",
		micros(time.Time{}), transcript, uuid)
}

// EndTasks ends those of the given tasks of one pane that are open, durably, and records the agent's answer, if any,
// as one message in reply to all of them. It returns the uuids of the tasks that it has ended, so that only one
// caller takes the steps that follow.
func (l PaneMessages) EndTasks(ctx context.Context, k inbox.InboxKey, end TaskEnd, uuids ...string) (ended []string, err error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	err = l.write(ctx, "end tasks", durable, func(c *sqlite.Conn) error {
		ended, err = endTasks(c, k, end, uuids)
		return err
	})
	return ended, err
}

func endTasks(c *sqlite.Conn, k inbox.InboxKey, end TaskEnd, uuids []string) (ended []string, err error) {
	var last Delivery
	var ids []string
	for _, uuid := range uuids {
		d, found, err := delivery(c, uuid)
		if err != nil {
			return nil, err
		}
		if !found || d.InboxKey != k {
			continue
		}
		n, err := c.Exec("UPDATE pane_messages SET task='ended', task_at=?, lost=? WHERE seq=? AND "+openTask, past(end.At), end.Lost, d.Seq)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			last, ended, ids = d, append(ended, uuid), append(ids, cmp.Or(d.ID, d.UUID))
		}
	}
	if len(ended) == 0 || end.Answer == "" {
		return ended, nil
	}
	f, found, err := frame(c, last.Frame)
	if err != nil || !found {
		return ended, err
	}
	n, err := addAnswerTo(c, f, ids, end.Answer, past(end.Said))
	if err != nil {
		return nil, err
	}
	for _, uuid := range ended {
		if _, err := c.Exec("UPDATE pane_messages SET answer=?"+ofPane, n, uuid); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// NextTurnEnded records, durably, that a turn has ended in a pane without a transcript. The armed task ends with the
// answer, if any, and the oldest staged task is armed. It returns the uuid of the ended task, or "".
func (l PaneMessages) NextTurnEnded(ctx context.Context, k inbox.InboxKey, answer string) (ended string, err error) {
	if err := checkInbox(k); err != nil {
		return "", err
	}
	err = l.write(ctx, "turn ended", durable, func(c *sqlite.Conn) error {
		ended = ""
		const oldest = "SELECT uuid FROM inboxes JOIN deliveries USING (inbox_id) JOIN pane_messages USING (seq) WHERE task=+? AND " + thisInbox + " ORDER BY sent_at, seq LIMIT 1"
		list, err := sqlite.All(c, func(v sqlite.Row) string { return v.Text(0) }, oldest, inboxArgs(k, string(TaskArmed))...)
		if err != nil {
			return err
		}
		if list, err = endTasks(c, k, TaskEnd{Answer: answer}, list); err != nil {
			return err
		}
		if len(list) > 0 {
			ended = list[0]
		}
		_, err = c.Exec("UPDATE pane_messages SET task='armed', task_at=? WHERE seq=(SELECT seq FROM deliveries WHERE uuid=("+oldest+"))",
			append([]sqlite.Value{micros(time.Time{})}, inboxArgs(k, string(TaskStaged))...)...)
		return err
	})
	return ended, err
}

// LoseTasks ends the open tasks of a pane, because their ends can no longer be seen.
func (l PaneMessages) LoseTasks(ctx context.Context, k inbox.InboxKey, reason string) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.write(ctx, "lose tasks", durable, func(c *sqlite.Conn) error { return loseTasks(c, k, reason, micros(time.Time{})) })
}

func loseTasks(c *sqlite.Conn, k inbox.InboxKey, reason string, at int64) error {
	_, err := c.Exec("UPDATE pane_messages SET task='ended', task_at=?, lost=? WHERE "+openTask+
		" AND seq IN (SELECT seq FROM deliveries WHERE inbox_id="+thisInboxID+")", inboxArgs(k, at, reason)...)
	return err
}

// Notified records, durably, that the sender of a message was notified that its task ended.
func (l PaneMessages) Notified(ctx context.Context, uuid string) error {
	return l.exec(ctx, "notified", durable, "UPDATE pane_messages SET notified=1"+ofPane, uuid)
}

// NotifyPerson makes the person the recipient of a notification, in place of an agent that is gone.
func (l PaneMessages) NotifyPerson(ctx context.Context, uuid string) error {
	return l.exec(ctx, "notify person", durable, "UPDATE pane_messages SET notify_to=0"+ofPane, uuid)
}

// retryPane makes a message to a pane wait again. Its SentAt is kept.
func retryPane(c *sqlite.Conn, uuid string) error {
	_, err := c.Exec(`UPDATE pane_messages SET since=?, tries=0, next_try=0, held='', detail='', held_since=0,
		task='', task_at=0, lost='', notified=0`+ofPane, micros(time.Time{}), uuid)
	return err
}

// prunePaneMessages comes after the deliveries. It also forgets panes of members, and sessions, that have no
// deliveries left. They are recorded again with the next message.
func prunePaneMessages(c *sqlite.Conn, _ int64) (int64, error) {
	_, err := c.Exec(`DELETE FROM panes WHERE inbox_id NOT IN (SELECT inbox_id FROM inboxes WHERE team=?)
		AND NOT EXISTS (SELECT 1 FROM deliveries WHERE inbox_id=panes.inbox_id)`, PaneTeam)
	if err != nil {
		return 0, err
	}
	return c.Exec("DELETE FROM pane_messages WHERE seq IN (SELECT seq FROM pane_messages WHERE seq NOT IN (SELECT seq FROM deliveries) LIMIT ?+0)", pruneRows)
}
