package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of a command leads with one sentence and an example, tells the exit statuses,
// and has lines of at most 80 characters.
func TestHelp(t *testing.T) {
	t.Parallel()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if cmd.Name() == "help" {
			return
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		if cmd.HasSubCommands() && cmd.HasParent() {
			return
		}
		parts := strings.Split(cmd.Long, "\n\n")
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
	check(newRoot(&app{host: process()}))
}
