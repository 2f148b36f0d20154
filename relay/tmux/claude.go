package tmux

import (
	"cmp"
	"slices"
	"strings"
)

var (
	// The spinner: "✻ Thinking… (3s · ↓ 5 tokens)". Once the turn has ended the line says "✻ Cooked for 3s".
	spinner = expression(`^[·✢✳✶✻✽*] .*…`)
	// Messages that wait: indented above the composer in 2.1.257, later with such a hint below them.
	waiting = expression(`^  (❯ |⎿[\s\x{a0}]+Queued|ctrl\+x ctrl\+s to send now)`)
	stashed = expression(`(›|draft) stashed$`)

	option = expression(`^\s*❯?\s*\d+\. `)
	// In a list of options one is selected.
	selected = expression(`^\s*❯ \d+\. `)
	// The last lines of dialogs and menus say which keys they take.
	keyHint = expression(`(?i)\b(esc|enter|return|space) to (?:[^i]|i[^n])|↑|↓|^showing detailed transcript`)
)

// nbsp stands behind the ❯ of the composer. Prompts in the conversation and selected options have a space there.
const nbsp = '\u00a0'

// readClaude reads the screen of Claude Code: see testdata/screens. The composer stands between two lines over the whole width,
// and only hints stand below it. Text in the conversation may look like a composer: the real one is below it.
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
		c.Draft, c.Ghost = "!"+c.Draft, "" // even if it is empty: a shell runs what is typed now
	case prompt.r == '❯':
		// While the agent works ❯ is dimmer. That is the only sign while it streams an answer and there is a draft.
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

// findComposer returns the first line of the prompt and the line that ends the composer: the lowest on the screen, as only that
// can have the keyboard. Of a draft that is higher than the screen, the first
// visible line is returned: "↑ 42 more" stands above it.
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
			return start, end, start > 0 && strings.HasPrefix(lines[start-1].text(), "──") // may hold a name
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

// indented reports whether all lines are empty or begin with two spaces, as hints below a composer do.
func indented(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool {
		return l.text() != "" && !strings.HasPrefix(l.text(), "  ")
	})
}

// draft tells what was typed from what the program suggests. A suggestion is dim, but for its first character if the
// cursor stands on it, and but for spaces.
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

// queued counts the messages that the agent has not taken. After 2.1.257 they are shown almost like those that it has, so it
// only tells whether there are any.
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

// dialog finds the question of what is at the bottom of a screen that has no composer; else its heading, else the line
// that says which keys it takes. It is empty if nothing looks like a dialog.
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
