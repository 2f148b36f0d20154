package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// broadcastOptions are the flags of broadcast.
type broadcastOptions struct {
	sendOptions
	except      []string
	includeLead bool
}

func newBroadcast(a *app) *cobra.Command {
	var o broadcastOptions
	cmd := &cobra.Command{
		Use:   "broadcast TEXT|-",
		Short: "Send one message to every member of a team",
		Long: `Send one message to every agent of a team but its lead: one row in each inbox,
each with an id of its own. People who joined the team get none.

A member whose inbox cannot be written to does not keep the others from getting
theirs: the answer says which was sent, and what was wrong with the rest.

Exit status: the worst of what "teambridge send" gives for each member; 3 when
there is nobody to send to.`,
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.broadcast(cmd.Context(), args[0], o)
		},
	}
	sendFlags(cmd, &o.sendOptions)
	cmd.Flags().StringSliceVar(&o.except, "except", nil, "members to leave out, separated by commas")
	cmd.Flags().BoolVar(&o.includeLead, "include-lead", false, "the lead as well")
	must(cmd.RegisterFlagCompletionFunc("except", a.completeMembers(-1)))
	return cmd
}

func (a *app) broadcast(ctx context.Context, text string, o broadcastOptions) error {
	body, err := a.text(text)
	if err != nil {
		return err
	}
	t, err := a.team(ctx, "")
	if err != nil {
		return err
	}
	defer closeAll(t)
	s, err := a.sender(ctx, t, o.sendOptions)
	if err != nil {
		return err
	}
	if err := s.message(body).Check(); err != nil {
		return err
	}
	to, err := s.audience(o)
	if err != nil {
		return err
	}
	answers := make([]sent, 0, len(to))
	var worst fault
	failed := 0
	for _, member := range to {
		answer, err := s.send(ctx, member, body)
		if err != nil {
			f := explain(ctx, err)
			if failed++; f.exit > worst.exit {
				worst = f
			}
			answer.Error = &errorJSON{f.code, describeError(err), f.hint}
		}
		answers = append(answers, answer)
	}
	if err := a.printAnswers(answers); err != nil {
		return fmt.Errorf("%d of %s sent, and the answer could not be given: %w", len(to)-failed, plural(len(to), "message"), err)
	}
	s.deafNote()
	if failed > 0 {
		return &verdict{fmt.Errorf("%d of %s could not be sent", failed, plural(len(to), "message")),
			fault{code: worst.code, exit: worst.exit, hint: "the answer says which, and why"}}
	}
	return nil
}

// printAnswers says what became of each message.
func (a *app) printAnswers(answers []sent) error {
	if a.json {
		return a.printJSON(answers)
	}
	for _, answer := range answers {
		if e := answer.Error; e != nil {
			a.warn("%s@%s: %s", answer.Member, answer.Team, e.Message)
			if e.Hint != "" {
				a.say("hint", e.Hint)
			}
			continue
		}
		if err := a.printf("%s\n", a.sentLine(answer)); err != nil {
			return err
		}
		a.reachNote(answer)
	}
	return nil
}

// audience returns the agents of the team that a broadcast goes to.
func (s *sender) audience(o broadcastOptions) ([]string, error) {
	var except []string
	for _, name := range o.except {
		member, err := s.config.Resolve(name, nil)
		if err != nil {
			return nil, err
		}
		except = append(except, member)
	}
	lead, _ := s.config.Lead()
	var to []string
	for _, m := range s.config.Members {
		switch {
		case m.Guest(), m.Name == s.from, slices.Contains(except, m.Name), m.Name == lead.Name && !o.includeLead:
		default:
			to = append(to, m.Name)
		}
	}
	if len(to) == 0 {
		return nil, notFound("see who is there with: teambridge members; --include-lead sends to the lead too",
			"there is nobody to send to in %s", s.team.Name())
	}
	return to, nil
}
