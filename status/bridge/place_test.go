package bridge_test

import (
	"encoding/json"
	"slices"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
	"teambridge/status/bridge"
)

// launcher plays the process that has the session of the band's lead at a person's terminal.
type launcher struct {
	*world
	key  inbox.InboxKey
	held *relay.Held
}

func (w *world) launch() *launcher {
	w.Helper()
	held, err := relay.Hold(w.ctx, w.State, w.Team(band), "team-lead", 0)
	w.must(err)
	p := &launcher{w, inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: 1, Inbox: "team-lead"}, held}
	p.set(ledger.RelayLocal, ledger.Handoff{At: ledger.AtTerminal})
	return p
}

func (p *launcher) set(state ledger.RelayState, h ledger.Handoff) {
	p.Helper()
	h.InboxKey = p.key
	p.must(p.ledger.Sessions.SetSession(p.ctx, ledger.Session{InboxKey: p.key, ID: "s", State: state, Relay: 7, Mode: []byte{}}))
	p.must(p.ledger.Sessions.SetHandoff(p.ctx, h))
}

func (p *launcher) handoff() ledger.Handoff {
	p.Helper()
	h, found, err := p.ledger.Sessions.Handoff(p.ctx, p.key)
	if err != nil || !found {
		p.Fatalf("found %t, %v", found, err)
	}
	return h
}

// prompts returns the texts that wait for the session.
func (p *launcher) prompts() (texts []string) {
	p.Helper()
	list, err := p.ledger.Deliveries.Waiting(p.ctx, p.key)
	p.must(err)
	for _, d := range list {
		texts = append(texts, string(d.Raw))
	}
	return texts
}

// A person's prompt goes to a session at a terminal as it goes to a relay of the service. Messages of others
// become rows that wait.
func TestPromptsToATerminal(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	p := w.launch()
	m := api.NewMessage{Text: "look", Mode: json.RawMessage(`{"model": "opus"}`)}
	for i := range 2 {
		if sent := w.send(band, "lead", "k-1", m); sent.Delivery == "" || !sent.Reachable || sent.ID != "k-1" || sent.Deduplicated != (i > 0) {
			t.Errorf("sent %+v", sent)
		}
	}
	payload := []bridge.Payload{{Line: 1, Input: relay.Input{ID: "p-1", Text: "payload"}}}
	if s, err := w.s.SendPayloads(w.ctx, band, "team-lead", payload, ""); err != nil || len(s.Results) != 1 || s.Results[0].Sent == nil {
		t.Errorf("payloads: %+v, %v", s, err)
	}
	if row := w.send(band, "lead", "", api.NewMessage{Text: "hello", From: "drums"}); row.Delivery != "" || row.Reachable || row.Reach != "at-terminal" {
		t.Errorf("from another: %+v", row)
	}
	p.set(ledger.RelayRunning, ledger.Handoff{At: ledger.AtRelay}) // the same while its relay has the session
	w.send(band, "lead", "", api.NewMessage{Text: "there"})
	if got := p.prompts(); !slices.Equal(got, []string{"look", "payload", "there"}) {
		t.Errorf("%q wait for the session", got)
	}
	w.must(p.held.Release())
	if sent := w.send(band, "lead", "", api.NewMessage{Text: "gone"}); sent.Delivery != "" {
		t.Errorf("without a launcher, who would take it: %+v", sent)
	}
}

// Every view of a member shows the place of its session, the reason of a hold, and the result of a request to
// move it.
func TestPlace(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	move := func(to string) (api.Placed, error) {
		return w.s.Move(w.ctx, band, "lead", api.NewPlace{To: to, Force: to == api.PlaceRemote})
	}
	p := w.launch()
	_, err := move("here")
	w.fails(err, api.CodeInvalid)
	if there, err := move(api.PlaceLocal); err != nil || there.Place.At != api.PlaceLocal || there.Place.Wanted != "" || p.handoff().Wish != 0 {
		t.Errorf("it is there already: %+v, %+v, %v", there, p.handoff(), err)
	}
	e := w.events("", "")
	shows := func(want func(*api.Place) bool) {
		t.Helper()
		e.shows(func(shot *api.Snapshot) bool {
			return slices.ContainsFunc(shot.Status, func(s api.Status) bool {
				return s.Team == band && s.Member == "team-lead" && s.Relay != nil && s.Relay.Place != nil && want(s.Relay.Place)
			})
		})
	}
	shows(func(p *api.Place) bool { return p.At == api.PlaceLocal })
	if asked, err := move(api.PlaceRemote); err != nil || asked.Member != "team-lead" || asked.Place.At != api.PlaceLocal || asked.Place.Wanted != api.PlaceRemote {
		t.Errorf("asked %+v, %v", asked, err)
	}
	shows(func(p *api.Place) bool { return p.Wanted == api.PlaceRemote })
	wish := p.handoff()
	if wish.Wanted != ledger.AtRelay || !wish.Force {
		t.Errorf("the launcher is asked for %+v", wish)
	}
	wish.To, wish.Reason = ledger.AtRelay, "a draft is at the prompt"
	p.set(ledger.RelayLocal, wish)
	shows(func(p *api.Place) bool { return p.To == api.PlaceRemote && p.Reason == wish.Reason })
	if list, err := w.s.Members(w.ctx, band); err != nil || list[0].Relay != "local" || list[0].Place == nil || list[0].Place.Reason != wish.Reason {
		t.Errorf("members %+v, %v", list, err)
	}
	if list, err := w.s.Relays(w.ctx, band); err != nil || len(list) != 1 || list[0].State != "local" || list[0].Place == nil || list[0].Place.To != api.PlaceRemote {
		t.Errorf("relays %+v, %v", list, err)
	}
	if s := w.status(band, "team-lead"); s.Word != api.WordBlocked || s.Relay.Place.Wanted != api.PlaceRemote {
		t.Errorf("status %+v", s)
	}
	wish.To, wish.Reason, wish.Wanted, wish.Refused = "", "", "", "a teammate is alive"
	p.set(ledger.RelayLocal, wish)
	shows(func(p *api.Place) bool { return p.Wanted == "" && p.Refused == "a teammate is alive" })
	w.must(p.held.Release())
	_, err = move(api.PlaceRemote)
	w.fails(err, api.CodeConflict)
}
