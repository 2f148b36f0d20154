package server

import (
	"net/http"
	"slices"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// launcher is what another process does that has a session at a person's terminal.
type launcher struct {
	t      *testing.T
	ledger *ledger.Ledger
	key    ledger.InboxKey
	held   *relay.Held
}

// launch has the session of the lead at a terminal.
func (h *headless) launch(t *testing.T) *launcher {
	t.Helper()
	l, err := ledger.Open(t.Context(), h.State+"/ledger.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	team := h.Team(band)
	c, err := team.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, err := relay.Hold(t.Context(), h.State, team, "team-lead", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &launcher{t, l, ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: c.Instance().CreatedAt, Inbox: "team-lead"}, held}
	p.set(ledger.RelayLocal, ledger.Handoff{At: ledger.AtTerminal})
	return p
}

func (p *launcher) set(state ledger.RelayState, h ledger.Handoff) {
	p.t.Helper()
	h.InboxKey = p.key
	if err := p.ledger.SetSession(p.t.Context(), ledger.Session{InboxKey: p.key, ID: "s", State: state, Relay: 7, Mode: []byte{}}); err != nil {
		p.t.Fatal(err)
	}
	if err := p.ledger.SetHandoff(p.t.Context(), h); err != nil {
		p.t.Fatal(err)
	}
}

func (p *launcher) handoff() ledger.Handoff {
	p.t.Helper()
	h, found, err := p.ledger.Handoff(p.t.Context(), p.key)
	if err != nil || !found {
		p.t.Fatalf("found %t, %v", found, err)
	}
	return h
}

// prompts returns the texts that wait for the session.
func (p *launcher) prompts() (texts []string) {
	p.t.Helper()
	list, err := p.ledger.Waiting(p.t.Context(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, d := range list {
		texts = append(texts, string(d.Raw))
	}
	return texts
}

// A person's prompt goes to a session at a terminal as to a relay of the service; what
// others say is a row that waits.
func TestPromptsToATerminal(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	p := h.launch(t)
	sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "look", `, "mode": {"model": "opus"}`), "Idempotency-Key", "k-1"), http.StatusCreated)
	if sent.Delivery == "" || !sent.Reachable || sent.ID != "k-1" {
		t.Errorf("sent %+v", sent)
	}
	if again := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "look", `, "mode": {"model": "opus"}`), "Idempotency-Key", "k-1"), http.StatusOK); !again.Deduplicated {
		t.Errorf("sent again %+v", again)
	}
	of[api.SentPayloads](t, r.payloads(t, "team-lead", legacy("p-1", "payload", "")), http.StatusCreated)
	row := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "hello", `, "from": "drums"`)), http.StatusCreated)
	if row.Delivery != "" || row.Reachable || row.Reach != "at-terminal" {
		t.Errorf("from another: %+v", row)
	}
	if got := p.prompts(); !slices.Equal(got, []string{"look", "payload"}) {
		t.Errorf("%q wait for the session", got)
	}

	// While its relay has the session, it is the same.
	p.set(ledger.RelayRunning, ledger.Handoff{At: ledger.AtRelay})
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "there", "")), http.StatusCreated)
	if got := p.prompts(); !slices.Contains(got, "there") {
		t.Errorf("%q wait for the session", got)
	}
	// Without its launcher nobody takes prompts.
	if err := p.held.Release(); err != nil {
		t.Fatal(err)
	}
	if sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "gone", "")), http.StatusCreated); sent.Delivery != "" {
		t.Errorf("without a launcher: %+v", sent)
	}
}

// Everything that shows a member says where its session is, what holds it, and what became
// of a wish to move it.
func TestPlace(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	place := "/v1/teams/" + band + "/members/lead/place"
	problem(t, r.ask(t, "POST", place, `{"to": "remote"}`), api.CodeConflict)
	p := h.launch(t)
	problem(t, r.ask(t, "POST", place, `{"to": "here"}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", place, `{"to": "remote", "more": 1}`), api.CodeBody)
	problem(t, r.ask(t, "POST", "/v1/teams/"+band+"/members/nobody/place", `{"to": "remote"}`), api.CodeNotFound)
	if h := p.handoff(); h.Wish != 0 {
		t.Errorf("refused requests left wishes: %+v", h)
	}
	if there := of[api.Placed](t, r.ask(t, "POST", place, `{"to": "local"}`), http.StatusOK); there.Place.At != "local" || there.Place.Wanted != "" || p.handoff().Wish != 0 {
		t.Errorf("it is there already: %+v, %+v", there, p.handoff())
	}

	stream := r.listen(t, "", "")
	until := func(want func(*api.Place) bool) {
		t.Helper()
		stream.until(api.EventSnapshot, func(e event) bool {
			for _, s := range as[api.Snapshot](t, e).Status {
				if s.Team == band && s.Member == "team-lead" && s.Relay != nil && s.Relay.Place != nil && want(s.Relay.Place) {
					return true
				}
			}
			return false
		})
	}
	until(func(p *api.Place) bool { return p.At == "local" })
	asked := of[api.Placed](t, r.ask(t, "POST", place, `{"to": "remote", "force": true}`), http.StatusOK)
	if asked.Member != "team-lead" || asked.Place.At != "local" || asked.Place.Wanted != "remote" {
		t.Errorf("asked %+v", asked)
	}
	until(func(p *api.Place) bool { return p.Wanted == "remote" })
	wish := p.handoff()
	if wish.Wanted != ledger.AtRelay || !wish.Force {
		t.Errorf("the launcher is asked for %+v", wish)
	}
	wish.To, wish.Reason = ledger.AtRelay, "a draft is at the prompt"
	p.set(ledger.RelayLocal, wish)
	until(func(p *api.Place) bool { return p.To == "remote" && p.Reason == wish.Reason })
	members := get[[]api.Member](t, r, "/v1/teams/"+band+"/members")
	if m := members[0]; m.Relay != "local" || m.Place == nil || m.Place.Reason != wish.Reason {
		t.Errorf("member %+v", m)
	}
	for _, e := range get[[]api.RelayEntry](t, r, "/v1/relays") {
		if e.State != "local" || e.Place == nil || e.Place.To != "remote" {
			t.Errorf("relay %+v", e)
		}
	}
	status := get[[]api.Status](t, r, "/v1/teams/"+band+"/status")
	if s := status[0]; s.Word != api.WordBlocked || s.Relay.Place.Wanted != "remote" {
		t.Errorf("status %+v", s)
	}
	wish.To, wish.Reason, wish.Wanted, wish.Refused = "", "", "", "a teammate is alive"
	p.set(ledger.RelayLocal, wish)
	until(func(p *api.Place) bool { return p.Wanted == "" && p.Refused == "a teammate is alive" })

	if err := p.held.Release(); err != nil {
		t.Fatal(err)
	}
	problem(t, r.ask(t, "POST", place, `{"to": "remote"}`), api.CodeConflict)
}
