// Package markdown renders the Markdown that agents write as HTML that a page can insert.
//
//	html, ok := markdown.HTML("**done**, see [the run](https://ci.example.org/7)")
//
// The text is not trusted. It is parsed with goldmark, and each element is written by this
// package, which knows no others than these, with these attributes:
//
//	p br hr h4 h5 h6 blockquote ul li em strong del code pre table thead tbody tr th td
//	ol start=DIGITS
//	a href=ADDRESS rel="noopener noreferrer nofollow" target="_blank"
//	input type="checkbox" disabled checked aria-label="done" or "to do"
//	div class="code" or "table"; span class="lang", "host" or "esc"
//
// HTML in the text is text. Images become links. An address is http, https or mailto, with
// an ASCII host and without a user name; any other is shown and not linked. The host is shown
// after a link whose text is something else, with "/…" if the address goes on, and with the title
// of the link. Control characters and marks that reorder text are escaped, as everywhere. Line
// feeds are kept: agents write for terminals.
//
// No word of the text is left out, because people approve what they read: the cells of a row that
// the head of its table does not have are one more cell, and all that follows the language of a
// block of code is shown with it.
//
// The syntax is CommonMark with the tables, task lists, strikethrough and bare addresses of
// GitHub, without HTML and reference links. In one paragraph, only the first 300 marks of
// emphasis, links and code count: all that is rendered takes time in proportion to its length.
package markdown

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"teambridge/status/plain"
)

// The limits of a text that is rendered.
const (
	MaxText    = 100 << 10 // bytes
	maxDepth   = 20        // elements in each other
	maxCells   = 50_000    // columns of the widest table times lines of the text
	maxMarks   = 300       // of emphasis, links and code in a paragraph; others are text
	maxStacked = 1000      // marks on one letter
	maxHTML    = 1 << 20   // bytes
	maxTags    = 5000      // elements; a browser took half a minute for 50,000 paragraphs, and more for as many lines of one
)

// syntax has no parser of HTML, which is therefore text, and none of reference definitions: of
// 14,000 it took 1.2 s, and they put an address far from its link.
//
// It is made when it is used first: most commands render nothing.
var syntax = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(taskBoxes{}, 0),
			util.Prioritized(marks{}, 50),
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
			util.Prioritized(strikethrough{}, 500),
			util.Prioritized(bareAddresses{}, 999),
		),
		parser.WithParagraphTransformers(util.Prioritized(tables{}, 200)),
	)
})

// HTML renders text. It reports false if the text is over a limit: show it as it is.
func HTML(text string) (html string, ok bool) {
	if len(text) > MaxText || !withinLimits(text) {
		return "", false
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	w := writer{source: []byte(text)}
	w.node(syntax().Parse(gmtext.NewReader(w.source)), 0)
	html = w.out.String() // what is no tag has no <
	if w.over || len(html) > maxHTML || strings.Count(html, "<")-strings.Count(html, "</") > maxTags {
		return "", false
	}
	return html, true
}

// writer writes the nodes of a document.
type writer struct {
	source []byte
	out    bytes.Buffer
	linked bool // inside a link; elements of links are never in each other
	tabled bool // inside a table, where code has \| for |
	over   bool // a limit
}

// headings are the elements for each level. The page has headings of its own above them.
var headings = [...]string{1: "h4", 2: "h5", 3: "h6", 4: "h6", 5: "h6", 6: "h6"}

// node writes a node. Of one that it does not know it writes the content.
func (w *writer) node(n ast.Node, depth int) {
	if depth > maxDepth || w.out.Len() > maxHTML {
		w.over = true
	}
	if w.over {
		return
	}
	switch n := n.(type) {
	case *ast.Paragraph:
		w.element("p", n, depth-1)
	case *ast.Heading:
		w.element(headings[min(max(n.Level, 1), 6)], n, depth)
	case *ast.Blockquote:
		w.element("blockquote", n, depth)
	case *ast.List:
		w.list(n, depth-1) // its items count
	case *ast.ListItem:
		w.element("li", n, depth)
	case *ast.ThematicBreak:
		w.out.WriteString("<hr>")
	case *ast.CodeBlock:
		w.code(n, nil)
	case *ast.FencedCodeBlock:
		var info []byte
		if n.Info != nil {
			info = n.Info.Segment.Value(w.source)
		}
		w.code(n, info)
	case *ast.Text:
		w.inline(n)
	case *ast.String:
		w.text(string(n.Value))
	case *ast.CodeSpan:
		w.codeSpan(n)
	case *ast.Emphasis:
		name := "em"
		if n.Level == 2 {
			name = "strong"
		}
		w.element(name, n, depth)
	case *extast.Strikethrough:
		w.element("del", n, depth)
	case *ast.Link:
		w.link(n, "", unescape(string(n.Destination)), unescape(string(n.Title)), depth)
	case *ast.Image:
		w.link(n, "image", unescape(string(n.Destination)), unescape(string(n.Title)), depth)
	case *ast.AutoLink:
		w.autoLink(n)
	case *extast.TaskCheckBox:
		if n.IsChecked {
			w.out.WriteString(`<input type="checkbox" disabled checked aria-label="done"> `)
		} else {
			w.out.WriteString(`<input type="checkbox" disabled aria-label="to do"> `)
		}
	case *extast.Table:
		w.table(n, depth)
	case *plainText:
		w.text(string(n.Lines().Value(w.source)))
	default:
		w.children(n, depth-1)
	}
}

func (w *writer) children(n ast.Node, depth int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		w.node(c, depth+1)
	}
}

// element writes an element without attributes.
func (w *writer) element(name string, n ast.Node, depth int) {
	w.out.WriteString("<" + name + ">")
	w.children(n, depth)
	w.out.WriteString("</" + name + ">")
}

func (w *writer) list(n *ast.List, depth int) {
	switch {
	case !n.IsOrdered():
		w.element("ul", n, depth)
	case n.Start == 1:
		w.element("ol", n, depth)
	default:
		fmt.Fprintf(&w.out, `<ol start="%d">`, max(n.Start, 0))
		w.children(n, depth)
		w.out.WriteString("</ol>")
	}
}

func (w *writer) table(n *extast.Table, depth int) {
	w.tabled = true
	defer func() { w.tabled = false }()
	w.out.WriteString(`<div class="table"><table>`)
	body := false
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		name := "td"
		if row.Kind() == extast.KindTableHeader {
			name = "th"
			w.out.WriteString("<thead>")
		} else if !body {
			body = true
			w.out.WriteString("<tbody>")
		}
		w.out.WriteString("<tr>")
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			w.element(name, cell, depth)
		}
		w.out.WriteString("</tr>")
		if name == "th" {
			w.out.WriteString("</thead>")
		}
	}
	if body {
		w.out.WriteString("</tbody>")
	}
	w.out.WriteString("</table></div>")
}

// code writes a block of code, with its language and what follows that before it.
func (w *writer) code(n ast.Node, info []byte) {
	w.out.WriteString(`<div class="code">`)
	if info = bytes.TrimSpace(info); len(info) > 0 {
		w.out.WriteString(`<span class="lang">`)
		w.text(unescape(string(info)))
		w.out.WriteString("</span>")
	}
	w.out.WriteString("<pre><code>")
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		w.text(string(line.Value(w.source)))
	}
	w.out.WriteString("</code></pre></div>")
}

func (w *writer) codeSpan(n ast.Node) {
	w.out.WriteString("<code>")
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			code := strings.ReplaceAll(string(t.Value(w.source)), "\n", " ")
			if w.tabled { // goldmark's own way takes quadratic time
				code = strings.ReplaceAll(code, `\|`, "|")
			}
			w.text(code)
		}
	}
	w.out.WriteString("</code>")
}

func (w *writer) inline(n *ast.Text) {
	value := string(n.Value(w.source))
	if !n.IsRaw() {
		value = unescape(value)
	}
	w.text(value)
	if n.SoftLineBreak() || n.HardLineBreak() {
		w.out.WriteString("<br>")
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
		case r == '\n' || r == '\t' || !plain.Unsafe(r):
			w.out.WriteRune(r)
		default:
			w.out.WriteString(`<span class="esc">` + plain.EscapeRune(r) + "</span>")
		}
	}
}
