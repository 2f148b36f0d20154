package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/service"
	"teambridge/status/ssh"
	"teambridge/teams/lockedfile"
)

func newLink(a *app) *cobra.Command {
	return group("link", "Teams on other machines: card, hub, add, share, list, remove, run",
		`Write to the members of teams on other machines, and let them write to yours.

Each machine has a name and a card, and both use one hub, which keeps messages
while one of them is away: teambridge-hub, or a NATS server. Messages are
sealed; the hub sees only names, sizes and times. Nothing of yours can be
reached until you share it.

  teambridge link card --name laptop     what the other machine needs to know
  teambridge link hub ssh://box          where the hub is
  teambridge link add CARD --share ci    the other machine, and what it may use

Then "teambridge send worker@ci@build" reaches worker in the team ci on build.
A service carries the messages ("teambridge serve").`,
		newLinkCard(a), newLinkHub(a), newLinkAdd(a), newLinkShare(a), newLinkList(a), newLinkRemove(a), newLinkRun(a))
}

func newLinkCard(a *app) *cobra.Command {
	var n api.NewLink
	cmd := &cobra.Command{
		Use:   "card [--name NAME]",
		Short: "Print the card of this machine, which others add",
		Long: `Print the card of this machine: its name and its public keys, in one line.

It holds no secret, but a person who adds a false card writes to another
machine: send the card by a way that you trust. The secret keys are in link.key
in the state directory. A machine keeps its name while it has links.

--new-key replaces the keys, as after a theft: give the hub the new card
("teambridge-hub add CARD --replace") and each other machine ("teambridge link
add CARD --replace"). Messages that were sealed for the old key are sent again.

Exit status: 0; 2 the name is invalid, or the machine has none yet; 5 the
machine has another name, and links.`,
		Example: `  teambridge link card --name laptop`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := a.bridge(cmd.Context())
			links, err := b.Links(cmd.Context())
			if err == nil && (n != (api.NewLink{}) || links.Machine == "") {
				links, err = b.SetLink(cmd.Context(), n)
			}
			if err != nil {
				return err
			}
			return a.answer(links, "%s\n", links.Card)
		},
	}
	cmd.Flags().BoolVar(&n.NewKey, "new-key", false, "replace the keys of this machine")
	cmd.Flags().StringVar(&n.Machine, "name", "", "the name of this machine: a to z, 0 to 9 and -, 32 at most")
	return cmd
}

func newLinkHub(a *app) *cobra.Command {
	var n api.NewLink
	cmd := &cobra.Command{
		Use:   "hub ADDRESS",
		Short: "Set the address of the hub",
		Long: `Set the address of the hub that both machines use.

With ssh://[USER@]HOST[:PORT], ssh runs "teambridge-hub dial-stdio" there: the
hub then needs no open port and no certificate. With tls://HOST:PORT, the hub's
certificate is checked against the system's certificates or, with --trust,
against a file of certificates or the SHA-256 fingerprint of the hub's own.
nats:// is for a hub on this machine.

The hub has to admit this machine: teambridge-hub add CARD.

Exit status: 0; 2 the address is invalid, or this machine has no name yet.`,
		Example: `  teambridge link hub ssh://box
  teambridge link hub tls://hub.example.com:4222 --trust ca.pem`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Hub = args[0]
			links, err := a.bridge(cmd.Context()).SetLink(cmd.Context(), n)
			if err != nil {
				return err
			}
			if err := a.answer(links, "%s uses the hub %s\n", links.Machine, escape(links.Hub, false)); err != nil {
				return err
			}
			a.note("it has to admit this machine: teambridge-hub add %s", links.Card)
			return nil
		},
	}
	cmd.Flags().StringVar(&n.Trust, "trust", "", "how the certificate is checked: a file of certificates, or a SHA-256 fingerprint")
	return cmd
}

func newLinkAdd(a *app) *cobra.Command {
	var n api.NewMachine
	cmd := &cobra.Command{
		Use:   "add CARD [--share TEAM]...",
		Short: "Make a link with another machine",
		Long: `Make a link with another machine, by the card that "teambridge link card" prints
there.

The link pins the keys of the card: another card under the same name is refused
without --replace.

With --share, the members there can write to a team here, under names that they
choose. Their messages are a teammate's, never a prompt and never yours. Without
it, you can write to them, and they can answer.

Both machines need the other's card.

Exit status: 0; 2 the card is invalid; 5 there is a link with another card.`,
		Example: `  teambridge link add "build:UBX…:XCD…" --share ci`,
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Card = args[0]
			m, err := a.bridge(cmd.Context()).AddMachine(cmd.Context(), n)
			if err != nil {
				return err
			}
			return a.answer(m, "linked with %s; it may write to: %s\n", m.Machine, dash(strings.Join(m.Teams, ", ")))
		},
	}
	cmd.Flags().StringArrayVar(&n.Teams, "share", nil, "a team that it may write to")
	replaceFlag(cmd, &n.Replace, "replace the pinned card by this one")
	must(cmd.RegisterFlagCompletionFunc("share", completer{a}.completeTeams))
	return cmd
}

func newLinkShare(a *app) *cobra.Command {
	stop := false
	cmd := &cobra.Command{
		Use:   "share MACHINE TEAM",
		Short: "Let a machine write to a team, or stop that",
		Long: `Let the members of teams on a machine write to a team here, or stop that.

"sessions" is the team of the sessions in no team. Registered panes are not
shared. With --stop, the entries of members there also leave the team.

Exit status: 0; 3 there is no link with the machine.`,
		Example: `  teambridge link share laptop ci
  teambridge link share laptop ci --stop`,
		Args:              exactly(2),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.machineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.bridge(cmd.Context()).ShareTeam(cmd.Context(), args[0], api.NewShare{Team: args[1], Stop: stop})
			if err != nil {
				return err
			}
			return a.answer(m, "%s may write to: %s\n", m.Machine, dash(strings.Join(m.Teams, ", ")))
		},
	}
	cmd.Flags().BoolVar(&stop, "stop", false, "no longer")
	return cmd
}

func newLinkList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the links and their states",
		Long: `List the links with other machines, and the state of the connection with the
hub.

QUEUED are messages that wait here, and UNCONFIRMED are messages that the hub
has and the machine has not confirmed. OFFERS are the teams there that you can
write to. REFUSED counts refused messages of the machine since the service was
started; doctor says why.

Exit status: 0, even if there are none.`,
		Example: `  teambridge link list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listLinks(cmd.Context(), a) },
	}
}

func listLinks(ctx context.Context, a *app) error {
	links, err := a.bridge(ctx).Links(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(links)
	}
	if links.Machine == "" {
		a.note("this machine has no links; see: teambridge link --help")
		return nil
	}
	hub := links.State
	if links.Since != nil {
		hub += " since " + clock(*links.Since)
	}
	if links.Reason != "" {
		hub += ": " + escape(links.Reason, false)
	}
	if err := a.printf("%s, hub %s: %s\n", links.Machine, dash(escape(links.Hub, false)), hub); err != nil {
		return err
	}
	const none = "there are no links; make one with: teambridge link add CARD"
	return printList(&a.console, links.Machines, none, []string{"MACHINE", "STATE", "HEARD", "SHARED", "OFFERS", "QUEUED", "UNCONFIRMED", "OLDEST", "REFUSED"}, func(m api.Machine) []string {
		return []string{
			m.Machine, m.State, clockOf(m.Heard), dash(strings.Join(m.Teams, ",")), dash(strings.Join(m.Offers, ",")), strconv.Itoa(m.Queued), strconv.Itoa(m.Stored), clockOf(m.Oldest), strconv.Itoa(m.Refused),
		}
	})
}

// linksNote notes which machines are away, or have not confirmed messages for a minute.
func (a *access) linksNote(ctx context.Context) {
	if a.json {
		return
	}
	links, err := a.bridge(ctx).Links(ctx)
	if err != nil {
		a.debug("links are not known: %v", err)
		return
	}
	for _, m := range links.Machines {
		waiting := m.Queued + m.Stored
		var where string
		switch {
		case m.State == api.MachineAway:
			where = m.Machine + " is away since " + clockOf(m.Heard)
		case waiting == 0:
			continue
		case m.State == api.MachineNew:
			where = m.Machine + " has not reported its state yet"
		case m.Oldest == nil || time.Since(*m.Oldest) < time.Minute:
			continue // the messages are probably on their way
		default:
			where = m.Machine + " is there"
		}
		if waiting > 0 {
			where += "; it has not confirmed " + plural(waiting, "message")
		}
		a.note("%s: teambridge link list", where)
	}
}

func clockOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return clock(*t)
}

func newLinkRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove MACHINE",
		Short: "End the link with a machine",
		Long: `End the link with a machine.

Messages that wait for it fail, it can reach nothing here any more, and the
entries of its members are removed from teams.

Exit status: 0; 3 there is no link with it.`,
		Example:           `  teambridge link remove build`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.machineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.bridge(cmd.Context()).RemoveMachine(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.answer(m, "removed the link with %s; %s failed\n", m.Machine, plural(m.Queued+m.Stored, "message"))
		},
	}
}

// machineNames lists the machines that this one has links with.
func (c completer) machineNames(ctx context.Context) (names []string) {
	links, err := c.bridge(ctx).Links(ctx)
	if err != nil {
		return nil
	}
	for _, m := range links.Machines {
		names = append(names, m.Machine)
	}
	return names
}

func newLinkRun(a *app) *cobra.Command {
	var drain time.Duration
	cmd := &cobra.Command{
		Use:   "run [--drain TIME]",
		Short: "Carry messages to and from other machines, without a service",
		Long: `Carry messages to and from other machines in the foreground, without a service.

With --drain, it ends as soon as the hub has all messages, or with exit status 4
after that time: for a machine that goes away, such as a CI job.

Exit status: 0; 2 no hub was chosen; 4 messages still wait; 5 another process
has the identity of this machine, or runs its links.`,
		Example: `  teambridge link run --drain 60s`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLinks(cmd.Context(), a, drain) },
	}
	durationFlag(cmd, &drain, "drain", 0, "end when nothing waits here, or after this time; 0: never")
	return cmd
}

func runLinks(ctx context.Context, a *app, drain time.Duration) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	s, err := service.Open(ctx, service.Options{
		Root: root, State: a.state, LinksAlone: true, DialHub: dialHub(a), Version: build().Version, Log: logger(a), Lock: lockedfile.Options{Wait: a.wait, Hold: a.hold},
	})
	if err != nil {
		return err
	}
	links, err := s.Links(ctx)
	if err == nil && links.Hub == "" {
		err = usage("choose one, such as: teambridge link hub ssh://box", "no hub was chosen")
	}
	if err != nil {
		return cmp.Or(err, s.Close())
	}
	err = s.Run(ctx, func(running context.Context, _ service.Part) error { return s.Drain(running, ctx, drain) })
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return err
}

// dialHub returns the function that connects to a hub through ssh.
func dialHub(a *app) func(context.Context, string) (net.Conn, error) {
	remote, _ := a.lookup("TEAMBRIDGE_HUB_REMOTE")
	return func(ctx context.Context, address string) (net.Conn, error) {
		host, err := ssh.Parse(address)
		if err != nil {
			return nil, err
		}
		d := &ssh.Dialer{Host: host, Remote: cmp.Or(remote, "teambridge-hub"), Batch: true, Stderr: a.stderr}
		conn, err := d.Dial(ctx)
		if e, ok := errors.AsType[*ssh.Error](err); ok && e.Why == ssh.NoService {
			return nil, fmt.Errorf("no hub is running on %s; start it there: %s run", host.Name, d.Remote)
		}
		if err != nil {
			return nil, fmt.Errorf("%w; try it with: %s", err, host.Line(d.Remote+" list", false))
		}
		return conn, nil
	}
}
