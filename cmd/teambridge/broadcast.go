package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/bridge"
)

type broadcastOptions struct {
	sendOptions
	except      []string
	includeLead bool
}

func newBroadcast(a *app) *cobra.Command {
	var o broadcastOptions
	cmd := &cobra.Command{
		Use:   "broadcast TEXT|-",
		Short: "Send a message to every agent of a team",
		Long: `Send a message to every agent of a team except its lead.

Each agent gets a message with an id of its own. People who joined the team get
none. If one inbox cannot be written, the others still get the message; the
output says what was sent and what went wrong. --team tmux types it into all
panes, each within 30 s.

Exit status: the worst of what "teambridge send" gives for each member; 3 if
there is nobody to send to.`,
		Example: `  teambridge broadcast "the API freeze starts now" --except reviewer`,
		Args:    exactly(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.broadcast(cmd.Context(), args[0], o) },
	}
	sendFlags(cmd, &o.sendOptions)
	o.paneOptions.flags(cmd, true)
	cmd.Flags().StringSliceVar(&o.except, "except", nil, "members to leave out, separated by commas")
	cmd.Flags().BoolVar(&o.includeLead, "include-lead", false, "send to the lead too")
	must(cmd.RegisterFlagCompletionFunc("except", a.completeMembers(-1)))
	return cmd
}

func (a *app) broadcast(ctx context.Context, text string, o broadcastOptions) error {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	to, err := a.target(ctx)
	if err != nil {
		return err
	}
	if err := o.suits(to); err != nil {
		return err
	}
	a.leaveOpen = true
	m := o.message(body)
	members, err := a.local().Audience(ctx, to, api.NewBroadcast{
		Text: m.Text, Summary: m.Summary, Color: m.Color, From: m.From, Protocol: m.Protocol, Except: o.except, IncludeLead: o.includeLead, PaneOptions: m.PaneOptions,
	})
	if err != nil {
		return err
	}
	all := make([]api.Sent, len(members))
	send := func(i int) {
		one := bridge.Target{Team: to.Team, Members: members[i : i+1]}
		if n := slices.IndexFunc(to.Panes, func(p pane.Pane) bool { return p.Inbox == members[i] }); n >= 0 {
			one.Panes = to.Panes[n : n+1]
		}
		sent, err := a.deliver(ctx, &one, m, o.sendOptions)
		if err != nil {
			fault, _ := explain(ctx, err)
			sent.Error = &fault
		}
		all[i] = sent
	}
	o.wait, o.timeout = api.Verified, paneTimeout
	if to.Way() == api.WayInbox {
		for i := range members {
			send(i)
		}
	} else { // each waits until it is typed
		var sending sync.WaitGroup
		for i := range members {
			sending.Go(func() { send(i) })
		}
		sending.Wait()
	}
	for i, s := range all {
		if s.Member == "" {
			all[i].Team, all[i].Member = to.Name(), members[i]
		}
		if s.Error != nil && to.Way() == api.WayPane && (s.State == "" || s.State == api.Failed) {
			all[i].State = api.NotSent
		}
	}
	worst := bridge.Worst(all)
	if err := a.printAll(all); err != nil {
		failed := len(slices.DeleteFunc(slices.Clone(all), func(s api.Sent) bool { return s.Error == nil }))
		return fmt.Errorf("%d of %s sent, but the output failed: %w", len(all)-failed, plural(len(all), "message"), err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if to.Way() == api.WayInbox {
		a.answerNote(ctx, to, o.from, members...)
	}
	return worst
}

// printAll prints what became of the messages of a broadcast.
func (a *app) printAll(all []api.Sent) error {
	if a.json {
		return a.printJSON(all)
	}
	for _, s := range all {
		f := s.Error
		if f == nil || s.State != api.Failed && s.State != "" {
			if err := a.printSent(s); err != nil {
				return err
			}
		}
		if f == nil {
			continue
		}
		a.warn("%s@%s: %s", s.Member, s.Team, f.Message)
		if f.Hint != "" {
			a.say("hint", f.Hint)
		}
	}
	return nil
}
