package journal

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox/sqlite"
)

// A Hit is a message that was found.
type Hit struct {
	Record
	Excerpt
}

// An EnvelopeHit is an envelope that was found, with its Text.
type EnvelopeHit struct {
	Envelope
	Excerpt
}

// An Excerpt shows what was found.
type Excerpt struct {
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
// looked for anywhere in the text. The search index is brought up to date first: see [Journal.Index].
func (j Messages) Search(ctx context.Context, words string, q Query) iter.Seq2[Hit, error] {
	return hits(words, q, func(h *Hit) int64 { return h.Seq }, func(h *Hit) int { return len(h.Raw) },
		func(find *question, q Query, limit int) (list []Hit, err error) {
			query, args := find.inIndex(scanned, "messages m ON m.seq = words.rowid CROSS JOIN inboxes i ON i.id = m.inbox", "m.seq", q.messages(), limit)
			err = j.withIndex(ctx, func(db *sqlite.DB) (err error) {
				list, err = sqlite.Select(ctx, db, "search", func(v sqlite.Row) Hit { return Hit{scan(v), find.excerpt(v, 13)} }, query, args...)
				return err
			})
			return list, err
		},
		func(h *Hit) (*Excerpt, []string) { return &h.Excerpt, []string{body(&h.Row), h.Summary, h.From} })
}

// Search yields the envelopes that hold all of words in their Text or the agent's
// name, of those that q asks for, as Search yields messages.
func (j Envelopes) Search(ctx context.Context, words string, q EnvelopeQuery) iter.Seq2[EnvelopeHit, error] {
	return hits(words, q.Query, func(h *EnvelopeHit) int64 { return h.Seq }, func(h *EnvelopeHit) int { return len(h.Raw) },
		func(find *question, part Query, limit int) (list []EnvelopeHit, err error) {
			q.Query = part
			query, args := find.inIndex(envelopeScanned, "envelopes e ON e.seq = words.rowid CROSS JOIN inboxes i ON i.id = e.inbox", "e.seq", q.envelopes(), limit)
			err = j.withIndex(ctx, func(db *sqlite.DB) (err error) {
				list, err = sqlite.Select(ctx, db, "search", func(v sqlite.Row) EnvelopeHit { return EnvelopeHit{scanEnvelope(v), find.excerpt(v, 14)} }, query, args...)
				return err
			})
			return list, err
		},
		func(h *EnvelopeHit) (*Excerpt, []string) { return &h.Excerpt, []string{h.Text(), h.Inbox} })
}

// hits yields what holds all of words, the newest first. page reads what the index finds, and
// parts returns the texts of one.
func hits[T any](words string, q Query, seq func(*T) int64, bytes func(*T) int, page func(find *question, q Query, limit int) ([]T, error), parts func(*T) (*Excerpt, []string)) iter.Seq2[T, error] {
	q.Newest = true
	find, err := parse(words)
	every := q
	if len(find.literals) > 0 {
		every.Limit = 0 // not all that is found will be a hit
	}
	found := pages(every, seq, bytes, func(q Query, limit int) ([]T, error) {
		if err != nil {
			return nil, err
		}
		return page(&find, q, limit)
	})
	return func(yield func(T, error) bool) {
		n := 0
		for h, err := range found {
			if err != nil {
				yield(h, err)
				return
			}
			if excerpt, texts := parts(&h); !excerpt.holds(texts, find.literals, find.words == "") {
				continue
			}
			if n++; !yield(h, nil) || n == q.Limit {
				return
			}
		}
	}
}

// A question is what is looked for.
type question struct {
	words    string   // what the index is asked for in its texts; "" for nothing
	literals []string // what the texts hold besides, of which the index knows only the signs
}

// match returns the question for the index.
func (q *question) match() string {
	var both []string
	if q.words != "" {
		both = append(both, "{sender summary body} : ("+q.words+")")
	}
	if len(q.literals) > 0 {
		both = append(both, "{signs} : ("+strings.Join(strings.Fields(signs(q.literals...)), " AND ")+")")
	}
	return strings.Join(both, " AND ")
}

// columns are those that snippets are made of: all of them together or, beside signs, each.
func (q *question) columns() []string {
	switch {
	case q.words == "":
		return nil
	case len(q.literals) == 0:
		return []string{"-1"}
	}
	return []string{"0", "1", "2"}
}

// inIndex is the question for what matches in the index, the newest
// first; seq is the number of what is joined to it.
func (q *question) inIndex(columns, joined, seq string, where conditions, limit int) (query string, args []sqlite.Value) {
	for _, column := range q.columns() {
		columns += ", snippet(words, " + column + ", '" + markOpen + "', '" + markClose + "', '…', " + strconv.Itoa(snippetWords) + ")"
	}
	// The index first, in the order of its numbers.
	query = "SELECT " + columns + " FROM words CROSS JOIN " + joined + " WHERE words MATCH ? AND " + where.String() + " ORDER BY words.rowid DESC LIMIT ?"
	return strings.Replace(query, seq+"<?", "words.rowid<?", 1), append([]sqlite.Value{q.match()}, where.limited(limit)...)
}

// excerpt returns the snippet with most of what was looked for, of those from column i on.
func (q *question) excerpt(v sqlite.Row, i int) (best Excerpt) {
	for n := range q.columns() {
		if e := unmark(v.Text(i + n)); n == 0 || len(e.Matches) > len(best.Matches) {
			best = e
		}
	}
	return best
}

// unmark takes the marks out of a snippet.
func unmark(s string) Excerpt {
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
	return Excerpt{b.String(), matches}
}

// holds reports whether all of literals are in parts, and makes a snippet of the place if it
// is asked for.
func (e *Excerpt) holds(parts, literals []string, snippet bool) bool {
	for _, l := range literals {
		if !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, l) }) {
			return false
		}
	}
	if snippet && len(literals) > 0 {
		for _, part := range parts {
			if i := strings.Index(part, literals[0]); i >= 0 {
				*e = around(part, i, len(literals[0]))
				break
			}
		}
	}
	return true
}

// around cuts out of text what stands about n bytes at i.
func around(text string, i, n int) Excerpt {
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
	return Excerpt{before + text[from:to] + after, [][2]int{{start, start + n}}}
}

// parse makes a question of words.
func parse(words string) (q question, err error) {
	if len(words) > maxWords {
		return q, invalid("search", "is longer than 4 KiB")
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
		case !plain(term):
			q.literals = append(q.literals, term)
		default:
			term = `"` + term + `"` // there is none inside: it would have ended it
			if prefix {
				term += "*"
			}
			list = append(list, term)
		}
	}
	switch n := len(list) + len(q.literals); {
	case n == 0:
		return q, invalid("search", "is blank")
	case n > maxTerms:
		return q, invalid("search", "has more than 64 words")
	}
	q.words = strings.Join(list, " AND ")
	return q, nil
}

// plain reports whether the words of the index have a term: it has letters or digits, and spaces around it in the
// languages that it is from.
func plain(term string) bool {
	word := false
	for _, r := range term {
		if unicode.In(r, spaceless...) {
			return false
		}
		word = word || unicode.IsLetter(r) || unicode.IsNumber(r)
	}
	return word
}
