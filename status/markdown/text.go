package markdown

import (
	"fmt"
	"html"
	"strings"
	"unicode"
)

// unsafe reports whether a character is a control character, or a mark that reorders or hides
// text. The page escapes the same ones in texts that it shows as they are.
func unsafe(r rune) bool {
	if r == '\u200c' || r == '\u200d' { // joiners, inside words and emoji
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func escapeOf(r rune) string {
	switch {
	case r == '\r':
		return `\r`
	case r == 0x1b:
		return `\e`
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	default:
		return fmt.Sprintf(`\u%04x`, r)
	}
}

// longestEntity is the length of the longest name of a character, with & and ;.
const longestEntity = 33

// unescape replaces backslash escapes and character references in a text.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && isPunctuation(s[i+1]):
			i++
			b.WriteByte(s[i])
		case c == '&':
			end := strings.IndexByte(s[i:min(len(s), i+longestEntity)], ';')
			if end < 0 {
				b.WriteByte(c)
				continue
			}
			b.WriteString(html.UnescapeString(s[i : i+end+1]))
			i += end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isPunctuation(c byte) bool {
	return '!' <= c && c <= '/' || ':' <= c && c <= '@' || '[' <= c && c <= '`' || '{' <= c && c <= '~'
}
