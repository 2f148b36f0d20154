package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// overAllTeams makes the status command show all teams that could be meant, if none is named
// and several could be.
func (a *app) overAllTeams(status *cobra.Command) *cobra.Command {
	one := status.RunE
	status.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if watch := cmd.Flags().Lookup("watch"); len(args) > 0 || watch.Changed {
			return one(cmd, args)
		}
		list, err := a.undecided(cmd.Context())
		defer func() {
			switch {
			case err != nil:
			case len(list) > 0:
				a.waitsNote(cmd.Context(), "")
			default: // not of the others, which would take time
				a.waitsNote(cmd.Context(), a.chosen)
			}
		}()
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return one(cmd, args)
		case a.json:
			return a.statusesOf(cmd.Context(), list)
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

// isGone reports whether err says that a team has ended, here in between.
func isGone(err error) bool { return errors.Is(err, teams.ErrTeamGone) || errors.Is(err, api.CodeGone) }

// undecided returns the teams that could be meant, if none is named and there are several.
// If panes are registered, they are one more.
func (a *app) undecided(ctx context.Context) ([]string, error) {
	if named, err := a.namedTeam(""); err != nil || named != "" {
		return nil, err
	}
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	cwd, err := a.cwd()
	if err != nil {
		return nil, err
	}
	panes, err := a.local().Registered(ctx)
	if err != nil {
		a.warn("%s; panes are not known", view.Describe(err))
	}
	var list []string
	t, err := root.Choose(ctx, cwd)
	if err == nil {
		if list = []string{t.Name()}; len(panes) == 0 {
			list = nil
		}
		err = t.Close()
	} else if several, ok := errors.AsType[*teams.AmbiguousTeamError](err); ok {
		err = nil
		for _, c := range several.Teams {
			list = append(list, c.Name)
		}
	} else if err = nil; len(panes) == 0 {
		return nil, nil // the command says it
	}
	if len(panes) > 0 {
		list = append(list, pane.Team)
	}
	return list, err
}

// statusesOf prints the statuses in several teams as one list.
func (a *app) statusesOf(ctx context.Context, list []string) (err error) {
	root, err := a.root()
	if err != nil {
		return err
	}
	now := statuses{app: a, root: root}
	defer func() { err = errors.Join(err, now.close()) }()
	all := []api.Status{}
	var silent error
	for _, name := range list {
		if name == pane.Team {
			infos, err := a.paneStatuses(ctx, nil)
			if err != nil {
				return err
			}
			all = append(all, infos...)
			continue
		}
		t, err := a.team(ctx, name)
		var infos []api.Status
		if err == nil {
			infos, err = now.of(ctx, t, nil)
			silent = cmp.Or(silent, now.silent())
		}
		if err != nil && !isGone(err) {
			return err
		}
		all = append(all, infos...)
	}
	return errors.Join(a.printJSON(all), unheard(silent))
}
