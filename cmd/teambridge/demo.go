package main

import (
	"github.com/spf13/cobra"

	"teambridge/cmd/demo"
	"teambridge/status/view"
)

func newDemo(a *app) *cobra.Command {
	keep := false
	cmd := &cobra.Command{
		Use:   "demo [--keep]",
		Short: "Show what teambridge does, on a simulated team",
		Long: `Show what teambridge does, on a simulated team in a temporary directory.

The agents treat their inboxes exactly as Claude Code does, but answer without a
model. Their lead is headless, and its inbox is relayed to it. On Linux, a
simulated session in no team gets a message on its socket. The demo changes
nothing outside the directory, needs no account, and takes a few seconds.

With --json each step is an object on its own line with the seconds since the
start and a text; the answer is as "teambridge ask --json" prints it, and the
last object has the counts: sent, taken and answers.

With --keep, the team stays for you to try commands: with a service, its web
page, a headless agent that asks for permission, and agents that answer. The
address of the page and some commands are printed, with --json as one object. ^C
ends the demo and removes the directory.

Exit status: 0 every message arrived once and was answered, or ^C after --keep;
1 otherwise.`,
		Example: `  teambridge demo
  teambridge demo --keep`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := demo.Run
			if keep {
				show = demo.Keep
			}
			return show(cmd.Context(), demo.Options{
				Print: func(v any, text string) error { return a.answer(v, "%s", text) }, Note: a.note,
				Dim:  func(s string) string { return a.paint(dim, s) },
				Warn: func(err error) { a.warn("%s", view.Describe(err)) },
				Log:  a.stderr, Version: build(),
			})
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the team, with the service and its page, until ^C")
	return cmd
}
