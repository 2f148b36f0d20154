// Package profile loads agent profiles. These are the Markdown files in which Claude Code keeps its
// subagents, with a name, a system prompt, tools and a model.
//
// A file begins with YAML between two lines "---", its front matter; the rest is the prompt:
//
//	---
//	name: reviewer
//	description: Reviews changes before they are merged
//	tools: Read, Grep, SendMessage
//	model: sonnet
//	---
//	You review changes. …
//
// The front matter has the profile's name; the name of the file does not count. Unknown keys are ignored,
// because Claude Code has more keys than this package needs.
//
// A profile limits an agent's actions, so ambiguous files are refused: versions of Claude Code disagree about
// them, and some then run the agent with all tools. The measurements are in the contract, in the section
// "Profiles".
//
// Files may come from a cloned repository of anybody. So their size, the size of the front matter, and the
// number of files are limited, and aliases are not followed.
package profile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Limits of a profile.
const (
	MaxFile        = 256 << 10 // bytes of a file
	MaxFrontMatter = 16 << 10  // bytes of its front matter
	MaxFiles       = 1000      // files in a directory and those below it

	maxName  = 100 // bytes
	maxTool  = 300 // bytes of a rule, such as Bash(git log:*)
	maxTools = 300
	maxDepth = 8 // levels of directories
	// maxNesting limits the brackets of the front matter. The parser takes quadratic time for each bracket
	// that is not closed.
	maxNesting = 200
)

// Profile is the definition of an agent.
type Profile struct {
	Name        string
	Description string
	Tools       []string // the agent's tools, by Claude Code's names; nil is all, empty is none
	Disallowed  []string // tools to leave out
	Model       string   // as written in the file; empty for the runtime's default
	Prompt      string   // the system prompt; empty means the runtime's own

	Path string // the path of the file
}

// ProviderModel splits a model of the form "provider/model". Only Claude Code knows other names, such as
// "sonnet".
func (p *Profile) ProviderModel() (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(p.Model, "/")
	return provider, model, ok && provider != "" && model != ""
}

// Has reports whether the profile has a tool.
func (p *Profile) Has(tool string) bool {
	return (p.Tools == nil || slices.Contains(p.Tools, tool)) && !slices.Contains(p.Disallowed, tool)
}

// Parse parses the content of a file. If it fails, the profile still has its name, if that can be read.
func Parse(data []byte) (*Profile, error) {
	p := &Profile{}
	switch {
	case len(data) > MaxFile:
		return p, fmt.Errorf("is larger than %d KiB", MaxFile>>10)
	case !utf8.Valid(data):
		return p, errors.New("is not UTF-8")
	}
	front, prompt, err := split(strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n"))
	if err != nil {
		return p, err
	}
	p.Prompt = strings.TrimSpace(prompt)
	keys, err := parseYAML(front)
	if err != nil {
		p.Name = guessName(front)
		return p, fmt.Errorf("front matter: %w", err)
	}
	if err := p.set(keys); err != nil {
		return p, fmt.Errorf("front matter: %w", err)
	}
	return p, nil
}

// split returns the front matter and the text after it.
func split(text string) (front, rest string, err error) {
	const fence = "---"
	first, text, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != fence {
		return "", "", errors.New(`has no front matter: its first line must be "---"`)
	}
	for at := 0; at < len(text); {
		line, _, more := strings.Cut(text[at:], "\n")
		if strings.TrimRight(line, " \t") == fence {
			if at > MaxFrontMatter {
				return "", "", fmt.Errorf("has a front matter of more than %d KiB", MaxFrontMatter>>10)
			}
			rest = text[at+len(line):]
			return text[:at], rest, nil
		}
		at += len(line)
		if more {
			at++
		}
	}
	return "", "", errors.New(`has no end of its front matter, a second line "---"`)
}

var nameLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^name:[ \t]*["']?([^"'\n#]+?)["']?[ \t]*$`)
})

// guessName returns the name in a front matter that is not valid YAML.
func guessName(front string) string {
	if m := nameLine().FindStringSubmatch(front); m != nil {
		return m[1]
	}
	return ""
}

// set fills a profile from the keys of its front matter.
func (p *Profile) set(keys map[string]value) error {
	var errs []error
	text := func(key string) string {
		s, err := keys[key].text()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", key, err))
		}
		return strings.TrimSpace(s)
	}
	list := func(key string) []string {
		l, err := keys[key].list()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", key, err))
		}
		return l
	}
	p.Name, p.Description, p.Model = text("name"), text("description"), text("model")
	p.Tools, p.Disallowed = list("tools"), list("disallowedTools")
	if p.Model == "inherit" {
		p.Model = ""
	}
	if len(errs) == 0 {
		errs = append(errs, checkName(p.Name), checkWord("model", p.Model))
		if p.Description == "" {
			errs = append(errs, errors.New("has no description, and Claude Code ignores such a profile"))
		}
		for _, tools := range [][]string{p.Tools, p.Disallowed} {
			errs = append(errs, checkTools(tools))
		}
	}
	return errors.Join(errs...)
}

func checkName(name string) error {
	if name == "" {
		return errors.New("has no name")
	}
	// Claude Code does not find a profile with a colon in its name.
	if strings.Contains(name, ":") {
		return fmt.Errorf("name %.100q has a colon", name)
	}
	return checkWord("name", name)
}

// checkWord checks a text that becomes an argument of a command.
func checkWord(what, s string) error {
	switch {
	case len(s) > maxName:
		return fmt.Errorf("%s is longer than %d bytes", what, maxName)
	case strings.HasPrefix(s, "-"):
		return fmt.Errorf("%s %q looks like a flag", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q has a control character", what, s)
	}
	return nil
}

func checkTools(tools []string) error {
	if len(tools) > maxTools {
		return fmt.Errorf("has more than %d tools", maxTools)
	}
	for _, t := range tools {
		if len(t) > maxTool {
			return fmt.Errorf("tool %.40q… is longer than %d bytes", t, maxTool)
		}
		if strings.HasPrefix(t, "-") || strings.ContainsFunc(t, unicode.IsControl) {
			return fmt.Errorf("tool %q is not the name of a tool", t)
		}
	}
	return nil
}

// splitTools splits a list of tools at commas and spaces outside parentheses: "Read, Bash(git log, git diff)"
// has two tools.
func splitTools(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		}
		return depth == 0 && (r == ',' || unicode.IsSpace(r))
	})
}
