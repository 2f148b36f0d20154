package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/relay/tmux"
	"teambridge/status/api"
)

func newPane(a *app) *cobra.Command {
	return group("pane", "Agents in tmux panes: add, list, remove, test",
		`Name the tmux panes of agents without an inbox, and see their state.`,
		newPaneAdd(a), newPaneList(a), newPaneRemove(a), newPaneTest(a))
}

// The profiles of panes.
var profiles = []string{string(tmux.Claude), string(tmux.Generic)}

func newPaneAdd(a *app) *cobra.Command {
	var n api.NewPane
	cmd := &cobra.Command{
		Use:   "add NAME --pane TARGET",
		Short: "Name a tmux pane, so that messages can be sent to it",
		Long: `Name the tmux pane of an agent, so that "teambridge send NAME" types into it.

TARGET is a pane id such as %12, or session:window.pane, written in full. The
tmux server is the one of this terminal, else the default one, else --socket.
Panes are the team "tmux": NAME@tmux is never a member of another team.

A pane stays registered until its first program ends. After that, or after a
restart of tmux, assign a pane to the name again with --replace; waiting
messages go there.

The profile says how to read the screen: claude is for Claude Code. With
generic, drafts and dialogs are not recognized: Enter may submit a person's
draft, or answer a question.

Exit status: 0 it is registered; 2 the name or a flag is invalid; 3 no such
pane, or no tmux; 5 the name has another pane, or the pane another name.`,
		Example: `  teambridge pane add build --pane main:1.0
  teambridge pane add build --pane %7 --replace`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Member = args[0]
			return addPane(cmd.Context(), a, n)
		},
	}
	targetFlags(cmd, a, &n, "the pane: %12, or session:window.pane")
	replaceFlag(cmd, &n.Replace, "give a registered name another pane or profile")
	return cmd
}

// targetFlags adds the flags that name a pane of tmux.
func targetFlags(cmd *cobra.Command, a *app, n *api.NewPane, pane string) {
	cmd.Flags().StringVar(&n.Target, "pane", "", pane)
	cmd.Flags().StringVar(&n.Socket, "socket", "", "path of the tmux server's socket (default from $TMUX)")
	cmd.Flags().StringVar(&n.Profile, "profile", profiles[0], "program in it: "+strings.Join(profiles, ", "))
	complete(cmd, "profile", profiles...)
	must(cmd.RegisterFlagCompletionFunc("pane", completer{a}.completeTargets))
}

func newPaneList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the registered panes and their states",
		Long: `List the registered panes, their states, and their waiting messages.

STATE is empty (an agent waits at its prompt), busy, draft (a person has typed
text), dialog (the agent asks a question), closed (a shell runs, or a mode of
tmux takes the keys), gone, or unknown.

Exit status: 0, even if there are none.`,
		Example: `  teambridge pane list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listPanes(cmd.Context(), a) },
	}
}

func newPaneRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a pane, and drop the messages that wait for it",
		Long: `Forget a pane, and drop the messages that wait for it.

The pane itself stays as it is.

Exit status: 0; 3 no such name; 6 a message is being typed into it.`,
		Example:           `  teambridge pane remove build`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.paneNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return removePane(cmd.Context(), a, args[0]) },
	}
}

func newPaneTest(a *app) *cobra.Command {
	var n api.NewPane // for a pane that is not registered
	var policy string
	cmd := &cobra.Command{
		Use:   "test NAME|--pane TARGET",
		Short: "Look at a pane, and say what a message would do now",
		Long: `Look at a pane, and say what "teambridge send" would do now.

Nothing is sent. A person's draft at the prompt is shown only with -v.

Exit status: 0 a message would be typed now; 3 no such pane; 4 it would wait; 5
no agent is in the pane.`,
		Example: `  teambridge pane test build
  teambridge pane test --pane main:1.0 --policy when-idle`,
		Args:              between(0, 1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.paneNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return testPane(cmd.Context(), a, args, n, cmp.Or(policy, policies[0]))
		},
	}
	targetFlags(cmd, a, &n, "a pane that is not registered: %12, or session:window.pane")
	policyFlag(cmd, &policy)
	return cmd
}

// socket returns the socket of the tmux server that a flag names, or of the server of this terminal; "" is the
// default server.
func (f *files) socket(flag string) (string, error) {
	if f.there != nil {
		return flag, dirThere("socket", &flag)
	}
	if flag != "" {
		return filepath.Abs(flag)
	}
	inside, _ := f.lookup("TMUX")
	path, _ := insideTmux(inside)
	return path, nil
}

// insideTmux splits a value of $TMUX into the path of the socket, which may contain commas, and the pid of the
// tmux server.
func insideTmux(value string) (socket string, pid int) {
	parts := strings.Split(value, ",")
	n := len(parts)
	if n < 3 {
		return "", 0
	}
	pid, _ = strconv.Atoi(parts[n-2])
	return strings.Join(parts[:n-2], ","), pid
}

func addPane(ctx context.Context, a *app, n api.NewPane) (err error) {
	if err := oneOfThese("profile", n.Profile, profiles...); err != nil {
		return err
	}
	if n.Target == "" {
		return usage("list the targets with: tmux list-panes -a", "pane add needs --pane TARGET")
	}
	if n.Socket, err = a.socket(n.Socket); err != nil {
		return err
	}
	p, err := a.bridge(ctx).AddPane(ctx, n)
	if err != nil {
		return err
	}
	look := cmp.Or(p.Look, &api.PaneLook{})
	if err := a.answer(p, "%s  %s@%s  %s  %s\n", orUnchanged("added", p.Added), escape(p.Member, false), escape(p.Team, false), p.Target, escape(look.Where, false)); err != nil {
		return err
	}
	if look.State == api.PaneClosed {
		a.note("%s: messages wait until an agent is there", look.Detail)
	}
	return nil
}

func listPanes(ctx context.Context, a *app) error {
	list, err := a.bridge(ctx).Panes(ctx)
	if err != nil {
		return err
	}
	const none = "no panes are registered; add one with: teambridge pane add NAME --pane TARGET"
	return printList(&a.console, list, none, []string{"NAME", "PANE", "WHERE", "PROGRAM", "STATE", "WAITING", "REASON"}, func(p api.Pane) []string {
		row := []string{p.Member, p.Target, "-", "-", "-", strconv.Itoa(p.Queue), dash(p.Reason)}
		if l := p.Look; l != nil {
			row[2], row[3], row[4] = dash(l.Where), dash(l.Program), l.State
			if p.Reason == "" {
				row[6] = dash(l.Detail)
			}
		}
		return row
	})
}

type paneRemoved struct {
	Member  string `json:"member"`
	Dropped int    `json:"dropped"` // messages that had waited
}

func removePane(ctx context.Context, a *app, name string) error {
	p, err := a.bridge(ctx).RemovePane(ctx, name)
	if err != nil {
		return err
	}
	if err := a.answer(paneRemoved{p.Member, p.Queue}, "removed  %s\n", escape(p.Member, false)); err != nil {
		return err
	}
	if p.Queue > 0 {
		a.note("%s had not been sent, and will not be", plural(p.Queue, "message"))
	}
	return nil
}

func testPane(ctx context.Context, a *app, args []string, n api.NewPane, policy string) error {
	err := errors.Join(oneOfThese("profile", n.Profile, profiles...), oneOfThese("policy", policy, policies...))
	if err != nil {
		return err
	}
	if (len(args) > 0) == (n.Target != "") {
		return usage("usage: teambridge pane test NAME|--pane TARGET", "pane test takes a name or --pane")
	}
	var t api.PaneTest
	if len(args) > 0 {
		t, err = a.bridge(ctx).TestPane(ctx, args[0], policy)
	} else if err = a.localOnly("pane test --pane"); err == nil {
		if n.Socket, err = a.socket(n.Socket); err != nil {
			return err
		}
		t, err = a.local().TestUnregistered(ctx, n, policy)
	}
	if err != nil {
		return err
	}
	if err := printTested(a, t); err != nil {
		return err
	}
	return heldStatus(tmux.Reason(t.Held))
}

// heldStatus returns the exit status for a message that would not be typed.
func heldStatus(held tmux.Reason) error {
	switch {
	case held == "":
		return nil
	case held == tmux.Gone || held == tmux.Dead:
		return exitStatus(api.ExitNotFound)
	case held.NoAgent():
		return exitStatus(api.ExitRefused)
	}
	return exitStatus(api.ExitTimeout)
}

func printTested(a *app, t api.PaneTest) error {
	look := *cmp.Or(t.Look, &api.PaneLook{})
	if a.json {
		if t.Look, t.Prompt = &look, false; !a.verbose {
			look.Draft = ""
		}
		return a.printJSON(t)
	}
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "%-10s%s\n", name, escape(text, false)) }
	line("pane", strings.TrimSpace(t.Target+" "+look.Where))
	line("program", strings.TrimSpace(fmt.Sprintf("%s %s", dash(look.Program), look.Title)))
	state := look.State
	if look.Detail != "" {
		state += ": " + look.Detail
	}
	line("state", state)
	if tmux.Reason(t.Held).Lasting() {
		if tmux.Reason(t.Held).NoAgent() {
			line("input", "lines: no agent reads its keys")
		}
	} else {
		line("input", "keys")
		draft := "no"
		switch {
		case look.Draft != "" && a.verbose:
			draft = "yes: " + look.Draft
		case look.Draft != "":
			draft = "yes; -v shows it"
		case !t.Prompt:
			draft = "unknown"
		}
		line("draft", draft)
	}
	if t.Queue > 0 {
		line("waiting", plural(t.Queue, "message")+": "+dash(t.Reason))
	}
	send := "would be typed now"
	switch {
	case t.Held != "":
		send = "would wait: " + t.Hold
	case t.Queue > 0:
		send = "would be typed after those that wait"
	}
	line("a message", send)
	return a.print([]byte(b.String()))
}

// completeTargets completes the panes of the tmux server.
func (c completer) completeTargets(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if !c.completesState() {
		return nil, noFiles
	}
	flag, _ := cmd.Flags().GetString("socket")
	socket, err := c.socket(flag)
	if err != nil {
		return nil, noFiles
	}
	list, _ := tmux.List(cmd.Context(), socket)
	var words []string
	for _, p := range list {
		words = append(words, described(p.ID, p.Target()+" "+p.Command), described(p.Target(), p.ID+" "+p.Command))
	}
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, prefix) }), noFiles
}

// paneNames lists the names of the registered panes.
func (c completer) paneNames(ctx context.Context) (names []string) {
	list, _ := c.local().Registered(ctx)
	for _, p := range list {
		names = append(names, p.Inbox)
	}
	return names
}
