package bridge_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams/teamstest"
)

// A process that is stopped while it writes the journal keeps no command waiting: that goes on without the history.
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
	if err := sqlitex.ExecuteTransient(writer, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	opts, warned := options(t, f), []string{}
	opts.RecordWithin, opts.Warn = 200*time.Millisecond, func(err error) { warned = append(warned, err.Error()) }
	l := bridge.New(opts)
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
