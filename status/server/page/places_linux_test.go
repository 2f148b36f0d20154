package page_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simagent"
)

// The page shows where a movable session is, what holds it, and a button that moves it.
func testPlaces(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	l, err := ledger.Open(t.Context(), filepath.Join(w.State, "ledger.db"))
	must(t, err)
	defer l.Close()
	team := w.Team(sim.Name())
	c, err := team.Config(t.Context())
	must(t, err)
	held, err := relay.Hold(t.Context(), w.State, team, "team-lead", 0)
	must(t, err)
	defer func() {
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	}()
	key := inbox.Key(w.Root.Path(), c.Instance(), "team-lead")
	set := func(state ledger.RelayState, h ledger.Handoff) {
		t.Helper()
		h.InboxKey = key
		must(t, l.Sessions.SetSession(t.Context(), ledger.Session{InboxKey: key, ID: "s", State: state, Relay: 7, Mode: []byte(`{"model":"opus"}`)}))
		must(t, l.Sessions.SetHandoff(t.Context(), h))
	}
	// wish waits for a request to the launcher.
	wish := func(n int64) ledger.Handoff {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			if h, _, err := l.Sessions.Handoff(t.Context(), key); err != nil || time.Now().After(end) {
				t.Fatalf("wish %d never came: %+v, %v", n, h, err)
			} else if h.Wish == n {
				return h
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	set(ledger.RelayLocal, ledger.Handoff{At: ledger.AtTerminal})

	p := open(t, browser, w, w.address())
	p.live()
	p.run(do(`location.hash = "#/team/` + sim.Name() + `/team-lead"`))
	p.until(`document.querySelector(".head .place")?.textContent === "at a terminal"`)
	p.until(`document.querySelector('a.member[href$="/team-lead"] .role')?.textContent === "terminal"`)
	button := func(label string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".controls button")].find(b => b.textContent === %q && !b.hidden)`, label)
	}
	const doing = `document.querySelector(".head .doing").textContent`
	p.until(`document.querySelector(".menu summary").textContent === "opus" && ` + button("Interrupt") + ` === undefined`)
	p.picture("place-terminal")
	p.until(button("Take from the terminal") + ` !== undefined`)
	p.run(do(button("Take from the terminal") + `.click()`))
	h := wish(1)
	if h.Wanted != ledger.AtRelay || h.Force {
		t.Errorf("asked for %+v", h)
	}
	p.until(doing + `.includes(" · switch requested · by inbox: ") && document.querySelector(".control-note").textContent === "Requested."`)

	// A switch that is held says why, and can be forced.
	h.To, h.Reason = ledger.AtRelay, "a draft is <b>at</b> the prompt"
	set(ledger.RelayLocal, h)
	p.until(doing + `.split("switch is held: a draft is <b>at</b> the prompt").length === 2`)
	p.until(button("Switch now") + ` !== undefined`)
	p.picture("place-held")
	p.run(do(button("Switch now") + `.click()`))
	if h = wish(2); h.Wanted != ledger.AtRelay || !h.Force {
		t.Errorf("forced %+v", h)
	}
	h.To, h.Reason, h.Wanted, h.Refused = "", "", "", "a teammate is alive"
	set(ledger.RelayLocal, h)
	p.until(doing + `.includes(" · switch refused: a teammate is alive · by inbox: ")`)

	set(ledger.RelayRunning, ledger.Handoff{At: ledger.AtRelay})
	p.until(`document.querySelector(".head .place").textContent === "at its relay" && document.querySelector('a.member[href$="/team-lead"] .role') === null`)
	p.until(button("Give to the terminal") + ` !== undefined`)
	p.picture("place-relay")
	p.run(do(button("Give to the terminal") + `.click()`))
	if h = wish(3); h.Wanted != ledger.AtTerminal || h.Force {
		t.Errorf("asked for %+v", h)
	}
	// An agent that another process runs, and that cannot move, has no controls.
	must(t, l.Sessions.RemoveHandoff(t.Context(), key))
	p.until(`document.querySelector(".head .place") === null && !document.querySelector(".controls").checkVisibility()`)
}
