package plain

import (
	"slices"
	"strings"
)

const (
	gap       = 2  // columns between two cells
	narrowest = 10 // the least width of a folded column
	headRoom  = 16 // a head of up to this width is not folded
)

// Table aligns rows of cells in columns, with the first row as the head, and escapes the cells. If they are wider
// than columns, long cells are folded into at most deepest lines; if rows would wrap even so, each row is a paragraph.
// columns 0 means no limit.
func Table(rows [][]string, columns, deepest int) string {
	var widths []int
	shown := make([][]string, len(rows))
	for n, row := range rows {
		for i, cell := range row {
			shown[n] = append(shown[n], Escape(cell, false))
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(shown[n][i]))
		}
	}
	if columns > 0 && len(rows) > 0 {
		if excess := narrow(widths, rows[0], columns); excess > 0 && len(rows) > 1 {
			return paragraphs(rows, columns)
		}
	}
	var b strings.Builder
	for _, row := range shown {
		cells := make([][]string, len(row))
		lines := 1
		for i, cell := range row {
			cells[i] = []string{cell}
			if Width(cell) > widths[i] {
				cells[i] = fold(cell, widths[i], deepest)
			}
			lines = max(lines, len(cells[i]))
		}
		for n := range lines {
			line := ""
			for i, cell := range cells {
				text := ""
				if n < len(cell) {
					text = cell[n]
				}
				line += text + strings.Repeat(" ", widths[i]-Width(text)+gap)
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// paragraphs writes a paragraph for each row after the head: the first cell, and below it the others behind their heads,
// without those that say nothing.
func paragraphs(rows [][]string, columns int) string {
	var b strings.Builder
	for _, row := range rows[1:] {
		var rest []string
		for i, cell := range row[1:] {
			if cell != "" && cell != "-" {
				rest = append(rest, strings.ToLower(rows[0][i+1])+" "+strings.Join(strings.Fields(cell), " "))
			}
		}
		b.WriteString(Escape(row[0], false) + "\n" + Indent(strings.Join(rest, ", "), columns))
	}
	return b.String()
}

// narrow narrows the widest columns until the table fits into columns, and returns by how much it does not.
func narrow(widths []int, head []string, columns int) (excess int) {
	excess = gap*(len(widths)-1) - columns
	for i, w := range widths {
		widths[i] = min(w, max(columns, narrowest))
		excess += widths[i]
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, w := range widths {
			least := narrowest
			if i < len(head) {
				least = max(narrowest, min(Width(head[i]), headRoom))
			}
			if w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return excess
}

// fold breaks s, a single line, into lines of columns width, between words if possible. lines, if not 0, limits the
// number of lines: the last one is cut, with an ellipsis.
func fold(s string, columns, lines int) (folded []string) {
	for s != "" {
		if len(folded)+1 == lines {
			return append(folded, Cut(s, columns))
		}
		end, at := len(s), 0 // where the line ends
		for i, r := range s {
			if at += runeWidth(r); at > columns && i > 0 {
				end = i
				break
			}
		}
		next := end
		if end < len(s) {
			if space := strings.LastIndexByte(s[:end+1], ' '); space > 0 && strings.Trim(s[:space], " ") != "" {
				end, next = space, space+1
			} else if mark := strings.LastIndexAny(s[:end], "-/,;:"); mark > end/2 {
				end, next = mark+1, mark+1
			}
		}
		folded = append(folded, s[:end])
		s = s[next:]
	}
	return slices.Clip(folded)
}

// Indent returns a text, escaped, indented and folded into columns, for the lines below a heading. columns 0 means no
// limit.
func Indent(text string, columns int) string {
	const margin = "    "
	var b strings.Builder
	for line := range strings.Lines(Escape(text, true)) {
		line = strings.TrimSuffix(line, "\n")
		lines := []string{line}
		if room := columns - len(margin); columns > 0 && room >= narrowest && !strings.Contains(line, "\t") && Width(line) > room {
			lines = fold(line, room, 0)
		}
		for _, l := range lines {
			b.WriteString(margin + l + "\n")
		}
	}
	return b.String()
}
