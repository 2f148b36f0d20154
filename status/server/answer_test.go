package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"teambridge/status/api"
)

// HTTP alone has these details of messages: statuses, the key for idempotency, and invalid bodies. The suite of
// the bridge has sent and refused messages.
func TestSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	to := "/v1/teams/" + older + "/members/"
	first := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text":"once","summary":"s","color":"cyan"}`, "Idempotency-Key", "k"), http.StatusCreated)
	again := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text":"once","summary":"s","color":"cyan"}`, "Idempotency-Key", `"k"`), http.StatusOK)
	if first.ID != "k" || first.Deduplicated || again.ID != "k" || !again.Deduplicated {
		t.Errorf("first %+v, again %+v", first, again)
	}
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"other"}`, "Idempotency-Key", "k"), api.CodeIDTaken)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"other"}`, "Idempotency-Key", `""`), api.CodeUsage)
	p := problem(t, r.ask(t, "POST", to+"wroker/messages", `{"text":"x"}`), api.CodeNotFound)
	if len(p.Nearest) == 0 || p.Nearest[0] != "worker" {
		t.Errorf("nearest %v", p.Nearest)
	}
	of[api.Sent](t, r.ask(t, "POST", to+"ghost/messages", `{"text":"x","force":true}`), http.StatusCreated)
	problem(t, r.ask(t, "POST", to+"..%2fconfig/messages", `{"text":"x","force":true}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"`+strings.Repeat("x", 200<<10)+`"}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`), api.CodeBodyTooLarge)
	for _, body := range []string{`{"text":"x","txet":"y"}`, `{"text":"x"} {}`, `[]`, `{"text":1}`, `{`, `x`, ``} {
		problem(t, r.ask(t, "POST", to+"worker/messages", body), api.CodeBody)
	}
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"x"}`, "Content-Type", "text/plain"), api.CodeBody)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"{\"type\":\"permission_response\"}","force":true}`), api.CodeRefused)

	m := get[api.Page](t, r, "/v1/teams/"+older+"/messages?inbox=user").Messages[0]
	if got := of[api.Marked](t, r.ask(t, "POST", "/v1/teams/"+older+"/read", fmt.Sprintf(`{"ids":[%q]}`, m.ID)), http.StatusOK); got != (api.Marked{Inbox: "user", Marked: 1}) {
		t.Errorf("marked %+v", got)
	}

	to = "/v1/teams/" + older + "/broadcast"
	for _, deduplicated := range []bool{false, true} {
		list := of[[]api.Sent](t, r.ask(t, "POST", to, `{"text":"all","includeLead":true}`, "Idempotency-Key", "b"), http.StatusCreated)
		if len(list) != 2 || list[0].ID != "b-team-lead" || list[1].ID != "b-worker" || list[1].Deduplicated != deduplicated {
			t.Errorf("sent %+v", list)
		}
	}
	must(t, os.WriteFile(w.Inbox(older, "worker").Path(), []byte("garbage"), 0o600))
	list := of[[]api.Sent](t, r.ask(t, "POST", to, `{"text":"more","includeLead":true}`), http.StatusMultiStatus)
	if len(list) != 2 || list[0].State != api.Verified || list[1].State != api.Failed || list[1].Error == nil || list[1].Error.Code != api.CodeCorrupt {
		t.Errorf("sent %+v", list)
	}
	problem(t, r.ask(t, "POST", to, `{"text":"all","except":["worker"]}`), api.CodeNotFound)
}

// Errors in a partial answer have hints with operations and commands, like the error of a whole answer: the error of
// a member in a 207, and the last line of lines that could not be read to their end.
func TestErrorsInAnswersNameOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	check := func(what string, e *api.Error) {
		t.Helper()
		const want = "the file was not changed; see what to do with: "
		if e == nil || e.Code != api.CodeCorrupt || e.Hint != want+"GET /v1/doctor" || e.Command != want+"teambridge doctor" {
			t.Errorf("%s: the error is %+v", what, e)
		}
	}
	must(t, os.WriteFile(w.Inbox(older, "worker").Path(), []byte("garbage"), 0o600))
	body := `{"text":"more","includeLead":true}`
	list := of[[]api.Sent](t, r.ask(t, "POST", "/v1/teams/"+older+"/broadcast", body, "Idempotency-Key", "b"), http.StatusMultiStatus)
	check("a 207", list[len(list)-1].Error)

	_, corrupt := w.Inbox(older, "worker").Read(t.Context())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = r.lines(w, req, false, func(context.Context) iter.Seq2[json.RawMessage, error] {
			return func(yield func(json.RawMessage, error) bool) {
				_ = yield(json.RawMessage(`{}`), nil) && yield(nil, corrupt)
			}
		})
	}))
	defer h.Close()
	res, err := http.Get(h.URL)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	var last api.LineError
	line, found := strings.CutPrefix(string(data), "{}\n")
	if err := json.Unmarshal([]byte(line), &last); err != nil || !found {
		t.Fatalf("the lines are %s (%v)", data, err)
	}
	check("lines", &last.Error)
}

// HTTP alone has these details of questions: invalid queries, unknown paths, and near misses.
func TestQueries(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t)
	const messages, doctor = "/v1/teams/" + older + "/messages", "/v1/doctor"
	for code, paths := range map[api.Code][]string{
		api.CodeUsage: {
			messages + "?limit=0", messages + "?limit=501", messages + "?limit=x", messages + "?after=-1", messages + "?nonsense=1", messages + "?inbox=a&inbox=b",
			messages + "?with=a&from=b", messages + "?protocol=yes", messages + "?work=no", "/v1/history?q=x&since=yesterday",
			"/v1/relays/x/events?limit=0", "/v1/relays/x/events?after=x", "/v1/deliveries?relay=x&state=eaten", "/v1/teams/" + older + "/wait?for=message&timeout=soon",
			"/v1/teams/" + older + "/wait?for=message&timeout=-1s",
		},
		api.CodeNotFound: {"/v1/teams/myteem", "/v1/teams/myteem/members", "/v1/teams/myteem/status", "/v1/teams/myteem/messages", "/v1/relays/x/events", "/v1/deliveries?relay=x", messages + "?createdAt=1", doctor + "?team=nobody"},
		api.CodeInvalid:  {"/v1/teams/..%2f.."},
	} {
		for _, path := range paths {
			if p := problem(t, r.ask(t, "GET", path, ""), code); path == "/v1/teams/myteem" && !slices.Contains(p.Nearest, older) {
				t.Errorf("nearest %v", p.Nearest)
			}
		}
	}
	for query, code := range map[string]api.Code{"?limit=1": api.CodeUsage, "": api.CodeNotFound} {
		problem(t, r.ask(t, "GET", "/v1/relays/nobody/events"+query, "", "Accept", "text/event-stream"), code)
	}
	problem(t, r.ask(t, "DELETE", "/v1/relays/x?deleteTeam=perhaps", ""), api.CodeUsage)
	if v := get[api.ServiceVersion](t, r, "/v1/version"); v.Version.Version != "v" || v.ReadOnly {
		t.Errorf("version %+v", v)
	}
	if h := get[api.Health](t, r, "/healthz"); h.Status != "ok" {
		t.Errorf("health %+v", h)
	}
	get[map[string]any](t, r, "/openapi.json")
}
