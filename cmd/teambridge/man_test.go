package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var manDir = flag.String("man", "", "the directory into which TestManPages writes the manual pages, for packages")

// Each command has a manual page, which says what its help does, line by line.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := newRoot(&app{host: ownProcess()}, "")
	help := map[string]string{}
	var literal func(*cobra.Command)
	literal = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			literal(sub)
		}
		text := strings.TrimSpace(strings.Replace(cmd.Long, rest, "", 1))
		if cmd.IsAvailableCommand() && !cmd.IsAdditionalHelpTopicCommand() {
			help[strings.ReplaceAll(cmd.CommandPath(), " ", "-")] = text
		}
		cmd.Long = "```\n" + text + "\n```" // the generator reads Markdown
	}
	literal(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "teambridge", Manual: "teambridge"}, dir); err != nil {
		t.Fatal(err)
	}
	roff := strings.NewReplacer(`\-`, "-", `\&`, "", `\\`, `\`, `\(rs`, `\`, `\~`, "~", `\(ti`, "~", `\(ha`, "^")
	for name, text := range help {
		data, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		if page := roff.Replace(string(data)); !strings.Contains(page, text) {
			t.Errorf("the page of %s is not what its help says", name)
		}
	}
}
