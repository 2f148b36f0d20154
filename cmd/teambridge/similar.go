package main

import (
	"slices"
	"strings"
)

// similar returns the names that typed may be a slip of: those that begin with it, if it
// has at least 3 letters, or else the nearest of those with 1 wrong letter, or 2 if it has
// at least 6. Two letters exchanged are one wrong letter.
func similar(typed string, names []string) []string {
	typed = strings.ToLower(typed)
	var found []string
	if len(typed) >= 3 {
		for _, name := range names {
			if strings.HasPrefix(name, typed) {
				found = append(found, name)
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	nearest := 1
	if len(typed) >= 6 {
		nearest = 2
	}
	for _, name := range names {
		switch d := editDistance(typed, name); {
		case len(typed) < 2 || d > nearest:
		case d < nearest:
			nearest, found = d, []string{name}
		default:
			found = append(found, name)
		}
	}
	return found
}

// editDistance counts the letters to insert, remove, replace or exchange with the next
// one that make t of s.
func editDistance(s, t string) int {
	var rows [3][]int // the last three
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		row, above, before := rows[i%3], rows[(i-1)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(t); j++ {
			replace := above[j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			row[j] = slices.Min([]int{above[j] + 1, row[j-1] + 1, replace})
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[len(s)%3][len(t)]
}
