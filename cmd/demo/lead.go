package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/claude"
)

// headless starts the lead, a headless agent that never reads its inbox, and its relay. end ends both. recorded
// receives a value when the ledger has a new event.
func (d *demonstration) headless(ctx context.Context) (recorded <-chan struct{}, end func() error, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	news, idle := make(chan struct{}, 1), make(chan struct{})
	ready := sync.OnceFunc(func() { close(idle) })
	r, err := relay.New(ctx, relay.Options{
		Team: d.team, Member: leadName, Locker: d.locker, Ledger: d.ledger, State: d.state,
		Runtime: claude.Runtime{Options: claude.Options{
			Root: d.claude, Command: []string{exe}, Dir: d.dir,
			Env: d.environment(playsLead),
		}},
		Report: func(s relay.Status) {
			if s.State == relay.Idle {
				ready()
			}
		},
		Recorded: func() {
			select {
			case news <- struct{}{}:
			default: // already pending
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	select {
	case <-idle:
	case err := <-ended:
		stop()
		return nil, nil, errors.Join(err, errors.New("the relay ended"))
	}
	d.say("team-lead is headless (process %d): it never reads its inbox, so a relay does", r.Status().PID)
	return news, func() error {
		stop()
		return <-ended
	}, nil
}

// relayed sends a message to the lead and follows it through the relay.
func (d *demonstration) relayed(ctx context.Context, recorded <-chan struct{}, text string) error {
	sentAt := time.Now()
	s, err := d.send(ctx, leadName, "", text)
	if err != nil {
		return err
	}
	if !s.Reachable {
		return fmt.Errorf("the lead counts as %s, and its relay runs", s.Reach)
	}
	d.say("→ team-lead  %q: sent after %.1f ms", text, ms(sentAt))
	names := map[ledger.DeliveryState]string{
		ledger.Claimed: "taken from the inbox", ledger.FrameWritten: "on its way to the agent", ledger.Accepted: "begun", ledger.Done: "its turn done",
	}
	var steps []string
	after := int64(0)
	for {
		events, err := d.ledger.Events.After(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, e := range events {
			after = e.N
			if e.ID != s.ID {
				continue
			}
			steps = append(steps, fmt.Sprintf("%s after %.1f ms", cmp.Or(names[e.State], string(e.State)), float64(e.At.Sub(sentAt).Microseconds())/1000))
			if e.State == ledger.Done {
				d.say("  relay: %s", strings.Join(steps, ", "))
				return nil
			}
			if e.State.Ended() {
				return fmt.Errorf("the message to the lead was %s: %s", e.State, e.Reason)
			}
		}
		select {
		case <-recorded:
		case <-ctx.Done():
			return fmt.Errorf("the message to the lead was not done: %w", ctx.Err())
		}
	}
}

// said counts how often the lead has worked on these messages.
func (d *demonstration) said(texts ...string) (n int, err error) {
	given, err := d.given("*")
	for _, turn := range given {
		for _, text := range texts {
			n += strings.Count(turn, text)
		}
	}
	return n, err
}
