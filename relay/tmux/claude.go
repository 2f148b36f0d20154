package tmux

import (
	"cmp"
	"slices"
	"strings"
)

var (
	// The spinner, such as "✻ Thinking… (3s · ↓ 5 tokens)". After the turn, the line is "✻ Cooked for 3s".
	spinner = expression(`^[·✢✳✶✻✽*] .*…`)
	// Waiting messages: 2.1.257 indents them above the composer; later versions also show such a hint below
	// them.
	waiting = expression(`^  (❯ |⎿[\s\x{a0}]+Queued|ctrl\+x ctrl\+s to send now)`)
	stashed = expression(`(›|draft) stashed$`)

	option = expression(`^\s*❯?\s*\d+\. `)
	// The selected option in a list.
	selected = expression(`^\s*❯ \d+\. `)
	// The last lines of dialogs and menus, which list their keys.
	keyHint = expression(`(?i)\b(esc|enter|return|space) to (?:[^i]|i[^n])|↑|↓|^showing detailed transcript`)
)

// nbsp follows the ❯ of the composer. In the conversation and in lists of options, a space follows it.
const nbsp = '\u00a0'

// readClaude reads the screen of Claude Code: see testdata/screens. The composer is between two rules across
// the whole width, with only hints below it. Text in the conversation may look like a composer; the real one
// is below it.
func readClaude(lines []line) Composer {
	start, end, ok := findComposer(lines)
	if !ok {
		return Composer{Dialog: dialog(lines)}
	}
	var c Composer
	c.Draft, c.Ghost = draft(lines[start:end])
	above, below := lines[:max(start-1, 0)], lines[end+1:]
	switch prompt := lines[start][0]; {
	case prompt.r == '!':
		c.Draft, c.Ghost = "!"+c.Draft, "" // even if it is empty: a shell runs the typed text
	case prompt.r == '❯':
		// While the agent works, ❯ is dimmer. While it streams an answer and there is a draft, nothing else
		// shows that.
		c.Busy = prompt.fg || prompt.dim
	case c.Draft == "" || slices.ContainsFunc(below, func(l line) bool { return keyHint().MatchString(l.text()) }):
		return Composer{Dialog: dialog(lines)}
	}
	if !indented(below) {
		return Composer{Dialog: dialog(lines)}
	}
	c.Found = true
	for _, l := range below {
		text := l.text()
		c.Busy = c.Busy || strings.Contains(text, "esc to interrupt")
		c.Stashed = c.Stashed || stashed().MatchString(text)
	}
	for i, l := range above {
		c.Busy = c.Busy || len(l) > 0 && !l[0].bg && spinner().MatchString(l.text())
		c.Stashed = c.Stashed || i >= len(above)-2 && stashed().MatchString(l.text())
	}
	c.Queued = queued(above)
	if strings.Contains(c.Ghost, "edit queued messages") {
		c.Queued = max(c.Queued, 1)
	}
	return c
}

// findComposer returns the first line of the prompt and the rule that ends the composer. It takes the lowest
// composer on the screen, because only that one can have the keyboard. If a draft is higher than the screen,
// the first visible line is below a rule with "↑ 42 more".
func findComposer(lines []line) (start, end int, ok bool) {
	end = len(lines) - 1
	for ; end > 0 && !lines[end].rule(); end-- {
		if selected().MatchString(lines[end].text()) {
			return 0, 0, false
		}
	}
	for start = end - 1; start >= 0; start-- {
		l := lines[start]
		if len(l) > 1 && (l[0].r == '❯' || l[0].r == '!') && l[1].r == nbsp {
			return start, end, start > 0 && strings.HasPrefix(lines[start-1].text(), "──") // the rule may hold a name
		}
		if strings.HasPrefix(l.text(), "─── ↑ ") {
			return start + 1, end, start+1 < end && len(lines[start+1]) > 0
		}
		if !indented(lines[start : start+1]) {
			return 0, 0, false
		}
	}
	return 0, end, end > 0 && len(lines[0]) > 0
}

// indented reports whether all lines are empty or begin with two spaces, like the hints below a composer.
func indented(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool {
		return l.text() != "" && !strings.HasPrefix(l.text(), "  ")
	})
}

// draft separates the typed text from the program's suggestion. A suggestion is dim, except for spaces and
// the first character if the cursor is on it.
func draft(lines []line) (draft, ghost string) {
	var typed, all []string
	for i, l := range lines {
		l = l[min(2, len(l)):]
		all = append(all, l.text())
		notDim := slices.DeleteFunc(slices.Clone(l), func(c cell) bool { return c.dim })
		if i == 0 && len(notDim) > 0 && len(notDim) < len(l) && notDim[0].inverse && notDim[1:].text() == "" {
			notDim = nil
		}
		typed = append(typed, notDim.text())
	}
	draft = strings.Trim(strings.Join(typed, "\n"), "\n")
	if strings.TrimSpace(draft) == "" {
		return "", strings.TrimSpace(strings.Join(all, "\n"))
	}
	return draft, ""
}

// queued counts the messages that the agent has not taken yet. Versions after 2.1.257 show them almost like
// taken messages, so there the count is only 0 or 1.
func queued(above []line) int {
	n := 0
	for _, l := range above {
		switch m := waiting().FindStringSubmatch(l.text()); {
		case m == nil:
		case m[1] != "❯ ":
			return max(n, 1)
		case l[2].bg:
			n++
		}
	}
	return n
}

// dialog returns the question of the dialog at the bottom of a screen without a composer, or else its
// heading, or else the line that lists its keys. It is "" if nothing looks like a dialog.
func dialog(lines []line) string {
	hint, question, heading := "", "", ""
	for i := len(lines) - 1; i >= 0; i-- {
		l := lines[i]
		text := strings.TrimSpace(l.text())
		if text == "" {
			continue
		}
		top := l[0].r == '▔' || l.rule()
		isOption := option().MatchString(text)
		if hint == "" && (isOption || keyHint().MatchString(text)) {
			if hint = text; strings.HasPrefix(text, "Showing detailed transcript") {
				return "Showing detailed transcript"
			}
			continue
		}
		switch {
		case top && (heading != "" || question != ""):
			if hint == "" && l[0].r != '▔' {
				return ""
			}
			return cmp.Or(question, heading)
		case top, isOption:
		case question == "" && strings.HasSuffix(text, "?"):
			question = text
		case slices.ContainsFunc(l[:min(4, len(l))], func(c cell) bool { return c.bold && c.r != ' ' }):
			heading = text
		}
	}
	return hint
}
