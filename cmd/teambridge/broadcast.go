package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
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
	if to, err := a.isPanes(ctx); err != nil {
		return err
	} else if to {
		if err := o.suitsPane(); err != nil {
			return err
		}
		o.timeout = paneTimeout
		return a.broadcastToPanes(ctx, body, o)
	}
	if err := o.suitsInbox(); err != nil {
		return err
	}
	t, err := a.team(ctx, "")
	if err != nil {
		return err
	}
	o.served, a.leaveOpen = true, true
	s, err := a.sender(ctx, t, o.sendOptions)
	if err != nil {
		return err
	}
	if err := s.Validate(o.message(body)); err != nil {
		return err
	}
	to, err := s.Audience(o.except, o.includeLead)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		return notFound("list the members with: teambridge members; --include-lead sends to the lead too", "there is nobody to send to in %s", t.Name())
	}
	answers := make([]outcome, 0, len(to))
	var worst api.Error
	failed := 0
	for _, member := range to {
		d, err := s.send(ctx, member, o.message(body))
		told := outcome{Delivered: d}
		if err != nil {
			told.fault, _ = explain(ctx, err)
			if failed++; told.fault.Code.Exit() > worst.Code.Exit() || worst.Code == "" {
				worst = told.fault
			}
		}
		answers = append(answers, told)
	}
	if err := a.printAnswers(answers); err != nil {
		return fmt.Errorf("%d of %s sent, but the output failed: %w", len(to)-failed, plural(len(to), "message"), err)
	}
	s.answerNote(ctx, to...)
	if failed > 0 {
		return api.Decide(worst.Code, "the output says which, and why", "%d of %s could not be sent", failed, plural(len(to), "message"))
	}
	return nil
}

// outcome is what became of the message to one member.
type outcome struct {
	mail.Delivered
	fault api.Error // without a code: none
}

func (a *app) printAnswers(answers []outcome) error {
	if a.json {
		list := make([]api.Sent, 0, len(answers))
		for _, told := range answers {
			sent := view.Sent(told.Delivered)
			if told.fault.Code != "" {
				sent.Error = &told.fault
			}
			list = append(list, sent)
		}
		return a.printJSON(list)
	}
	for _, told := range answers {
		if f := told.fault; f.Code != "" {
			a.warn("%s@%s: %s", told.Member, told.Team, f.Message)
			if f.Hint != "" {
				a.say("hint", f.Hint)
			}
			continue
		}
		if err := a.printf("%s\n", a.sentLine(told.Delivered)); err != nil {
			return err
		}
		a.reachNote(told.Delivered)
	}
	return nil
}
