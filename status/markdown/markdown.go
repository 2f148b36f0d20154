// Package markdown renders the Markdown that agents write as HTML that a page can insert.
//
//	html, ok := markdown.HTML("**done**, see [the run](https://ci.example.org/7)")
//
// The text is not trusted. No other elements are written than these, with these attributes:
//
//	p br hr h4 h5 h6 blockquote ul li em strong del code pre table thead tbody tr th td
//	ol start=DIGITS
//	a href=ADDRESS rel="noopener noreferrer nofollow" target="_blank"
//	input type="checkbox" disabled checked aria-label="done" or "to do"
//	div class="code" or "table"; span class="lang", "host" or "esc"
//
// HTML in the text is text. Images become links. An address is http, https or mailto, with
// an ASCII host and without a user name; any other is shown and not linked. The host is shown
// after a link whose text is something else. Control characters and marks that reorder text
// are escaped, as everywhere. Line feeds are kept: agents write for terminals.
//
// The syntax is CommonMark with the tables, task lists, strikethrough and bare addresses of
// GitHub, without HTML and reference links, which put an address far from its text. In one
// paragraph, only the first 300 marks of emphasis, links and code count: all that is rendered
// takes time in proportion to its length.
//
// The parser is of this package. The libraries compile expressions and fill tables when a
// program starts, which took a tenth of the time of each command, and need as many guards
// against hostile texts.
package markdown

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// The limits of a text that is rendered.
const (
	MaxText  = 100 << 10 // bytes
	maxDepth = 20        // elements in each other
	maxCells = 50_000    // less than that are columns of tables times lines
	maxMarks = 300       // of emphasis, links and code in a paragraph; others are text
	maxHTML  = 1 << 20   // bytes
)

// HTML renders text. It reports false if the text is over a limit: show it as it is.
func HTML(text string) (html string, ok bool) {
	if len(text) > MaxText {
		return "", false
	}
	doc, ok := parse(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n"))
	if !ok {
		return "", false
	}
	var w writer
	w.blocks(doc, true)
	if w.over || w.out.Len() > maxHTML {
		return "", false
	}
	return w.out.String(), true
}

// writer writes the elements of a document.
type writer struct {
	out   bytes.Buffer
	depth int       // elements in each other
	links []linking // that are open
	cells int       // of tables
	over  bool      // a limit
}

// headings are the elements for each level. The page has headings of its own above them.
var headings = [...]string{1: "h4", 2: "h5", 3: "h6", 4: "h6", 5: "h6", 6: "h6"}

// blocks writes what is in b. In a list that is not loose, paragraphs are no elements.
func (w *writer) blocks(b *block, loose bool) {
	for i, c := range b.children {
		switch c.kind {
		case paragraph:
			w.paragraph(c.lines, loose, b.kind == item && i == 0)
		case heading:
			w.element(headings[c.level], func() { w.inline(content(c.lines)) })
		case quote:
			w.element("blockquote", func() { w.blocks(c, true) })
		case list:
			w.list(c)
		case rule:
			w.out.WriteString("<hr>")
		case fenced, indented:
			w.code(c)
		}
	}
}

// element writes an element without attributes.
func (w *writer) element(name string, content func()) {
	w.begin(name)
	content()
	w.end(name)
}

func (w *writer) begin(name string) {
	w.depth++
	w.over = w.over || w.depth > maxDepth
	w.out.WriteString("<" + name + ">")
}

func (w *writer) end(name string) {
	w.depth--
	w.out.WriteString("</" + name + ">")
}

func (w *writer) list(b *block) {
	name := "ul"
	if b.marker == '.' || b.marker == ')' {
		name = "ol"
	}
	w.out.WriteString("<" + name)
	if name == "ol" && b.level != 1 {
		fmt.Fprintf(&w.out, ` start="%d"`, b.level)
	}
	w.out.WriteString(">")
	loose := b.loose()
	for _, c := range b.children {
		w.element("li", func() { w.blocks(c, loose) })
	}
	w.out.WriteString("</" + name + ">")
}

// paragraph writes a paragraph, or the table that it is, or that follows in it.
func (w *writer) paragraph(lines []string, loose, task bool) {
	i, columns := tableAt(lines)
	if text := content(lines[:i]); text != "" {
		if loose {
			w.out.WriteString("<p>")
		}
		if task {
			text = w.checkbox(text)
		}
		w.inline(text)
		if loose {
			w.out.WriteString("</p>")
		}
	}
	if columns > 0 {
		w.table(lines[i:], columns)
	}
}

func content(lines []string) string { return strings.TrimRight(strings.Join(lines, "\n"), " \t") }

// checkbox writes the mark of a task that text begins with, and returns the rest.
func (w *writer) checkbox(text string) string {
	if len(text) < 3 || text[0] != '[' || text[2] != ']' || len(text) > 3 && strings.IndexByte(" \t\n", text[3]) < 0 {
		return text
	}
	switch text[1] {
	case 'x', 'X':
		w.out.WriteString(`<input type="checkbox" disabled checked aria-label="done"> `)
	case ' ':
		w.out.WriteString(`<input type="checkbox" disabled aria-label="to do"> `)
	default:
		return text
	}
	return strings.TrimLeft(text[3:], " \t\n")
}

// code writes a block of code, with its language before it.
func (w *writer) code(b *block) {
	w.out.WriteString(`<div class="code">`)
	if b.lang != "" {
		w.out.WriteString(`<span class="lang">`)
		w.text(unescape(b.lang))
		w.out.WriteString("</span>")
	}
	w.out.WriteString("<pre><code>")
	lines := b.lines
	for b.kind == indented && strings.Trim(lines[len(lines)-1], " \t") == "" {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines {
		w.text(line + "\n")
	}
	w.out.WriteString("</code></pre></div>")
}

// inline writes the text of a paragraph, a heading or a cell.
func (w *writer) inline(text string) {
	for _, sp := range parseInline(text) {
		switch {
		case sp.kind == lineBreak:
			w.out.WriteString("<br>")
		case sp.kind == codeSpan:
			w.out.WriteString("<code>")
			w.text(sp.text)
			w.out.WriteString("</code>")
		case sp.kind == bare:
			w.beginLink(sp.to)
			w.text(sp.text)
			w.endLink(false)
		case sp.link:
			w.depth++
			w.over = w.over || w.depth > maxDepth
			w.beginLink(sp.to)
		case sp.kind == linkEnd:
			w.depth--
			w.endLink(true)
		case sp.kind == emphasis:
			for _, name := range sp.ends {
				w.end(name)
			}
			w.text(sp.text[:sp.left])
			for _, name := range slices.Backward(sp.begins) {
				w.begin(name)
			}
		default:
			w.text(unescape(sp.text))
		}
	}
}

// text writes a text between tags, with its unsafe characters escaped and marked.
func (w *writer) text(s string) {
	for _, r := range s {
		switch {
		case r == '<':
			w.out.WriteString("&lt;")
		case r == '>':
			w.out.WriteString("&gt;")
		case r == '&':
			w.out.WriteString("&amp;")
		case r == '\n' || r == '\t' || !unsafe(r):
			w.out.WriteRune(r)
		default:
			w.out.WriteString(`<span class="esc">` + escapeOf(r) + "</span>")
		}
	}
}
