package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"teambridge/teams"
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

Exit status: the worst of what "teambridge send" gives for each member; 3 when
there is nobody to send to.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.broadcast(cmd.Context(), args[0], o)
		},
	}
	sendFlags(cmd, &o.sendOptions)
	cmd.Flags().StringSliceVar(&o.except, "except", nil, "members to leave out, separated by commas")
	cmd.Flags().BoolVar(&o.includeLead, "include-lead", false, "the lead as well")
	must(cmd.RegisterFlagCompletionFunc("except", a.completeMembers(1)))
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
	defer s.close()
	to, err := s.audience(o)
	if err != nil {
		return err
	}
	answers := make([]sent, 0, len(to))
	worst := exitOK
	for _, member := range to {
		answer, err := s.send(ctx, member, body)
		if err != nil {
			f := explain(ctx, err)
			worst = max(worst, f.exit)
			answer.Error = &sentError{f.code, err.Error(), f.hint}
		}
		answers = append(answers, answer)
	}
	if a.json {
		if err := a.printJSON(answers); err != nil {
			return err
		}
	}
	for _, answer := range answers {
		switch {
		case a.json:
		case answer.Error != nil:
			a.warn("%s@%s: %s", answer.Member, answer.Team, answer.Error.Message)
			if answer.Error.Hint != "" {
				fmt.Fprintf(a.stderr, "hint: %s\n", answer.Error.Hint)
			}
		default:
			if err := a.printf("%s\n", a.sentLine(answer)); err != nil {
				return err
			}
			a.reachNote(answer)
		}
	}
	if worst != exitOK {
		return exitStatus(worst)
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
		return nil, &teams.NotFoundError{Kind: "member", Query: "anybody to send to", Team: s.team.Name()}
	}
	return to, nil
}
