// Package plain prepares other people's text for a terminal: it escapes characters that could control the terminal or
// reorder a line, and fits text into columns.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"teambridge/teams/rawjson"
)

// Unsafe reports whether r is a control character, or a mark that reorders or hides text.
func Unsafe(r rune) bool {
	if r == '\u200c' || r == '\u200d' { // joiners, inside words and emoji
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func harmful(r rune, lines bool) bool { return Unsafe(r) && !(lines && (r == '\n' || r == '\t')) }

// Escape replaces unsafe characters by escape sequences. With lines, line breaks and tabs stay.
func Escape(s string, lines bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return harmful(r, lines) }) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case harmful(r, lines):
			b.WriteString(EscapeRune(r))
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// EscapeRune returns the escape sequence of an unsafe character.
func EscapeRune(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r == 0x1b:
		return `\e`
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// JSON encodes v as one line, with <, > and & unescaped. Unsafe characters become \u escapes, even if JSON does not
// require it.
func JSON(v any) ([]byte, error) {
	line, err := rawjson.Encode(v)
	if err != nil {
		return nil, err
	}
	return escapeJSON(append(line, '\n')), nil
}

// escapeJSON replaces the unsafe characters in a line of JSON by \u escapes.
func escapeJSON(line []byte) (out []byte) {
	if !bytes.ContainsFunc(line, func(r rune) bool { return harmful(r, true) }) {
		return line
	}
	for _, r := range string(line) {
		if !harmful(r, true) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// JSONWriter writes lines of JSON to W, with \u escapes for unsafe characters. Each line must be written in one call.
type JSONWriter struct{ W io.Writer }

// Write writes a line.
func (w JSONWriter) Write(line []byte) (int, error) {
	if _, err := w.W.Write(escapeJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
