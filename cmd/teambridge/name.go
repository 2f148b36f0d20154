package main

import (
	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newName(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "name SESSION NAME",
		Short: "Give a session a name of your own",
		Long: `Give a session in no team a name of your own.

All commands and the page accept and show the name, even for earlier messages.
An empty name ('') removes it. A name has no spaces, and no other characters for
which a shell needs quotes, so you can type it anywhere.

The session keeps the name in the background, after /clear, and when it is
resumed: Claude Code resumes it with the same id. A fork (--fork-session) is
another session. If the session is cleared and ends before a command or a
service has looked at it, its new id is unknown, and the name stays with the old
one. /rename in Claude Code changes Claude Code's own name for the session, and
not this one.

Exit status: 0; 2 the name is not allowed; 3 no such session; 5 the name is
taken, or a message to the session is on its way.`,
		Example: `  teambridge name api-93 backend
  teambridge name backend ''`,
		Args:              exactly(2),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := a.scope()
			s.Existing = true
			to, err := a.targetIn(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			b := a.bridge(cmd.Context())
			done, err := b.Rename(cmd.Context(), to.Team, to.Member(), api.NewName{Name: args[1]})
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(done)
			}
			return a.printf("%s is called %s\n", done.Was, done.Member)
		},
	}
}
