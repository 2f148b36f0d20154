package bridge_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams/teamstest"
)

// A process that is stopped while it writes the journal delays no command: commands continue without the
// history.
func TestRecordBesideAStoppedWriter(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	path := filepath.Join(f.State, "journal.db")
	j, err := journal.Open(t.Context(), path)
	if err == nil {
		err = j.Close()
	}
	must(t, err)
	writer, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	must(t, err)
	defer writer.Close()
	must(t, sqlitex.ExecuteTransient(writer, "BEGIN IMMEDIATE", nil))
	opts, warned := options(t, f), []string{}
	opts.RecordWithin, opts.Warn = 200*time.Millisecond, func(err error) { warned = append(warned, err.Error()) }
	l := bridge.New(opts)
	if _, err := l.OpenJournal(t.Context()); err != nil { // which may take longer than RecordWithin on a busy machine
		t.Fatal(err)
	}
	if _, err := l.Send(t.Context(), teamstest.Newer, "worker", "", api.NewMessage{Text: "hello"}); err != nil { // which is to be recorded
		t.Fatal(err)
	}
	r, err := l.Record(t.Context(), "")
	must(t, err)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(warned, func(text string) bool {
		return strings.Contains(text, "locked") && strings.Contains(text, "there is no history")
	}) {
		t.Errorf("it warned of %q", warned)
	}
}

// Two operations of one Local that record at the same time share the journal. The first one that ends does not
// close it for the other.
func TestRecordersShareTheJournal(t *testing.T) {
	t.Parallel()
	for name, unusable := range map[string]bool{"the journal": false, "a temporary one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := teamstest.Captured(t, teamstest.NewerVersion)
			opts := options(t, f)
			if unusable {
				opts.Journal = func(context.Context) (*journal.Journal, error) { return nil, errors.New("it cannot be opened") }
				opts.Warn = func(error) {}
			}
			l := bridge.New(opts)
			first, err := l.Record(t.Context(), teamstest.Newer)
			must(t, err)
			second, err := l.Record(t.Context(), teamstest.Newer)
			must(t, err)
			j, err := l.OpenJournal(t.Context()) // as another operation has it
			must(t, err)
			must(t, second.Close())
			if _, err := j.Last(t.Context()); err != nil || first.Journal() != j {
				t.Errorf("when one has ended, another operation has another journal, or: %v", err)
			}
			_, err = l.Send(t.Context(), teamstest.Newer, "worker", "m-1", api.NewMessage{Text: "hello"})
			must(t, err)
			for seen := false; !seen; {
				list, err := first.Changes(t.Context(), time.Minute)
				if err != nil || len(list) == 0 {
					t.Fatalf("when one has ended, the other has %v, %v", list, err)
				}
				seen = slices.ContainsFunc(list, func(c journal.Change) bool { return c.Message.ID() == "m-1" })
			}
			must(t, first.Close())
			if _, err := j.Last(t.Context()); (err != nil) != unusable {
				t.Errorf("when both have ended: %v", err)
			}
		})
	}
}

// A question that is asked again is found under its id even if another's message has that id, too.
func TestRecall(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	box := f.Inbox(teamstest.Newer, "worker")
	theirs, ours := inbox.Message{ID: "q-1", From: "other", Text: "now?"}, inbox.Message{ID: "q-1", From: "user", Text: "how many?"}
	for at, m := range []inbox.Message{theirs, ours} {
		m.Time = time.UnixMilli(int64(1000 + at))
		_, err := box.Append(t.Context(), m, inbox.AppendOptions{Force: true})
		must(t, err)
		r, err := bridge.New(options(t, f)).Record(t.Context(), teamstest.Newer)
		must(t, err)
		must(t, r.Close())
		_, err = teamstest.Take(t.Context(), box, func(inbox.Row) bool { return true })
		must(t, err)
	}
	r, err := bridge.New(options(t, f)).Record(t.Context(), teamstest.Newer)
	must(t, err)
	defer r.Close()
	c, err := f.Team(teamstest.Newer).Config(t.Context())
	must(t, err)
	if got, err := r.Recall(t.Context(), c.Instance(), "worker", &ours); err != nil || got == nil || got.At.UnixMilli() != 1001 {
		t.Errorf("recalled %+v, %v", got, err)
	}
	ours.Text = "another question"
	if got, err := r.Recall(t.Context(), c.Instance(), "worker", &ours); err != nil || got != nil {
		t.Errorf("a question that was never asked: recalled %+v, %v", got, err)
	}
}
