package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
)

func newAdd(a *app) *cobra.Command {
	var expires time.Duration
	var replace bool
	cmd := &cobra.Command{
		Use:   "add CARD",
		Short: "Let a machine use the hub",
		Long: `Let a machine use the hub. Its card is what "teambridge link card" prints there.

A hub that runs lets it in within a second. A name that another machine has is
refused, unless --replace says that this one takes its place; what waits for the
other one is then lost, and sent again by its senders.

Exit status: 0 done; 1 error; 2 no card; 5 another machine has the name.`,
		Example: `  teambridge-hub add "$(ssh laptop teambridge link card)"
  teambridge-hub add "$CARD" --expires 2h`,
		Args: exactly(1, "a card"),
		RunE: func(cmd *cobra.Command, args []string) error {
			card, err := nats.ParseCard(args[0])
			if err != nil {
				return usageError{err}
			}
			o := hub.AddOptions{Replace: replace}
			if cmd.Flags().Changed("expires") {
				if expires <= 0 {
					return usageError{fmt.Errorf("--expires %v: use a time that is not over, as 2h", expires)}
				}
				o.Expires = time.Now().Add(expires).UTC()
			}
			if err := hub.Add(cmd.Context(), a.dir, card, o); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s may use the hub\n", card.Name)
			return nil
		},
	}
	cmd.Flags().DurationVar(&expires, "expires", 0, "remove it, with its queue, after this time")
	cmd.Flags().BoolVar(&replace, "replace", false, "take the place of the machine that has the name")
	return cmd
}

func newRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Let a machine use the hub no more",
		Long: `Let a machine use the hub no more, and delete what waits for it.

A hub that runs disconnects it within a second.

Exit status: 0 done; 1 error; 2 usage; 3 there is no such machine.`,
		Example: `  teambridge-hub remove laptop`,
		Args:    exactly(1, "the name of a machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := hub.Remove(cmd.Context(), a.dir, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s may not use the hub any more\n", args[0])
			return nil
		},
	}
}

func newList(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the machines that may use the hub",
		Long: `List the machines that may use the hub, in the order in which they were added.

Exit status: 0 done; 1 error; 2 usage.`,
		Example: `  teambridge-hub list --json`,
		Args:    exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			all, err := hub.List(a.dir)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(a.stdout)
				e.SetIndent("", "  ")
				return e.Encode(append([]hub.Machine{}, all...))
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(a.stdout, "No machine may use the hub: teambridge-hub add CARD.")
				return err
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tADDED\tEXPIRES")
			for _, m := range all {
				expires := "never"
				if !m.Expires.IsZero() {
					expires = m.Expires.Local().Format(time.DateTime)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", m.Card.Name, m.Added.Local().Format(time.DateTime), expires)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newSetup(a *app) *cobra.Command {
	var server, trust string
	cmd := &cobra.Command{
		Use:   "setup [--server URL]",
		Short: "Prepare a NATS server of your own as a hub",
		Long: `Prepare a NATS server of your own, with JetStream and of version 2.14 or later,
as a hub for the machines that "add" has added. It takes three steps:

1. Without --server, print the accounts that the configuration of the server
   needs, and make the key of its administrator in the directory of the hub.
   Write them to a file, include that in the configuration, in accounts, and
   reload the server:

     accounts: {
       include teambridge.conf
     }

2. With --server, make the stream and the queues there.

3. Reload the server again. Before that, it does not tell machines of their
   queues.

After "add" and "remove", do all again. Machines have an account of their own,
since permissions in the account of the stream would not keep them from deleting
it.

Exit status: 0 done; 1 error; 2 usage.`,
		Example: `  teambridge-hub add "$CARD"
  teambridge-hub setup > teambridge.conf
  nats-server --signal reload
  teambridge-hub setup --server tls://nats.example.com
  nats-server --signal reload`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if server == "" {
				text, err := hub.Accounts(a.dir)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(a.stdout, text); err != nil {
					return err
				}
				fmt.Fprintln(a.stderr, "note: include this in the accounts of the server's configuration and reload it; then: teambridge-hub setup --server URL")
				return nil
			}
			names, err := hub.Prepare(cmd.Context(), a.dir, nats.Options{Hub: server}.Trusting(trust))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.stdout, "%s has the stream, and queues for: %s\n", server, strings.Join(names, ", ")); err != nil {
				return err
			}
			fmt.Fprintln(a.stderr, "note: reload the server now, so that machines find their queues")
			return nil
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "address of the server, as tls://HOST:PORT")
	cmd.Flags().StringVar(&trust, "trust", "", "file of certificates that the server's is checked with, or the SHA-256 of its own")
	return cmd
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version.

Exit status: 0.`,
		Example: `  teambridge-hub version`,
		Args:    exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			v := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				v = info.Main.Version
			}
			_, err := fmt.Fprintln(a.stdout, "teambridge-hub", v)
			return err
		},
	}
}
