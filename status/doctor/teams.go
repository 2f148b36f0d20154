package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func (x *examination) team(ctx context.Context, l teams.Listing) error {
	path := filepath.Join(x.Root.Path(), "teams", l.Name)
	switch {
	case l.Err != nil:
		x.add(api.LevelProblem, "unreadable_team", l.Name, path, view.Describe(l.Err), "teambridge leaves it alone")
		return nil
	case l.Orphan:
		x.add(api.LevelNote, "orphan_team", l.Name, path, "a team directory without config.json, left behind by a crash or an unfinished deletion",
			"remove it, if no session of this name is running")
	}
	t, err := x.Root.Team(l.Name)
	if errors.Is(err, teams.ErrTeamGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.Close()
	c := &teams.Config{Team: l.Name}
	if !l.Orphan {
		switch got, err := t.Config(ctx); {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, teams.ErrTeamGone):
			return nil // the team has just ended
		case err != nil:
			x.add(api.LevelProblem, "corrupt_config", l.Name, filepath.Join(path, "config.json"), view.Describe(err),
				"messages cannot be sent to this team; its session, if it runs, may repair it")
		default:
			c = got
			x.config(ctx, path, t, c)
		}
	}
	x.objects(l.Name, path, "config.json")
	names, err := t.Inboxes()
	if err != nil {
		x.add(api.LevelProblem, "unreadable_inboxes", l.Name, filepath.Join(path, "inboxes"), view.Describe(err), "check its permissions")
		return nil
	}
	x.inboxes += len(names)
	for _, name := range names {
		if err := x.inbox(ctx, t, c, name); err != nil {
			return err
		}
	}
	x.objects(l.Name, filepath.Join(path, "inboxes"), "")
	return nil
}

// config examines the content of config.json.
func (x *examination) config(ctx context.Context, path string, t *teams.Team, c *teams.Config) {
	lead, _ := c.Lead()
	// The process in it may belong to an earlier run, whose relay another run has taken over.
	served, err := relay.Running(x.State, t, lead.Name)
	if err != nil {
		x.add(api.LevelNote, "unknown_relay", c.Team, path, view.Describe(err), "look at the locks in the state directory")
	}
	if !served && t.LeadState(c, time.Now()) == teams.Gone && c.LeadProcess.Liveness() != teams.Alive { // otherwise Claude Code removes the team when the process ends
		process, advice := "", "messages to it are not read; remove the directory"
		if pid, _ := t.Leader(c); pid != 0 {
			process = fmt.Sprintf(" (%d)", pid)
		}
		if ours := x.takeBack(ctx, c); ours != "" {
			advice = "messages to it are not read; " + ours
		} else if c.LeadProcess != nil && c.LeadSessionID != "" { // other versions do not take the team over
			advice += ", or resume its session " + c.LeadSessionID
		}
		x.add(api.LevelNote, "stale_team", c.Team, path, "the process that led this team"+process+" has ended without cleaning up", advice)
	}
	for _, fault := range c.Faults {
		x.add(api.LevelNote, "odd_config", c.Team, filepath.Join(path, "config.json"), view.Describe(fault), "it is ignored")
	}
}

// leftTeams reports remains of teams whose creation or removal was interrupted.
func (x *examination) leftTeams() error {
	paths, err := x.Root.Leftovers()
	for _, path := range paths {
		x.add(api.LevelNote, "leftover", "", path, "the remains of a team that a killed teambridge was creating or removing",
			"teambridge run --create-team removes it, as do teambridge gc and teambridge doctor --fix").
			remedy = x.Root.Sweep
	}
	return err
}
