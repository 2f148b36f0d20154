package main

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/teams"
)

// Completions ignore files that cannot be read: a shell has no place for errors.

const noFiles = cobra.ShellCompDirectiveNoFileComp

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Long: `Print a script that completes teambridge command lines in a shell.

It completes commands, flags, names of teams and members, and ids of questions,
messages, deliveries and relays. The script for bash needs the package
bash-completion (2 or later): without it, each TAB prints that
_get_comp_words_by_ref is not found.

Exit status: 0; 2 no such shell.`,
		Example: `  source <(teambridge completion bash)                  # also in ~/.bashrc
  source <(teambridge completion zsh)                   # also in ~/.zshrc
  teambridge completion fish > ~/.config/fish/completions/teambridge.fish`,
		Args: exactly(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, noFiles
			}
			return shells, noFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error { return printCompletion(a, cmd.Root(), args[0], shells) },
	}
}

const bashCompletionNote = `# This needs the package bash-completion (2 or later), loaded before a TAB is pressed:
# https://github.com/scop/bash-completion

`

func printCompletion(a *app, root *cobra.Command, shell string, shells []string) error {
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

// complete registers the values that a flag completes to.
func complete(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, noFiles)))
}

// completeTeams completes the names of teams. Commands that read the journal also get the teams that have ended.
func (c completer) completeTeams(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if !c.completesState() {
		return nil, noFiles
	}
	root, err := c.root()
	if err != nil {
		return nil, noFiles
	}
	all, _ := root.Teams()
	var names []string
	for _, l := range all {
		if !l.Orphan && l.Err == nil && strings.HasPrefix(l.Name, prefix) {
			names = append(names, l.Name)
		}
	}
	if strings.HasPrefix(pane.Team, prefix) && c.completesState() && len(c.paneNames(cmd.Context())) > 0 && !slices.Contains(names, pane.Team) {
		names = append(names, pane.Team)
	}
	if slices.Contains([]string{"history", "search", "export"}, cmd.Name()) && c.completesState() {
		if j, err := c.local().Journal(cmd.Context()); err == nil && j != nil {
			ended, _ := j.Messages.Teams(cmd.Context(), journal.Query{Root: root.Path()})
			for _, e := range ended {
				if strings.HasPrefix(e.Team.Team, prefix) && !slices.Contains(names, e.Team.Team) {
					names = append(names, e.Team.Team)
				}
			}
		}
	}
	return names, noFiles
}

// A completer completes words for a shell.
type completer struct{ *app }

// completesState finds the state directory, since cobra skips the root command's setup for a completion. It
// reports false with --host: completing would start ssh, which could prompt the person.
func (a *access) completesState() bool {
	var err error
	a.state, err = a.findState(a.state)
	there, _ := a.lookup("TEAMBRIDGE_HOST")
	return err == nil && a.hostName == "" && there == ""
}

// completeFirst completes the first argument from the words of list, each perhaps with a tab and a description.
func (c completer) completeFirst(list func(ctx context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		var found []string
		if len(args) == 0 && c.completesState() {
			found = slices.DeleteFunc(list(cmd.Context()), func(s string) bool { return !strings.HasPrefix(s, prefix) })
		}
		return found, noFiles
	}
}

// described returns a word with the description that shells show next to it.
func described(word, description string) string {
	return word + "\t" + plain.Cut(escape(description, false), 60)
}

// questionIDs lists the open questions of agents.
func (c completer) questionIDs(ctx context.Context) (words []string) {
	list, err := c.bridge(ctx).Questions(ctx, c.teamName)
	if err != nil {
		return nil
	}
	for _, q := range list {
		words = append(words, described(shortID(q.ID), q.Member+"@"+q.Team+": "+questionText(q.Question)))
	}
	return words
}

// messageIDs lists the messages to the person, the newest first.
func (c completer) messageIDs(ctx context.Context) []string {
	words := []string{described(api.LastMessage, "the newest message to you")}
	in, _, err := c.ownInbox(ctx, api.InboxQuery{Read: true})
	if err != nil {
		return words
	}
	for _, m := range slices.Backward(in.Messages()) {
		if m.Kind == "message" && m.ID != "" {
			words = append(words, described(escape(shortID(m.ID), false), m.From+": "+m.Text))
		}
	}
	return words
}

// deliveryIDs lists the deliveries that have not ended.
func (c completer) deliveryIDs(ctx context.Context) (words []string) {
	list, _ := c.local().Deliveries(ctx, api.DeliveryQuery{Team: c.teamName, State: api.Unfinished})
	for _, d := range list {
		words = append(words, described(shortID(d.Delivery), d.Member+"@"+d.Team+", "+d.Word))
	}
	return words
}

// relayIDs lists the relays that were added.
func (c completer) relayIDs(ctx context.Context) (words []string) {
	l, err := c.local().Ledger(ctx)
	if err != nil || l == nil {
		return nil
	}
	list, _ := l.Relays.List(ctx, "")
	for _, r := range list {
		words = append(words, described(r.Member+"@"+r.Team, strings.Join(r.Command, " ")), described(shortID(r.ID), r.Member+"@"+r.Team))
	}
	return words
}

// questionRules completes the value of "permit ID --session".
func (c completer) questionRules(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 || !c.completesState() {
		return nil, noFiles
	}
	list, err := c.bridge(cmd.Context()).Questions(cmd.Context(), c.teamName)
	if err != nil {
		return nil, noFiles
	}
	for _, q := range list {
		if strings.HasPrefix(q.ID, args[0]) {
			return q.Session, noFiles
		}
	}
	return nil, noFiles
}

// completeMembers completes the first n arguments (all if n < 0) with the names of members and inboxes and,
// after an "@", of teams.
func (c completer) completeMembers(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if n >= 0 && len(args) >= n {
			return nil, noFiles
		}
		if at := strings.LastIndexByte(prefix, '@') + 1; at > 1 { // as teams.Split does, but the team may be empty yet
			found, _ := c.completeTeams(cmd, nil, prefix[at:])
			for i := range found {
				found[i] = prefix[:at] + found[i]
			}
			return found, noFiles
		}
		var names []string
		if !c.completesState() {
			return nil, noFiles
		}
		if named, err := c.namedTeam(""); err == nil && (named == "" || named == pane.Team) {
			names = c.paneNames(cmd.Context())
		}
		if t, err := c.team(cmd.Context(), ""); err == nil {
			inboxes, _ := t.Inboxes()
			names = append(names, inboxes...)
			if c, err := t.Config(cmd.Context()); err == nil {
				for _, m := range c.Members {
					if teams.CheckName("member", m.Name) == nil {
						names = append(names, m.Name)
					}
				}
			}
		}
		return matching(names, args, prefix), noFiles
	}
}

// matching returns the names that begin with prefix and are not in args, sorted.
func matching(names, args []string, prefix string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool {
		return !strings.HasPrefix(s, prefix) || slices.Contains(args, s)
	})
}

// taskWords lists the ids and the owners of the tasks of a team.
func (c completer) taskWords(ctx context.Context) (words []string) {
	q, err := c.tasksOf(ctx, "")
	if err != nil {
		return nil
	}
	found, err := c.bridge(ctx).Tasks(ctx, q)
	if err != nil {
		return nil
	}
	var owners []string
	for _, t := range found.Tasks {
		words = append(words, described(t.ID, t.Status+": "+t.Subject))
		if t.Owner != "" && !slices.Contains(owners, t.Owner) {
			owners = append(owners, t.Owner)
		}
	}
	return append(words, owners...)
}
