package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
)

func TestRowFromAppearingToGone(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	raw := "{\n    \"from\": \"ann\", \"text\": \"hi\",\n    \"timestamp\": \"2026-11-16T10:00:00.000Z\", \"x\": 1.0e2, \"x\": \"\\ud800\", \"read\": false}"
	s := look(t, 1, raw)
	o := observe(t, j, s)
	wantChanges(t, o.Changes, "1 appeared hi#1")
	want := Record{Seq: 1, InboxKey: inbox.Key(root, blue(), "bob"), Row: file(t, raw)[0], Occurrence: 1, FirstSeen: at(1)}
	if diff := cmp.Diff(want, o.Changes[0].Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	// A caller that changes its rows afterwards does not change the recorded message.
	copy(s.Rows[0].Raw, bytes.Repeat([]byte("x"), 20))
	if string(o.Changes[0].Message.Raw) != raw {
		t.Errorf("raw became %q", o.Changes[0].Message.Raw)
	}

	// A row that an agent has read, and a relay has marked, is still the same message.
	o = observe(t, j, look(t, 2, strings.Replace(raw, `"read": false`, `"read": true, "relayedBy": "x"`, 1)))
	wantChanges(t, o.Changes, "2 read hi#1")
	want.Row.Read, want.ReadAt = true, at(2)
	if diff := cmp.Diff(want, o.Changes[0].Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}

	o = observe(t, j, look(t, 3))
	wantChanges(t, o.Changes, "3 gone hi#1")
	want.GoneAt = at(3)
	for what, got := range map[string][]Record{"change": {o.Changes[0].Message}, "messages": messages(t, j, Query{})} {
		if diff := cmp.Diff([]Record{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	const read = `"read":true`
	gone := func(s Snapshot) Snapshot { s.Gone, s.Rows = true, nil; return s }
	long := func(s Snapshot, done float64) Snapshot { s.Done = at(done); return s }
	type step struct {
		s     Snapshot
		want  string
		again bool
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"unchanged", []step{
			{look(t, 1, row("a"), row("b")), "1 appeared a#1, 2 appeared b#1", false},
			{look(t, 2, row("a"), row("b")), "", false},
			{look(t, 3, row("b"), row("a")), "", false},
		}},
		{"empty", []step{{look(t, 1), "", false}, {gone(look(t, 2)), "", false}}},
		{"equal rows are counted", []step{
			{look(t, 1, row("a"), row("a")), "1 appeared a#1, 2 appeared a#2", false},
			{look(t, 2, row("a")), "3 gone a#1", false},
			{look(t, 3, row("a"), row("a")), "4 appeared a#3", false},
			{look(t, 4), "5 gone a#2, 6 gone a#3", false},
		}},
		{"put back", []step{
			{look(t, 1, row("a")), "1 appeared a#1", false},
			{look(t, 2), "2 gone a#1", false},
			{look(t, 3, row("a")), "3 appeared a#2", false},
		}},
		{"one of two equal rows is read", []step{
			{look(t, 1, row("a"), row("a")), "1 appeared a#1, 2 appeared a#2", false},
			{look(t, 2, row("a", read), row("a")), "3 read a#1", false},
			{look(t, 3, row("a", read), row("a", read)), "4 read a#2", false},
			{look(t, 4, row("a", read), row("a")), "", false}, // read counts once
		}},
		{"read when first seen", []step{
			{look(t, 1, row("a", read)), "1 appeared a#1", false},
			{look(t, 2, row("a", read)), "", false},
		}},
		{"the same id, other content", []step{
			{look(t, 1, row("a", `"messageId":"1"`)), "1 appeared a#1", false},
			{look(t, 2, row("b", `"messageId":"1"`)), "2 appeared b#1, 3 gone a#1", false},
		}},
		{"the same content, other ids", []step{
			{look(t, 1, row("a", `"messageId":"1"`), row("a", `"messageId":"2"`), row("a", `"msg_id":"1"`)),
				"1 appeared a#1, 2 appeared a#1, 3 appeared a#1", false},
		}},
		{"file gone", []step{
			{look(t, 1, row("a"), row("b")), "1 appeared a#1, 2 appeared b#1", false},
			{gone(look(t, 2)), "3 gone a#1, 4 gone b#1", false},
			{gone(look(t, 3)), "", false},
		}},
		{"old snapshots end nothing", []step{
			{look(t, 1, row("a")), "1 appeared a#1", false},
			{look(t, 5, row("a"), row("b")), "2 appeared b#1", false},
			{look(t, 2, row("a")), "", false},
			{look(t, 2), "", false},
			{look(t, 2, row("a", read), row("b")), "", false},
			{look(t, 6, row("a"), row("b")), "", false},
		}},
		{"what only an old snapshot has is gone", []step{
			{look(t, 5, row("b")), "1 appeared b#1", false},
			{look(t, 2, row("a"), row("b")), "2 appeared a#1, 3 gone a#1", false},
			{look(t, 3, row("a")), "", false},
			{look(t, 3, row("a"), row("a"), row("b")), "4 appeared a#2, 5 gone a#2", false},
			{look(t, 6, row("b")), "", false},
			{look(t, 7, row("a")), "6 appeared a#3, 7 gone b#1", false},
		}},
		{"overlapping snapshots end nothing and ask for another", []step{
			{long(look(t, 1, row("a")), 3), "1 appeared a#1", false},
			{long(look(t, 2, row("b")), 4), "2 appeared b#1", true},
			{long(look(t, 2, row("a")), 4), "", true},
			{long(look(t, 2, row("a", read), row("b")), 4), "", true},
			{long(look(t, 2, row("a"), row("b")), 4), "", false},
			// As of the second, until 4.
			{long(look(t, 3.5, row("b")), 3.6), "", true},
			{long(look(t, 4, row("b")), 5), "3 gone a#1", false},
		}},
		{"unchanged is a look too", []step{
			{look(t, 1, row("a")), "1 appeared a#1", false},
			{look(t, 5, row("a")), "", false},
			{look(t, 3, row("a"), row("b")), "2 appeared b#1, 3 gone b#1", false},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/journal.db"
			j := mustOpen(t, path)
			other := mustOpen(t, path)
			for i, s := range test.steps {
				if test.name != "unchanged is a look too" && i%2 == 1 {
					j, other = other, j // each must find what the other one recorded
				}
				o := observe(t, j, s.s)
				wantChanges(t, o.Changes, s.want)
				if (len(o.Again) == 1) != s.again {
					t.Errorf("step %d: again %v, want %v", i, o.Again, s.again)
				}
			}
		})
	}
}

func TestEachPartMakesAnotherRow(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	rows := []string{`{"from":"a","text":"b","timestamp":"c","summary":"d","color":"e","msg_id":"f","messageId":"g"}`}
	for _, part := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		rows = append(rows, strings.Replace(rows[0], `"`+part+`"`, `"x"`, 1))
	}
	rows = append(rows, `{"from":"ab","text":""}`, `{"from":"a","text":"b"}`) // parts are not joined into one text
	for _, change := range observe(t, j, look(t, 1, rows...)).Changes {
		if change.Message.Occurrence != 1 {
			t.Errorf("%s is taken for another", change.Message.Raw)
		}
	}
	rows[0] = strings.Replace(rows[0], "{", `{"relayedBy":"x", "read":false, "type":"message", "msgV":1, `, 1)
	wantChanges(t, observe(t, j, look(t, 2, rows...)).Changes, "")
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	now := at(1000)
	j.now = func() time.Time { return now }
	wantChanges(t, observe(t, j, look(t, 1000, row("a"))).Changes, "1 appeared a#1")
	now = at(10)
	wantChanges(t, observe(t, j, look(t, 10, row("b"))).Changes, "2 appeared b#1, 3 gone a#1")
	// From then on, the new time decides about the order.
	now = at(12)
	wantChanges(t, observe(t, j, look(t, 11, row("b"), row("c"))).Changes, "4 appeared c#1")
	wantChanges(t, observe(t, j, look(t, 9, row("b"))).Changes, "")
	// A snapshot from the future does not make later ones count as old.
	wantChanges(t, observe(t, j, look(t, 5000, row("b"))).Changes, "5 gone c#1")
	now = at(13)
	wantChanges(t, observe(t, j, look(t, 13)).Changes, "6 gone b#1")
}

func TestManySnapshotsAtOnce(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	ann, red := look(t, 1, row("x")), look(t, 1, row("a"))
	ann.Inbox = "ann"
	red.CreatedAt++
	o := observe(t, j, look(t, 1, row("a")), ann, red, look(t, 2, row("b")), look(t, 2))
	wantChanges(t, o.Changes, "1 appeared a#1, 2 appeared x#1, 3 appeared a#1, 4 appeared b#1, 5 gone a#1, 6 gone b#1")

	// The team is gone: all of its inboxes, and none of another instance.
	o = observe(t, j, look(t, 3, row("c")))
	wantChanges(t, o.Changes, "7 appeared c#1")
	o = observe(t, j, Snapshot{InboxKey: inbox.Key(root, blue(), ""), Gone: true, At: at(4)})
	wantChanges(t, o.Changes, "8 gone x#1, 9 gone c#1")
	if got := number(t, j, "SELECT count(*) FROM messages WHERE gone_at IS NULL"); got != 1 {
		t.Errorf("%d messages are present, want the one of the other instance", got)
	}
	if len(j.views) != 1 {
		t.Errorf("%d inboxes are in memory, want the one of the other instance", len(j.views))
	}
}

func TestObserveIsAllOrNothing(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 0, row("before")))
	must(t, run(j, `CREATE TRIGGER no BEFORE INSERT ON messages WHEN NEW.sender='bad' BEGIN SELECT RAISE(ABORT, 'no'); END`))
	bad := look(t, 2, row("before"), row("a"), `{"from":"bad","text":"b"}`)
	for _, list := range [][]Snapshot{{bad}, {look(t, 1, row("before"), row("x")), bad}, {bad}} {
		if _, err := j.Messages.Observe(t.Context(), list...); err == nil {
			t.Fatal("no error")
		}
	}
	if got := texts(messages(t, j, Query{})); got != "before" {
		t.Fatalf("recorded %q, want what was there before", got)
	}
	must(t, run(j, "DROP TRIGGER no"))
	wantChanges(t, observe(t, j, bad).Changes, "2 appeared a#1, 3 appeared b#1")
}

func TestSnapshotsThatCannotBe(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for field, change := range map[string]func(*Snapshot){
		"root":  func(s *Snapshot) { s.Root = "" },
		"team":  func(s *Snapshot) { s.Team = "" },
		"inbox": func(s *Snapshot) { s.Inbox = "" },
		"time":  func(s *Snapshot) { s.Done = s.At.Add(-1) },
		"row 0": func(s *Snapshot) { s.Rows = []inbox.Row{{From: "x"}} },
	} {
		s := look(t, 1, row("a"))
		change(&s)
		_, err := j.Messages.Observe(t.Context(), look(t, 1, row("b")), s)
		var bad *ValueError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v, want a ValueError", field, err)
		}
	}
	s := look(t, 1, row("a"))
	s.At = time.Time{}
	if _, err := j.Messages.Observe(t.Context(), s); err == nil {
		t.Error("a snapshot without a time was taken")
	}
	if n := number(t, j, "SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages, want none", n)
	}
}

// A row that is found later gets its own time if that is plausible, and never a time before that of the row ahead of it.
func TestTimeOfARow(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	own := func(text, at string) string {
		return strings.Replace(row(text), "2026-11-16T10:00:00.000Z", at, 1)
	}
	rows := []string{own("before anybody looked", "2026-11-16T08:00:00.000Z")}
	observe(t, j, look(t, 10, rows...))
	rows = append(rows, own("since the last look", "2026-11-16T09:00:20.500Z"), own("before it", "2026-11-16T09:00:09.000Z"), own("behind it", "2026-11-16T09:00:25.000Z"), row("ahead"), own("none", "today"))
	observe(t, j, look(t, 30, rows...))
	var times []string
	for m, err := range j.Messages.All(t.Context(), Query{}) {
		must(t, err)
		times = append(times, m.Text+" "+m.FirstSeen.Format("15:04:05.000000"))
	}
	found := at(30).Format(" 15:04:05.000000")
	want := []string{"before anybody looked 08:00:00.000000", "since the last look 09:00:20.500000", "before it" + found, "behind it" + found, "ahead" + found, "none" + found}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Any content that can be read as an inbox file can be recorded.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	list := []string{
		`{}`, `{"from":1,"text":null}`, `{"text":"\u0000\u0001"}`, `{"text":"\ud800 lone"}`,
		`{"from":"a","from":"b","text":"x"}`, `{"text":"` + strings.Repeat("word ", 200_000) + `"}`,
		row(`{"type":"x","deep":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`),
		row(`'; DROP TABLE messages; --`), row("\u202e\x1b[31m"),
		`{"text":"` + strings.Repeat("x", 2<<20) + `"}`,
	}
	rows := file(t, list...)
	s := look(t, 1)
	s.Rows = rows
	o := observe(t, j, s)
	if len(o.Changes) != len(rows) {
		t.Fatalf("%d changes, want %d", len(o.Changes), len(rows))
	}
	for i, m := range messages(t, j, Query{}) {
		if string(m.Raw) != list[i] || m.Text != rows[i].Text || m.From != rows[i].From {
			t.Errorf("row %d came back as %.100s", i, m.Raw)
		}
	}
	wantChanges(t, observe(t, j, s).Changes, "")
}

func TestUnchangedWritesNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/journal.db"
	j, other := mustOpen(t, path), mustOpen(t, path)
	observe(t, j, look(t, 1, row("a"), row("b")))
	must(t, run(other, "BEGIN IMMEDIATE"))
	ctx := t.Context()
	o, err := j.Messages.Observe(ctx, look(t, 2, row("a"), row("b")))
	if err != nil || len(o.Changes) > 0 {
		t.Errorf("got %v, %v; want it not to wait for another writer", o, err)
	}
	must(t, run(other, "ROLLBACK"))
}

func TestViewsInMemoryAreLimited(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	var rows []inbox.Row
	for i := range 1000 {
		rows = append(rows, file(t, row(string(rune('a'+i%26))+strings.Repeat("x", i/26)))...)
	}
	for i := range 3 {
		s := look(t, 1)
		s.Inbox, s.Rows = string(rune('a'+i)), rows
		observe(t, j, s)
		s.At, s.Rows = at(2), rows[:500]
		observe(t, j, s)
	}
	if j.held != 1500 {
		t.Errorf("%d rows are counted, want 1500", j.held)
	}
	for p := range j.views {
		j.forget(p)
	}
	if j.held != 0 {
		t.Errorf("%d rows are counted without views, want 0", j.held)
	}
	j.held = maxHeld // as if other inboxes held so many rows
	s := look(t, 3)
	s.Inbox, s.Rows = "new", rows
	observe(t, j, s)
	if len(j.views) != 1 || j.held != 1000 {
		t.Errorf("%d views with %d rows, want 1 with 1000", len(j.views), j.held)
	}
	// Rows that are taken leave nothing in memory.
	for i := range 100 {
		s := look(t, 4+float64(i))
		s.Inbox, s.Rows = "new", rows[i*9:i*9+9]
		observe(t, j, s)
	}
	for _, v := range j.views {
		if len(v.known) > 200 || len(v.groups) > 200 || v.held != 9 {
			t.Errorf("%d known, %d entries, %d held of 9 rows", len(v.known), len(v.groups), v.held)
		}
	}
}
