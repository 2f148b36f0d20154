package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
)

// An answer that is found while somebody waits for a reply is none if it was given before.
func TestReplyOfLongAgo(t *testing.T) {
	t.Parallel()
	_, s := service(t)
	since := time.Now().Truncate(time.Millisecond)
	rec, err := s.Record(t.Context(), pane.SessionTeam)
	must(t, err)
	w := &waiting{Local: s.Local, Occasion: api.Occasion{For: api.ForReply}, team: pane.SessionTeam, root: s.opts.Root.Path(), rec: rec, since: since}
	var events []journal.RelayEvent
	for i, at := range []time.Time{since.Add(-time.Minute), since, since.Add(time.Minute)} {
		id := fmt.Sprint("answer ", i)
		events = append(events, journal.RelayEvent{
			N: int64(i) + 1, Root: w.root, Team: teams.Instance{Team: w.team, CreatedAt: 1}, Inbox: "work", At: at, Answer: id,
			Row: fmt.Appendf(nil, `{"from":"work","text":%q,"timestamp":"2026-01-01T00:00:00.000Z","type":"answer","messageId":%q}`, id, id),
		})
	}
	_, err = s.journal.CopyEvents(t.Context(), "ledger", events...)
	list, aerr := w.appeared(t.Context(), time.Minute)
	must(t, errors.Join(err, aerr, rec.Close()))
	if len(list) != 2 || list[0].Text != "answer 1" || list[1].Text != "answer 2" {
		t.Errorf("they count as new: %+v", list)
	}
}
