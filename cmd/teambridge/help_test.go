package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"teambridge/teams/errtest"
)

// The help of a command begins with one sentence and an example, lists the exit statuses, and has lines of at
// most 80 characters. --help of the program, and of a command with --help-all, has less than 60 lines.
func TestHelp(t *testing.T) {
	t.Parallel()
	shown := func(cmd *cobra.Command, all bool) string {
		var b strings.Builder
		cmd.SetOut(&b)
		a := newApp(host{}, nil)
		a.helpAll = all
		errtest.Must(t, a.printHelp(cmd))
		return b.String()
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if cmd.Name() == "help" {
			return
		}
		short, whole := shown(cmd, false), shown(cmd, true)
		if n := strings.Count(short, "\n"); n >= 60 && (!cmd.HasParent() || short != whole) {
			t.Errorf("%s --help has %d lines", cmd.CommandPath(), n)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, often := f.Annotations[oftenUsed]; !strings.Contains(whole, "--"+f.Name) || often && !strings.Contains(short, "--"+f.Name) {
				t.Errorf("%s: the help has no --%s", cmd.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(short + whole) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		if cmd.HasSubCommands() && cmd.HasParent() {
			return
		}
		parts := strings.Split(strings.Replace(cmd.Long, rest, "", 1), "\n\n")
		if first := strings.ReplaceAll(parts[0], "\n", " "); strings.Count(first, ". ") > 0 || !strings.HasSuffix(first, ".") {
			t.Errorf("%s: the help begins with %q, which is not one sentence", cmd.CommandPath(), first)
		}
		if len(parts) < 2 || !strings.HasPrefix(parts[1], "  ") || !strings.Contains(parts[1], "teambridge") {
			t.Errorf("%s: no example after the first sentence", cmd.CommandPath())
		}
		if last := parts[len(parts)-1]; !strings.HasPrefix(last, "Exit status: ") {
			t.Errorf("%s: the help ends with %q, and not with the exit statuses", cmd.CommandPath(), last)
		}
	}
	check(newRoot(newApp(ownProcess(), nil), ""))
}

// The first 25 lines tell a person how to run an agent.
func TestHelpOfRun(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	root := newRoot(newApp(ownProcess(), nil), "")
	root.SetOut(&b)
	root.SetArgs([]string{"run", "--help"})
	errtest.Must(t, root.Execute())
	first := strings.Join(strings.SplitN(b.String(), "\n", 26)[:25], "\n")
	for _, word := range []string{"--create-team", "--as", "--local", "--runtime opencode", "--permissions ask", "standard input", "exactly once"} {
		if !strings.Contains(strings.Join(strings.Fields(first), " "), word) {
			t.Errorf("no %q in the first lines:\n%s", word, first)
		}
	}
}

// If the first word of the command line is a command, only that command is built.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	for _, g := range commands {
		for _, c := range g.all {
			made := newRoot(newApp(ownProcess(), nil), c.name).Commands()
			if len(made) != 1 || made[0].Name() != c.name || made[0].GroupID != g.id {
				t.Errorf("%s: %v", c.name, made)
			}
		}
	}
}

// Every command that a hint names exists.
func TestHintsNameCommands(t *testing.T) {
	t.Parallel()
	root := newRoot(newApp(ownProcess(), nil), "")
	named := regexp.MustCompile(`(?:with|see|type): teambridge ([a-z]+(?: [a-z]+)?)`)
	for _, top := range []string{"cmd", "inbox", "relay", "status", "teams"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(data), -1) {
				if c, rest, err := root.Find(strings.Fields(m[1])); err != nil || c == root || c.HasSubCommands() && len(rest) > 0 {
					t.Errorf("%s: there is no command %q", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
