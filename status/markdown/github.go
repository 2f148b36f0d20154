package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// What GitHub adds to CommonMark. The parsers of goldmark/extension compile their expressions
// before main runs, which was a fifth of the time in which a command starts.

// taskBoxes parses [ ] and [x] at the start of a list item.
type taskBoxes struct{}

func (taskBoxes) Trigger() []byte { return []byte("[") }

func (taskBoxes) Parse(parent ast.Node, block gmtext.Reader, _ parser.Context) ast.Node {
	item, ok := parent.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}
	line, _ := block.PeekLine()
	if len(line) < 4 || line[2] != ']' || line[3] != ' ' && line[3] != '\t' || strings.IndexByte(" xX", line[1]) < 0 {
		return nil
	}
	block.Advance(len(line) - len(bytes.TrimLeft(line[3:], " \t")))
	return extast.NewTaskCheckBox(line[1] != ' ')
}

// strikethrough parses ~a~ and ~~a~~.
type strikethrough struct{}

func (strikethrough) Trigger() []byte { return []byte("~") }

func (s strikethrough) Parse(_ ast.Node, block gmtext.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 1, s)
	if d == nil || d.OriginalLength > 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

func (strikethrough) IsDelimiter(c byte) bool { return c == '~' }

func (strikethrough) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char && opener.OriginalLength == closer.OriginalLength
}

func (strikethrough) OnMatch(int) ast.Node { return extast.NewStrikethrough() }

// bareAddresses parses addresses of the web and of mail that stand without marks, at the start
// of a word. [address] decides later which of them are linked.
type bareAddresses struct{}

// Trigger has a space for any white space, the start of a line, and the end of another node.
func (bareAddresses) Trigger() []byte { return []byte(" *_~(") }

func (bareAddresses) Parse(parent ast.Node, block gmtext.Reader, pc parser.Context) ast.Node {
	if pc.IsInLinkLabel() {
		return nil
	}
	line, segment := block.PeekLine()
	start := 0
	if util.IsSpace(line[0]) || strings.IndexByte("*_~(", line[0]) >= 0 {
		start = 1
	}
	kind, protocol := ast.AutoLinkType(ast.AutoLinkURL), ""
	n := webAddress(line[start:])
	switch {
	case n == 0:
		kind, n = ast.AutoLinkEmail, mailAddress(line[start:])
	case line[start] == 'w':
		protocol = "http"
	}
	if n == 0 {
		return nil
	}
	if start > 0 {
		ast.MergeOrAppendTextSegment(parent, segment.WithStop(segment.Start+start))
	}
	block.Advance(start + n)
	link := ast.NewAutoLink(kind, ast.NewTextSegment(gmtext.NewSegment(segment.Start+start, segment.Start+start+n)))
	if protocol != "" {
		link.Protocol = []byte(protocol)
	}
	return link
}

// maxHost and maxLocal are how long a host, and the part of a mail address before the @, can be.
// They also bound what is read for an address that is none.
const (
	maxHost  = 255
	maxLocal = 64
)

// webAddress returns the length of the address that s begins with, or 0. Its host has a dot
// inside. The marks that end a sentence are not part of it, and a ")" only if it opens it too.
func webAddress(s []byte) int {
	start := 0
	for _, prefix := range []string{"http://", "https://", "www."} {
		if bytes.HasPrefix(s, []byte(prefix)) {
			start = len(prefix)
		}
	}
	end := start + run(s[start:], ".-_", maxHost)
	if start == 0 || end == start || s[0] != 'w' && !dotted(s[start:end]) {
		return 0
	}
	if end < len(s) && s[end] == ':' {
		if port := digits(s[end+1:]); port > 0 {
			end += 1 + port
		}
	}
	switch {
	case end == len(s):
	case strings.IndexByte("@%", s[end]) >= 0: // what was read is not the host
		return 0
	case strings.IndexByte("/?#", s[end]) >= 0:
		end += run(s[end:], "-._~:/?#[]@!$&'()+,;=%", len(s))
	}
	opened, closed := bytes.Count(s[:end], []byte("(")), bytes.Count(s[:end], []byte(")"))
	for ; end > start; end-- {
		switch c := s[end-1]; {
		case strings.IndexByte("?!.,:_~'", c) >= 0:
		case c == ')' && closed > opened:
			closed--
		case c == ';': // of an entity
			amp := bytes.LastIndexByte(s[:end], '&')
			if amp < start || run(s[amp+1:end], "", end) != end-amp-2 {
				return end
			}
			end = amp + 1
		default:
			return end
		}
	}
	return 0
}

// mailAddress returns the length of the address that s begins with, or 0.
func mailAddress(s []byte) int {
	local := run(s, ".+-_", maxLocal)
	if local == 0 || local == len(s) || s[local] != '@' {
		return 0
	}
	domain := bytes.TrimRight(s[local+1:local+1+run(s[local+1:], ".-_", maxHost)], ".")
	if !dotted(domain) || strings.IndexByte("-_", domain[len(domain)-1]) >= 0 {
		return 0
	}
	return local + 1 + len(domain)
}

// run returns how many bytes at the start of s, at most limit, are letters, digits or in marks.
func run(s []byte, marks string, limit int) int {
	for i, c := range s[:min(len(s), limit)] {
		if !util.IsAlphaNumeric(c) && strings.IndexByte(marks, c) < 0 {
			return i
		}
	}
	return min(len(s), limit)
}

func digits(s []byte) int { return len(s) - len(bytes.TrimLeft(s, "0123456789")) }

func dotted(host []byte) bool {
	return bytes.IndexByte(bytes.Trim(host, "."), '.') > 0
}

// tables makes a table of the lines of a paragraph from the line before the first one of dashes
// that has as many columns.
type tables struct{}

func (tables) Transform(node *ast.Paragraph, reader gmtext.Reader, _ parser.Context) {
	source, lines := reader.Source(), node.Lines()
	for i := 1; i < lines.Len(); i++ {
		columns, ok := delimiter(lines.At(i), source)
		if !ok {
			continue
		}
		head, _ := cells(lines.At(i-1), source, columns+1)
		if len(head) != columns {
			continue
		}
		table := extast.NewTable()
		table.AppendChild(table, extast.NewTableHeader(tableRow(lines.At(i-1), source, columns)))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, tableRow(lines.At(j), source, columns))
		}
		parent := node.Parent()
		parent.InsertAfter(parent, node, table)
		if lines.SetSliced(0, i-1); i == 1 {
			parent.RemoveChild(parent, node)
		} else {
			last := lines.At(i - 2)
			lines.Set(i-2, last.TrimRightSpace(source))
		}
		return
	}
}

// delimiter returns how many columns a line of dashes has. ok is false if it is none.
func delimiter(line gmtext.Segment, source []byte) (columns int, ok bool) {
	if !bytes.ContainsAny(line.Value(source), "|:") { // it underlines a heading
		return 0, false
	}
	list, rest := cells(line, source, line.Len())
	for _, cell := range list {
		dashes := bytes.TrimSuffix(bytes.TrimPrefix(cell.Value(source), []byte(":")), []byte(":"))
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return 0, false
		}
	}
	return len(list), len(list) > 0 && rest.IsEmpty()
}

// tableRow returns a line as a row. What it has beyond the columns is one more cell, of text.
func tableRow(line gmtext.Segment, source []byte, columns int) *extast.TableRow {
	row := extast.NewTableRow(nil)
	list, rest := cells(line, source, columns)
	for i := range columns {
		cell := extast.NewTableCell()
		if i < len(list) {
			cell.Lines().Append(list[i])
		}
		row.AppendChild(row, cell)
	}
	if !rest.IsEmpty() {
		cell := extast.NewTableCell()
		text := new(plainText)
		text.Lines().Append(rest)
		cell.AppendChild(cell, text)
		row.AppendChild(row, cell)
	}
	return row
}

// plainText is a block whose text has no marks.
type plainText struct{ ast.BaseBlock }

var plainTextKind = ast.NewNodeKind("PlainText")

func (*plainText) Kind() ast.NodeKind { return plainTextKind }
func (*plainText) IsRaw() bool        { return true }
func (*plainText) Dump([]byte, int)   {}

// cells splits a line at each "|" without a backslash before it, and returns what follows the
// first n cells as rest. A "|" at the start and at the end of the line are its borders.
func cells(line gmtext.Segment, source []byte, n int) (list []gmtext.Segment, rest gmtext.Segment) {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	text := line.Value(source)
	text = bytes.TrimPrefix(text, []byte("|"))
	at := line.Stop - len(text)
	if bytes.HasSuffix(text, []byte("|")) && !bytes.HasSuffix(text, []byte(`\|`)) {
		text = text[:len(text)-1]
	}
	stop := at + len(text)
	for i := 0; i <= len(text) && len(text) > 0; i++ {
		if i < len(text) && (text[i] != '|' || i > 0 && text[i-1] == '\\') {
			continue
		}
		list = append(list, trimmed(at, stop-len(text)+i, source))
		at = stop - len(text) + i + 1
		if len(list) == n {
			return list, trimmed(min(at, stop), stop, source)
		}
	}
	return list, gmtext.NewSegment(stop, stop)
}

func trimmed(start, stop int, source []byte) gmtext.Segment {
	s := gmtext.NewSegment(start, stop)
	s = s.TrimLeftSpace(source)
	return s.TrimRightSpace(source)
}
