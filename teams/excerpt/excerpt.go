// Package excerpt shortens texts for people.
package excerpt

import (
	"strings"
	"unicode"
)

// Bytes is s, cut to so many bytes of UTF-8, with an ellipsis after them.
func Bytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Line is s on one line, without control characters, cut to so many characters, of which an ellipsis is the last.
func Line(s string, most int) string {
	s = s[:min(len(s), 16*most)] // of which characters are made
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
