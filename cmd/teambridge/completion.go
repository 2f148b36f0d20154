package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/teams"
)

// The completion command itself is cobra's. What is completed from the files
// stays silent when it cannot be read: a shell has no place for an error.

// completeTeams completes the names of teams.
func (a *app) completeTeams(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	root, err := a.root()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer root.Close()
	all, err := root.Teams()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, l := range all {
		if !l.Orphan && l.Err == nil && strings.HasPrefix(l.Name, prefix) {
			names = append(names, l.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeMembers completes the names of members and inboxes, for the first n
// arguments (all for n < 0), and those of other teams behind an "@".
func (a *app) completeMembers(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if n >= 0 && len(args) >= n {
			return nil, none
		}
		if member, team, ok := strings.Cut(prefix, "@"); ok {
			found, _ := a.completeTeams(cmd, nil, team)
			for i := range found {
				found[i] = member + "@" + found[i]
			}
			return found, none
		}
		t, err := a.team(cmd.Context(), "")
		if err != nil {
			return nil, none
		}
		defer closeAll(t)
		names, err := t.Inboxes()
		if err != nil {
			return nil, none
		}
		if c, err := t.Config(cmd.Context()); err == nil {
			for _, m := range c.Members {
				if teams.CheckName("member", m.Name) == nil {
					names = append(names, m.Name)
				}
			}
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(s string) bool {
			return !strings.HasPrefix(s, prefix) || slices.Contains(args, s)
		})
		return names, none
	}
}
