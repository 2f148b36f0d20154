package bridge

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/relay/terminal"
	"teambridge/status/api"
	"teambridge/status/view"
)

// paneOf returns the pane that a message to a target is typed into: the only one, or the one
// that config.json has for the member. socket is that of its tmux server, or "".
func (l *Local) paneOf(ctx context.Context, to *Target, socket string) (pane.Pane, error) {
	if to.Way() == api.WayPane {
		if len(to.Panes) != 1 {
			return pane.Pane{}, api.Decide(api.CodeUsage, "", "a message goes to one pane, not to %d", len(to.Panes))
		}
		return to.Panes[0], nil
	}
	p, err := l.OpenPanes(ctx)
	if err != nil {
		return pane.Pane{}, err
	}
	return p.OfMember(ctx, to.Team, to.Member(), cmp.Or(socket, l.opts.Tmux))
}

// closed is the error for a pane that nothing can be typed into now, whatever is at its prompt,
// and that does not change by itself: it is gone, or there is no agent in it.
func closed(ctx context.Context, p pane.Pane) error {
	held, why, err := p.Ref.Closed(ctx, p.Profile)
	if errors.Is(err, terminal.ErrGone) {
		held, why, err = terminal.Gone, "the pane is gone", nil
	}
	if err == nil && held.Lasting() {
		err = notTyped(p.Name(), p.Team, held, why, "")
	}
	return err
}

// notTyped is the error for a message that was not typed, by the reason that held it.
func notTyped(name, team string, held terminal.Reason, why, hint string) error {
	switch {
	case held == terminal.Gone, held == terminal.Dead:
		return api.Decide(api.CodeGone, "give it another pane with: teambridge pane add "+shell.Quote(name)+" --pane TARGET --replace", "%s@%s: %s", name, team, why)
	case held.Lasting():
		return api.Decide(api.CodeRefused, "start the agent there, and send again", "%s@%s: %s", name, team, why)
	}
	return api.Decide(api.CodeTimeout, hint, "the message to %s@%s was not sent: %s", name, team, why)
}

// sendToPane puts a message into the queue of a pane. A service types it later; in a command,
// [Local.Await] does.
func (l *Local) sendToPane(ctx context.Context, to pane.Pane, m message) (api.Sent, error) {
	start := time.Now()
	failed := api.Sent{Team: to.Team, Member: to.Inbox, ID: m.id, State: api.Failed}
	if !Person(ctx) {
		return failed, api.Decide(api.CodeForbidden, "", "only a person can send to a pane")
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return failed, err
	}
	typed := pane.Message{
		ID: m.id, Text: m.Text, Summary: m.Summary, Policy: terminal.Policy(cmp.Or(m.Policy, api.PolicyQueued)), SaveDraft: m.SaveDraft, Notify: m.NotifyOnStop,
	}
	if typed.From, typed.NotifyTo, err = panes.Sender(ctx, to, m.From); err != nil {
		return failed, err
	}
	text := terminal.Message{Nonce: "00000000", From: typed.From, Text: m.Text, Policy: typed.Policy}
	if err := text.Check(); err != nil {
		return failed, api.Decide(api.CodeInvalid, "nothing was sent", "%s", strings.TrimPrefix(err.Error(), "terminal: "))
	}
	if m.DryRun {
		held, why, err := heldNow(ctx, to, typed.Policy)
		failed.State, failed.Reachable, failed.Reason = api.DryRun, held == "", why
		failed.WaitedMs = time.Since(start).Milliseconds()
		return failed, err
	}
	if l.opts.Service == nil || m.RequireAgent {
		if err := closed(ctx, to); err != nil {
			return api.Sent{}, err
		}
	}
	recorded, again, err := panes.Put(ctx, to, typed)
	if err != nil {
		return failed, err
	}
	if l.opts.Service == nil {
		l.mu.Lock()
		l.typing[recorded.UUID] = true
		l.mu.Unlock()
	}
	return view.PaneSent(recorded, again), nil
}

// heldNow says why a message would not be typed now, or "".
func heldNow(ctx context.Context, p pane.Pane, policy terminal.Policy) (held terminal.Reason, why string, err error) {
	if held, why, err = p.Ref.Closed(ctx, p.Profile); err == nil && held == "" {
		held, why, err = p.Ref.Held(ctx, p.Profile, policy)
	}
	if errors.Is(err, terminal.ErrGone) {
		held, why, err = terminal.Gone, "the pane is gone", nil
	}
	return held, why, err
}

// awaitPane waits for the outcome of a message to a pane until wait ends. A command that has put
// it there types it, and gives it up when wait ends; else a service does.
func (l *Local) awaitPane(ctx, wait context.Context, s api.Sent) (api.Sent, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return s, err
	}
	l.mu.Lock()
	own := l.typing[s.Delivery]
	l.mu.Unlock()
	var record ledger.PaneMessage
	if !own {
		record, err = panes.Await(wait, s.Delivery)
	} else {
		record, err = panes.Deliver(wait, s.Delivery)
	}
	now := view.PaneSent(record, s.Deduplicated)
	now.WaitedMs = s.WaitedMs
	if err != nil && (ctx.Err() != nil || wait.Err() == nil) {
		return now, err
	}
	switch now.State {
	case api.Confirmed:
		return now, nil
	case api.Unconfirmed:
		return now, api.Decide(api.CodeUnknown, "look at the pane; to send it again, which may make a second copy: teambridge relay retry "+s.Delivery,
			"it is not known whether %s@%s has taken the message: %s", s.Member, s.Team, now.Reason)
	case api.Waiting:
		return now, api.Decide(api.CodeTimeout, "the service goes on for 15 minutes; to give it up: teambridge relay drop "+s.Delivery,
			"the message to %s@%s still waits: %s", s.Member, s.Team, cmp.Or(now.Reason, "-"))
	}
	return now, notTyped(s.Member, s.Team, terminal.Reason(record.Held), cmp.Or(now.Reason, "-"), "it will not be sent later; with a service (teambridge serve), messages wait for 15 minutes")
}
