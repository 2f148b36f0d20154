package bridge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// An answer that is found during a wait for a reply does not count if it was given before the wait.
func TestReplyOfLongAgo(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	lg, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	must(t, err)
	defer lg.Close()
	l := New(Options{
		Root:   func() (*teams.Root, error) { return f.Root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return lg, nil },
		Journal: func(ctx context.Context) (*journal.Journal, error) {
			return journal.Open(ctx, filepath.Join(f.State, "journal.db"))
		},
		State: f.State, Locker: f.Locker, Warn: teamstest.Warn(t), Debug: func(string, ...any) {},
	})
	since := time.Now().Truncate(time.Millisecond)
	rec, err := l.Record(t.Context(), pane.SessionTeam)
	must(t, err)
	w := &waiting{Local: l, Occasion: api.Occasion{For: api.ForReply}, team: pane.SessionTeam, root: f.Root.Path(), rec: rec, since: since}
	var events []ledger.Event
	for i, at := range []time.Time{since.Add(-time.Minute), since, since.Add(time.Minute)} {
		id := fmt.Sprint("answer ", i)
		events = append(events, ledger.Event{
			N: int64(i) + 1, InboxKey: inbox.Key(w.root, teams.Instance{Team: w.team, CreatedAt: 1}, "work"), At: at, Answer: id,
			Row: fmt.Appendf(nil, `{"from":"work","text":%q,"timestamp":"2026-01-01T00:00:00.000Z","type":"answer","messageId":%q}`, id, id),
		})
	}
	_, err = rec.Journal().RelayEvents.CopyEvents(t.Context(), nil, events...)
	list, aerr := w.appeared(t.Context(), time.Minute)
	must(t, errors.Join(err, aerr, rec.Close()))
	if len(list) != 2 || list[0].Text != "answer 1" || list[1].Text != "answer 2" {
		t.Errorf("they count as new: %+v", list)
	}
}

var must = errtest.Must
