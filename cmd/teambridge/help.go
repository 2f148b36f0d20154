package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func init() { cobra.EnableCommandSorting = false } // help lists the commands in the order of newRoot

// rest separates the two parts that the help of a command, its Long, can have. --help shows the first part, the
// last paragraph (the exit statuses), and the flags that the command marks with often, or all flags if it marks
// none. --help-all shows everything.
const rest = "\f"

const oftenUsed = "often"

// often marks the flags that --help shows.
func often(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		must(cmd.Flags().SetAnnotation(name, oftenUsed, nil))
	}
}

// helpOnly replaces --help-all with --help, and sets a.helpAll.
func (a *app) helpOnly(args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	if i := slices.Index(args[:end], "--help-all"); i >= 0 {
		a.helpAll = true
		args = slices.Clone(args)
		args[i] = "--help"
	}
	return args
}

const rootLong = `teambridge sends messages to coding agents, and follows each message: to
sessions of Claude Code, Codex and Qwen Code, agent teams, and headless agents.

` + rest + `It writes under the lock that agents take, and reads back what it has sent.

A team is chosen by --team, else $TEAMBRIDGE_TEAM, else the only team whose lead
is alive, else the team whose lead runs in this directory. Commands that read,
watch or write to members first look for the only living team that has them, and
"status" without a team shows all candidates.

With --host ssh://box, or $TEAMBRIDGE_HOST, the service of that machine carries
out the command, through ssh. No file of this machine is read. Commands that can
only run here say so, and what to type instead.

Exit status: 0 done; 1 error; 2 usage; 3 not found, or gone; 4 timeout; 5
refused; 6 a file is corrupt or could not be locked; 7 a message is lost, or its
state is unknown; 8 the agent's turn ended without an answer; 9 Claude Code has
changed; 130 interrupted; 141 the reader of the output went away, as head does.`

const rootFlags = `About a command: teambridge COMMAND --help. About all: teambridge --help-all.`

// printHelp prints the help of a command, with flags wrapped at 80 columns. It uses no template, since with
// text/template the linker cannot drop unused methods, which makes the program 3 MB larger.
func (a *app) printHelp(c *cobra.Command) error {
	first, others, cut := strings.Cut(c.Long, rest)
	text := first + others
	if cut && !a.helpAll {
		if text = first; c.HasParent() {
			text += others[strings.LastIndex(others, "\n\n")+len("\n\n"):]
		}
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(text))
	if c.HasParent() || a.helpAll {
		b.WriteString("\n\nUsage:")
		if c.Runnable() {
			fmt.Fprintf(&b, "\n  %s", c.UseLine())
		}
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "\n  %s [command]", c.CommandPath())
		}
	}
	for _, g := range c.Groups() {
		writeCommands(&b, c, a.helpAll, g.ID, g.Title)
	}
	if len(c.Groups()) == 0 && c.HasAvailableSubCommands() {
		writeCommands(&b, c, a.helpAll, "", "Available Commands:")
	}
	flags := func(title string, set *pflag.FlagSet) {
		if set.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n\n%s:\n%s", title, strings.TrimRightFunc(set.FlagUsagesWrapped(80), unicode.IsSpace))
		}
	}
	local, few := c.LocalFlags(), pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	local.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[oftenUsed]; ok && !a.helpAll {
			few.AddFlag(f)
		}
	})
	switch {
	case !c.HasParent() && !a.helpAll:
		b.WriteString("\n\n" + rootFlags)
	case few.HasFlags():
		flags("Flags that are used often", few)
		fmt.Fprintf(&b, "\n\nThe rest, with the flags of every command: %s --help-all", c.CommandPath())
	default:
		flags("Flags", local)
		flags("Global Flags", c.InheritedFlags())
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", c.CommandPath())
		}
	}
	b.WriteByte('\n')
	_, err := io.WriteString(c.OutOrStdout(), b.String())
	return err
}

// seldom lists the commands that only --help-all shows.
var seldom = []string{"hook", "profile", "switch"}

func writeCommands(b *strings.Builder, c *cobra.Command, all bool, group, title string) {
	fmt.Fprintf(b, "\n\n%s", title)
	for _, sub := range c.Commands() {
		if sub.GroupID == group && sub.IsAvailableCommand() && (all || c.HasParent() || !slices.Contains(seldom, sub.Name())) {
			fmt.Fprintf(b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

// setDefaults makes cmd and its subcommands by default take no arguments and complete no file names. It moves
// their examples to after the first paragraph of the help.
func setDefaults(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = none
	}
	if cmd.ValidArgsFunction == nil && cmd.HasParent() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	if first, rest, ok := strings.Cut(cmd.Long, "\n\n"); ok && cmd.Example != "" {
		cmd.Long, cmd.Example = first+"\n\n"+cmd.Example+"\n\n"+rest, ""
	}
	for _, sub := range cmd.Commands() {
		setDefaults(sub)
	}
}

// newHelp replaces cobra's help command: an unknown topic is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() && strings.HasPrefix(c.Name(), prefix) {
					names = append(names, c.Name())
				}
			}
			return names, noFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || found == cmd.Root() {
				if err := unknownCommand(cmd.Root(), rest); err != nil {
					return err
				}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
