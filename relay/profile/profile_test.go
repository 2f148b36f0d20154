package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// file is a profile with these lines in its front matter.
func file(lines ...string) string {
	return "---\nname: reviewer\ndescription: Reviews changes\n" + strings.Join(lines, "\n") + "\n---\n\nYou review.\n"
}

func TestParse(t *testing.T) {
	t.Parallel()
	plain := Profile{Name: "reviewer", Description: "Reviews changes", Prompt: "You review."}
	with := func(change func(*Profile)) Profile {
		p := plain
		change(&p)
		return p
	}
	tools := func(names ...string) Profile {
		return with(func(p *Profile) { p.Tools = append([]string{}, names...) })
	}
	described := func(text string) Profile { return with(func(p *Profile) { p.Description = text }) }
	for _, c := range []struct {
		name, text string
		want       Profile
	}{
		{"plain", file(), plain},
		{"a byte order mark", "\ufeff" + file(), plain},
		{"CRLF", strings.ReplaceAll(file("tools: Read"), "\n", "\r\n"), tools("Read")},
		{"spaces after the fences", "---  \nname: reviewer\ndescription: Reviews changes\n--- \t\nYou review.", plain},
		{"no prompt", "---\nname: reviewer\ndescription: Reviews changes\n---", with(func(p *Profile) { p.Prompt = "" })},
		{"a rule in the prompt", file() + "\n---\nmore\n", with(func(p *Profile) { p.Prompt = "You review.\n\n---\nmore" })},
		{"tools in a text", file("tools: Read, Bash(git log:*, ls) Grep"), tools("Read", "Bash(git log:*, ls)", "Grep")},
		{"tools in a list", file("tools:", "  - Read", "  - mcp__github__search"), tools("Read", "mcp__github__search")},
		{"tools in brackets", file("tools: [Read, \"Write\"]"), tools("Read", "Write")},
		{"all tools", file(`tools: "*"`), plain},
		{"no tools", file("tools: []"), tools()},
		{"tools taken away", file("disallowedTools: Bash, Write"), with(func(p *Profile) { p.Disallowed = []string{"Bash", "Write"} })},
		{"model", file("model: sonnet"), with(func(p *Profile) { p.Model = "sonnet" })},
		{"model inherit", file("model: inherit"), plain},
		{"unknown keys", file("color: red", "hooks: {Stop: [{hooks: [{type: command}]}]}", "7: x", "true: y"), plain},
		{"unknown keys with aliases", file("a: &a [x]", "b: *a"), plain},
		{"a description with colons", "---\nname: reviewer\ndescription: Use this: when \"it\" is done.\\n\\n<example>user: hi # 1</example>\ntools: Read\n---\nYou review.",
			with(func(p *Profile) {
				p.Description, p.Tools = `Use this: when "it" is done.\n\n<example>user: hi # 1</example>`, []string{"Read"}
			})},
		{"a description of lines", "---\nname: reviewer\ndescription: |\n  One: a\n  Two\n---\nYou review.", described("One: a\nTwo")},
		{"a folded description", "---\nname: reviewer\ndescription: >-\n  One\n  two\n---\nYou review.", described("One two")},
		{"a quoted name", "---\nname: \"reviewer\"\ndescription: 'Reviews changes'\n---\nYou review.", plain},
	} {
		got, err := Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for _, c := range "123456789" {
		before := string(c - 1)
		bomb.WriteString("a" + string(c) + ": &a" + string(c) + " [" + strings.Repeat("*a"+before+", ", 10) + "]\n")
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no front matter"},
		{"no front matter", "You review.\n", "no front matter"},
		{"something in front", "\n" + file(), "no front matter"},
		{"no end", "---\nname: reviewer\n", "no end of its front matter"},
		{"not UTF-8", file() + "\xff", "not UTF-8"},
		{"too large", file() + strings.Repeat("x", MaxFile), "larger than 256 KiB"},
		{"too large a front matter", file("# " + strings.Repeat("x", MaxFrontMatter)), "more than 16 KiB"},
		{"no name", "---\ndescription: x\n---\n", "no name"},
		{"an empty name", "---\nname: ''\ndescription: x\n---\n", "no name"},
		{"a number for a name", "---\nname: 123\ndescription: x\n---\n", "name is a number, must be a text"},
		{"a flag for a name", "---\nname: --dangerously-skip-permissions\ndescription: x\n---\n", "looks like a flag"},
		{"a name with a colon", "---\nname: 'a:b'\ndescription: x\n---\n", "has a colon"},
		{"a name with an escape", "---\nname: \"a\\e[2Jb\"\ndescription: x\n---\n", "control character"},
		{"a long name", "---\nname: " + strings.Repeat("x", 101) + "\ndescription: x\n---\n", "longer than 100 bytes"},
		{"no description", "---\nname: reviewer\n---\n", "no description"},
		{"tools without a value", file("tools:"), "tools is empty"},
		{"a number for tools", file("tools: 7"), "tools is a number"},
		{"an object for tools", file("tools: {Read: true}"), "tools is an object"},
		{"a list in a list of tools", file("tools: [[Read]]"), "tools is a list"},
		{"tools by an alias", file("x: &x Read", "tools: *x"), "alias"},
		{"tools by a merge", file("x: &x {tools: Read}", "<<: *x"), "merge key"},
		{"a flag for a tool", file("tools: Read, --model"), "is not the name of a tool"},
		{"many tools", file("tools: " + strings.Repeat("R,", 301)), "more than 300 tools"},
		{"a number for a model", file("model: 4"), "model is a number"},
		{"a flag for a model", file("model: --resume"), "looks like a flag"},
		{"a key twice", file("tools: Read", "tools: Bash"), "tools"},
		{"an open bracket", file("tools: [Read", "x: y: z"), "not YAML"},
		{"two documents", file("---x", "...", "name: other"), "YAML"},
		{"a list", "---\n- name: reviewer\n---\n", "has no keys"},
		{"nothing in the front matter", "---\n---\nYou review.", "no keys"},
		{"brackets", file("x: " + strings.Repeat("[", 5000)), "more than 200 brackets"},
		{"a bomb for tools", file(bomb.String() + "tools: *a9"), "alias"},
	} {
		p, err := Parse([]byte(c.text))
		if err == nil {
			t.Errorf("%s: %+v, want an error", c.name, *p)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	if p, err := Parse([]byte(file(bomb.String()))); err != nil || p.Name != "reviewer" {
		t.Errorf("a bomb in keys that nobody reads: %+v, %v", p, err)
	}
}

// The name of an unusable profile is returned if it can be read, so that no other file of that
// name is used in its place.
func TestParseNamesWhatItRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		file("tools: 7"), file("tools: [Read", "x: y: z"), file("tools: Read", "tools: Bash"),
		"---\nname: 'reviewer'\ntools: [Read\n---\n",
	} {
		if p, err := Parse([]byte(text)); err == nil || p.Name != "reviewer" {
			t.Errorf("%q: name %q, error %v", text, p.Name, err)
		}
	}
}

// The part of a model before the first slash is its provider.
func TestProviderModel(t *testing.T) {
	t.Parallel()
	for model, want := range map[string][]string{
		"anthropic/claude-x": {"anthropic", "claude-x"}, "a/b/c": {"a", "b/c"}, "sonnet": nil, "": nil, "/x": nil, "x/": nil,
	} {
		provider, id, ok := (&Profile{Model: model}).ProviderModel()
		var got []string
		if ok {
			got = []string{provider, id}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
}

// FuzzParse: no file makes the program panic, and each accepted profile can be passed to a
// program.
func FuzzParse(f *testing.F) {
	f.Add(file("tools: Read", "model: sonnet"))
	f.Add(file("tools:", "  - Read", "  - \"Bash(git log:*)\""))
	f.Add(file("x: &x {a: [1, 2]}", "y: *x", "<<: *x"))
	f.Add("---\n? [a]\n: b\n---\n")
	f.Add("---\ndescription: a: b\nname: 'x\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, word := range append(slices.Concat(p.Tools, p.Disallowed), p.Name, p.Model) {
			if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "\n\x00\x1b") {
				t.Errorf("%q is accepted", word)
			}
		}
		if p.Name == "" || p.Description == "" {
			t.Errorf("%+v is accepted", *p)
		}
	})
}
