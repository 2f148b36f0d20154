package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"teambridge/inbox/mail"
	"teambridge/status/view"
	"teambridge/teams"
)

// defaultGuest is the name a person joins under.
const defaultGuest = "operator"

func newJoin(a *app) *cobra.Command {
	as := defaultGuest
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Join a team under a name that its agents can write to",
		Long: `Join a team under a name that its agents can write to.

An entry is added to the members in config.json under Claude Code's own lock;
every other byte of the file stays. "teambridge read NAME" then shows what
agents say to you, and what you send comes from that name. Joining twice is
joining once.

Agents up to version 2.1.181 can write to "user" without this: nothing is
changed in their teams unless you choose a name with --as.

Exit status: 0; 3 no such team; 5 the name is taken, or there is no need to
join; 6 config.json is corrupt or could not be locked.`,
		Example: `  teambridge join --team myteam --as alice`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.join(cmd.Context(), as, cmd.Flags().Changed("as"))
		},
	}
	cmd.Flags().StringVar(&as, "as", as, "the name to join under")
	return cmd
}

// place is a team and a name in it.
type place struct {
	Team   string `json:"team"`
	Member string `json:"member"`
}

func (a *app) join(ctx context.Context, as string, chosen bool) error {
	t, err := a.team(ctx, "")
	if err != nil {
		return err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	if !chosen && !needed(t, c) {
		return fmt.Errorf("join %q: %w", t.Name(), teams.ErrJoinNotNeeded)
	}
	if err := a.joinAs(ctx, t, c, as); err != nil {
		return err
	}
	if err := a.answer(place{t.Name(), as}, "joined %s as %s\n", t.Name(), as); err != nil {
		return err
	}
	a.note("agents can now write to %q; read it with: teambridge read %s", as, view.ShellQuote(as))
	return nil
}

// needed reports whether an agent of the team may not be able to write to "user".
func needed(t *teams.Team, c *teams.Config) bool {
	return c.ReachesUser() != teams.Yes || slices.ContainsFunc(c.Members, func(m teams.Member) bool {
		return !m.Guest() && t.Agent(c, m.Name).ReachesUser() == teams.No
	})
}

// joinAs joins t, and records it.
func (a *app) joinAs(ctx context.Context, t *teams.Team, c *teams.Config, as string) (err error) {
	// Only the ledger can tell us from an agent later.
	l, err := a.ledger(ctx)
	if err != nil {
		return fmt.Errorf("join %s: nothing was written: %w", t.Name(), err)
	}
	cwd, err := a.cwd()
	if err != nil {
		return err
	}
	release, err := mail.Alone(ctx, a.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	m, err := t.Join(ctx, a.locks(), as, cwd)
	if err != nil {
		return err
	}
	err = l.Joined(ctx, joinRecord(t, c, m))
	if err != nil && m.Added {
		// An unrecorded entry could never be removed again.
		_, lerr := t.Leave(ctx, a.locks(), m)
		return errors.Join(fmt.Errorf("join %s: not recorded, and so taken back: %w", t.Name(), err), lerr)
	}
	return err
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.leave(cmd.Context(), as) },
	}
	cmd.Flags().StringVar(&as, "as", "", "the name to leave (default: every name you joined under)")
	return cmd
}

func (a *app) leave(ctx context.Context, as string) (err error) {
	t, err := a.team(ctx, "")
	if err != nil {
		return err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	release, err := mail.Alone(ctx, a.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	ours, err := mail.Memberships(ctx, l, t, c)
	if err != nil {
		return err
	}
	left := []place{}
	name := as // also in another case
	if as != "" {
		name = t.Root().MemberName(ctx, t.Name(), as)
	}
	for _, m := range ours {
		if as != "" && m.Name != as && m.Name != name {
			continue
		}
		if _, err := t.Leave(ctx, a.locks(), m); err != nil {
			return err
		}
		if err := l.Left(ctx, joinRecord(t, c, m)); err != nil {
			return err
		}
		left = append(left, place{t.Name(), m.Name})
	}
	switch {
	case len(left) == 0 && as != "":
		return notFound("omit --as to leave under every name", "you have not joined %s as %q", t.Name(), as)
	case len(left) == 0:
		return notFound("join it with: teambridge join", "you have not joined %s", t.Name())
	case a.json:
		return a.printJSON(left)
	}
	for _, p := range left {
		if err := a.printf("left %s as %s\n", p.Team, p.Member); err != nil {
			return err
		}
	}
	return nil
}
