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

// An Excerpt is a part of a text with the words that were found.
type Excerpt struct {
	// Snippet is the part of the sender, the summary or the text with the most matches. It has … where the text was
	// cut, and may have control characters. Matches are ranges of bytes of Snippet: from the first of each pair to
	// before the second.
	Snippet string
	Matches [][2]int
}

// Limits of a search.
const (
	maxWords     = 4 << 10 // bytes
	maxTerms     = 64
	snippetWords = 24
	maxExpanded  = 200 // words in place of prefixes
)

// The marks that the database puts around matches: characters that Unicode reserves for internal use by programs.
const (
	markOpen  = "\ufdd0"
	markClose = "\ufdd1"
)

// Search yields the messages that q selects and that have all of words in their sender, summary or text, the newest
// first. It ignores q.Newest.
//
// Case and accents do not matter. "Words in quotes" match a phrase, and word* matches the beginning of a word. No
// other character has a special meaning. If words is blank, over 4 KiB, or more than 64 words, the error is a
// *[ValueError].
//
// Terms without a letter or digit, such as an emoji, and words of languages without spaces match anywhere in the
// text. The search index is brought up to date first: see [Journal.Index].
func (j Messages) Search(ctx context.Context, words string, q Query) iter.Seq2[Hit, error] {
	return hits(words, q, func(h *Hit) int64 { return h.Seq }, func(h *Hit) int { return len(h.Raw) },
		func(find *question, q Query, limit int) (list []Hit, err error) {
			err = j.withIndex(ctx, func(db *sqlite.DB) (err error) {
				find, err := find.expand(ctx, db)
				if err != nil {
					return err
				}
				query, args := find.inIndex(scanned, "messages m ON m.seq = words.rowid CROSS JOIN inboxes i ON i.id = m.inbox", "m.seq", q.messages(), limit)
				list, err = sqlite.Select(ctx, db, "search", func(v sqlite.Row) Hit { return Hit{scan(v), find.excerpt(v, 13)} }, query, args...)
				return err
			})
			return list, err
		},
		func(h *Hit) (*Excerpt, []string) { return &h.Excerpt, []string{body(&h.Row), h.Summary, h.From} })
}

// Search yields the envelopes that q selects and that have all of words in their Text or the agent's name, as
// [Messages.Search] yields messages.
func (j Envelopes) Search(ctx context.Context, words string, q EnvelopeQuery) iter.Seq2[EnvelopeHit, error] {
	return hits(words, q.Query, func(h *EnvelopeHit) int64 { return h.Seq }, func(h *EnvelopeHit) int { return len(h.Raw) },
		func(find *question, part Query, limit int) (list []EnvelopeHit, err error) {
			q.Query = part
			err = j.withIndex(ctx, func(db *sqlite.DB) (err error) {
				find, err := find.expand(ctx, db)
				if err != nil {
					return err
				}
				query, args := find.inIndex(envelopeScanned, "envelopes e ON e.seq = words.rowid CROSS JOIN inboxes i ON i.id = e.inbox", "e.seq", q.envelopes(), limit)
				list, err = sqlite.Select(ctx, db, "search", func(v sqlite.Row) EnvelopeHit { return EnvelopeHit{scanEnvelope(v), find.excerpt(v, 14)} }, query, args...)
				return err
			})
			return list, err
		},
		func(h *EnvelopeHit) (*Excerpt, []string) { return &h.Excerpt, []string{h.Text(), h.Inbox} })
}

// hits yields the records that have all of words, the newest first. page reads a page of the records that the index
// finds, and parts returns the excerpt and the texts of a record.
func hits[T any](words string, q Query, seq func(*T) int64, bytes func(*T) int, page func(find *question, q Query, limit int) ([]T, error), parts func(*T) (*Excerpt, []string)) iter.Seq2[T, error] {
	q.Newest = true
	find, err := parse(words)
	find.place = place(q.Root, q.Team)
	every := q
	if len(find.literals) > 0 {
		every.Limit = 0 // the index finds more than the hits
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
			if excerpt, texts := parts(&h); !excerpt.holds(texts, find.literals, len(find.words) == 0) {
				continue
			}
			if n++; !yield(h, nil) || n == q.Limit {
				return
			}
		}
	}
}

// A question is a parsed search.
type question struct {
	words    []string // queries of the indexed texts, which all have to match
	literals []string // terms that the index cannot find, only their signs
	place    string   // words for the root and the team
}

// match returns the query of the index.
func (q *question) match() string {
	var both []string
	if len(q.words) > 0 {
		both = append(both, "{sender summary body} : ("+strings.Join(q.words, " AND ")+")")
	}
	if list := strings.Fields(q.place + signs(q.literals...)); len(list) > 0 {
		both = append(both, "{signs} : ("+strings.Join(list, " AND ")+")")
	}
	return strings.Join(both, " AND ")
}

// expand returns q with the words of an index that begin with a prefix in place of it, if they are few: the index reads all
// records of a prefix before it returns one, but those of words from the newest on. Prefixes with other characters than
// letters and digits of ASCII remain, since the index has its words in another form, such as without accents.
func (q question) expand(ctx context.Context, db *sqlite.DB) (question, error) {
	q.words = slices.Clone(q.words) // another index may have other words
	most := maxExpanded
	for i, query := range q.words {
		prefix, ok := strings.CutSuffix(query, `"*`)
		if !ok {
			continue
		}
		prefix = strings.ToLower(prefix[1:])
		if strings.ContainsFunc(prefix, func(r rune) bool { return r < '0' || '9' < r && r < 'a' || r > 'z' }) {
			continue
		}
		// Each step seeks the next word: no word has a control character.
		list, err := sqlite.Select(ctx, db, "search", func(v sqlite.Row) string { return `"` + v.Text(0) + `"` },
			`WITH RECURSIVE next(term) AS (
				SELECT (SELECT term FROM temp.terms WHERE term>=?1 LIMIT 1)
				UNION ALL SELECT (SELECT t.term FROM temp.terms t WHERE t.term>=next.term||char(1) LIMIT 1) FROM next WHERE next.term<?1||char(1114111)
			) SELECT term FROM next WHERE term>=?1 AND term<?1||char(1114111) LIMIT ?2+0`, prefix, most+1)
		if err != nil {
			return q, err
		}
		if n := len(list); 0 < n && n <= most {
			most -= n
			q.words[i] = "(" + strings.Join(list, " OR ") + ")"
		}
	}
	return q, nil
}

// columns are the columns for snippets: -1 means all together; a search with signs takes each column except signs.
func (q *question) columns() []string {
	switch {
	case len(q.words) == 0:
		return nil
	case len(q.literals) == 0 && q.place == "":
		return []string{"-1"}
	}
	return []string{"0", "1", "2"}
}

// inIndex returns the query of the matches in the index, the newest first. seq is the number of a joined record.
func (q *question) inIndex(columns, joined, seq string, where conditions, limit int) (query string, args []sqlite.Value) {
	for _, column := range q.columns() {
		columns += ", snippet(words, " + column + ", '" + markOpen + "', '" + markClose + "', '…', " + strconv.Itoa(snippetWords) + ")"
	}
	// CROSS JOIN makes SQLite read the index first, in the order of its numbers.
	query = "SELECT " + columns + " FROM words CROSS JOIN " + joined + " WHERE words MATCH ? AND " + where.String() + " ORDER BY words.rowid DESC LIMIT ?+0"
	return strings.Replace(query, seq+"<?", "words.rowid<?", 1), append([]sqlite.Value{q.match()}, where.limited(limit)...)
}

// excerpt returns the snippet with the most matches. The snippets begin at column i.
func (q *question) excerpt(v sqlite.Row, i int) (best Excerpt) {
	for n := range q.columns() {
		if e := unmark(v.Text(i + n)); n == 0 || len(e.Matches) > len(best.Matches) {
			best = e
		}
	}
	return best
}

// unmark turns the marks in a snippet into matches.
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
			// A mark that is in the text itself has no opening one before it, or shortens a match.
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

// holds reports whether all literals are in parts. With snippet, it sets the excerpt to the place of the first
// literal.
func (e *Excerpt) holds(parts, literals []string, snippet bool) bool {
	for n, l := range literals {
		l = lower(l)
		part := slices.IndexFunc(parts, func(part string) bool { return strings.Contains(lower(part), l) })
		if part < 0 {
			return false
		}
		if n == 0 && snippet {
			*e = around(parts[part], strings.Index(lower(parts[part]), l), len(l))
		}
	}
	return true
}

// lower returns a text in lower case, with each character at the same place: those that would get another length stay.
func lower(s string) string {
	b := []byte(s)
	for i, r := range s {
		if l := unicode.ToLower(r); l != r && utf8.RuneLen(l) == utf8.RuneLen(r) {
			utf8.EncodeRune(b[i:], l)
		}
	}
	return string(b)
}

// around returns the part of text around the n bytes at i.
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

// parse parses a search for words.
func parse(words string) (q question, err error) {
	if len(words) > maxWords {
		return q, invalid("search", "is longer than 4 KiB")
	}
	// The index reads its query as a C string.
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
			term = `"` + term + `"` // term has no quote in it: a quote ends a term
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
	q.words = list
	return q, nil
}

// plain reports whether the index has a term as words: it has a letter or digit, and no character of a language
// without spaces.
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
