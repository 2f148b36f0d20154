package journal

import (
	"context"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox/sqlite"
)

// A Hit is a message that was found.
type Hit struct {
	Message

	// Snippet is the part of the sender, the summary or the text in which most was found, with
	// … where it was cut and control characters left in. Matches are the bytes of it that were
	// looked for: from the first of each pair to before the second.
	Snippet string
	Matches [][2]int
}

// Limits of what is looked for.
const (
	maxWords     = 4 << 10 // bytes
	maxTerms     = 64
	snippetWords = 24
)

// The marks around what was found, while it comes out of the database:
// characters that Unicode keeps for the inside of programs.
const (
	markOpen  = "\ufdd0"
	markClose = "\ufdd1"
)

// Search yields the messages that hold all of words in their sender, summary or
// text, of those that q asks for: the newest first, whatever q says.
//
// Case and accents do not matter. "Words in quotes" stand in this order next to each other,
// and word* is the beginning of a word. Everything else is looked for as it is. Words that
// are blank, over 4 KiB or more than 64 are a *[ValueError].
//
// What has no letter or digit, like an emoji, and words of languages without spaces are
// looked for anywhere in the text. If there is nothing else, the whole journal is read.
func (j *Journal) Search(ctx context.Context, words string, q Query) iter.Seq2[Hit, error] {
	q.Newest = true
	match, literals, err := terms(words)
	if err != nil {
		return func(yield func(Hit, error) bool) { yield(Hit{}, err) }
	}
	every := q
	if len(literals) > 0 {
		every.Limit = 0 // not all that is found will be a hit
	}
	found := pages(every, func(h *Hit) int64 { return h.Seq }, func(q Query, limit int) ([]Hit, error) {
		return j.search(ctx, match, q, limit)
	})
	return func(yield func(Hit, error) bool) {
		n := 0
		for h, err := range found {
			if err != nil {
				yield(Hit{}, err)
				return
			}
			if !h.holds(literals, match == "") {
				continue
			}
			if n++; !yield(h, nil) || n == q.Limit {
				return
			}
		}
	}
}

func (j *Journal) search(ctx context.Context, match string, q Query, limit int) ([]Hit, error) {
	where := q.messages()
	query, args := "SELECT "+columns+" WHERE "+where.String()+" ORDER BY m.seq DESC LIMIT ?", where.limited(limit)
	if match != "" {
		// The index first, in the order of its numbers.
		query = "SELECT " + scanned +
			", snippet(words, -1, '" + markOpen + "', '" + markClose + "', '…', ?)" +
			" FROM words CROSS JOIN messages m ON m.seq = words.rowid CROSS JOIN inboxes i ON i.id = m.inbox" +
			" WHERE words MATCH ? AND " + where.String() + " ORDER BY words.rowid DESC LIMIT ?"
		args = append([]sqlite.Value{snippetWords, match}, args...)
		if q.Before != 0 {
			query = strings.Replace(query, "m.seq<?", "words.rowid<?", 1)
		}
	}
	return sqlite.Select(ctx, j.db, "search", func(v sqlite.Row) Hit {
		h := Hit{Message: scan(v)}
		if match != "" {
			h.Snippet, h.Matches = unmark(v.Text(12))
		}
		return h
	}, query, args...)
}

// unmark takes the marks out of a snippet.
func unmark(s string) (string, [][2]int) {
	var b strings.Builder
	var matches [][2]int
	open := -1
	for s != "" {
		switch {
		case strings.HasPrefix(s, markOpen):
			if open < 0 {
				open = b.Len()
			}
			s = s[len(markOpen):]
		case strings.HasPrefix(s, markClose):
			// One that is in the text itself has none before it, or shortens
			// a match.
			if open >= 0 && b.Len() > open {
				matches = append(matches, [2]int{open, b.Len()})
			}
			open = -1
			s = s[len(markClose):]
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return b.String(), matches
}

// holds reports whether all of literals are in the message, and makes a snippet
// of the place if it is asked for.
func (h *Hit) holds(literals []string, snippet bool) bool {
	parts := []string{body(&h.Row), h.Summary, h.From}
	for _, l := range literals {
		if !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, l) }) {
			return false
		}
	}
	if snippet && len(literals) > 0 {
		for _, part := range parts {
			if i := strings.Index(part, literals[0]); i >= 0 {
				h.Snippet, h.Matches = around(part, i, len(literals[0]))
				break
			}
		}
	}
	return true
}

// around cuts out of text what stands about n bytes at i.
func around(text string, i, n int) (string, [][2]int) {
	const runes = 60
	from, to := i, i+n
	for range runes {
		_, before := utf8.DecodeLastRuneInString(text[:from])
		_, after := utf8.DecodeRuneInString(text[to:])
		from, to = from-before, to+after
	}
	before, after := "", ""
	if from > 0 {
		before = "…"
	}
	if to < len(text) {
		after = "…"
	}
	start := len(before) + i - from
	return before + text[from:to] + after, [][2]int{{start, start + n}}
}

// terms makes a question for the index, and what it cannot answer, of words.
func terms(words string) (match string, literals []string, err error) {
	if len(words) > maxWords {
		return "", nil, invalid("search", "is longer than 4 KiB")
	}
	// The index reads its question as a C string.
	words = strings.ReplaceAll(strings.ToValidUTF8(words, " "), "\x00", " ")
	var list []string
	for rest := words; ; {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if rest == "" {
			break
		}
		var term string
		quoted := rest[0] == '"'
		if quoted {
			term, rest, _ = strings.Cut(rest[1:], `"`)
		} else if i := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }); i >= 0 {
			term, rest = rest[:i], rest[i:]
		} else {
			term, rest = rest, ""
		}
		prefix := false
		if quoted {
			if strings.HasPrefix(rest, "*") {
				prefix, rest = true, rest[1:]
			}
		} else if cut := strings.TrimRight(term, "*"); cut != "" && cut != term {
			prefix, term = true, cut
		}
		switch {
		case strings.TrimSpace(term) == "":
			continue
		case !indexed(term):
			literals = append(literals, term)
		default:
			term = `"` + term + `"` // there is none inside: it would have ended it
			if prefix {
				term += "*"
			}
			list = append(list, term)
		}
	}
	switch n := len(list) + len(literals); {
	case n == 0:
		return "", nil, invalid("search", "is blank")
	case n > maxTerms:
		return "", nil, invalid("search", "has more than 64 words")
	}
	return strings.Join(list, " AND "), literals, nil
}

// indexed reports whether the index can find a term: it has words made of
// letters and digits, and spaces around them in the languages it is from.
func indexed(term string) bool {
	word := false
	for _, r := range term {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
			return false
		}
		word = word || unicode.IsLetter(r) || unicode.IsNumber(r)
	}
	return word
}
