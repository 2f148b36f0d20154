package terminal

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Profile names the kind of program in a pane, which decides how its screen is read.
type Profile string

const (
	Claude  Profile = "claude"  // Claude Code
	Generic Profile = "generic" // any other: its composer cannot be read
)

// Composer is what a screen shows of the box where a prompt is typed, and around it.
//
// All texts come from the screen. They may hold anything that an agent can print.
type Composer struct {
	Found bool // there is a composer on the screen, below everything else
	// Dialog is the question of what has the keyboard instead of the composer, or its heading: a question about permissions, a
	// menu, the transcript.
	Dialog string
	// Draft is what somebody typed and did not submit. Long pastes are shown as "[Pasted text #1 +30 lines]", and a
	// draft that is higher than the screen is cut. In bash mode it begins with "!".
	Draft  string
	Ghost  string // what the program suggests in an empty composer
	Busy   bool   // the agent works
	Queued int    // messages that the program itself keeps for later
}

// State is a [Composer] in one word.
type State string

const (
	StateUnknown State = "unknown" // no composer on the screen
	StateDialog  State = "dialog"
	StateDraft   State = "draft"
	StateBusy    State = "busy"
	StateEmpty   State = "empty"
)

// State is what decides whether a message may be typed: a dialog before a draft, before work.
func (c Composer) State() State {
	switch {
	case c.Dialog != "":
		return StateDialog
	case !c.Found:
		return StateUnknown
	case c.Draft != "":
		return StateDraft
	case c.Busy:
		return StateBusy
	}
	return StateEmpty
}

// Read reads a screen of `capture-pane -p -e`. A [Generic] composer is never found.
func (p Profile) Read(screen string) Composer {
	if p != Claude {
		return Composer{}
	}
	return readClaude(parseScreen(screen))
}

// BusyTitle reports whether the title of a pane says that the agent works. That it does not say so proves nothing: a
// title may be another program's, or old.
func (p Profile) BusyTitle(title string) bool {
	// A spinner of two frames: braille in older versions, half circles in newer ones. ✳ stands for idle.
	return p == Claude && busyTitle.MatchString(title)
}

var (
	busyTitle = regexp.MustCompile(`^[⠁-⣿◐-◓] `)

	// The spinner: "✻ Thinking… (3s · ↓ 5 tokens)". Once the turn has ended the line says "✻ Cooked for 3s".
	spinner = regexp.MustCompile(`^[·✢✳✶✻✽*] .*…`)
	option  = regexp.MustCompile(`^\s*[❯›>]?\s*\d+\. `)
	// The last lines of dialogs and menus say which keys they take.
	keyHint = regexp.MustCompile(`(?i)\b(esc|enter|return|tab|space|ctrl\+\w)\b to |↑|↓|showing detailed transcript`)
)

// nbsp stands behind the ❯ of the composer. Prompts in the conversation and selected options have a space there.
const nbsp = '\u00a0'

// readClaude reads the screen of Claude Code, versions 2.1.80 to 2.1.330: testdata/screens. In all of them the composer stands
// between two lines over the whole width, and only hints stand below it. What an agent prints is indented, but
// what somebody pasted is shown from the first column in some versions, so it can look like a composer; the real one is
// below it.
func readClaude(lines []line) Composer {
	var c Composer
	start, end, ok := findComposer(lines)
	if ok {
		c.Draft, c.Ghost = draft(lines[start:end])
		if lines[start][0].r == '!' {
			c.Draft, c.Ghost = "!"+c.Draft, "" // even if it is empty: a shell runs what is typed now
		}
	}
	// Menus of commands and files, which some versions show below a draft, look like anything.
	if !ok || c.Draft == "" && !footer(lines[end+1:]) {
		return Composer{Dialog: dialog(lines)}
	}
	c.Found = true
	for _, l := range lines[end+1:] {
		text := l.text()
		if strings.HasPrefix(strings.TrimSpace(text), "search prompts:") { // older versions search the history here
			c.Dialog = "search prompts"
		}
		c.Busy = c.Busy || strings.Contains(text, "esc to interrupt")
	}
	above, prompt := lines[:start-1], lines[start][0]
	// While the agent works ❯ is dimmer. That is the only sign while it streams an answer and there is a draft.
	c.Busy = c.Busy || prompt.r == '❯' && (prompt.fg || prompt.dim)
	for _, l := range above {
		c.Busy = c.Busy || len(l) > 0 && !l[0].bg && spinner.MatchString(l.text())
	}
	c.Queued = queued(above)
	if c.Queued == 0 && strings.Contains(c.Ghost, "edit queued messages") {
		c.Queued = 1
	}
	return c
}

// findComposer returns the line of the prompt and the line that ends the composer: the lowest on the screen, because only that
// can have the keyboard.
func findComposer(lines []line) (start, end int, ok bool) {
	end = len(lines) - 1
	for ; end >= 0 && !lines[end].rule(); end-- {
		if text := lines[end].text(); strings.Contains(text, "❯") || option.MatchString(text) {
			return 0, 0, false
		}
	}
	for start = end - 1; start > 0; start-- {
		l := lines[start]
		if len(l) > 1 && (l[0].r == '❯' || l[0].r == '!') && l[1].r == nbsp {
			return start, end, strings.HasPrefix(lines[start-1].text(), "──") // may hold a name
		}
		if text := l.text(); text != "" && !strings.HasPrefix(text, "  ") {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// footer reports whether the lines can stand below a composer: hints, all of them indented.
func footer(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool {
		return l.text() != "" && !strings.HasPrefix(l.text(), "  ")
	})
}

// draft tells what was typed from what the program suggests. A suggestion is dim, but for its first character if the
// cursor stands on it.
func draft(lines []line) (draft, ghost string) {
	var typed, all []string
	for i, l := range lines {
		l = l[min(2, len(l)):]
		text := l.text()
		all = append(all, text)
		if i == 0 && len(l) > 1 && l[0].inverse && l[1].dim {
			l = l[1:]
		}
		typed = append(typed, line(slices.DeleteFunc(slices.Clone(l), func(c cell) bool { return c.dim })).text())
	}
	draft = strings.Trim(strings.Join(typed, "\n"), "\n")
	if strings.TrimSpace(draft) == "" {
		return "", strings.TrimSpace(strings.Join(all, "\n"))
	}
	return draft, ""
}

// queued counts the messages above the composer that the agent has not taken.
func queued(above []line) int {
	n, newer := 0, false
	for _, l := range slices.Backward(above) {
		text := l.text()
		switch {
		case strings.HasPrefix(text, "  ⎿  Queued"): // below the messages, without a background, in newer versions
			newer = true
		case newer && strings.HasPrefix(text, "❯ ") && !l[0].bg:
			n++
		case newer && strings.HasPrefix(text, "❯ "):
			return n
		case strings.HasPrefix(text, "  ❯ ") && l[2].bg: // indented, with a background, in older ones
			n++
		case !newer && n > 0 && text == "":
			return n
		}
	}
	return n
}

// dialog finds the question of what is at the bottom of a screen that has no composer; else its heading, else the line
// that says which keys it takes. It is empty if nothing looks like a dialog.
func dialog(lines []line) string {
	hint, question, heading := "", "", ""
	for i := len(lines) - 1; i >= 0; i-- {
		l := lines[i]
		text := strings.TrimSpace(l.text())
		switch {
		case text == "":
		case hint == "":
			if keyHint.MatchString(text) || option.MatchString(text) {
				hint = text
				if strings.HasPrefix(text, "Showing detailed transcript") {
					return "Showing detailed transcript"
				}
			} else if i < len(lines)-8 {
				return ""
			}
		case l[0].r == '▔', l.rule():
			if heading != "" || question != "" {
				i = 0
			}
		case option.MatchString(text):
		case question == "" && strings.HasSuffix(text, "?"):
			question = text
		case slices.ContainsFunc(l[:min(4, len(l))], func(c cell) bool { return c.bold && c.r != ' ' }):
			heading = text
		}
	}
	switch {
	case question != "":
		return question
	case heading != "":
		return heading
	}
	return hint
}

// cell is one character of the screen and how it is drawn. fg and bg say that its colours are not the default.
type cell struct {
	r                  rune
	bold, dim, inverse bool
	fg, bg             bool
}

type line []cell

// text is the line without the spaces at its end.
func (l line) text() string {
	var b strings.Builder
	for _, c := range l {
		b.WriteRune(c.r)
	}
	return strings.TrimRight(b.String(), " \u00a0")
}

// rule reports whether the line is drawn across the whole width.
func (l line) rule() bool {
	text := l.text()
	return len(l) >= 10 && strings.Trim(text, "─") == ""
}

// escape is a control sequence, a string such as a link, or any other escape.
var escape = regexp.MustCompile(`^\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// parseScreen takes colours and attributes out of a screen. They go on from line to line.
func parseScreen(screen string) []line {
	var lines []line
	var now line
	var style cell
	for screen = strings.TrimRight(screen, "\n"); screen != ""; {
		if sequence := escape.FindStringSubmatch(screen); sequence != nil {
			if sequence[2] == "m" {
				style.apply(sequence[1])
			}
			screen = screen[len(sequence[0]):]
			continue
		}
		r, size := utf8.DecodeRuneInString(screen)
		screen = screen[size:]
		if r == '\n' {
			lines, now = append(lines, now), nil
		} else if !unicode.IsControl(r) {
			c := style
			c.r = r
			now = append(now, c)
		}
	}
	return append(lines, now)
}

// apply changes the style by the parameters of one sequence, as tmux writes them: "0;2", "38;5;246".
func (c *cell) apply(parameters string) {
	p := strings.Split(parameters, ";")
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case "", "0":
			*c = cell{}
		case "1":
			c.bold = true
		case "2":
			c.dim = true
		case "22":
			c.bold, c.dim = false, false
		case "7":
			c.inverse = true
		case "27":
			c.inverse = false
		case "39":
			c.fg = false
		case "49":
			c.bg = false
		case "38", "48":
			if p[i] == "38" {
				c.fg = true
			} else {
				c.bg = true
			}
			if i+1 < len(p) && p[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		default:
			switch n, _ := strconv.Atoi(p[i]); {
			case n >= 30 && n <= 37, n >= 90 && n <= 97:
				c.fg = true
			case n >= 40 && n <= 47, n >= 100 && n <= 107:
				c.bg = true
			}
		}
	}
}
