package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

func search(t testing.TB, j *Journal, words string, q Query) (list []Hit) {
	t.Helper()
	for h, err := range j.Messages.Search(t.Context(), words, q) {
		if err != nil {
			t.Fatalf("search %q: %v", words, err)
		}
		list = append(list, h)
	}
	return list
}

func found(list []Hit) string {
	var s []string
	for _, h := range list {
		s = append(s, fmt.Sprint(h.Seq))
	}
	return strings.Join(s, " ")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	observe(t, j, look(t, 1,
		row("The parser fails on empty input"),                          // 1
		row("input parser: empty, fails", `"summary":"Lexer status"`),   // 2
		row("Größe geändert, CAFÉ zu 🎉"),                                // 3
		row("中文信息在这里 🎉🎉"),                                               // 4
		`{"from":"zoe","text":"nothing to see, foo-bar at src/a_b.go"}`, // 5
		row(`{"type":"idle_notification","from":"kim","idleReason":"available","result":"line one\nsecond line","n":[{"deep":"treasure"}]}`), // 6
		row(`say "hello" AND (NEAR or NOT) title: x* -y`), // 7
		row("用Docker部署"),                                  // 8
	))
	for words, want := range map[string]string{
		"parser":                   "2 1",
		"PARSER  fails":            "2 1",
		`"parser fails"`:           "1",
		`"parser fails`:            "1",
		`"fails on"empty`:          "1",
		"par*":                     "2 1",
		`"empty in"*`:              "1",
		"par":                      "",
		"lexer":                    "2",
		"zoe":                      "5",
		"grosse":                   "", // ß is a letter of its own
		"große":                    "3",
		"cafe":                     "3",
		"GEANDERT":                 "3",
		"🎉":                        "4 3",
		"🎉 cafe":                   "3",
		"🎉🎉":                       "4",
		"信息":                       "4",
		"信息 🎉":                     "4",
		"docker部署":                 "8",
		"用DOCKER":                  "8",
		"foo-bar":                  "5",
		"bar-foo":                  "",
		"src/a_b.go":               "5",
		"second":                   "6",
		"nsecond":                  "",
		"treasure":                 "6",
		"idleReason":               "", // a name is no text
		`"`:                        "!",
		`""`:                       "!",
		"":                         "!",
		" \t\n":                    "!",
		"\x00":                     "!",
		"*":                        "7",
		"**":                       "",
		"x*":                       "7",
		"NEAR(":                    "7",
		"NEAR(a b, 3)":             "",
		"AND":                      "7",
		"OR":                       "7",
		"NOT":                      "7",
		"say NOT x":                "7",
		"-y":                       "7",
		"-":                        "7 5",
		"(":                        "7",
		")))":                      "",
		"title:":                   "7",
		"body:parser":              "",
		"sender : parser":          "", // the colon is searched for, too
		"^parser":                  "2 1",
		"{parser fails}":           "2 1",
		"a\x00b":                   "5",
		"\xff\xfe":                 "!",
		"parser\xff":               "2 1",
		"'":                        "",
		"'; DROP TABLE words --":   "",
		`a""b`:                     "5",
		`say "hello"`:              "7",
		"\u200b":                   "",
		"hello\u0301":              "7",
		"%":                        "",
		"_":                        "6 5",
		"1 OR 1=1":                 "",
		strings.Repeat("z", 4096):  "",
		strings.Repeat("z", 4097):  "!",
		strings.Repeat("say ", 64): "7",
		strings.Repeat("say ", 65): "!",
		strings.Repeat(`"`, 64):    "!",
		strings.Repeat("(", 4096):  "",
		strings.Repeat("*", 4096):  "",
		strings.Repeat("a* ", 60):  "8 7 6 5 4 3 2 1",
		strings.Repeat(`"a`, 60):   "5",
	} {
		var got []Hit
		var bad *ValueError
		for h, err := range j.Messages.Search(t.Context(), words, Query{}) {
			if err != nil && !errors.As(err, &bad) {
				t.Errorf("search %.40q: %v", words, err)
			}
			if err == nil {
				got = append(got, h)
			}
		}
		if bad != nil != (want == "!") {
			t.Errorf("search %.40q: error %v, want one: %v", words, bad, want == "!")
		}
		if want != "!" && found(got) != want {
			t.Errorf("search %.40q: found %q, want %q", words, found(got), want)
		}
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	filler := strings.Repeat("lorem ipsum ", 30)
	observe(t, j, look(t, 1, row(filler+"the needle stands here "+filler), row("a needle"),
		row("\ufdd1\ufdd0 x\ufdd1 needle \x1b[31m"), row(filler+"⚠ danger "+filler), row("⚠")))
	get := func(h Hit) (list []string) {
		for _, m := range h.Matches {
			list = append(list, h.Snippet[m[0]:m[1]])
		}
		return append(list, "in", h.Snippet)
	}
	hits := search(t, j, "needle", Query{})
	if diff := cmp.Diff([]string{"needle", "in", "a needle"}, get(hits[1])); diff != "" {
		t.Error(diff)
	}
	got := get(hits[2])
	if got[0] != "needle" || len(got) != 3 || len(got[2]) > 300 || !strings.HasPrefix(got[2], "…") || !strings.HasSuffix(got[2], "…") {
		t.Errorf("snippet %q", got)
	}
	// Markers in the text itself are removed, and do not shift the bounds.
	if got := hits[0]; strings.ContainsAny(got.Snippet, "\ufdd0\ufdd1") || !strings.Contains(got.Snippet, "\x1b[31m") {
		t.Errorf("snippet %q", got.Snippet)
	} else {
		get(got)
	}
	hits = search(t, j, "⚠", Query{})
	if diff := cmp.Diff([]string{"⚠", "in", "⚠"}, get(hits[0])); diff != "" {
		t.Error(diff)
	}
	if got := get(hits[1]); got[0] != "⚠" || len(got[2]) > 200 || !strings.HasPrefix(got[2], "…") || !strings.HasSuffix(got[2], "…") {
		t.Errorf("snippet %q", got)
	}
}

func TestSearchWithinAQuery(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	var rows []string
	for i := range 3 * pageSize {
		rows = append(rows, row(fmt.Sprintf("word %d ☃", i)))
	}
	observe(t, j, look(t, 1, rows...))
	red := look(t, 2, row("word ☃"))
	red.Team = "red"
	observe(t, j, red)
	last := int64(3*pageSize + 1)
	for _, words := range []string{"word", "☃", "word ☃"} {
		if got := len(search(t, j, words, Query{})); got != int(last) {
			t.Errorf("%s: %d hits, want %d", words, got, last)
		}
		if got, want := found(search(t, j, words, Query{Limit: 2})), fmt.Sprintf("%d %d", last, last-1); got != want {
			t.Errorf("%s: found %q, want the newest %q", words, got, want)
		}
		if got := found(search(t, j, words, Query{Team: "red"})); got != fmt.Sprint(last) {
			t.Errorf("%s: found %q in another team", words, got)
		}
		if got := found(search(t, j, words, Query{After: 3, Before: 6})); got != "5 4" {
			t.Errorf("%s: found %q, want 5 4", words, got)
		}
		if got := found(search(t, j, words, Query{Before: 300, Limit: pageSize + 1})); !strings.HasPrefix(got, "299 ") || !strings.HasSuffix(got, " 99") {
			t.Errorf("%s: found %q", words, got)
		}
	}
	for i := range 5 { // which the index finds and the symbol excludes
		observe(t, j, look(t, 3+float64(i), append(rows, row(fmt.Sprint("word without ", i)))...))
	}
	if got, want := found(search(t, j, "word ☃", Query{Limit: 2})), fmt.Sprintf("%d %d", last, last-1); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// The index alone leaves out the records of other roots and teams, so they cost a search nothing.
func TestSearchSkipsOthers(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for i, in := range []inbox.InboxKey{{Root: "/other", Team: "blue"}, {Root: root, Team: "red"}, {Root: root, Team: "blue"}} {
		s := look(t, float64(i), row("word ☃"))
		s.Root, s.Team = in.Root, in.Team
		observe(t, j, s)
		e := said(fmt.Sprint(i), float64(i), "word ☃")
		e.Root, e.Team = in.Root, in.Team
		record(t, j, e)
	}
	for _, words := range []string{"word", "☃", "word ☃"} {
		for q, want := range map[Query]int64{{}: 6, {Root: root}: 4, {Team: "blue"}: 4, {Root: root, Team: "blue"}: 2, {Root: "/other", Team: "red"}: 0} {
			var got int64
			must(t, j.withIndex(t.Context(), func(db *sqlite.DB) (err error) {
				find, _ := parse(words)
				find.place = place(q.Root, q.Team)
				got, err = db.Number(t.Context(), "test", "SELECT count(*) FROM words WHERE words MATCH ?", find.match())
				return err
			}))
			if got != want {
				t.Errorf("%s: the index has %d of %+v, want %d", words, got, q, want)
			}
			if n := int64(len(search(t, j, words, q)) + len(searchEnvelopes(t, j, words, EnvelopeQuery{Query: q}))); n != want {
				t.Errorf("%s: found %d of %+v, want %d", words, n, q, want)
			}
		}
	}
}

// A prefix finds what the words find that begin with it, which the index reads from the newest on.
func TestSearchForPrefixes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	rows := []string{row("a Review"), row("the reviewer"), row("REVUE 4777"), row("a Révision"), row("re_view"), row("revue a reviewer"), row("re 🎉")}
	for i := range maxExpanded + 1 {
		rows = append(rows, row(fmt.Sprintf("z%d", i)))
	}
	observe(t, j, look(t, 1, rows...))
	for words, expanded := range map[string]string{
		"rev*":           `("review" OR "reviewer" OR "revision" OR "revue")`,
		"REVI*":          `("review" OR "reviewer" OR "revision")`,
		"4*":             `("4777")`,
		"rév*":           `"rév"*`,
		"re_v*":          `"re_v"*`,
		`"a rev"*`:       `"a rev"*`,
		"none*":          `"none"*`,
		"z*":             `"z"*`,
		"z1* revue* z1*": `("z1" OR "z10" OR `, // the second z1* would be too many
	} {
		must(t, j.withIndex(t.Context(), func(db *sqlite.DB) error {
			find, err := parse(words)
			must(t, err)
			seqs := func() []int64 {
				list, err := sqlite.Select(t.Context(), db, "test", func(v sqlite.Row) int64 { return v.Int(0) }, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC", find.match())
				must(t, err)
				return list
			}
			want := seqs()
			before := find.match()
			parsed := find
			find, err = parsed.expand(t.Context(), db)
			must(t, err)
			if got := parsed.match(); got != before {
				t.Errorf("%s: the parsed search is now %q", words, got)
			}
			if !strings.HasPrefix(find.words[0], expanded) || len(find.words) == 3 && find.words[2] != `"z1"*` {
				t.Errorf("%s: the index is asked for %q", words, find.words)
			}
			if got := seqs(); !slices.Equal(got, want) {
				t.Errorf("%s: found %d, want %d", words, got, want)
			}
			return nil
		}))
	}
}

func FuzzSearch(f *testing.F) {
	for _, words := range []string{"parser", `"a b"*`, "NEAR(a, 2)", "🎉", "-x", "\x00", `"""`, "a AND OR", "信"} {
		f.Add(words)
	}
	j := newJournal(f)
	observe(f, j, look(f, 1, row("a parser 🎉 信息")))
	f.Fuzz(func(t *testing.T, words string) {
		for h, err := range j.Messages.Search(t.Context(), words, Query{}) {
			var bad *ValueError
			if err != nil && !errors.As(err, &bad) {
				t.Fatal(err)
			}
			for _, m := range h.Matches {
				_ = h.Snippet[m[0]:m[1]]
			}
		}
	})
}
