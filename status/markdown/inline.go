package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type spanKind int

const (
	words    spanKind = iota
	codeSpan          // without its backquotes
	lineBreak
	bare     // an address that stands for itself
	emphasis // * _ or ~
	bracket  // [ or ![
	linkEnd  // ] and an address, after the bracket of a link
)

// A span is a part of a paragraph. Elements are not in each other: they begin and end in spans.
type span struct {
	kind spanKind
	text string // as in the source
	to   string // the address of a link

	link  bool // the bracket begins a link
	stale bool // the bracket is before a link, which is in no other one

	// Of marks: whether they can begin and end an element; how many are not used yet; the
	// elements that end before these, and those that begin after, the innermost first.
	opens, closes bool
	left          int
	ends, begins  []string
}

// inline parses the text of a paragraph, a heading or a cell.
type inline struct {
	s        string
	at       int // all before is read
	from     int // all before is in spans
	spans    []span
	brackets []int // spans that may begin a link
	emphasis []int // spans of marks that may begin or end an element
	marks    int   // of all kinds so far
}

func parseInline(s string) []span {
	p := &inline{s: s}
	for p.at < len(s) {
		if !p.special() {
			p.at++
		}
	}
	p.flush()
	p.match(0)
	return p.spans
}

// flush makes a span of the text that is in none.
func (p *inline) flush() {
	if p.from < p.at {
		p.spans = append(p.spans, span{kind: words, text: p.s[p.from:p.at]})
	}
	p.from = p.at
}

// put adds a span for the next n bytes.
func (p *inline) put(n int, sp span) bool {
	p.flush()
	p.spans = append(p.spans, sp)
	p.at += n
	p.from = p.at
	return true
}

// special reads what is not a character of a text, if there is something.
func (p *inline) special() bool {
	s := p.s[p.at:]
	if label, to := p.address(); label != "" {
		return p.put(len(label), span{kind: bare, text: label, to: to})
	}
	switch s[0] {
	case '\\':
		if len(s) > 1 && isPunctuation(s[1]) {
			p.at += 2
			return true
		}
		return strings.HasPrefix(s, "\\\n") && p.put(2, span{kind: lineBreak})
	case '\n':
		read := p.at
		p.at = p.from + len(strings.TrimRight(p.s[p.from:read], " \t"))
		p.flush()
		p.at = read
		p.from = read
		return p.put(1, span{kind: lineBreak})
	case '<':
		label, to := angled(s)
		return to != "" && p.put(len(label)+2, span{kind: bare, text: label, to: to})
	case '`', '*', '_', '~', '[', ']', '!':
		if p.marks++; p.marks <= maxMarks {
			return p.mark(s)
		}
	}
	return false
}

func (p *inline) mark(s string) bool {
	switch s[0] {
	case '!':
		if !strings.HasPrefix(s, "![") {
			return false
		}
		return p.bracket("![")
	case '[':
		return p.bracket("[")
	case ']':
		return p.link(s[1:])
	}
	n := len(s) - len(strings.TrimLeft(s, s[:1]))
	if s[0] == '`' {
		if end := closing(s[n:], n); end >= 0 {
			return p.put(2*n+end, span{kind: codeSpan, text: codeText(s[n : n+end])})
		}
	}
	if s[0] == '`' || s[0] == '~' && n > 2 {
		p.at += n
		return true
	}
	opens, closes := p.flanks(s[0], n)
	p.put(n, span{kind: emphasis, text: s[:n], left: n, opens: opens, closes: closes})
	p.emphasis = append(p.emphasis, len(p.spans)-1)
	return true
}

// closing returns where the first run of n backquotes is.
func closing(s string, n int) int {
	for i := 0; i < len(s); {
		next := strings.IndexByte(s[i:], '`')
		if next < 0 {
			break
		}
		i += next
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i
		}
		i += run
	}
	return -1
}

// codeText returns the code of a span. A space after the backquotes, and one before, are there
// for code that begins or ends with one.
func codeText(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if len(s) > 1 && s[0] == ' ' && s[len(s)-1] == ' ' && strings.Trim(s, " ") != "" {
		s = s[1 : len(s)-1]
	}
	return s
}

// flanks reports whether n marks can begin and end an element: what they stand between decides.
func (p *inline) flanks(mark byte, n int) (opens, closes bool) {
	before, _ := utf8.DecodeLastRuneInString(" " + p.s[max(0, p.at-utf8.UTFMax):p.at])
	after, _ := utf8.DecodeRuneInString(p.s[p.at+n:] + " ")
	punctuation := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	left := !unicode.IsSpace(after) && (!punctuation(after) || unicode.IsSpace(before) || punctuation(before))
	right := !unicode.IsSpace(before) && (!punctuation(before) || unicode.IsSpace(after) || punctuation(after))
	if mark == '_' { // not in the middle of a word
		return left && (!right || punctuation(before)), right && (!left || punctuation(after))
	}
	return left, right
}

// match makes elements of the marks after the first n.
func (p *inline) match(n int) {
	list := p.emphasis
	for i := n; i < len(list); {
		end := &p.spans[list[i]]
		j := i - 1
		for j >= n && !(end.closes && p.spans[list[j]].matches(end)) {
			j--
		}
		if j < n {
			i++
			continue
		}
		start := &p.spans[list[j]]
		used, name := 1, "em"
		if start.left > 1 && end.left > 1 {
			used, name = 2, "strong"
		}
		if start.text[0] == '~' {
			name = "del"
		}
		start.left -= used
		end.left -= used
		start.begins = append(start.begins, name)
		end.ends = append(end.ends, name)
		// Marks between the two match none outside.
		keep := list[:j]
		if start.left > 0 {
			keep = list[:j+1]
		}
		if end.left == 0 {
			i++
		}
		rest := list[i:]
		i = len(keep)
		list = append(keep, rest...)
	}
	p.emphasis = p.emphasis[:n]
}

// matches reports whether an element can begin in sp and end in end.
func (sp *span) matches(end *span) bool {
	if !sp.opens || sp.text[0] != end.text[0] {
		return false
	}
	a, b := len(sp.text), len(end.text)
	if sp.text[0] == '~' {
		return a == b
	}
	// Marks that can do both match those of other elements in texts as *a**b*.
	return !(sp.closes || end.opens) || (a+b)%3 != 0 || a%3 == 0 && b%3 == 0
}

func (p *inline) bracket(s string) bool {
	p.put(len(s), span{kind: bracket, text: s})
	p.brackets = append(p.brackets, len(p.spans)-1)
	return true
}

// link reads s, which is what follows a closing bracket.
func (p *inline) link(s string) bool {
	if len(p.brackets) == 0 {
		return false
	}
	open := p.brackets[len(p.brackets)-1]
	p.brackets = p.brackets[:len(p.brackets)-1]
	to, n := destination(s)
	if p.spans[open].stale || n == 0 {
		return false
	}
	p.put(n+1, span{kind: linkEnd})
	first := len(p.emphasis)
	for first > 0 && p.emphasis[first-1] > open {
		first--
	}
	p.match(first)
	p.spans[open].link, p.spans[open].to = true, unescape(to)
	if p.spans[open].text == "[" { // links are never in each other
		for _, i := range p.brackets {
			p.spans[i].stale = p.spans[i].stale || p.spans[i].text == "["
		}
	}
	return true
}
