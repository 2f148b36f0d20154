package markdown

import "strings"

// tableAt returns where the first line of a table is, and how many columns it has; 0: none.
func tableAt(lines []string) (i, columns int) {
	for i := 1; i < len(lines); i++ {
		if n := delimiters(lines[i]); n > 0 && len(cells(lines[i-1], n+1)) <= n {
			return i - 1, n
		}
	}
	return len(lines), 0
}

// delimiters returns the number of columns of the second line of a table; 0: it is none. Their
// alignment is not shown.
func delimiters(line string) int {
	if !strings.ContainsAny(line, "|:") || strings.Trim(line, "-:| \t") != "" {
		return 0
	}
	list := cells(line, len(line))
	for _, c := range list {
		c = strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":")
		if c == "" || strings.Trim(c, "-") != "" {
			return 0
		}
	}
	return len(list)
}

// cells returns up to n cells of a line.
func cells(line string, n int) (list []string) {
	line = strings.TrimPrefix(strings.Trim(line, " \t"), "|")
	for line != "" && len(list) < n {
		end := until(line, '|')
		if end < 0 {
			end = len(line)
		}
		list = append(list, strings.ReplaceAll(strings.Trim(line[:end], " \t"), `\|`, "|"))
		line = line[min(end+1, len(line)):]
	}
	return list
}

// table writes the table of these lines.
func (w *writer) table(lines []string, columns int) {
	w.cells += columns * len(lines)
	if w.over = w.over || w.cells >= maxCells; w.over {
		return
	}
	w.out.WriteString(`<div class="table"><table><thead>`)
	w.row("th", lines[0], columns)
	w.out.WriteString("</thead>")
	if len(lines) > 2 {
		w.out.WriteString("<tbody>")
		for _, line := range lines[2:] {
			w.row("td", line, columns)
		}
		w.out.WriteString("</tbody>")
	}
	w.out.WriteString("</table></div>")
}

func (w *writer) row(name, line string, columns int) {
	list := cells(line, columns)
	w.out.WriteString("<tr>")
	for i := range columns {
		w.element(name, func() {
			if i < len(list) {
				w.inline(list[i])
			}
		})
	}
	w.out.WriteString("</tr>")
}
