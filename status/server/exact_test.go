package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
)

// Every route refuses values that decoding would change, before anything is done.
func TestNothingIsChangedInARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	names := strings.NewReplacer("{team}", older, "{member}", "worker", "{relay}", "r", "{pane}", "p", "{delivery}", "d")
	routes := 0
	for _, route := range r.routes() {
		if !route.Changes || route.bare {
			continue
		}
		routes++
		path := names.Replace(route.Path)
		for body, code := range map[string]api.Code{
			"{\"any\":\"caf\xe9\"}": api.CodeInvalid, `{"any":["x \ud83d y"]}`: api.CodeInvalid, `{"any":1,"any":2}`: api.CodeBody,
		} {
			if p := problem(t, r.ask(t, route.Method, path, body), code); !strings.Contains(p.Detail, "any") {
				t.Errorf("%s %q: %s", path, body, p.Detail)
			}
		}
	}
	if routes < 8 {
		t.Errorf("%d routes with a body", routes)
	}

	// A message is refused as the command line does it.
	inboxes := filepath.Join(w.Root.Path(), "teams", older, "inboxes", "worker.json")
	before, err := os.ReadFile(inboxes)
	must(t, err)
	const path = "/v1/teams/" + older + "/members/worker/messages"
	for body, want := range map[string]*inbox.InvalidError{
		"{\"text\":\"rm caf\xe9.txt\"}":                 {Field: "text", Reason: "is not valid UTF-8"},
		`{"text":"x \ud83d y"}`:                         {Field: "text", Reason: "has half of a surrogate pair"},
		"{\"text\":\"x\",\"summary\":\"caf\xe9\"}":      {Field: "summary", Reason: "is not valid UTF-8"},
		"{\"text\":\"x\",\"from\":\"caf\xe9\"}":         {Field: "sender", Reason: "is not valid UTF-8"},
		`{"text":"x","from":"user","summary":"\ude00"}`: {Field: "summary", Reason: "has half of a surrogate pair"},
	} {
		for _, path := range []string{path, "/v1/teams/" + older + "/broadcast"} {
			p := problem(t, r.ask(t, "POST", path, body, "Idempotency-Key", "m-1"), api.CodeInvalid)
			if command := view.Explain(want); p.Detail != command.Message || cmp.Or(p.Command, p.Hint) != command.Hint {
				t.Errorf("%q: %s (%s), want %+v", body, p.Detail, p.Hint, command)
			}
		}
	}
	problem(t, r.ask(t, "POST", path, `{"text":"x","mode":{"model":"\ud83d"}}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", path, `{"text":"x"}`, "Idempotency-Key", "caf\xe9"), api.CodeInvalid)
	problem(t, r.ask(t, "POST", "/v1/teams/"+older+"/members/caf%E9/messages", `{"text":"x","force":true}`), api.CodeInvalid)
	problem(t, r.ask(t, "GET", "/v1/history?q=caf%E9", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", path[:len(path)-len("messages")]+"receipt?id=caf%E9", ""), api.CodeUsage)
	problem(t, r.ask(t, "POST", path, "{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"caf\xe9\"}}\n", "Content-Type", api.PayloadsType), api.CodeInvalid)
	if now, err := os.ReadFile(inboxes); err != nil || !bytes.Equal(now, before) {
		t.Errorf("something was sent: %s, %v", now, err)
	}

	// Exact values arrive unchanged.
	text := "caf\u00e9 \U0001f600 \ufffd \\ud83d"
	body, err := json.Marshal(api.NewMessage{Text: text})
	must(t, err)
	of[api.Sent](t, r.ask(t, "POST", path, string(body), "Idempotency-Key", "m-1"), http.StatusCreated)
	data, err := os.ReadFile(inboxes)
	must(t, err)
	rows, err := inbox.Parse(data)
	if err != nil || len(rows) == 0 || rows[len(rows)-1].Text != text {
		t.Errorf("got %+v, %v", rows, err)
	}
}
