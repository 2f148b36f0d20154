package tmux

import (
	"strconv"
	"strings"
	"unicode"
)

// content tells how much of our text is in a composer.
type content int

const (
	nothing content = iota
	exactly         // our text
	part            // probably our text: its end, if it does not fit on the screen, or the mark of a long paste
	more            // our text together with other text
)

// longEnd is the smallest number of visible characters by which a cut text is recognized.
const longEnd = 40

// holds compares the composer with our text.
func (d *delivery) holds(c Composer) content {
	line := d.message.Line()
	typed, ours := printed(c.Draft), printed(line)
	if !c.Found || typed == "" {
		return nothing
	}
	if typed == ours {
		return exactly
	}
	if first := len(printed(d.message.prefix())); uncertain(line) && strings.Contains(typed, d.message.Nonce) &&
		2*(len(typed)-first) > len(ours)-first && lacks(ascii(c.Draft), ascii(line)) {
		return exactly
	}
	if len(typed) >= longEnd && strings.HasSuffix(ours, typed) {
		return part
	}
	if breaks, ok := pasteMark(c.Draft); ok && (breaks == strings.Count(line, "\n") || breaks == strings.Count(strings.TrimRight(line, "\n"), "\n")) {
		return part
	}
	for _, sign := range []string{d.message.Nonce, ours[max(0, len(ours)-longEnd):], printed("[Pasted text #")} {
		if strings.Contains(typed, sign) {
			return more
		}
	}
	return nothing
}

// pasteMark returns the number of line breaks of a mark such as "[Pasted text #1]" or "[Pasted text #2 +30
// lines]".
func pasteMark(draft string) (breaks int, ok bool) {
	inner, ok := strings.CutPrefix(draft, "[Pasted text #")
	inner, closed := strings.CutSuffix(inner, "]")
	number, lines, several := strings.Cut(inner, " +")
	if several {
		lines = strings.TrimSuffix(strings.TrimSuffix(lines, "s"), " line")
		breaks, _ = strconv.Atoi(lines)
	}
	return breaks, ok && closed && digits(number) && (!several || digits(lines))
}

// printed removes white space from a text, because screens wrap lines and replace tabs.
func printed(text string) string { return strings.Join(strings.Fields(text), "") }

// Arrived reports whether a text that an agent's program has recorded begins with the sent one. It ignores
// differences in white space: programs record a tab as four spaces, and line ends as newlines. It also
// ignores text that follows, because messages that wait together are delivered as one. Programs escape tags,
// and may compose accents.
func Arrived(recorded, sent string) bool {
	recorded, sent = words(recorded), words(sent)
	if rest, ok := strings.CutPrefix(recorded, sent); ok && (rest == "" || rest[0] == ' ' || strings.HasPrefix(rest, "</pasted_content")) {
		return true
	}
	return strings.ContainsFunc(sent, unicode.IsMark) && strings.HasPrefix(ascii(recorded), ascii(sent))
}

// words returns a text with one space for each white space, and without escapes of tags.
func words(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "&lt;", "<")
}

// uncertain reports whether a text may look different on the screen. Claude Code composes accents. Programs
// and terminals disagree on the width of emoji, of Indic scripts and of zero-width characters, so characters
// get overwritten.
func uncertain(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f && !unicode.IsLetter(r) || unicode.Is(unicode.Hangul, r) })
}

// lacks reports whether the text on the screen is ours, perhaps with some characters missing, but with no
// others.
func lacks(screen, ours string) bool {
	for _, r := range screen {
		i := strings.IndexRune(ours, r)
		if i < 0 {
			return false
		}
		ours = ours[i+1:]
	}
	return true
}

// ascii returns the characters of a text that look the same everywhere. It omits letters before an accent,
// since the two may be composed.
func ascii(text string) string {
	var kept []rune
	var last rune
	for _, r := range text {
		switch {
		case r > ' ' && r < 0x7f:
			kept = append(kept, r)
		case unicode.IsMark(r) && last > ' ' && last < 0x7f:
			kept = kept[:len(kept)-1]
		}
		last = r
	}
	return string(kept)
}
