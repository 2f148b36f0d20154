package markdown

import (
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
)

// withinLimits reports whether a text can be parsed in linear time, as far as its lines tell:
// the parser makes every cell of a table, also those that a line does not have, and an element
// for each mark of a quote.
//
// Marks that stack on a letter are limited for the browser: it took seconds for 50,000 on one.
func withinLimits(text string) bool {
	stacked := 0
	for _, r := range text {
		if !unicode.Is(unicode.M, r) {
			stacked = 0
		} else if stacked++; stacked > maxStacked {
			return false
		}
	}
	lines, columns := 0, 0
	for line := range strings.Lines(text) {
		lines++
		if strings.Trim(line, "-:| \t\r\n>") == "" {
			columns = max(columns, strings.Count(line, "|")+1)
		}
		if containers(line) > maxDepth && strings.Trim(line, "- \t\r\n") != "" && strings.Trim(line, "* \t\r\n") != "" { // those are rules
			return false
		}
	}
	return columns*lines <= maxCells || columns <= 1
}

// containers counts the marks of quotes and list items that a line begins with.
func containers(line string) int {
	n := 0
	for i := 0; i < len(line); i++ {
		spaced := i+1 < len(line) && strings.IndexByte(" \t\n", line[i+1]) >= 0
		switch c := line[i]; {
		case c == '>':
			n++
		case c == ' ' || c == '\t':
		case (c == '-' || c == '+' || c == '*') && spaced:
			n++
		case '0' <= c && c <= '9':
		case (c == '.' || c == ')') && spaced && i > 0 && '0' <= line[i-1] && line[i-1] <= '9':
			n++
		default:
			return n
		}
	}
	return n
}

// marks is an inline parser that takes the marks of a paragraph after the first maxMarks as
// text. The parsers of emphasis, links and code compare each with those before it, or read to
// the end of the paragraph: 100 KiB of one paragraph took 28 s.
type marks struct{}

// counted are the marks so far in a block.
type counted struct {
	block ast.Node
	n     int
}

var countedKey = parser.NewContextKey()

func (marks) Trigger() []byte { return []byte("*_~[]!`") }

func (marks) Parse(parent ast.Node, block gmtext.Reader, pc parser.Context) ast.Node {
	c, _ := pc.Get(countedKey).(*counted)
	if c == nil || c.block != parent {
		c = &counted{block: parent}
		pc.Set(countedKey, c)
	}
	if c.n++; c.n <= maxMarks {
		return nil
	}
	_, segment := block.PeekLine()
	block.Advance(1)
	return ast.NewTextSegment(segment.WithStop(segment.Start + 1))
}
