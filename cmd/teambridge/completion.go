package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/teams"
)

// Completions are silent about files that cannot be read: a shell has no place for errors.

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Long: `Print a script that completes teambridge command lines in a shell.

It completes commands, flags, and the current names of teams and members. The
script for bash needs the package bash-completion (2 or later): without it, each
TAB prints that _get_comp_words_by_ref is not found.

Exit status: 0; 2 no such shell.`,
		Example: `  source <(teambridge completion bash)                  # also in ~/.bashrc
  source <(teambridge completion zsh)                   # also in ~/.zshrc
  teambridge completion fish > ~/.config/fish/completions/teambridge.fish`,
		Args:              exactly(1),
		ValidArgsFunction: oneOf(shells),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.completion(cmd.Root(), args[0], shells) },
	}
}

const bashCompletionNote = `# This needs the package bash-completion (2 or later), loaded before a TAB is pressed:
# https://github.com/scop/bash-completion

`

func (a *app) completion(root *cobra.Command, shell string, shells []string) error {
	var script bytes.Buffer
	var err error
	switch shell {
	case "bash":
		script.WriteString(bashCompletionNote)
		err = root.GenBashCompletionV2(&script, true)
	case "zsh":
		err = root.GenZshCompletion(&script)
	case "fish":
		err = root.GenFishCompletion(&script, true)
	case "powershell":
		err = root.GenPowerShellCompletionWithDesc(&script)
	default:
		return usage("", "unknown shell %q; known are %s", shell, strings.Join(shells, ", "))
	}
	if err != nil {
		return err
	}
	return a.print(script.Bytes())
}

// complete completes the value of a flag from a list.
func complete(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// oneOf completes the first argument from a list.
func oneOf(list []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completeTeams(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	root, err := a.root()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := root.Teams()
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
