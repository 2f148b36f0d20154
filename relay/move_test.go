package relay

import (
	"context"
	"errors"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simchild"
)

// A request to move ends with the launcher's answer, with the launcher, or when it is superseded.
func TestMove(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	ctx := t.Context()
	m := Move{State: s.options().State, Ledger: s.ledger, Team: s.team, Config: s.config(), Member: "team-lead", To: ledger.AtRelay}
	key := inbox.KeyOf(s.team, s.config(), "team-lead")
	set := func(h ledger.Handoff) {
		t.Helper()
		h.InboxKey = key
		must(t, s.ledger.Sessions.SetHandoff(ctx, h))
	}
	ask := func(want int64) {
		t.Helper()
		if n, _, err := m.Ask(ctx); n != want || err != nil {
			t.Fatalf("wish %d, %v; want %d", n, err, want)
		}
	}
	none := func(string) {}
	set(ledger.Handoff{At: ledger.AtTerminal})
	if n, _, err := m.Ask(ctx); n != 0 || !errors.Is(err, ErrStays) {
		t.Errorf("asked when no launcher runs: %d, %v", n, err)
	}
	held, err := Hold(ctx, m.State, s.team, "team-lead", 0)
	must(t, err)

	ask(1)
	set(ledger.Handoff{At: ledger.AtTerminal, To: ledger.AtRelay, Reason: "busy", Wanted: ledger.AtRelay})
	bound, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	var reasons []string
	if _, err := m.Wait(bound, 1, func(reason string) { reasons = append(reasons, reason); cancel(why) }); !errors.Is(err, why) || len(reasons) != 1 || reasons[0] != "busy" {
		t.Errorf("held: %v, %q", err, reasons)
	}
	if done, err := m.Withdraw(ctx, 1); !done || err != nil {
		t.Errorf("withdrawn: %t, %v", done, err)
	}

	ask(2)
	set(ledger.Handoff{At: ledger.AtTerminal, Wish: 2, Refused: "a teammate is alive"})
	var refused *RefusedError
	if _, err := m.Wait(ctx, 2, none); !errors.As(err, &refused) || refused.Reason != "a teammate is alive" {
		t.Errorf("refused: %v", err)
	}
	ask(3)
	set(ledger.Handoff{At: ledger.AtRelay, Wish: 3})
	if h, err := m.Wait(ctx, 3, none); err != nil || h.At != ledger.AtRelay {
		t.Errorf("granted: %+v, %v", h, err)
	}
	ask(0) // it is there
	set(ledger.Handoff{At: ledger.AtRelay, To: ledger.AtTerminal})
	ask(4) // it is about to leave
	back := m
	back.To = ledger.AtTerminal
	if n, _, err := back.Ask(ctx); n != 5 || err != nil {
		t.Fatalf("another wish: %d, %v", n, err)
	}
	set(ledger.Handoff{At: ledger.AtTerminal, Wish: 5})
	if _, err := m.Wait(ctx, 4, none); !errors.As(err, &refused) {
		t.Errorf("superseded: %v", err)
	}
	if _, err := back.Wait(ctx, 5, none); err != nil {
		t.Errorf("the later wish: %v", err)
	}
	ask(6)
	must(t, held.Release())
	if _, err := m.Wait(ctx, 6, none); !errors.Is(err, ErrStays) {
		t.Errorf("the launcher ended: %v", err)
	}
}
