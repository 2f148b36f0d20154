package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/lockedfile"
)

// alertOptions holds the flags of commands that send alerts.
type alertOptions struct {
	specs []string
	text  bool
}

func (o *alertOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.specs, "alert", nil, "also send alerts about what needs you: "+strings.Join(alert.Kinds, ", ")+", then =FILE or =env:VARIABLE; may be repeated")
	cmd.Flags().BoolVar(&o.text, "alert-text", false, "include texts of agents in alerts")
	must(cmd.RegisterFlagCompletionFunc("alert", func(_ *cobra.Command, _ []string, prefix string) (words []string, _ cobra.ShellCompDirective) {
		if strings.Contains(prefix, "=") {
			return nil, cobra.ShellCompDirectiveDefault // a file
		}
		for _, kind := range alert.Kinds {
			words = append(words, kind+"=")
		}
		return words, noFiles | cobra.ShellCompDirectiveNoSpace
	}))
}

// destinations parses --alert. If lookup is not nil, it also checks the addresses.
func (o *alertOptions) destinations(lookup func(string) (string, bool)) (all []alert.Destination, err error) {
	for _, spec := range o.specs {
		d, err := alert.Parse(spec)
		if err != nil {
			return nil, usage("see: teambridge watch --help", "--alert: %v", err)
		}
		if lookup != nil {
			if err := d.Check(lookup); err != nil {
				return nil, usage("", "--alert: %v", err)
			}
		}
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	if o.text && len(all) == 0 {
		return nil, usage("", "--alert-text needs --alert")
	}
	return all, nil
}

// textOf returns the text that --alert-text adds to an alert.
func textOf(ctx context.Context, b api.Bridge, w api.Attention) string {
	switch {
	case w.Question != nil && !w.Partial:
		return questionText(*w.Question)
	case w.Kind == api.WaitsUnread:
		page, err := b.Messages(ctx, w.Team, api.MessageQuery{Inbox: w.Member, From: w.From, Protocol: true, MessagesOnly: true})
		if err != nil {
			return "" // the alert still says that there is a message
		}
		for _, r := range page.Messages {
			if r.ID == w.Message {
				return r.Text
			}
		}
		return ""
	}
	return w.What
}

// startAlerts starts sending alerts about a team, or about all teams if the name is empty. Each call of update
// passes the current list of items that need the person. finish stops, and returns an error for alerts that
// were not delivered. After an interrupt it only warns of them.
func (a *app) startAlerts(ctx context.Context, o alertOptions, team string) (update func([]api.Attention), finish func() error, err error) {
	to, err := o.destinations(a.lookup)
	if err != nil {
		return nil, nil, err
	}
	opts := alert.Options{
		State: a.state, Team: team, Gather: a.gather, LookupEnv: a.lookup,
		Warn: func(err error) { a.warn("%s", view.Describe(err)) }, Note: func(text string) { a.note("%s", text) },
	}
	if o.text {
		opts.Text = func(ctx context.Context, w api.Attention) string { return textOf(ctx, a.bridge(ctx), w) }
	}
	if len(to) > 0 { // only this machine sends alerts
		root, err := a.root()
		if err != nil {
			return nil, nil, err
		}
		opts.Root = root.Path()
	}
	var all []*alert.Alerter
	ended := make(chan error)
	sending, stop := context.WithCancel(ctx)
	update = func(list []api.Attention) {
		for _, one := range all {
			one.Update(list)
		}
	}
	finish = func() (err error) {
		stop()
		for range all {
			failed := <-ended
			if failed != nil && ctx.Err() != nil {
				a.warn("%s; the next start sends alerts about the items that still wait", view.Describe(failed))
				failed = nil
			}
			err = errors.Join(err, failed)
		}
		return err
	}
	for _, opts.To = range to {
		one, err := alert.Open(opts)
		if errors.Is(err, lockedfile.ErrLocked) {
			err = refuse("end it first; a service with the same --alert does it, too", "another process sends alerts to %s", opts.To)
		}
		if err != nil {
			return nil, nil, errors.Join(err, finish())
		}
		all = append(all, one)
		go func() { ended <- one.Run(sending) }()
	}
	return update, finish, nil
}
