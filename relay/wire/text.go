package wire

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"teambridge/teams/rawjson"
)

// appendQuoted appends s as a JSON string, as JavaScript writes it: escapes only
// where JSON needs them and for lone surrogates. Other bytes that are not UTF-8
// become U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	inside := func(s string) []byte {
		quoted := rawjson.AppendText(nil, s)
		return quoted[1 : len(quoted)-1]
	}
	b = append(b, '"')
	for i := 0; i < len(s); {
		r, ok := surrogate(s[i:])
		if !ok {
			i++
			continue
		}
		b = fmt.Appendf(append(b, inside(s[:i])...), `\u%04x`, r)
		s, i = s[i+3:], 0
	}
	return append(append(b, inside(s)...), '"')
}

// surrogate returns the lone surrogate that s begins with. UTF-8 has no form for it; s has the three bytes that
// UTF-8's pattern would give.
func surrogate(s string) (r rune, ok bool) {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2] < 0x80 || s[2] > 0xBF {
		return 0, false
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), true
}

// unquote returns the text of a valid JSON string. Unlike encoding/json, it
// keeps lone surrogates.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			b = append(b, raw[i])
			i++
			continue
		}
		c := raw[i+1]
		i += 2
		if n := strings.IndexByte("btnfr", c); n >= 0 {
			b = append(b, "\b\t\n\f\r"[n])
			continue
		}
		if c != 'u' {
			b = append(b, c)
			continue
		}
		r := hex(raw[i:])
		i += 4
		if utf16.IsSurrogate(r) {
			if low := raw[i:]; len(low) >= 6 && low[0] == '\\' && low[1] == 'u' {
				if pair := utf16.DecodeRune(r, hex(low[2:])); pair != utf8.RuneError {
					b = utf8.AppendRune(b, pair)
					i += 6
					continue
				}
			}
			b = append(b, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			continue
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// hex returns the number that four hexadecimal digits are.
func hex(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
