package tmux

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// cell is one character of the screen with its style. fg and bg mean that a colour is not the default.
type cell struct {
	r                  rune
	bold, dim, inverse bool
	fg, bg             bool
}

type line []cell

// text returns the line without trailing spaces.
func (l line) text() string {
	var b strings.Builder
	for _, c := range l {
		b.WriteRune(c.r)
	}
	return strings.TrimRight(b.String(), " \u00a0")
}

// rule reports whether the line is a rule across the whole width. It may say how much of a high draft is
// hidden.
func (l line) rule() bool { return len(l) >= 10 && rule().MatchString(l.text()) }

var rule = expression(`^─+( ↓ \d+ more ─+)?$`)

// expression compiles an expression at its first use, because most commands read no screen.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// parseScreen separates the characters of a screen from colours and attributes, which persist from line to
// line.
func parseScreen(screen string) []line {
	var lines []line
	var now line
	var style cell
	for screen = strings.TrimRight(screen, "\n"); screen != ""; {
		if screen[0] == '\x1b' {
			parameters, final, rest := cutSequence(screen)
			if final == 'm' {
				style.apply(parameters)
			}
			screen = rest
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

// cutSequence cuts an escape off the start of a text. For a control sequence it returns the parameters and
// the last byte; it also cuts strings, such as links, and other escapes.
func cutSequence(text string) (parameters string, final byte, rest string) {
	if len(text) < 2 {
		return "", 0, ""
	}
	switch text[1] {
	case '[':
		end := strings.IndexFunc(text[2:], func(r rune) bool { return r < ' ' || r > '?' })
		if end < 0 {
			return "", 0, ""
		}
		return text[2 : 2+end], text[2+end], text[2+end+1:]
	case ']', 'P', 'X', '^', '_':
		end := strings.IndexAny(text[2:], "\a\x1b")
		if end < 0 {
			return "", 0, ""
		}
		return "", 0, strings.TrimPrefix(text[2+end+1:], "\\")
	}
	return "", 0, text[2:]
}

// apply changes the style by the parameters of one sequence in tmux's form, such as "0;2" or "38;5;246".
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
