package server

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
)

// worker is the agent of a team that a test has say things.
type worker struct {
	t   testing.TB
	j   *journal.Journal
	key inbox.InboxKey
}

func (r *running) worker(t testing.TB, team string) *worker {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(r.world.State, "journal.db"))
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	c, err := r.world.Team(team).Config(t.Context())
	must(t, err)
	return &worker{t, j, inbox.Key(r.world.Root.Path(), c.Instance(), "worker")}
}

// says records envelopes with these events.
func (w *worker) says(events ...string) {
	w.t.Helper()
	for n, event := range events {
		var ev struct{ T, Call, Text, Title string }
		err := json.Unmarshal([]byte(event), &ev)
		if err == nil {
			_, err = w.j.RecordEnvelopes(w.t.Context(), journal.Envelope{
				InboxKey: w.key, ID: fmt.Sprint("e", n), Session: "s", Turn: "t", Call: ev.Call, Kind: ev.T, Role: "agent", At: time.Now(), Text: ev.Text + ev.Title,
				Raw: fmt.Appendf(nil, `{"id":"e%d","time":1,"role":"agent","turn":"t","ev":%s}`, n, event),
			})
		}
		must(w.t, err)
	}
}

func text(s string) string { return fmt.Sprintf(`{"t":"text","text":%q}`, s) }

const (
	startTool = `{"t":"tool-call-start","call":"c","name":"Bash","title":"run ` + "`go test ./...`" + `","description":"tests","args":{}}`
	startTurn = `{"t":"turn-start"}`
	thought   = `{"t":"text","text":"let me think","thinking":true}`
)
