package markdown

import "strings"

// What addresses consist of, beside letters and digits.
const (
	inHost = "-@:%._+~#="
	inPath = inHost + "$!?&/();,'\">^{}[]`"
	inMail = "._+-"
)

// prefix returns how many bytes at the start of s are letters, digits, or in others.
func prefix(s, others string) int {
	for i, c := range []byte(s) {
		if !isAlphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return i
		}
	}
	return len(s)
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// destination returns the address after the text of a link, in parentheses, and the length of
// all that; 0: there is none.
func destination(s string) (to string, n int) {
	if s == "" || s[0] != '(' {
		return "", 0
	}
	space := func() { n = len(s) - len(strings.TrimLeft(s[n:], " \t\n")) }
	n = 1
	space()
	if n < len(s) && s[n] == '<' {
		end := until(s[n+1:], '>')
		if end < 0 || strings.Contains(s[n:n+end], "\n") {
			return "", 0
		}
		to = s[n+1 : n+1+end]
		n += end + 2
	} else {
		end := 0
		for depth := 0; n+end < len(s); end++ {
			c := s[n+end]
			if c <= ' ' || c == ')' && depth == 0 {
				break
			}
			switch {
			case c == '\\' && n+end+1 < len(s) && isPunctuation(s[n+end+1]):
				end++
			case c == '(':
				depth++
			case c == ')':
				depth--
			}
		}
		to = s[n : n+end]
		n += end
	}
	before := n
	space()
	if n < len(s) && n > before && to != "" && strings.IndexByte(`"'(`, s[n]) >= 0 { // a title, which is not shown
		mark := s[n]
		if mark == '(' {
			mark = ')'
		}
		end := until(s[n+1:], mark)
		if end < 0 {
			return "", 0
		}
		n += end + 2
		space()
	}
	if n >= len(s) || s[n] != ')' {
		return "", 0
	}
	return to, n + 1
}

// until returns where c is for the first time without a backslash; -1: nowhere.
func until(s string, c byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case c:
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// angled returns the address in angle brackets that s begins with, as it is shown and as it is
// linked; "": there is none.
func angled(s string) (label, to string) {
	end := strings.IndexAny(s[1:], "<> \t\n") + 1
	if end <= 1 || s[end] != '>' {
		return "", ""
	}
	label = s[1:end]
	if mailLength(label) == len(label) {
		return label, "mailto:" + label
	}
	scheme := prefix(label, "+.-")
	if scheme < 2 || scheme > 32 || scheme == len(label) || label[scheme] != ':' || label[0] < 'A' {
		return "", ""
	}
	return label, label
}

// address returns an address that begins here and stands for itself, and where it leads.
func (p *inline) address() (label, to string) {
	if len(p.brackets) > 0 || p.at != p.from && strings.IndexByte(" \t*_~(", p.s[p.at-1]) < 0 {
		return "", ""
	}
	s := p.s[p.at:]
	for _, begin := range []string{"http://", "https://", "www."} {
		if !strings.HasPrefix(s, begin) {
			continue
		}
		host := len(begin) + prefix(s[len(begin):], inHost)
		end := host
		if end < len(s) && (s[end] == '/' || s[end] == '?') {
			end += prefix(s[end:], inPath)
		}
		if !strings.Contains(strings.Trim(s[len(begin):host], "."), ".") {
			return "", ""
		}
		label = trimEnd(s[:end])
		if begin == "www." {
			return label, "http://" + label
		}
		return label, label
	}
	n := mailLength(s)
	return s[:n], "mailto:" + s[:n]
}

// mailLength returns the length of the mail address that s begins with; 0: there is none.
func mailLength(s string) int {
	at := prefix(s[:min(len(s), 65)], inMail)
	if at == 0 || at == len(s) || s[at] != '@' || isPunctuation(s[0]) {
		return 0
	}
	host := s[at+1 : at+1+prefix(s[at+1:], ".-_")]
	host = strings.TrimRight(host, ".")
	if !strings.Contains(host, ".") || strings.IndexByte("-_", host[len(host)-1]) >= 0 || host[0] == '.' {
		return 0
	}
	return at + 1 + len(host)
}

// trimEnd returns an address without what belongs to the sentence around it.
func trimEnd(s string) string {
	open := strings.Count(s, "(") - strings.Count(s, ")")
	for {
		switch last := s[len(s)-1]; {
		case strings.IndexByte("?!.,:*_~", last) >= 0:
		case last == ')' && open < 0:
			open++
		case last == ';':
			entity := strings.LastIndexByte(s, '&')
			if n := len(s) - entity; entity < 0 || n < 3 || prefix(s[entity+1:], "") != n-2 {
				return s
			}
			s = s[:entity+1]
		default:
			return s
		}
		s = s[:len(s)-1]
	}
}
