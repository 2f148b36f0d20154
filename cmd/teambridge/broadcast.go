package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

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

Each agent gets a message with its own id. People who joined the team get none.
If one inbox cannot be written, the others still get the message; the output
lists sent messages and errors. --team tmux types the message into all panes,
each within 30 s. --team sessions sends it to the living sessions in no team,
and at a terminal asks you first. Headless sessions ("claude -p") are left out,
since their answers would go into the output of the program that runs them. Use
"teambridge send" with their names.

Exit status: the worst status of "teambridge send" for any member; 3 if there is
no recipient.`,
		Example: `  teambridge broadcast "the API freeze starts now" --except reviewer`,
		Args:    exactly(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.broadcast(cmd.Context(), args[0], o) },
	}
	sendFlags(cmd, &o.sendOptions)
	o.paneOptions.flags(cmd, true)
	cmd.Flags().StringSliceVar(&o.except, "except", nil, "members to leave out, separated by commas")
	cmd.Flags().BoolVar(&o.includeLead, "include-lead", false, "send to the lead too")
	must(cmd.RegisterFlagCompletionFunc("except", completer{a}.completeMembers(-1)))
	return cmd
}

func (a *app) broadcast(ctx context.Context, text string, o broadcastOptions) error {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	if agreed, err := mayTellSessions(ctx, a, o.except, text == "-"); err != nil || !agreed {
		return err
	}
	a.leaveOpen = true
	ctx = bridge.WithPerson(ctx)
	m := o.message(body)
	all, err := once(ctx, a, a.bridge(ctx), "", true, func(b api.Bridge, id string) ([]api.Sent, error) {
		all, err := b.Broadcast(ctx, api.AnyTeam, id, api.NewBroadcast{
			Text: m.Text, Summary: m.Summary, Color: m.Color, From: m.From, Protocol: m.Protocol, Except: o.except, IncludeLead: o.includeLead, PaneOptions: m.PaneOptions, Scope: new(a.scope()),
		})
		var typing sync.WaitGroup // each send waits until the message is typed
		for i := range all {
			if all[i].Error == nil && all[i].Next() == api.Confirmed {
				typing.Go(func() { a.awaitTyped(ctx, b, &all[i]) })
			}
		}
		typing.Wait()
		return all, a.unsure(err, id+"-MEMBER")
	})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Deduplicated = false // ids are new here, so only a service that failed can have used them
	}
	worst := bridge.Worst(all)
	if err := a.printAll(all); err != nil {
		failed := len(slices.DeleteFunc(slices.Clone(all), func(s api.Sent) bool { return s.Error == nil }))
		return fmt.Errorf("%d of %s sent, but the output failed: %w", len(all)-failed, plural(len(all), "message"), err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.answerNote(all...)
	return worst
}

// mayTellSessions asks the person at a terminal whether to send to all sessions, which need not belong
// together. piped means that the text came from standard input.
func mayTellSessions(ctx context.Context, a *app, except []string, piped bool) (bool, error) {
	if s := a.scope(); !a.keyboard || piped || a.json || s.AnyTeam() {
		return true, nil
	}
	to, err := a.target(ctx)
	if err != nil || !to.Apart {
		return true, err
	}
	members, err := a.bridge(ctx).Status(ctx, to.Team)
	if err != nil {
		return false, err
	}
	var names []string
	for _, m := range members {
		if m.State != api.StateTerminated && !slices.Contains(except, m.Member) {
			names = append(names, m.Member)
		}
	}
	agreed, err := a.agrees(ctx, bufio.NewReader(a.stdin), fmt.Sprintf("Send it to %s: %s", plural(len(names), "session"), strings.Join(names, ", ")))
	if err == nil && !agreed || errors.Is(err, io.EOF) {
		a.note("nothing was sent")
		return false, nil
	}
	return agreed, err
}

// awaitTyped waits until a message of a broadcast is typed into its pane.
func (a *app) awaitTyped(ctx context.Context, b api.Bridge, s *api.Sent) {
	defer a.showsWait(ctx, *s)()
	var err error
	if *s, err = b.Await(ctx, *s, api.Confirmed, paneTimeout); err != nil {
		fault, _ := explain(ctx, err)
		s.Error = &fault
	}
}

// printAll prints the results of a broadcast.
func (c *console) printAll(all []api.Sent) error {
	if c.json {
		return c.printJSON(all)
	}
	for _, s := range all {
		f := s.Error
		if f == nil || s.State != api.Failed && s.State != "" {
			if err := c.printSent(s); err != nil {
				return err
			}
		}
		if f == nil {
			continue
		}
		c.warn("%s@%s: %s", s.Member, s.Team, f.Message)
		if f.Hint != "" {
			c.say("hint", f.Hint)
		}
	}
	return nil
}
