package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
)

func aPeer(id string, pid int) Pane {
	return Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: "work"}, Socket: "/tmp/s", ID: id, PID: pid, Start: "100", Cwd: "/work", Profile: "session", At: monday}
}

// A session keeps its name if its id or its process changes, and no two sessions have one name.
func TestAddSession(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	add := func(p Pane, name string) Pane {
		t.Helper()
		got, err := l.Panes.AddSession(t.Context(), p)
		if err != nil || got.Inbox != name || got.Team != SessionTeam {
			t.Fatalf("got %+v, %v; want the name %s", got, err, name)
		}
		now, found, err := l.Panes.Pane(t.Context(), got.InboxKey)
		if err != nil || !found || now != got {
			t.Errorf("recorded is %+v, %t, %v; want %+v", now, found, err, got)
		}
		return got
	}
	first := add(aPeer("aaaa1", 1), "work")
	second := add(aPeer("aaaa2", 2), "work-aaaa")
	add(aPeer("aaaa3", 3), "work-aaaa3")
	if second.CreatedAt != first.CreatedAt {
		t.Errorf("they are in two teams, of %d and %d", first.CreatedAt, second.CreatedAt)
	}
	cleared := aPeer("bbbb", 1)
	cleared.Inbox = "renamed"
	add(cleared, "work")
	resumed := aPeer("aaaa2", 9)
	resumed.Start = "900"
	add(resumed, "work-aaaa")
	reused := aPeer("cccc", 2) // another process with the same pid
	reused.Start = "800"
	add(reused, "work-cccc")
	for i, name := range []string{"night", "night-dddd"} { // stopped: neither has a process
		stopped := Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: "night"}, ID: fmt.Sprint("dddd", i), Profile: "session", At: monday}
		add(stopped, name)
	}
	if _, err := l.Panes.AddSession(t.Context(), Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: "work"}}); !errors.As(err, new(*ValueError)) {
		t.Errorf("without a socket: %v", err)
	}
}

// Messages that a session took and did not give its model can wait again, in their old order; others cannot.
func TestSendAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	s, err := l.Panes.AddSession(t.Context(), aPeer("aaaa", 1))
	must(t, err)
	for i, uuid := range []string{"m1", "m2", "m3"} {
		put(t, l, aPaneMessage(s.InboxKey, uuid, "queued"))
		task := []Task{TaskSent, TaskGiven, TaskNone}[i]
		if task == TaskNone {
			continue // it waits
		}
		must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(s.InboxKey, "f-"+uuid), uuid))
		must(t, l.PaneMessages.ConfirmFrame(t.Context(), "f-"+uuid, "", task, "/t"))
	}
	if sent, err := l.PaneMessages.SentSince(t.Context(), s.InboxKey, tuesday.Add(-time.Second)); err != nil || len(sent) != 2 || !sent[0].Equal(tuesday) {
		t.Errorf("sent at %v, %v", sent, err)
	}
	if sent, err := l.PaneMessages.SentSince(t.Context(), s.InboxKey, tuesday.Add(time.Second)); err != nil || len(sent) != 0 {
		t.Errorf("sent later than that at %v, %v", sent, err)
	}
	must(t, l.PaneMessages.SendAgain(t.Context(), s.InboxKey, "m1", "m2", "m3"))
	must(t, l.PaneMessages.SendAgain(t.Context(), s.InboxKey, "m1")) // has no effect
	waiting, err := l.PaneMessages.List(t.Context(), s.InboxKey)
	must(t, err)
	var got []string
	for _, m := range waiting {
		if m.State == Claimed {
			got = append(got, m.UUID)
			if m.Task != TaskNone || !m.SentAt.IsZero() || m.Frame != "" {
				t.Errorf("%s waits as %+v", m.UUID, m)
			}
		}
	}
	if len(got) != 2 || got[0] != "m1" || got[1] != "m3" {
		t.Errorf("wait again %q, want m1 before m3", got)
	}
	if m := mustPaneMessage(t, l, "m2"); m.State != Done || m.Task != TaskGiven {
		t.Errorf("what the model was given is %s, %s", m.State, m.Task)
	}
}

// A message from an agent to the person is recorded once under an id, and is unread until the person has read it.
func TestAddSaid(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	to := inbox.InboxKey{Root: "/r", Team: SessionTeam, CreatedAt: SessionTeamCreated, Inbox: "user"}
	versions := map[string]bool{}
	version := func() {
		t.Helper()
		v, err := l.Person.SaidVersion(t.Context())
		must(t, err)
		if versions[v] {
			t.Errorf("the version is %q again", v)
		}
		versions[v] = true
	}
	say := func(to inbox.InboxKey, from, id, text, summary string) (again bool) {
		t.Helper()
		again, err := l.Person.AddSaid(t.Context(), to, from, id, text, summary)
		must(t, err)
		return again
	}
	version()
	for i := range 2 {
		if again := say(to, "work", "said-1", "hello", ""); again != (i == 1) {
			t.Errorf("recorded before: %t", again)
		}
		say(to, "stranger", "said-2", "hi <b>", "claims to be somebody")
	}
	version()
	for _, other := range [][2]string{{"work", "other"}, {"stranger", "hello"}} {
		if _, err := l.Person.AddSaid(t.Context(), to, other[0], "said-1", other[1], ""); !errors.Is(err, inbox.ErrIDTaken) {
			t.Errorf("%q of %s under the same id: %v", other[1], other[0], err)
		}
	}
	for _, no := range [][2]string{{"", "x"}, {"work", ""}} {
		if _, err := l.Person.AddSaid(t.Context(), to, no[0], no[1], "hello", ""); !errors.As(err, new(*ValueError)) {
			t.Errorf("from %q with the id %q: %v", no[0], no[1], err)
		}
	}
	want := func(read ...bool) {
		t.Helper()
		list, err := l.Person.Said(t.Context(), "")
		if err != nil || len(list) != len(read) {
			t.Fatalf("said: %+v, %v", list, err)
		}
		for i, m := range list {
			parts := []string{`"from":"work","text":"hello"`, `"from":"stranger","text":"hi <b>"`}
			if m.Read != read[i] || m.Key != to || !strings.Contains(string(m.Raw), parts[i]) || strings.Contains(string(m.Raw), "summary") != (i == 1) {
				t.Errorf("message %d: %s, %+v, read %t", i, m.Raw, m.Key, m.Read)
			}
		}
	}
	want(false, false)
	if other, err := l.Person.Said(t.Context(), "/other"); err != nil || len(other) != 0 {
		t.Errorf("of another Claude directory: %+v, %v", other, err)
	}
	for _, n := range []int{1, 0} {
		if got, err := l.Person.ReadSaid(t.Context(), to.Root, "said-2", "nobody"); err != nil || got != n {
			t.Errorf("%d were marked as read, %v; want %d", got, err, n)
		}
	}
	version()
	if n, err := l.Person.ReadSaid(t.Context(), "/other", "said-1"); err != nil || n != 0 {
		t.Errorf("in another Claude directory, %d were marked as read, %v", n, err)
	}
	want(false, true)
	_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	want(false)
	_, err = l.Person.ReadSaid(t.Context(), to.Root, "said-1")
	must(t, err)
	_, err = l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	want()
	if n, err := number(l, "SELECT count(*) FROM said"); err != nil || n != 0 {
		t.Errorf("%d rows are left of what was forgotten, %v", n, err)
	}
	// more adds n unread messages of a sender, in the inbox of its last one.
	more := func(sender string, n int) {
		t.Helper()
		must(t, run(l, fmt.Sprintf(`
			WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i+1 FROM n WHERE i<%d), last AS (SELECT max(message) AS message FROM said WHERE sender='%s')
				INSERT INTO messages (inbox_id, frame, at, raw) SELECT inbox_id, frame || '-' || i, at, raw FROM messages JOIN last USING (message), n;
			INSERT INTO said SELECT message, '%[2]s', 0 FROM messages WHERE message NOT IN (SELECT message FROM said) AND raw<>x''`, n, sender)))
	}
	say(to, "work", "m-1", "hello", "")
	more("work", MaxUnread-2)
	say(to, "work", "m-2", "hello", "")
	if _, err := l.Person.AddSaid(t.Context(), to, "work", "more", "hello", ""); !errors.Is(err, ErrUnread) {
		t.Errorf("one more: %v", err)
	}
	say(to, "other", "more", "hello", "")
	// Senders on another machine choose their names, so they share a limit. Other machines have their own.
	there := func(team string) inbox.InboxKey {
		return inbox.InboxKey{Root: to.Root, Team: team, CreatedAt: MachineTeamCreated, Inbox: "user"}
	}
	say(there("t1@build"), "name-1", "b-1", "hello", "")
	more("name-1", MaxUnread-3)
	say(there("t2@build"), "name-2", "b-2", "hello", "")
	say(there("t3@build"), "name-3", "b-3", "hello", "")
	if _, err := l.Person.AddSaid(t.Context(), there("new@build"), "new", "b-more", "hello", ""); !errors.Is(err, ErrUnread) {
		t.Errorf("one more of build: %v", err)
	}
	say(there("new@other-build"), "new", "b-more", "hello", "")
	if events, err := l.Events.After(t.Context(), 0, 10); err != nil || len(events) != 0 {
		t.Errorf("events: %+v, %v", events, err)
	}
}
