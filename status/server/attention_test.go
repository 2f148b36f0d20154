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
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// waits waits until what waits for a person is of these kinds, and returns it by kind.
func waits(t *testing.T, r *running, stream *events, kinds ...string) map[string]api.Attention {
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
	for !same(get[[]api.Attention](t, r, "/v1/attention?team="+band)) || !same(get[[]api.Attention](t, r, "/v1/attention")) {
		// An earlier snapshot that is still unread in the stream can have the same kinds.
		// Then the lists are asked again.
		stream.until(api.EventSnapshot, func(e event) bool { return same(as[api.Snapshot](t, e).Attention) })
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
	waits(t, r, stream)

	drums := h.add(t, r, "drums", `, "permissions": "ask"`)
	of[api.Sent](t, r.ask(t, "POST", path(band, "drums"), message(t, "ASK:Bash", "")), http.StatusCreated)
	got := waits(t, r, stream, api.WaitsPermission)[api.WaitsPermission]
	if !got.Answerable || got.Question == nil || got.Relay != drums.ID || got.Member != "drums" || got.Since == nil || got.What != "wants to use Bash" {
		t.Fatalf("a question: %+v", got)
	}

	h.Send(band, "bass", "user", "are you there?")
	first := waits(t, r, stream, api.WaitsPermission, api.WaitsUnread)[api.WaitsUnread].ID
	h.Send(band, "bass", "user", "hello?")
	h.Send(band, "user", "user", "a note to myself")
	h.row(t, "bass", "team-lead", `{"type":"permission_request","request_id":"perm-1-a","agent_id":"bass","tool_name":"Write","tool_use_id":"toolu_1","description":"notes","input":{}}`)
	h.row(t, "stranger", "team-lead", `{"type":"permission_request","request_id":"perm-2-b","tool_name":"Write","input":{}}`) // no member
	all := waits(t, r, stream, api.WaitsPermission, api.WaitsUnread, api.WaitsLead)
	for all[api.WaitsUnread].Count < 2 { // that inbox was looked at last
		stream.until(api.EventSnapshot, nil)
		all = waits(t, r, stream, api.WaitsPermission, api.WaitsUnread, api.WaitsLead)
	}
	if a := all[api.WaitsUnread]; a.ID != first || a.Count != 2 || a.From != "bass" || a.Member != "user" || a.Answerable {
		t.Errorf("unread: %+v", a)
	}
	if a := all[api.WaitsLead]; a.Member != "bass" || a.Answerable || a.What != "asks its lead to use Write: notes" {
		t.Errorf("what the lead decides: %+v", a)
	}

	permit := fmt.Sprintf(`{"question": %q, "digest": %q, "allow": true}`, got.Question.ID, got.Question.Digest)
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays/"+got.Relay+"/permit", permit), http.StatusOK)
	waits(t, r, stream, api.WaitsUnread, api.WaitsLead)
	h.row(t, "team-lead", "bass", `{"type":"permission_response","request_id":"perm-1-a","subtype":"success"}`)
	waits(t, r, stream, api.WaitsUnread)

	var ids []string
	for _, m := range get[api.Page](t, r, "/v1/teams/"+band+"/messages?inbox=user").Messages {
		ids = append(ids, m.ID)
	}
	of[api.Marked](t, r.ask(t, "POST", "/v1/teams/"+band+"/read", fmt.Sprintf(`{"ids": [%q, %q]}`, ids[0], ids[1])), http.StatusOK)
	waits(t, r, stream)
	h.Send(band, "bass", "user", "and now?")
	if a := waits(t, r, stream, api.WaitsUnread)[api.WaitsUnread]; a.ID == first {
		t.Errorf("another message waits under %s again", first)
	}
	ids = []string{get[api.Page](t, r, "/v1/teams/"+band+"/messages?inbox=user&limit=1").Messages[0].ID}
	of[api.Marked](t, r.ask(t, "POST", "/v1/teams/"+band+"/read", fmt.Sprintf(`{"ids": [%q]}`, ids[0])), http.StatusOK)
	waits(t, r, stream)

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
	all = waits(t, r, stream, api.WaitsLost, api.WaitsHeld)
	if a := all[api.WaitsLost]; a.Message != "m-1" || a.Member != "bass" || a.Since == nil {
		t.Errorf("lost: %+v", a)
	}
	if a := all[api.WaitsHeld]; a.From != "bass" || a.Member != "drums" || a.Do != "teambridge relay release drums@"+band+" bass" {
		t.Errorf("held: %+v", a)
	}
	of[[]api.Hold](t, r.ask(t, "POST", "/v1/relays/"+drums.ID+"/release", ""), http.StatusOK)
	waits(t, r, stream, api.WaitsLost)
}

// A team whose agents are all idle needs a person, and so does an agent that failed.
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

// A person who has seen what cannot be resolved dismisses it. It is not shown again, even by
// the next service, until it waits again. What can be answered or read is not dismissed.
func TestDismiss(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	stream := r.listen(t, "?team="+band, "")
	h.Send(band, "bass", "user", "are you there?")
	key := inbox.SendKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "bass", ID: "m-1"}
	lost := func(at time.Time) {
		t.Helper()
		if _, err := r.journal.Lost(t.Context(), key, at, "overwritten"); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	lost(at)
	all := waits(t, r, stream, api.WaitsUnread, api.WaitsLost)
	dismiss := func(id string) answer {
		return r.ask(t, "POST", "/v1/attention/dismiss", fmt.Sprintf(`{"id": %q}`, id))
	}
	if all[api.WaitsUnread].Dismissable || !all[api.WaitsLost].Dismissable {
		t.Errorf("dismissable: %+v", all)
	}
	problem(t, dismiss(all[api.WaitsUnread].ID), api.CodeInvalid)
	problem(t, dismiss("lost/nothing"), api.CodeNotFound)
	id := all[api.WaitsLost].ID
	if a := of[api.Attention](t, dismiss(id), http.StatusOK); a.ID != id {
		t.Errorf("dismissed %+v, not %s", a, id)
	}
	waits(t, r, stream, api.WaitsUnread)
	of[api.Attention](t, dismiss(id), http.StatusOK)
	r.end(t)

	r = h.start(t)
	stream = r.listen(t, "?team="+band, "")
	waits(t, r, stream, api.WaitsUnread)
	if _, err := r.journal.Verified(t.Context(), key, at.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	lost(at.Add(2 * time.Second))
	if a := waits(t, r, stream, api.WaitsUnread, api.WaitsLost)[api.WaitsLost]; a.ID == id {
		t.Errorf("it waits under %s again", id)
	}
	if _, err := r.ledger.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if ids, err := r.ledger.Dismissed(t.Context(), h.Root.Path()); err != nil || len(ids) > 0 {
		t.Errorf("after gc: %q, %v", ids, err)
	}
}

// An agent that cannot stay alive needs a person, and again after it was tried again. A
// message that failed waits, too, but not one of a team that has ended.
func TestDeadAgentAndFailedMessage(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit, Times: 2 * relay.MaxStarts}}})
	r := h.start(t)
	stream := r.listen(t, "?team="+band, "")
	added := h.add(t, r, "drums", "")
	first := waits(t, r, stream, api.WaitsStopped)[api.WaitsStopped]
	if first.Member != "drums" || first.Relay != added.ID || first.Do != "teambridge relay retry "+added.ID || !first.Dismissable {
		t.Errorf("died: %+v", first)
	}
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays/"+added.ID+"/retry", ""), http.StatusOK)
	stream.until(api.EventSnapshot, func(e event) bool {
		return slices.ContainsFunc(as[api.Snapshot](t, e).Attention, func(a api.Attention) bool { return a.Kind == api.WaitsStopped && a.ID != first.ID })
	})
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+added.ID, ""), http.StatusOK)

	for _, createdAt := range []int64{99, 1} { // of an earlier team, and of this one
		key := ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: createdAt, Inbox: "bass"}
		id := fmt.Sprintf("7d0f1c7e-0000-4000-8000-%012d", createdAt)
		err := errors.Join(
			r.ledger.SetSession(t.Context(), ledger.Session{InboxKey: key, ID: "s"}),
			r.ledger.Claim(t.Context(), ledger.Delivery{UUID: id, InboxKey: key, ID: id, From: "user", Person: true, Raw: fmt.Appendf(nil, `{"from": "user", "text": "hello", "msg_id": %q}`, id)}),
			r.ledger.EndDeliveries(t.Context(), ledger.Failed, "no more credit", id),
		)
		if err != nil {
			t.Fatal(err)
		}
		if createdAt == 99 {
			continue
		}
		var lost []api.Attention
		stream.until(api.EventSnapshot, func(e event) bool {
			lost = slices.DeleteFunc(as[api.Snapshot](t, e).Attention, func(a api.Attention) bool { return a.Kind != api.WaitsLost })
			return len(lost) > 0
		})
		if len(lost) != 1 || lost[0].Message != id || lost[0].Delivery != id || lost[0].From != "user" || !strings.Contains(lost[0].What, "no more credit") || !lost[0].Dismissable {
			t.Errorf("failed: %+v", lost)
		}
		// Who drops it has decided.
		of[api.Delivery](t, r.ask(t, "POST", "/v1/deliveries/"+id+"/drop", ""), http.StatusOK)
		waits(t, r, stream)
	}
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
	if a := waits(t, r, stream, api.WaitsLost)[api.WaitsLost]; a.Relay != lead.ID || a.Message != as[api.Receipt](t, receipt).ID {
		t.Errorf("what waits: %+v", a)
	}
}
