package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// overAllTeams makes the status command show all candidate teams, if no team is named and there are several.
func (a *app) overAllTeams(status *cobra.Command) *cobra.Command {
	one := status.RunE
	status.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if watch := cmd.Flags().Lookup("watch"); len(args) > 0 || watch.Changed {
			return one(cmd, args)
		}
		list, err := candidateTeams(cmd.Context(), a)
		defer func() {
			switch {
			case err != nil:
			case len(list) > 0:
				a.linksNote(cmd.Context())
				a.waitsNote(cmd.Context(), "")
			default: // other teams are not needed, and would take time
				a.linksNote(cmd.Context())
				a.waitsNote(cmd.Context(), a.chosen)
			}
		}()
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return one(cmd, args)
		case a.json:
			return statusesOf(cmd.Context(), a, list)
		}
		var faults []error
		for i, name := range list {
			line := a.paint(bold, "team "+escape(name, false)) + "\n"
			if i > 0 {
				line = "\n" + line
			}
			if err := a.print([]byte(line)); err != nil {
				return err
			}
			a.teamName = name
			err := one(cmd, args)
			again := errors.Is(err, client.ErrUnreachable) && errors.Is(errors.Join(faults...), client.ErrUnreachable)
			if !isGone(err) && !again {
				faults = append(faults, err)
			}
		}
		return errors.Join(faults...)
	}
	return status
}

// isGone reports whether err means that a team has ended, as it may while the command runs.
func isGone(err error) bool { return errors.Is(err, teams.ErrTeamGone) || errors.Is(err, api.CodeGone) }

// candidateTeams returns the teams that the command could mean, if none is named and there are several. All
// registered panes are one team, and all sessions another.
func candidateTeams(ctx context.Context, a *app) (list []string, err error) {
	if named, err := a.namedTeam(""); err != nil || named != "" {
		return nil, err
	}
	all, err := allTeams(ctx, a)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, t := range all {
		if t.Panes || t.Sessions {
			others = append(others, t.Team)
		}
	}
	to, err := a.bridge(ctx).Target(ctx, a.scope())
	switch {
	case err != nil && view.Explain(err).Code == api.CodeAmbiguousTeam:
		list = api.Choices(err)
	case err == nil && len(others) > 0:
		list = []string{to.Team}
	}
	return append(list, others...), nil // the command itself returns any other error
}

// statusesOf prints the statuses in several teams as one list.
func statusesOf(ctx context.Context, a *app, list []string) error {
	all := []api.Status{}
	for _, name := range list {
		infos, err := a.bridge(ctx).Status(ctx, name)
		if err != nil && !isGone(err) {
			return err
		}
		all = append(all, infos...)
	}
	return errors.Join(a.printJSON(all), a.serviceError(ctx, ""))
}
