package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/lockedfile"
)

// alertOptions are the flags of commands that send alerts.
type alertOptions struct {
	specs []string
	text  bool
}

func (o *alertOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.specs, "alert", nil, "tell what needs you there too: "+strings.Join(alert.Kinds, ", ")+", then =FILE or =env:VARIABLE; may be repeated")
	cmd.Flags().BoolVar(&o.text, "alert-text", false, "alerts have texts of agents, too")
	must(cmd.RegisterFlagCompletionFunc("alert", func(_ *cobra.Command, _ []string, prefix string) (words []string, _ cobra.ShellCompDirective) {
		if strings.Contains(prefix, "=") {
			return nil, cobra.ShellCompDirectiveDefault // a file
		}
		for _, kind := range alert.Kinds {
			if strings.HasPrefix(kind, prefix) {
				words = append(words, kind+"=")
			}
		}
		return words, noFiles | cobra.ShellCompDirectiveNoSpace
	}))
}

// destinations are where alerts are sent.
func (o *alertOptions) destinations() (all []alert.Destination, err error) {
	for _, spec := range o.specs {
		d, err := alert.Parse(spec)
		if err != nil {
			return nil, usage("see: teambridge watch --help", "--alert: %v", err)
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

// textOf is what an alert tells with --alert-text.
func textOf(ctx context.Context, b api.Bridge, w api.Attention) string {
	switch {
	case w.Question != nil && !w.Partial:
		return questionText(*w.Question)
	case w.Kind == api.WaitsUnread:
		page, err := b.Messages(ctx, w.Team, api.MessageQuery{Inbox: w.Member, From: w.From, Protocol: true, MessagesOnly: true})
		if err != nil {
			return "" // it has been told that there is one
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

// alerts are those that watch sends.
type alerts struct {
	app     *app
	ctx     context.Context
	all     []*alert.Alerter
	running sync.WaitGroup
	stop    context.CancelFunc
}

// startAlerts begins to send alerts of what waits in a team, or all if the name is empty. Call finish.
func (a *app) startAlerts(ctx context.Context, o alertOptions, team string) (*alerts, error) {
	to, err := o.destinations()
	if err != nil || len(to) == 0 {
		return nil, err
	}
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	s := &alerts{app: a, ctx: ctx}
	running, stop := context.WithCancel(ctx)
	s.stop = stop
	for _, d := range to {
		if err = d.Check(a.lookup); err != nil {
			err = usage("", "--alert: %v", err)
			break
		}
		opts := alert.Options{
			To: d, State: a.state, Root: root.Path(), Team: team, LookupEnv: a.lookup,
			Warn: func(err error) { a.warn("%s", view.Describe(err)) }, Note: func(text string) { a.note("%s", text) },
		}
		if o.text {
			opts.Text = func(ctx context.Context, w api.Attention) string { return textOf(ctx, a.bridge(ctx), w) }
		}
		var one *alert.Alerter
		if one, err = alert.Open(opts); errors.Is(err, lockedfile.ErrLocked) {
			err = refuse("end it first; a service with the same --alert does it, too", "another process sends alerts to %s", d)
		}
		if err != nil {
			break
		}
		s.all = append(s.all, one)
		s.running.Go(func() { one.Run(running) })
	}
	if err != nil {
		return nil, errors.Join(err, s.finish())
	}
	return s, nil
}

// update says what waits now, or with partial a part of it. s may be nil.
func (s *alerts) update(list []api.Attention, partial bool) {
	if s != nil {
		for _, one := range s.all {
			one.Update(list, partial)
		}
	}
}

// finish ends the alerts. The error says what was not delivered; if the command was interrupted, only a
// warning does. s may be nil.
func (s *alerts) finish() (err error) {
	if s == nil {
		return nil
	}
	s.stop()
	s.running.Wait()
	for _, one := range s.all {
		failed := one.Close()
		if undelivered, ok := errors.AsType[*alert.UndeliveredError](failed); ok && s.ctx.Err() != nil {
			s.app.warn("%s; the next start tells what waits then", view.Describe(undelivered))
			failed = nil
		}
		err = errors.Join(err, failed)
	}
	return err
}
