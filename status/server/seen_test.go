package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/teams/transcript"
)

// gave lets the transcript of the newer team's worker say that its model was given texts
// from user, at once.
func (w *world) gave(t *testing.T, texts ...string) time.Time {
	t.Helper()
	config, err := w.Team(newer).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lead, _ := config.Lead()
	path := filepath.Join(w.Root.Path(), "projects", transcript.Slug(lead.Cwd), config.LeadSessionID)
	own := filepath.Join(path, "subagents", "agent-aworker-1")
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, "<teammate-message teammate_id=\"user\" verified=\"false\">\n"+text+"\n</teammate-message>")
	}
	at := time.Now().UTC().Truncate(time.Millisecond)
	record := fmt.Sprintf(`{"type":"user","uuid":%q,"version":"2.1.329","timestamp":%q,"message":{"content":%q}}`+"\n",
		strings.Join(texts, " "), at.Format(time.RFC3339Nano), strings.Join(blocks, "\n\n"))
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Dir(own), 0o700))
	must(os.WriteFile(path+".jsonl", nil, 0o600))
	must(os.WriteFile(own+".meta.json", []byte(`{"name":"worker"}`), 0o600))
	f, err := os.OpenFile(own+".jsonl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString(record)
	must(err)
	must(f.Close())
	return at
}

// take empties the inbox of the newer team's worker, in one step: nothing is known of messages whose inbox has no content.
func (w *world) take(t *testing.T) {
	t.Helper()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(empty, w.Inbox(newer, "worker").Path()); err != nil {
		t.Fatal(err)
	}
}

func (r *running) post(t *testing.T, text string) string {
	t.Helper()
	return of[api.Sent](t, r.ask(t, "POST", "/v1/teams/"+newer+"/members/worker/messages", fmt.Sprintf(`{"text":%q}`, text)), http.StatusCreated).ID
}

// receipt waits for a receipt of a message.
func (r *running) receipt(t *testing.T, e *events, id string, want func(api.Receipt) bool) api.Receipt {
	t.Helper()
	for {
		page := get[api.Page](t, r, "/v1/teams/"+newer+"/messages?inbox=worker&limit=100")
		for _, m := range page.Messages {
			if m.ID == id && m.Receipt != nil && want(*m.Receipt) {
				return *m.Receipt
			}
		}
		e.until(api.EventReceipt, func(ev event) bool { return as[api.Receipt](t, ev).ID == id })
	}
}

func consumed(r api.Receipt) bool { return r.State == api.Consumed }
func seen(r api.Receipt) bool     { return r.SeenAt != nil }

// A message is seen when its agent's transcript has it; equal ones in their order; one
// that was taken and is not there never.
func TestSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, func(s *Server) { s.core.Tick = 80 * time.Millisecond })
	e := r.listen(t, "", "")
	w.take(t)
	first, second, other, never := r.post(t, "the same"), r.post(t, "the same"), r.post(t, "another"), r.post(t, "never")
	w.take(t)
	for _, id := range []string{first, second, other, never} {
		if got := r.receipt(t, e, id, consumed); got.SeenAt != nil {
			t.Errorf("it was not given yet: %+v", got)
		}
	}
	at := w.gave(t, "the same", "another", "the same")
	for _, id := range []string{first, second, other} {
		if got := r.receipt(t, e, id, seen); got.State != api.Consumed || got.ConsumedAt == nil || !got.SeenAt.Equal(at) {
			t.Errorf("seen at %v, want %v: %+v", got.SeenAt, at, got)
		}
	}
	// An agent can show a message to its model before it marks it.
	before := r.post(t, "shown before it is taken")
	at = w.gave(t, "shown before it is taken")
	if got := r.receipt(t, e, before, seen); got.State != api.Verified || !got.SeenAt.Equal(at) {
		t.Errorf("shown: %+v", got)
	}
	w.take(t)
	if got := r.receipt(t, e, before, consumed); got.SeenAt == nil || !got.SeenAt.Equal(at) {
		t.Errorf("shown and taken: %+v", got)
	}
	if got := r.receipt(t, e, never, consumed); got.SeenAt != nil {
		t.Errorf("never given: %+v", got)
	}
}

// A message that was taken while one service ran is found in the transcript by the next.
func TestSeenAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	w.take(t)
	id := r.post(t, "hello")
	w.take(t)
	r.receipt(t, r.listen(t, "", ""), id, consumed)
	r.end(t)
	at := w.gave(t, "hello")
	r = w.start(t)
	if got := r.receipt(t, r.listen(t, "", ""), id, seen); got.State != api.Consumed || !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v: %+v", got.SeenAt, at, got)
	}
}

// What is sent again under an id is followed again, although the message under that id is
// still looked for in the transcript.
func TestFollowedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	e := r.listen(t, "", "")
	w.take(t)
	send := func(body string) answer {
		return r.ask(t, "POST", "/v1/teams/"+newer+"/members/worker/messages", body, "Idempotency-Key", "job")
	}
	of[api.Sent](t, send(`{"text":"hello"}`), http.StatusCreated)
	w.take(t)
	r.receipt(t, e, "job", consumed)
	if again := of[api.Sent](t, send(`{"text":"hello"}`), http.StatusOK); !again.Deduplicated {
		t.Errorf("again: %+v", again)
	}
	at := w.gave(t, "hello")
	if got := r.receipt(t, e, "job", seen); !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v", got.SeenAt, at)
	}
}

// With KeepTranscripts, what the interactive agents of a team say is in its history, once,
// over a restart, too; nothing of other teams is, and nothing without it.
func TestKeepTranscripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := func() (texts []string) {
		j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for e, err := range j.Envelopes(t.Context(), journal.EnvelopeQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == "text" {
				var said struct{ Ev struct{ Text string } }
				if err := json.Unmarshal(e.Raw, &said); err != nil {
					t.Fatal(err)
				}
				for _, word := range []string{"one", "two", "three"} {
					if strings.Contains(said.Ev.Text, word) {
						texts = append(texts, e.Team.Team+" "+e.Inbox+" "+e.Role+" "+word)
					}
				}
			}
		}
		return texts
	}
	w.gave(t, "one")
	r := w.start(t)
	id := r.post(t, "hello")
	w.take(t)
	r.receipt(t, r.listen(t, "", ""), id, consumed)
	r.end(t)
	if got := kept(); len(got) > 0 {
		t.Errorf("without being told to: %q", got)
	}
	for n, text := range []string{"two", "three"} {
		r = w.start(t, func(s *Server) {
			s.opts.KeepTranscripts, s.core.Tick = []string{newer, "not yet there"}, 80*time.Millisecond
		})
		e := r.listen(t, "?after=0", "")
		e.until(api.EventEnvelope, nil)
		w.gave(t, text)
		for len(kept()) < n+2 {
			e.until(api.EventEnvelope, nil)
		}
		r.end(t)
	}
	var want []string
	for _, word := range []string{"one", "two", "three"} {
		want = append(want, newer+" worker user "+word)
	}
	if got := kept(); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

// What the transcript says is still found when the team is gone.
func TestSeenWhenTheTeamIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gave(t, "earlier")
	r := w.start(t, func(s *Server) { s.core.Tick = time.Hour }) // no look but at news
	e := r.listen(t, "", "")
	id := r.post(t, "hello")
	e.until(api.EventReceipt, func(ev event) bool { return as[api.Receipt](t, ev).ID == id })
	at := w.gave(t, "hello")
	// In this order: a message that goes while there is a team was taken.
	for _, name := range []string{"config.json", ""} {
		if err := os.RemoveAll(filepath.Join(w.Root.Path(), "teams", newer, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := as[api.Receipt](t, e.until(api.EventReceipt, func(ev event) bool { return as[api.Receipt](t, ev).ID == id }))
	if got.SeenAt == nil || !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v", got.SeenAt, at)
	}
}
