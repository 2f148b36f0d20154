package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// prompter puts user prompts into the queue of one member, as [relay.Prompts] does.
type prompter func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error)

// promptable returns the function that takes user prompts for a member: of a relay of this service, or of the
// launcher of a session that can move. If there is none, or the sender is not a person, it returns the reason.
func (r *row) promptable(ctx context.Context, member string) (prompts prompter, reason string, err error) {
	c, t := r.carrying, r.to.Team
	if c.alone {
		return nil, r.Opts.Idle(), nil
	}
	if !Person(ctx) {
		return nil, "a program sends them", nil
	}
	lg, err := r.Opts.Ledger(ctx)
	if err != nil {
		return nil, "", err
	}
	ours, err := mail.Ours(ctx, lg, t, r.sender.Config())
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(ours, r.sender.From()) {
		return nil, fmt.Sprintf("%q is not one of your names", r.sender.From()), nil
	}
	if f := c.Fleet; f != nil {
		id, serving, err := f.Serving(ctx, t, member)
		if err != nil {
			return nil, "", err
		}
		if serving {
			return func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error) {
				return f.Prompts(ctx, id, ins...)
			}, "", nil
		}
	}
	info, _, err := relay.Stat(ctx, lg, r.Opts.State, t, r.sender.Config(), member)
	if err != nil {
		return nil, "", err
	}
	if info.Handoff == nil {
		return nil, "no relay of this service serves " + member, nil
	}
	return func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error) {
		results, err := relay.Prompts(ctx, lg, info.InboxKey, ins...)
		if err == nil {
			c.Sent()
		}
		return results, err
	}, "", nil
}

// prompt sends a message as a user prompt. If that is impossible, it returns the reason.
func (r *row) prompt(ctx context.Context, member string, m mail.Message, opts promptOptions) (sent api.Sent, reason string, err error) {
	start := time.Now()
	sent = api.Sent{Team: r.to.Name(), Member: member, ID: m.ID, State: api.Failed}
	prompts, reason, err := r.promptable(ctx, member)
	if err != nil || reason != "" {
		return sent, reason, err
	}
	if err := r.sender.Validate(m); err != nil {
		return sent, "", err
	}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	results, err := prompts(ctx, relay.Input{
		Text: m.Text, Mode: opts.mode, Isolated: opts.isolated, ID: m.ID, From: r.sender.From(), DefaultFrom: r.sender.DefaultFrom(), Summary: m.Summary, Color: m.Color,
		Protocol: m.Protocol,
	})
	switch {
	case errors.Is(err, ledger.ErrWritten):
		return sent, "it was put into the inbox before", nil // another try returns its state
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return sent, err.Error(), nil
	case err != nil:
		return sent, "", err
	}
	sent = r.prompted(member)
	sent.ID, sent.Deduplicated, sent.Delivery = results[0].ID, results[0].Again, results[0].Delivery
	sent.WaitedMs = time.Since(start).Milliseconds()
	return sent, "", nil
}

// prompted returns the common part of the results of prompts to a member.
func (r *row) prompted(member string) api.Sent {
	sent := api.Sent{Team: r.to.Name(), Member: member, State: api.Verified, Recorded: true}
	reach := r.sender.Reach(member)
	if reach == teams.AtTerminal {
		reach = teams.Reachable // a prompt moves the session
	}
	view.SetReach(&sent, reach)
	return sent
}

// A Payload is a line of the session protocol: a prompt, unless its form is one that is dropped.
type Payload struct {
	Line    int // in the input, from 1
	Dropped bool
	Input   relay.Input
}

// SendPayloads sends payloads of the session protocol to a member as prompts: all or, if there is an error,
// none. The answer lists those that are dropped by their form.
func (l *Local) SendPayloads(ctx context.Context, team, member string, lines []Payload, form string) (answer api.SentPayloads, err error) {
	start := time.Now()
	to, err := l.withInboxes(ctx, notPromptable(member+" is a pane"), team, member)
	if err != nil {
		return answer, err
	}
	defer to.Close() // it was only read
	r, err := inboxWay{l}.row(ctx, &to, "", false, false)
	if err != nil {
		return answer, err
	}
	if member, err = r.sender.Resolve(member, false); err != nil {
		return answer, err
	}
	prompts, reason, err := r.promptable(ctx, member)
	if err != nil {
		return answer, err
	}
	if reason != "" {
		return answer, notPromptable(reason)
	}
	var inputs []relay.Input
	for _, p := range lines {
		if p.Dropped {
			continue
		}
		if err := r.sender.Validate(mail.Message{ID: p.Input.ID, Text: p.Input.Text, Summary: p.Input.Summary}); err != nil {
			return answer, InvalidLine(p.Line, err)
		}
		p.Input.From, p.Input.DefaultFrom = r.sender.From(), r.sender.DefaultFrom()
		inputs = append(inputs, p.Input)
	}
	var results []relay.PromptResult
	if len(inputs) > 0 {
		results, err = prompts(ctx, inputs...)
	}
	switch {
	case errors.Is(err, ledger.ErrWritten):
		return answer, api.Decide(api.CodeConflict, "nothing was sent; give it another id", "%s", view.Describe(err))
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return answer, notPromptable(view.Describe(err))
	case err != nil:
		return answer, err
	}
	sent := r.prompted(member)
	answer.Results = make([]api.PayloadResult, 0, len(lines))
	for _, p := range lines {
		result := api.PayloadResult{Line: p.Line}
		if p.Dropped {
			result.Dropped = form
			answer.Dropped++
		} else {
			one := sent
			one.ID, one.Deduplicated, one.Delivery = results[0].ID, results[0].Again, results[0].Delivery
			one.WaitedMs = time.Since(start).Milliseconds()
			result.Sent, results = &one, results[1:]
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// InvalidLine is the error for an invalid payload.
func InvalidLine(number int, err error) error {
	return api.Decide(api.CodeInvalid, "nothing was sent", "line %d: %s", number, view.Describe(err))
}

func notPromptable(reason string) error {
	return api.Decide(api.CodeInvalid, "nothing was sent; send it as application/json to put it into the inbox",
		"payloads are only for prompts to an agent that this service relays to: %s", reason)
}
