package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"teambridge/teams/errtest"
)

var manDir = flag.String("man", "", "the directory into which TestManPages writes the manual pages, for packages")

// Each command has a manual page with the same text as its help, line by line.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(*manDir, t.TempDir())
	errtest.Must(t, os.MkdirAll(dir, 0o755))
	date := time.Now()
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(s, 0).UTC()
	}
	roff := strings.NewReplacer(`\-`, "-", `\&`, "", `\e`, `\`)
	pages := 0
	var write func(*cobra.Command)
	write = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			write(sub)
		}
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			return
		}
		pages++
		page := manPage(c, date)
		if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(page), 0o644); err != nil {
			t.Error(err)
		}
		shown := roff.Replace(page)
		for _, part := range []string{
			strings.TrimSpace(strings.Replace(c.Long, rest, "", 1)), strings.TrimSpace(c.NonInheritedFlags().FlagUsagesWrapped(80)), strings.TrimSpace(c.Example),
		} {
			if !strings.Contains(shown, part) {
				t.Errorf("the page of %s lacks\n%s", c.CommandPath(), part)
			}
		}
		for line := range strings.Lines(page) {
			if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); line[0] == '\'' || line[0] == '.' && !strings.Contains(" .TH .SH .nf .fi ", " "+request+" ") {
				t.Errorf("the page of %s has the line %q, which man would obey", c.CommandPath(), line)
			}
		}
	}
	write(newRoot(newApp(ownProcess(), nil), ""))
	if pages < 40 {
		t.Errorf("%d pages", pages)
	}
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command. The generator of cobra would need Markdown, and two parsers of it in
// each process of a script.
func manPage(c *cobra.Command, date time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q teambridge teambridge\n", strings.ToUpper(manName(c)), date.Format("Jan 2006"))
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")
	section := func(name, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf%s\n.fi\n", name, escape.Replace("\n"+text))
		}
	}
	section("NAME", manName(c)+" - "+c.Short)
	section("SYNOPSIS", c.UseLine())
	section("DESCRIPTION", strings.Replace(c.Long, rest, "", 1))
	section("OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(80))
	section("GLOBAL OPTIONS", c.InheritedFlags().FlagUsagesWrapped(80))
	section("EXAMPLES", c.Example)
	var others []string
	if c.HasParent() {
		others = append(others, manName(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			others = append(others, manName(sub)+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(others, "\n"))
	return b.String()
}
