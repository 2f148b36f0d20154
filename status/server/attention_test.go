package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude/simchild"
	"teambridge/status/api"
)

// waits waits until what waits for a person is of these kinds, in snapshots as in the list.
func waits(t *testing.T, r *running, stream *events, what string, kinds ...string) map[string]api.Attention {
	t.Helper()
	slices.Sort(kinds)
	found := map[string]api.Attention{}
	same := func(list []api.Attention) bool {
		var got []string
		clear(found)
		for _, a := range list {
			if a.Team == band {
				got = append(got, a.Kind)
				found[a.Kind] = a
			}
		}
		slices.Sort(got)
		return slices.Equal(got, kinds)
	}
	if list := get[[]api.Attention](t, r, "/v1/attention?team="+band); !same(list) {
		stream.until(api.EventSnapshot, func(e event) bool { return same(as[api.Snapshot](t, e).Attention) })
	}
	if list := get[[]api.Attention](t, r, "/v1/attention"); !same(list) {
		t.Errorf("%s: %+v, want %q", what, list, kinds)
	}
	return found
}

// row puts a row into an inbox without one, as an agent does.
func (h *headless) row(t *testing.T, from, to, text string) {
	t.Helper()
	path := filepath.Join(h.Root.Path(), "teams", band, "inboxes", to+".json")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var rows []any
	if err == nil {
		if err := json.Unmarshal(data, &rows); err != nil {
			t.Fatal(err)
		}
	}
	data, err = json.Marshal(append(rows, map[string]any{"from": from, "text": text, "timestamp": "2026-11-21T22:30:45.751Z", "read": false}))
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// One list has everything that waits for a person, as long as it waits.
func TestAttention(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	stream := r.listen(t, "?team="+band, "")
	waits(t, r, stream, "at first")

	drums := h.add(t, r, "drums", `, "permissions": "ask"`)
	of[api.Sent](t, r.ask(t, "POST", path(band, "drums"), message(t, "ASK:Bash", "")), http.StatusCreated)
	got := waits(t, r, stream, "a question", api.WaitsPermission)[api.WaitsPermission]
	if !got.Answerable || got.Question == nil || got.Relay != drums.ID || got.Member != "drums" || got.Since == nil || got.What != "wants to use Bash" {
		t.Fatalf("a question: %+v", got)
	}

	h.Send(band, "bass", "user", "are you there?")
	h.Send(band, "bass", "user", "hello?")
	h.row(t, "bass", "team-lead", `{"type":"permission_request","request_id":"perm-1-a","agent_id":"bass","tool_name":"Write","tool_use_id":"toolu_1","description":"notes","input":{}}`)
	all := waits(t, r, stream, "messages", api.WaitsPermission, api.WaitsUnread, api.WaitsLead)
	if a := all[api.WaitsUnread]; a.Count != 2 || a.From != "bass" || a.Member != "user" || a.Answerable {
		t.Errorf("unread: %+v", a)
	}
	if a := all[api.WaitsLead]; a.Member != "bass" || a.Answerable || a.What != "asks its lead to use Write: notes" {
		t.Errorf("what the lead decides: %+v", a)
	}

	permit := fmt.Sprintf(`{"question": %q, "digest": %q, "allow": true}`, got.Question.ID, got.Question.Digest)
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays/"+got.Relay+"/permit", permit), http.StatusOK)
	waits(t, r, stream, "permitted", api.WaitsUnread, api.WaitsLead)
	h.row(t, "team-lead", "bass", `{"type":"permission_response","request_id":"perm-1-a","subtype":"success"}`)
	waits(t, r, stream, "the lead has answered", api.WaitsUnread)

	var ids []string
	for _, m := range get[api.Page](t, r, "/v1/teams/"+band+"/messages?inbox=user").Messages {
		ids = append(ids, m.ID)
	}
	of[api.Marked](t, r.ask(t, "POST", "/v1/teams/"+band+"/read", fmt.Sprintf(`{"ids": [%q, %q]}`, ids[0], ids[1])), http.StatusOK)
	waits(t, r, stream, "read")

	key := inbox.SendKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "bass", ID: "m-1"}
	if _, err := r.journal.Lost(t.Context(), key, time.Now(), "overwritten"); err != nil {
		t.Fatal(err)
	}
	held := ledger.Hold{
		InboxKey: ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "drums"},
		Sender:   "bass", Reason: "they answer each other", Since: time.UnixMilli(1795000000000).UTC(),
	}
	if err := r.ledger.Hold(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	all = waits(t, r, stream, "lost and held", api.WaitsLost, api.WaitsHeld)
	if a := all[api.WaitsLost]; a.Message != "m-1" || a.Member != "bass" || a.Since == nil {
		t.Errorf("lost: %+v", a)
	}
	if a := all[api.WaitsHeld]; a.From != "bass" || a.Member != "drums" || a.Do != "teambridge relay release drums@"+band+" bass" {
		t.Errorf("held: %+v", a)
	}
	of[[]api.Hold](t, r.ask(t, "POST", "/v1/relays/"+drums.ID+"/release", ""), http.StatusOK)
	waits(t, r, stream, "released", api.WaitsLost)
}

// A relay that stopped waits for a person, but not one that waits for its team.
func TestStoppedRelay(t *testing.T) {
	t.Parallel()
	created := time.Now()
	entry := func(state, reason string, added bool, queue int) api.RelayEntry {
		e := api.RelayEntry{ID: "r", Team: "t", Relay: api.Relay{State: state, Reason: reason, Queue: queue}}
		if added {
			e.Created = &created
		}
		return e
	}
	for _, test := range []struct {
		e    api.RelayEntry
		want bool
	}{
		{entry("dead", "died 5 times", true, 0), true},
		{entry("dead", "died 5 times", false, 0), true},
		{entry("stopped", "the lead of t is alive", true, 0), true},
		{entry("stopped", "there is no team t", true, 0), false},
		{entry("stopped", "", true, 0), false},
		{entry("stopped", "", false, 0), false},
		{entry("stopped", "", false, 2), true},
		{entry("idle", "", true, 0), false},
		{entry("asleep", "idle for 30m", true, 0), false},
	} {
		if got := stoppedRelay(test.e); (got != "") != test.want {
			t.Errorf("%s (%s), added %t: %q", test.e.State, test.e.Reason, test.e.Created != nil, got)
		}
	}
}

// A team whose agents are all idle waits for a person, and so does an agent that failed.
func TestTeamsThatWait(t *testing.T) {
	t.Parallel()
	const idle = `{"type":"idle_notification","idleReason":"available"}`
	h := newHeadless(t, simchild.Script{})
	h.row(t, "drums", "team-lead", idle)
	h.row(t, "bass", "team-lead", `{"type":"idle_notification","idleReason":"failed","failureReason":"no more credit"}`)
	r := h.start(t)
	list := get[[]api.Attention](t, r, "/v1/attention?team="+band)
	if !slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsFailed && a.Member == "bass" }) {
		t.Errorf("no failed agent in %+v", list)
	}
	if !slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsIdle && a.Member == "" }) {
		t.Errorf("not idle: %+v", list)
	}
	h.row(t, "drums", "bass", "do something")
	r.listen(t, "?team="+band, "").until(api.EventSnapshot, func(e event) bool {
		return !slices.ContainsFunc(as[api.Snapshot](t, e).Attention, func(a api.Attention) bool { return a.Kind == api.WaitsIdle })
	})
}

// A plan comes as HTML to those who ask for it, and a relay says how its agent works now.
func TestPlanAsHTML(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", `, "permissions": "ask", "mode": {"model": "opus"}`)
	stream := r.listen(t, "?html=true", "")
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, `ASK:ExitPlanMode {"plan": "# Plan\n<b>"}`, `, "mode": {"permissionMode": "plan"}`)), http.StatusCreated)
	const want = "<h4>Plan</h4><p>&lt;b&gt;</p>"
	stream.until(api.EventSnapshot, func(e event) bool {
		list := as[api.Snapshot](t, e).Attention
		return slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsPlan && a.HTML == want })
	})
	for query, html := range map[string]string{"?team=" + band + "&html=true": want, "?team=" + band: ""} {
		if list := get[[]api.Attention](t, r, "/v1/attention"+query); len(list) != 1 || list[0].HTML != html {
			t.Errorf("%s: %+v", query, list)
		}
	}
	e := h.until(t, r, lead.ID, "asking", func(e api.RelayEntry) bool { return len(e.Questions) > 0 })
	if string(e.Settings) != `{"model":"opus","permissionMode":"plan"}` || string(e.Mode) != `{"model":"opus"}` {
		t.Errorf("it works with %s, and was added with %s", e.Settings, e.Mode)
	}
}

// A prompt that failed is one thing, although its receipt says that it may be lost.
func TestFailedPromptWaitsOnce(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{Refuse: []string{"acceptEdits"}})
	r := h.start(t)
	lead := h.add(t, r, "lead", "")
	stream := r.listen(t, "", "")
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[refused]", `, "mode": {"permissionMode": "acceptEdits"}`)), http.StatusCreated)
	receipt := stream.until(api.EventReceipt, func(e event) bool { return as[api.Receipt](t, e).State != api.Verified })
	if a := waits(t, r, stream, "failed", api.WaitsLost)[api.WaitsLost]; a.Relay != lead.ID || a.Message != as[api.Receipt](t, receipt).ID {
		t.Errorf("what waits: %+v", a)
	}
}
