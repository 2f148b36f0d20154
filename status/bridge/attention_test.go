package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
	"teambridge/teams"
)

// waits waits until the band has items of exactly these kinds, in the list and in a snapshot of the stream. It
// returns them by kind.
func (e *stream) waits(kinds ...string) map[string]api.Attention {
	e.w.Helper()
	slices.Sort(kinds)
	found := map[string]api.Attention{}
	same := func(list []api.Attention) bool {
		clear(found)
		var got []string
		for _, a := range list {
			if a.Team == band {
				got, found[a.Kind] = append(got, a.Kind), a
			}
		}
		slices.Sort(got)
		return slices.Equal(got, kinds)
	}
	for {
		for _, team := range []string{band, ""} {
			list, err := e.w.s.Attention(e.w.ctx, team)
			e.w.must(err)
			if !same(list) {
				break
			}
			if team == "" {
				return found
			}
		}
		// An earlier snapshot that is still unread can have the same kinds. Then the lists are asked again.
		e.shows(func(s *api.Snapshot) bool { return same(s.Attention) })
	}
}

// row puts a row into an inbox, as an agent does.
func (w *world) row(from, to, text string) {
	w.Helper()
	path := w.Path(band, "inboxes", to+".json")
	var rows []any
	if data, err := os.ReadFile(path); err == nil {
		w.must(json.Unmarshal(data, &rows))
	}
	data, err := json.Marshal(append(rows, map[string]any{"from": from, "text": text, "timestamp": "2026-11-21T22:30:45.751Z", "read": false}))
	w.must(errors.Join(err, os.WriteFile(path, data, 0o600)))
}

// One list has everything that waits for a person, as long as it waits.
func TestAttention(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	e := w.events(band, "")
	e.waits()
	drums := w.add("drums", asks)
	w.send(band, "drums", "", api.NewMessage{Text: "ASK:Bash"})
	asked := e.waits(api.WaitsPermission)[api.WaitsPermission]
	if !asked.Answerable || asked.Question == nil || asked.Relay != drums.ID || asked.Member != "drums" || asked.Since == nil || asked.What != "wants to use Bash" {
		t.Fatalf("a question: %+v", asked)
	}
	if s := w.status(band, "drums"); s.Word != api.WordWaiting || s.Why != "it asks to use Bash" {
		t.Errorf("its status: %+v", s)
	}
	w.Send(band, "bass", "user", "are you there?")
	first := e.waits(api.WaitsPermission, api.WaitsUnread)[api.WaitsUnread].ID
	w.Send(band, "bass", "user", "hello?")
	w.recorded(band, "recorded", func(m api.Record) bool { return m.Text == "hello?" }) // before the next inbox: who writes later waits for no answer
	w.Send(band, "user", "user", "a note to myself")
	w.row("bass", "team-lead", `{"type":"permission_request","request_id":"perm-1-a","agent_id":"bass","tool_name":"Write","tool_use_id":"toolu_1","description":"notes","input":{}}`)
	w.row("stranger", "team-lead", `{"type":"permission_request","request_id":"perm-2-b","tool_name":"Write","input":{}}`) // no member
	all := e.waits(api.WaitsPermission, api.WaitsUnread, api.WaitsLead)
	for all[api.WaitsUnread].Count < 2 { // that inbox was looked at last
		e.shows(func(*api.Snapshot) bool { return true })
		all = e.waits(api.WaitsPermission, api.WaitsUnread, api.WaitsLead)
	}
	if a := all[api.WaitsUnread]; a.ID != first || a.Count != 2 || a.From != "bass" || a.Member != "user" || a.Answerable {
		t.Errorf("unread: %+v", a)
	}
	if a := all[api.WaitsLead]; a.Member != "bass" || a.Answerable || a.What != "asks its lead to use Write: notes" {
		t.Errorf("what the lead decides: %+v", a)
	}
	yes := api.Permit{Question: asked.Question.ID, Digest: asked.Question.Digest, Allow: true}
	for code, change := range map[api.Code]func(*api.Permit){
		api.CodeConflict: func(p *api.Permit) { p.Digest = "x" },
		api.CodeNotFound: func(p *api.Permit) { p.Question = "x" },
		api.CodeInvalid:  func(p *api.Permit) { p.Session = "Bash" },
	} {
		bad := yes
		change(&bad)
		_, err := w.s.Answer(w.ctx, bad.Question, bad)
		w.fails(err, code)
	}
	_, err := w.s.Answer(w.ctx, yes.Question, yes)
	w.must(err)
	_, err = w.s.Answer(w.ctx, yes.Question, yes)
	w.fails(err, api.CodeConflict)
	e.waits(api.WaitsUnread, api.WaitsLead)
	w.row("team-lead", "bass", `{"type":"permission_response","request_id":"perm-1-a","subtype":"success"}`)
	e.waits(api.WaitsUnread)

	read := func() {
		t.Helper()
		var ids []string
		for _, m := range w.page(band, api.MessageQuery{Inbox: "user", From: "bass"}).Messages {
			ids = append(ids, m.ID)
		}
		_, err := w.s.MarkRead(w.ctx, band, api.MarkRead{IDs: ids})
		w.must(err)
		e.waits()
	}
	read()
	w.Send(band, "bass", "user", "and now?")
	if a := e.waits(api.WaitsUnread)[api.WaitsUnread]; a.ID == first {
		t.Errorf("another message waits under %s again", first)
	}
	read()
	_, err = w.journal.Receipts.Lost(w.ctx, inbox.SendKey{InboxKey: inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: 1, Inbox: "bass"}, ID: "m-1"}, time.Now(), "overwritten")
	w.must(err)
	w.must(w.ledger.Holds.Hold(w.ctx, ledger.Hold{InboxKey: inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: 1, Inbox: "drums"}, Sender: "bass", Reason: "they answer each other"}))
	all = e.waits(api.WaitsLost, api.WaitsHeld)
	if a := all[api.WaitsLost]; a.Message != "m-1" || a.Member != "bass" || a.Since == nil {
		t.Errorf("lost: %+v", a)
	}
	if a := all[api.WaitsHeld]; a.From != "bass" || a.Member != "drums" || a.Do != "let them through: POST /v1/teams/{team}/members/{member}/release" ||
		a.Command != "let them through: teambridge relay release drums@"+band+" bass" || a.Words != "messages to it are held back" {
		t.Errorf("held: %+v", a)
	}
	_, err = w.s.Release(w.ctx, band, drums.Member, "")
	w.must(err)
	e.waits(api.WaitsLost)
}

// A team whose agents are all idle needs a person, and so does an agent whose turn failed.
func TestTeamsThatWait(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.row("drums", "team-lead", `{"type":"idle_notification","idleReason":"available"}`)
	w.row("bass", "team-lead", `{"type":"idle_notification","idleReason":"failed","failureReason":"no more credit"}`)
	w.start()
	e := w.events(band, "")
	if a := e.waits(api.WaitsIdle, api.WaitsFailed); a[api.WaitsFailed].Member != "bass" || a[api.WaitsIdle].Member != "" {
		t.Errorf("what waits: %+v", a)
	}
	w.row("drums", "bass", "do something")
	e.waits(api.WaitsFailed)
}

// A dismissed item is not shown again, even by the next service, until it waits again. In the end it is
// forgotten.
func TestDismissed(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	key, at := inbox.SendKey{InboxKey: inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: 1, Inbox: "bass"}, ID: "m-1"}, time.Now()
	lost := func(at time.Time) api.Attention {
		t.Helper()
		_, err := w.journal.Receipts.Lost(w.ctx, key, at, "overwritten")
		w.must(err)
		return w.events(band, "").waits(api.WaitsLost)[api.WaitsLost]
	}
	a := lost(at)
	for range 2 {
		dismissed, err := w.s.Dismiss(w.ctx, a.ID)
		if err != nil || dismissed.ID != a.ID || !a.Dismissable {
			t.Errorf("dismissed %+v, %v; want %+v", dismissed, err, a)
		}
	}
	w.end()
	w.start()
	w.events(band, "").waits()
	_, err := w.journal.Receipts.Verified(w.ctx, key, at.Add(time.Second))
	w.must(err)
	if again := lost(at.Add(2 * time.Second)); again.ID == a.ID {
		t.Errorf("it waits under %s again", a.ID)
	}
	_, err = w.ledger.Prune(w.ctx, time.Now().Add(time.Hour))
	w.must(err)
	if ids, err := w.ledger.Person.Dismissed(w.ctx, w.Root.Path()); err != nil || len(ids) > 0 {
		t.Errorf("after gc: %q, %v", ids, err)
	}
}

// An agent that cannot stay alive waits for its person, and again after a retry. A failed message waits, once,
// until it is given up, but not after the end of its team. A snapshot comes after each change of a relay's
// state.
func TestDeadAgentAndFailedMessage(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit, Times: 2 * relay.MaxStarts}}, Refuse: []string{"acceptEdits"}})
	w.start()
	e := w.events(band, "")
	added := w.add("drums")
	first := e.waits(api.WaitsStopped)[api.WaitsStopped]
	if first.Member != "drums" || first.Relay != added.ID || first.Command != "start it again: teambridge relay retry "+added.ID || !first.Dismissable {
		t.Errorf("died: %+v", first)
	}
	retry := func() {
		t.Helper()
		_, err := w.s.RetryRelay(w.ctx, added.ID)
		w.must(err)
	}
	retry()
	e.shows(func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Attention, func(a api.Attention) bool { return a.Kind == api.WaitsStopped && a.ID != first.ID })
	})
	if sent := w.send(band, "drums", "", api.NewMessage{Text: "[d-1]"}); sent.Reachable || sent.Reach != string(teams.NoRelay) || sent.Delivery == "" {
		t.Errorf("said to a dead one: %+v", sent)
	}
	retry()
	w.worked("[d-1]")
	e.shows(func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Status, func(s api.Status) bool { return s.Member == "drums" && s.Relay != nil && s.Relay.State == "idle" })
	})
	refused := w.send(band, "drums", "", api.NewMessage{Text: "[refused]", Mode: []byte(`{"permissionMode": "acceptEdits"}`)})
	if a := e.waits(api.WaitsLost)[api.WaitsLost]; a.Relay != added.ID || a.Message != refused.ID || a.Delivery != refused.Delivery || !a.Dismissable {
		t.Errorf("refused: %+v", a)
	}
	_, err := w.s.Dismiss(w.ctx, e.waits(api.WaitsLost)[api.WaitsLost].ID)
	w.must(err)
	_, err = w.s.RemoveRelay(w.ctx, added.ID, false)
	w.must(err)
	e.waits()
	for _, createdAt := range []int64{99, 1} { // of an earlier team, and of this one
		key := inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: createdAt, Inbox: "bass"}
		id := fmt.Sprintf("7d0f1c7e-0000-4000-8000-%012d", createdAt)
		w.must(errors.Join(
			w.ledger.Sessions.SetSession(w.ctx, ledger.Session{InboxKey: key, ID: "s"}),
			w.ledger.Deliveries.Claim(w.ctx, ledger.Delivery{UUID: id, InboxKey: key, ID: id, From: "user", Person: true, Raw: fmt.Appendf(nil, `{"from": "user", "text": "hello", "msg_id": %q}`, id)}),
			w.ledger.Deliveries.End(w.ctx, ledger.Failed, "no more credit", id),
		))
		if createdAt == 1 {
			var a api.Attention
			e.shows(func(s *api.Snapshot) bool {
				lost := slices.DeleteFunc(s.Attention, func(a api.Attention) bool { return a.Kind != api.WaitsLost })
				if len(lost) == 1 {
					a = lost[0]
				}
				return len(lost) == 1
			})
			if a.Message != id || a.Delivery != id || a.From != "user" || !strings.Contains(a.What, "no more credit") {
				t.Errorf("failed: %+v", a)
			}
			_, err := w.s.DropDelivery(w.ctx, id) // a dropped message needs no decision
			w.must(err)
			e.waits()
		}
	}
}
