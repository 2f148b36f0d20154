package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/relay"
	"teambridge/status/api"
)

// legacy and modern return payloads of a user, with more fields.
func legacy(id, text, more string) string {
	return fmt.Sprintf(`{"role":"user","content":{"type":"text","text":%q},"localKey":%q%s}`, text, id, more)
}

func modern(id, text, more string) string {
	return fmt.Sprintf(`{"role":"session","content":{"id":%q,"time":1,"role":"user","ev":{"t":"text","text":%q}}%s}`, id, text, more)
}

// payloads sends lines.
func (r *running) payloads(t *testing.T, member string, lines ...string) answer {
	t.Helper()
	return r.ask(t, "POST", path(band, member), strings.Join(lines, "\n"), "Content-Type", api.PayloadsType)
}

// results returns the results of the lines: new, again, or the form of a dropped one.
func results(t *testing.T, s api.SentPayloads) map[int]string {
	t.Helper()
	list := map[int]string{}
	for _, r := range s.Results {
		switch {
		case r.Sent == nil:
			list[r.Line] = r.Dropped
		case r.Sent.Delivery == "" || r.Sent.State != api.Verified || r.Sent.Member != "team-lead":
			t.Errorf("line %d: %+v", r.Line, r.Sent)
		case r.Sent.Deduplicated:
			list[r.Line] = "again"
		default:
			list[r.Line] = "new"
		}
	}
	return list
}

// Payloads of a person are prompts, each once and in order, in the mode of their meta. One
// form is dropped and counted.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, taken := range []string{"legacy", "modern"} {
		t.Run(taken, func(t *testing.T) {
			t.Parallel()
			one, other, dropped := legacy, modern, "modern"
			if taken == "modern" {
				one, other, dropped = modern, legacy, "legacy"
			}
			r := newBand(t).start(t, func(s *Server) {
				s.opts.Payloads = relay.Payloads{Modern: taken == "modern", PermissionModes: relay.PermissionModes{"yolo": "bypassPermissions"}}
			})
			lead := r.relayed(t, "lead")
			body := []string{
				one("p-1", "[p-1]", ""),
				other("p-2", "[x]", ""),
				"",
				one("p-3", "[p-3]", `,"meta":{"model":"opus-sim","permissionMode":"yolo","displayText":"three\nof them"}`),
				one("p-1", "[p-1]", "") + "\r",
			}
			sent := of[api.SentPayloads](t, r.payloads(t, "lead", body...), http.StatusCreated)
			if diff := cmp.Diff(map[int]string{1: "new", 2: dropped, 4: "new", 5: "again"}, results(t, sent)); diff != "" || sent.Dropped != 1 {
				t.Errorf("%d dropped, %s", sent.Dropped, diff)
			}
			list := get[[]api.Delivery](t, r, "/v1/deliveries?relay="+lead)
			if len(list) != 2 || list[0].ID != "p-3" || list[1].ID != "p-1" || list[0].From != "user" || !list[0].Person {
				t.Errorf("deliveries %+v", list)
			}
			var page api.Page
			for len(page.Messages) < 2 { // the history is copied from the ledger after the answer
				page = get[api.Page](t, r, "/v1/teams/"+band+"/messages?from=user")
			}
			i := slices.IndexFunc(page.Messages, func(m api.Record) bool { return m.ID == "p-3" })
			if i < 0 || page.Messages[i].Text != "[p-3]" || page.Messages[i].Summary != "three of them" || !page.Messages[i].Person {
				t.Errorf("history %+v", page.Messages)
			}

			// A payload that is sent again is sent once, and a dropped one needs no free id.
			again := of[api.SentPayloads](t, r.payloads(t, "lead", body...), http.StatusOK)
			if diff := cmp.Diff(map[int]string{1: "again", 2: dropped, 4: "again", 5: "again"}, results(t, again)); diff != "" {
				t.Error(diff)
			}
			of[api.SentPayloads](t, r.payloads(t, "lead", other("p-1", "[y]", "")), http.StatusOK)
			problem(t, r.ask(t, "POST", path(band, "lead"), message(t, "other", ""), "Idempotency-Key", "p-1"), api.CodeIDTaken)
		})
	}
}

// An error in any line, or in the request, changes nothing.
func TestPayloadsAreAllOrNone(t *testing.T) {
	t.Parallel()
	r := newBand(t).start(t)
	lead := r.relayed(t, "lead")
	of[api.SentPayloads](t, r.payloads(t, "lead", legacy("used", "[p-1]", "")), http.StatusCreated)
	good := legacy("good", "[good]", "")
	for _, c := range []struct {
		last string
		code api.Code
		want string
	}{
		{`{"role":"user","content":{"type":"te`, api.CodeInvalid, "line 3: (root): must be JSON"},
		{`{"text":"hi"}`, api.CodeInvalid, "line 3: role: is missing"},
		{`{"role":"agent","content":{"type":"output"}}`, api.CodeInvalid, "line 3: role: must be user or session"},
		{`{"role":"session","content":{"id":"e","time":1,"role":"agent","ev":{"t":"stop"}}}`, api.CodeInvalid, "line 3: content.role: must be user"},
		{legacy("", "[x]", ""), api.CodeInvalid, "line 3: the id is blank"},
		{legacy("x", " ", ""), api.CodeInvalid, "line 3: the text is blank"},
		{legacy("x", "[x]", `,"meta":{"permissionMode":"yolo"}`), api.CodeInvalid, `line 3: meta.permissionMode: "yolo" is not`},
		{legacy("x", "[x]", `,"meta":{"allowedTools":"Bash"}`), api.CodeInvalid, "line 3: meta.allowedTools: must be an array"},
		{legacy("x", `{"type":"shutdown_request"}`, ""), api.CodeInvalid, "line 3: the text is a shutdown_request"},
		{legacy("x", strings.Repeat("x", inbox.MaxText+1), ""), api.CodeInvalid, "line 3: the text has"},
		{legacy("used", "[another]", ""), api.CodeIDTaken, `"used"`},
		{legacy("used", "[p-1]", `,"meta":{"model":"m"}`), api.CodeIDTaken, `"used"`},
		{legacy("good", "[another]", ""), api.CodeIDTaken, `"good"`},
		{strings.Repeat(" ", 1<<20), api.CodeBodyTooLarge, "1048576"},
	} {
		if p := problem(t, r.payloads(t, "lead", good, "", c.last), c.code); !strings.Contains(p.Detail, c.want) || len(p.Detail) > 1000 {
			t.Errorf("%.60s: %s, want %s", c.last, p.Detail, c.want)
		}
	}
	problem(t, r.payloads(t, "lead", "\n \n"), api.CodeBody)
	problem(t, r.payloads(t, "nobody", good), api.CodeNotFound)
	if p := problem(t, r.payloads(t, "drums", good), api.CodeInvalid); !strings.Contains(p.Detail, "no relay of this service serves drums") {
		t.Error(p.Detail)
	}
	problem(t, r.ask(t, "POST", path(band, "lead"), good, "Content-Type", api.PayloadsType, "Idempotency-Key", "k"), api.CodeUsage)
	for _, media := range []string{"application/x-ndjson", "application/x-ndjson; profile=other", `application/x-ndjson; profile=wire; charset="utf-16"`, "application/x-ndjson; profile=wire; version=2"} {
		if p := problem(t, r.ask(t, "POST", path(band, "lead"), good, "Content-Type", media), api.CodeBody); !strings.Contains(p.Hint, api.PayloadsType) {
			t.Errorf("%s: %s, hint %s", media, p.Detail, p.Hint)
		}
	}
	problem(t, r.ask(t, "POST", path(band, "lead"), good, "Content-Type", "application/json; profile=wire"), api.CodeBody)
	problem(t, r.ask(t, "POST", "/v1/teams/"+band+"/broadcast", good, "Content-Type", api.PayloadsType), api.CodeBody)
	if p := problem(t, r.ask(t, "POST", path(band, "drums"), message(t, "[row]", ""), "Content-Type", "application/ndjson; profile=wire"), api.CodeBody); p.Hint == "" {
		t.Errorf("no hint: %s", p.Detail)
	}

	// A message in the inbox with an id is not also a prompt.
	of[api.Sent](t, r.ask(t, "POST", path(band, "bass"), message(t, "[row]", ""), "Idempotency-Key", "row"), http.StatusCreated)
	r.relayed(t, "bass")
	problem(t, r.payloads(t, "bass", good, legacy("row", "[row]", "")), api.CodeConflict)

	// None was sent.
	list := get[[]api.Delivery](t, r, "/v1/deliveries?relay="+lead)
	if len(list) != 1 || list[0].ID != "used" {
		t.Errorf("deliveries %+v", list)
	}
	of[api.SentPayloads](t, r.payloads(t, "lead", good), http.StatusCreated)
}

// newBand returns a Claude directory with a team whose agents have no terminals.
func newBand(t *testing.T) *world {
	w := newWorld(t)
	w.Make(band, 1, "team-lead", "drums", "bass")
	return w
}

// relayed adds a relay for a member of the band, with a program that does not exist.
func (r *running) relayed(t *testing.T, member string) (id string) {
	t.Helper()
	body := fmt.Sprintf(`{"team": %q, "member": %q, "command": ["/no/such/program"], "dir": %q}`, band, member, r.world.State)
	return of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", body), http.StatusCreated).ID
}
