package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newSessions(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of Claude Code on this machine",
		Long: `List all processes of Claude Code that live on this machine with their sessions,
whether they are in a team or not: at terminals, in editors, and headless.

Claude Code describes each of its processes in a file, so nothing has to be set
up. Up to 2.1.160 it gives them no names. What they do is "unknown" up to
2.1.112 and, if they are headless, up to 2.1.248. AGENT is the member of a team
whose session it is; "(relayed)" marks those that teambridge runs.

Exit status: 0, even if there are none; 3 there is no Claude directory.`,
		Example: `  teambridge sessions --json`,
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listSessions(cmd.Context(), a) },
	}
}

func listSessions(ctx context.Context, a *app) error {
	list, err := a.bridge(ctx).Sessions(ctx)
	if err != nil {
		return err
	}
	head := []string{"NAME", "PID", "STATE", "SINCE", "AGENT", "VERSION", "SESSION", "DIRECTORY"}
	return printList(a, list, "no process of Claude Code has a session under "+a.where(), head, func(s api.Session) []string {
		word, since, agent := s.Word, "-", "-"
		if s.Why != "" {
			word += ": " + s.Why
		}
		if s.WordSince != nil {
			since = clock(*s.WordSince)
		}
		if s.Member != "" {
			agent = s.Member + "@" + s.Team
		}
		if s.Relayed {
			agent += " (relayed)"
		}
		return []string{cmp.Or(s.Name, "-"), strconv.Itoa(s.PID), word, since, agent, cmp.Or(s.Version, "-"), s.Session, s.Cwd}
	})
}
