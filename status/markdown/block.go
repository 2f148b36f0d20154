package markdown

import "strings"

type blockKind int

const (
	document blockKind = iota
	quote
	list
	item
	paragraph
	heading
	fenced   // code between fences
	indented // code after four spaces
	rule
)

// A block is an element of whole lines.
type block struct {
	kind        blockKind
	children    []*block
	lines       []string // of a paragraph, heading or code
	first, last int      // numbers of its lines, without blank lines at its end
	depth       int      // quotes and items that it is in, itself included

	level  int    // of a heading; the first number of a list
	marker byte   // the list's - + * . or ), or the fence's character
	width  int    // of a fence; columns before the content of an item
	indent int    // columns before a fence
	lang   string // of fenced code
}

// loose reports whether the paragraphs of a list are apart: a blank line is between its items,
// or between the elements of one.
func (b *block) loose() bool {
	for i, it := range b.children {
		if i > 0 && it.first > b.children[i-1].last+1 {
			return true
		}
		for j := 1; j < len(it.children); j++ {
			if it.children[j].first > it.children[j-1].last+1 {
				return true
			}
		}
	}
	return false
}

// blocks parses the lines of a document.
type blocks struct {
	open   []*block // the document, and in each other those that the next line can continue
	number int      // of the line
	over   bool     // too many are in each other
}

func parse(text string) (doc *block, ok bool) {
	doc = &block{}
	p := blocks{open: []*block{doc}}
	for text := range strings.Lines(text) {
		p.number++
		if p.add(&line{rest: strings.TrimSuffix(text, "\n")}); p.over {
			return nil, false
		}
	}
	return doc, true
}

// add adds a line: to the blocks that it continues, to new ones that begin in it, or to an
// open paragraph, which goes on without the marks of its quotes and items.
func (p *blocks) add(l *line) {
	tip := p.open[len(p.open)-1]
	n, marked := 1, 1 // blocks that go on; those of them with a mark in this line
	for ; n < len(p.open) && p.open[n].continues(l); n++ {
		if p.open[n].kind == quote {
			marked = n + 1
		}
	}
	whole := n == len(p.open)
	switch {
	case whole && tip.kind == fenced && tip.closedBy(l):
		p.touch(n)
		p.open = p.open[:n-1]
		return
	case whole && (tip.kind == fenced || tip.kind == indented):
		tip.lines = append(tip.lines, l.remains())
		if tip.kind == fenced || !l.blank() {
			p.touch(n)
		}
		return
	case whole && tip.kind == paragraph:
		n-- // something else can begin
	}
	if tip.kind != paragraph {
		tip = nil
	}
	for tip == nil || l.indent() < 4 {
		b := begins(l, tip, whole)
		if b == nil {
			break
		}
		if b.kind == heading && b.lines == nil { // the underline of one
			tip.kind, tip.level = heading, b.level
			p.touch(len(p.open))
			p.open = p.open[:len(p.open)-1]
			return
		}
		n = p.push(n, b)
		if p.over {
			return
		}
		if b.kind != quote && b.kind != item {
			p.touch(n)
			if b.kind != fenced && b.kind != indented {
				p.open = p.open[:n-1]
			}
			return
		}
		tip, whole, marked = nil, false, n
	}
	switch {
	case l.blank():
		p.touch(marked)
		p.open = p.open[:n]
		return
	case tip == nil:
		tip = &block{kind: paragraph}
		p.push(n, tip)
	}
	tip.lines = append(tip.lines, strings.TrimLeft(l.rest, " \t"))
	p.touch(len(p.open))
}

// touch says that the first n open blocks have a part of this line.
func (p *blocks) touch(n int) {
	for _, b := range p.open[:n] {
		b.last = p.number
	}
}

// push closes the open blocks after the first n, adds b to the last of these, and returns how
// many are open now. An item is added to a list, which may be new.
func (p *blocks) push(n int, b *block) int {
	p.open = p.open[:n]
	parent := p.open[n-1]
	if parent.kind == list && (b.kind != item || b.marker != parent.marker) {
		p.open = p.open[:n-1]
		parent = p.open[n-2]
	}
	if b.kind == item && parent.kind != list {
		p.push(len(p.open), &block{kind: list, marker: b.marker, level: b.level})
		parent = p.open[len(p.open)-1]
	}
	b.first, b.depth = p.number, parent.depth
	if b.kind == quote || b.kind == item {
		b.depth++
	}
	p.over = p.over || b.depth > maxDepth
	parent.children = append(parent.children, b)
	p.open = append(p.open, b)
	return len(p.open)
}

// continues reports whether a line continues b, and takes the marks of b from it.
func (b *block) continues(l *line) bool {
	switch b.kind {
	case quote:
		return l.takeQuote()
	case item:
		if l.blank() {
			l.skip(l.indent())
			return len(b.children) > 0
		}
		if l.indent() < b.width {
			return false
		}
		l.skip(b.width)
	case fenced:
		if !b.closedBy(l) {
			l.skip(min(l.indent(), b.indent))
		}
	case indented:
		if l.indent() < 4 && !l.blank() {
			return false
		}
		l.skip(4)
	case paragraph:
		return !l.blank()
	}
	return true
}

// closedBy reports whether a line is the end of fenced code.
func (b *block) closedBy(l *line) bool {
	rest := strings.Trim(l.rest, " \t")
	return l.indent() < 4 && len(rest) >= b.width && strings.Trim(rest, string(b.marker)) == ""
}

// begins returns the block that begins in a line, and takes its marks from it; nil: none, or a
// paragraph. tip is the open paragraph, if any, which this line can continue with the marks of
// all that it is in (whole), or without some.
func begins(l *line, tip *block, whole bool) *block {
	indent, inside := l.indent(), tip != nil && whole
	rest := strings.TrimLeft(l.rest, " \t")
	switch {
	case rest == "":
		return nil
	case indent >= 4:
		l.skip(4)
		return &block{kind: indented, lines: []string{l.remains()}}
	case l.takeQuote():
		return &block{kind: quote}
	}
	if level, text := headline(rest); level > 0 {
		return &block{kind: heading, level: level, lines: []string{text}}
	}
	if mark, width, info := fence(rest); width > 0 {
		lang, _, _ := strings.Cut(info, " ")
		return &block{kind: fenced, marker: mark, width: width, indent: indent, lang: lang}
	}
	switch under := strings.TrimRight(rest, " \t"); {
	case inside && strings.Trim(under, "=") == "":
		return &block{kind: heading, level: 1}
	case inside && strings.Trim(under, "-") == "":
		return &block{kind: heading, level: 2}
	case isRule(rest):
		return &block{kind: rule}
	}
	start, width := marker(rest)
	if width == 0 {
		return nil
	}
	blank := strings.Trim(rest[width:], " \t") == ""
	if inside && (blank || start >= 0 && start != 1) {
		return nil // more likely text with a number
	}
	b := &block{kind: item, marker: rest[width-1], level: start, width: indent + width + 1}
	l.skip(indent)
	l.take(width)
	if after := l.indent(); !blank && after < 5 {
		b.width += after - 1
		l.skip(after)
	} else {
		l.skip(1)
	}
	return b
}

// headline returns the level and the text of a heading; 0: it is none.
func headline(s string) (level int, text string) {
	text = strings.TrimLeft(s, "#")
	if level = len(s) - len(text); level > 6 || text != "" && strings.IndexByte(" \t", text[0]) < 0 {
		return 0, ""
	}
	text = strings.Trim(text, " \t")
	if open := strings.TrimRight(text, "#"); open == "" || strings.IndexByte(" \t", open[len(open)-1]) >= 0 {
		text = strings.TrimRight(open, " \t")
	}
	return level, text
}

// fence returns what a fence that opens code consists of; width 0: it is none.
func fence(s string) (mark byte, width int, info string) {
	mark = s[0]
	rest := strings.TrimLeft(s, string(mark))
	if width = len(s) - len(rest); mark != '`' && mark != '~' || width < 3 || mark == '`' && strings.Contains(rest, "`") {
		return 0, 0, ""
	}
	return mark, width, strings.Trim(rest, " \t")
}

// isRule reports whether s is a horizontal rule.
func isRule(s string) bool {
	n := 0
	for _, c := range []byte(s) {
		switch c {
		case ' ', '\t':
		case s[0]:
			n++
		default:
			return false
		}
	}
	return n > 2 && strings.IndexByte("-*_", s[0]) >= 0
}

// marker returns the number that a list item begins with, -1 if it has none, and the length of
// the mark; 0: it is no item.
func marker(s string) (start, width int) {
	if strings.IndexByte("-+*", s[0]) >= 0 {
		start, width = -1, 1
	} else {
		for width < len(s) && width < 9 && '0' <= s[width] && s[width] <= '9' {
			start = start*10 + int(s[width]-'0')
			width++
		}
		if width == 0 || width == len(s) || s[width] != '.' && s[width] != ')' {
			return 0, 0
		}
		width++
	}
	if width < len(s) && s[width] != ' ' && s[width] != '\t' {
		return 0, 0
	}
	return start, width
}

// A line is what is left of one. A tab reaches to the next column that four divides, even if
// only its first columns belong to the mark before it.
type line struct {
	rest   string
	pad    int // columns of a tab that are left before rest
	column int // of rest
}

func (l *line) blank() bool { return strings.Trim(l.rest, " \t") == "" }

// indent returns the number of columns before the first character.
func (l *line) indent() int {
	n, column := l.pad, l.column
	for _, c := range []byte(l.rest) {
		switch c {
		case ' ':
			n++
			column++
		case '\t':
			n += 4 - column%4
			column += 4 - column%4
		default:
			return n
		}
	}
	return n
}

// skip takes up to n columns of white space.
func (l *line) skip(n int) {
	used := min(n, l.pad)
	l.pad -= used
	for n -= used; n > 0 && l.rest != "" && (l.rest[0] == ' ' || l.rest[0] == '\t'); {
		width := 1
		if l.rest[0] == '\t' {
			width = 4 - l.column%4
		}
		l.take(1)
		l.column += width - 1
		l.pad = max(0, width-n)
		n -= width
	}
}

// take takes n characters.
func (l *line) take(n int) { l.rest, l.column = l.rest[n:], l.column+n }

// takeQuote takes the mark of a quote.
func (l *line) takeQuote() bool {
	if l.indent() > 3 || !strings.HasPrefix(strings.TrimLeft(l.rest, " \t"), ">") {
		return false
	}
	l.skip(3)
	l.take(1)
	l.skip(1)
	return true
}

// remains returns the line as code.
func (l *line) remains() string { return strings.Repeat(" ", l.pad) + l.rest }
