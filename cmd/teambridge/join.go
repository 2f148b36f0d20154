package main

import (
	"errors"

	"github.com/spf13/cobra"

	"teambridge/relay/shell"
	"teambridge/status/api"
)

func newJoin(a *app) *cobra.Command {
	as, remote := api.Guest, ""
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Join a team under a name that its agents can write to",
		Long: `Join a team under a name that its agents can write to.

join adds an entry to the members in config.json under Claude Code's own lock;
every other byte of the file stays. "teambridge read NAME" then shows messages
of agents to you, and your messages come from that name. A second join with the
same name changes nothing.

With --remote MEMBER@TEAM@MACHINE, the name stands for a member on another
machine ("teambridge link"): messages of agents to the name go there, and the
member's answers come from the name. The name is MEMBER-MACHINE, unless --as
gives another one.

Exit status: 0; 3 no such team; 5 the name is taken; 6 config.json is corrupt or
could not be locked.`,
		Example: `  teambridge join --team myteam --as alice`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("as") && remote != "" {
				as = "" // the default is derived from the member
			}
			to, err := a.target(cmd.Context())
			if err != nil {
				return err
			}
			dir, err := a.personDir()
			if err != nil {
				return err
			}
			m, err := a.bridge(cmd.Context()).Join(cmd.Context(), to.Team, api.NewJoin{As: as, Dir: dir, Remote: remote})
			if err == nil {
				err = a.answer(m, "joined %s as %s\n", m.Team, m.Member)
			}
			if err == nil && remote == "" {
				a.note("agents can now write to %q; read it with: teambridge read %s", m.Member, shell.Quote(m.Member))
			}
			return err
		},
	}
	asFlag(cmd, &as, as, "the name to join under")
	cmd.Flags().StringVar(&remote, "remote", "", "make the name stand for a member on another machine, MEMBER@TEAM@MACHINE")
	return cmd
}

func newLeave(a *app) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Leave a team that you joined",
		Long: `Leave a team: remove the entry that "teambridge join" added to config.json.

Nothing else is changed. The inbox stays, with its messages.

Exit status: 0; 3 no such team, or you have not joined it; 5 the entry is no
longer the one that was added.`,
		Example: `  teambridge leave --team myteam`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := a.target(cmd.Context())
			if err != nil {
				return err
			}
			left, err := a.bridge(cmd.Context()).Leave(cmd.Context(), to.Team, as)
			if err == nil && a.json {
				return a.printJSON(left)
			}
			for _, m := range left {
				err = errors.Join(err, a.printf("left %s as %s\n", m.Team, m.Member))
			}
			return err
		},
	}
	asFlag(cmd, &as, "", "the name to leave (default: every name you joined under)")
	return cmd
}
