package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"teambridge/inbox"
)

// benchRows returns count rows from number n on, with a text as an agent may write it.
func benchRows(b testing.TB, n, count int) []inbox.Row {
	b.Helper()
	var list []string
	for i := range count {
		text := fmt.Sprintf("message %d: the tests of module %x pass now, apart from the one about %x that waits for a review, please look at it when you have time", n+i, i*7919, i*104729)
		list = append(list, row(text, fmt.Sprintf(`"summary":"module %x","msg_id":"%08x-0000-4000-8000-%012x"`, i*7919, (n+i)*2654435761%(1<<32), n+i)))
	}
	return file(b, list...)
}

// BenchmarkInsert measures new rows in batches of 500.
func BenchmarkInsert(b *testing.B) {
	j := newJournal(b)
	n := 0
	for b.Loop() {
		b.StopTimer()
		s := look(b, float64(n))
		s.Rows = benchRows(b, n, 500)
		b.StartTimer()
		if o, err := j.Messages.Observe(b.Context(), s); err != nil || n == 0 && len(o.Changes) != 500 {
			b.Fatal(err)
		}
		n += 500
		b.StopTimer()
		s.Rows, s.At = nil, at(float64(n)-1) // otherwise the next snapshot would end these rows
		if _, err := j.Messages.Observe(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(number(b, j, "SELECT page_count*4096 FROM pragma_page_count"))/float64(n), "bytes/row")
}

// BenchmarkUnchanged measures a snapshot without changes.
func BenchmarkUnchanged(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			j := newJournal(b)
			s := look(b, 1)
			s.Rows = benchRows(b, 0, count)
			observe(b, j, s)
			for b.Loop() {
				if _, err := j.Messages.Observe(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/look")
		})
	}
}

// BenchmarkAppend measures one new row at the end of a file of 10,000, with the view that this process keeps, and
// without.
func BenchmarkAppend(b *testing.B) {
	for _, warm := range []bool{true, false} {
		b.Run(map[bool]string{true: "warm", false: "cold"}[warm], func(b *testing.B) {
			j := newJournal(b)
			s := look(b, 1)
			s.Rows = benchRows(b, 0, 10_000)
			observe(b, j, s)
			more := benchRows(b, 10_000, 10_000)
			n := 0
			for b.Loop() {
				if !warm {
					clear(j.views)
					j.held = 0
				}
				s.Rows = append(s.Rows, more[n])
				n++
				s.At = at(float64(n))
				if _, err := j.Messages.Observe(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/look")
		})
	}
}

// BenchmarkQuery measures what a journal of 50,000 messages of 50 inboxes costs, or one of as many as JOURNAL_BENCH_ROWS
// says: queries, searches, to open it, to record a message, and to prune it to half its size.
func BenchmarkQuery(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal.db")
	j := mustOpen(b, path)
	all := 50_000
	if n, err := strconv.Atoi(os.Getenv("JOURNAL_BENCH_ROWS")); err == nil {
		all = n
	}
	snapshot := func(i int, second float64, rows []inbox.Row) Snapshot { // of the i-th inbox
		s := look(b, second)
		s.Team, s.Inbox, s.Rows = fmt.Sprint("team", i/10%5), fmt.Sprint("member", i%10), rows
		if i >= 50 {
			s.Inbox = fmt.Sprint("member", i)
		}
		return s
	}
	for i := range all / 1000 {
		observe(b, j, snapshot(i, 1, benchRows(b, i*1000, 1000)))
	}
	for name, q := range map[string]Query{
		"all":   {Limit: 50, Newest: true},
		"team":  {Team: "team2", Limit: 50, Newest: true},
		"inbox": {Team: "team2", Inbox: "member7", Limit: 50, Newest: true},
		"id":    {ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", 777*2654435761%(1<<32), 777)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range j.Messages.All(b.Context(), q) {
					must(b, err)
					n++
				}
				if n != max(1, q.Limit) {
					b.Fatalf("%d messages", n)
				}
			}
		})
	}
	b.Run("index", func(b *testing.B) { // of all rows, once
		for b.Loop() {
			must(b, j.Index(b.Context()))
		}
		b.ReportMetric(float64(all)/b.Elapsed().Seconds(), "rows/s")
	})
	for name, search := range map[string]struct {
		words string
		Query
	}{
		"word":                {"review", Query{}},
		"rare word":           {"4777", Query{}},
		"rare word of a team": {"4777", Query{Team: "team2"}},
		"two words":           {"review 4777", Query{}},
		"prefix":              {"rev*", Query{}},
		"short prefix":        {"4*", Query{}},
		"phrase":              {`"review please"`, Query{}},
		"absent phrase":       {`"please review"`, Query{}},
		"symbol":              {"☃", Query{}},
	} {
		b.Run("search "+name, func(b *testing.B) {
			search.Limit = 20
			for b.Loop() {
				for _, err := range j.Messages.Search(b.Context(), search.words, search.Query) {
					must(b, err)
				}
			}
		})
	}
	size, err := j.Size(b.Context())
	must(b, err)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			again, err := Open(b.Context(), path)
			must(b, err)
			must(b, again.Close())
		}
		b.ReportMetric(float64(size)/(1<<20), "MiB")
	})
	next := all + 1000 // the number of the next message
	b.Run("record", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := snapshot(next, float64(next), benchRows(b, next, 1))
			next++
			b.StartTimer()
			observe(b, j, s)
		}
	})
	for i := range all / 1000 {
		observe(b, j, snapshot(i, 2, nil)) // messages in an inbox are not pruned
	}
	b.Run("prune", func(b *testing.B) { // once; later rounds find nothing to delete
		var p Pruned
		for b.Loop() {
			one, err := j.Prune(b.Context(), time.Time{}, size/2)
			must(b, err)
			p.Messages += one.Messages
		}
		b.ReportMetric(float64(p.Messages)/b.Elapsed().Seconds(), "rows/s")
	})
}

// benchEnvelopes returns count envelopes of a turn from number n on, as an agent makes them.
func benchEnvelopes(n, count int) (list []Envelope) {
	for i := range count {
		at := float64(n + i)
		e := said(fmt.Sprintf("e%023x", (n+i)*2654435761), at, fmt.Sprintf("I run the tests of module %x, and then look at what %x has to say about the parser", n+i, i*104729))
		e.Session, e.Turn = "0a1b2c3d-0000-4000-8000-000000000001", fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012x", (n+i)/20)
		if k := (n + i) % 3; k > 0 {
			e.Call, e.Kind = fmt.Sprintf("toolu_%020x", (n+i)/3), []string{"", "tool-call-start", "tool-call-end"}[k]
		}
		e.Raw = fmt.Appendf(nil, `{"id":%q,"time":%d,"role":"agent","turn":%q,"claudeUuid":%q,"ev":{"t":%q,"text":%q}}`, e.ID, e.At.UnixMilli(), e.Turn, e.Session, e.Kind, e.Text())
		list = append(list, e)
	}
	return list
}

// BenchmarkRecordEnvelopes measures envelopes that are recorded one by one, as an agent makes them; many in one
// commit; and a second time, as when a transcript is read after a crash.
func BenchmarkRecordEnvelopes(b *testing.B) {
	for _, each := range []int{1, 100} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			j := newJournal(b)
			n := 0
			for b.Loop() {
				b.StopTimer()
				list := benchEnvelopes(n, each)
				b.StartTimer()
				record(b, j, list...)
				n += each
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "envelopes/s")
			b.ReportMetric(float64(number(b, j, "SELECT page_count*4096 FROM pragma_page_count"))/float64(n), "bytes/envelope")
		})
	}
	b.Run("again", func(b *testing.B) {
		j := newJournal(b)
		list := benchEnvelopes(0, 100)
		record(b, j, list...)
		n := 0
		for b.Loop() {
			record(b, j, list...)
			n += len(list)
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "envelopes/s")
	})
}

// BenchmarkEnvelopes measures queries in a journal of 50,000 envelopes of 10 agents.
func BenchmarkEnvelopes(b *testing.B) {
	j := newJournal(b)
	for i := range 500 {
		list := benchEnvelopes(i*100, 100)
		for k := range list {
			list[k].Inbox = fmt.Sprint("member", i%10)
		}
		record(b, j, list...)
	}
	shown := []string{"text", "tool-call-start", "turn-end"}
	for name, q := range map[string]EnvelopeQuery{
		"all":    {Query: Query{Limit: 50, Newest: true}, Kinds: shown, Role: "agent"},
		"member": {Query: Query{Inbox: "member7", Limit: 50, Newest: true}, Kinds: shown, Role: "agent"},
		"call":   {Query: Query{Inbox: "member7", Limit: 1}, Call: fmt.Sprintf("toolu_%020x", 700/3), Kinds: []string{"tool-call-end"}},
		"turn":   {Query: Query{Inbox: "member7", Limit: 1}, Turn: fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012x", 700/20), Kinds: []string{"text"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n := len(envelopes(b, j, q)); n != q.Limit {
					b.Fatalf("%d envelopes", n)
				}
			}
		})
	}
	b.Run("last", func(b *testing.B) {
		for b.Loop() {
			if _, err := j.Envelopes.Last(b.Context(), inbox.Key(root, blue(), "member7"), "0a1b2c3d-0000-4000-8000-000000000001"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range j.Envelopes.Search(b.Context(), "parser", EnvelopeQuery{Query: Query{Limit: 20}}) {
				must(b, err)
				n++
			}
			if n != 20 {
				b.Fatalf("%d hits", n)
			}
		}
	})
	// Many envelopes must not hide a message.
	observe(b, j, look(b, 1, row("look at the parser")))
	b.Run("search messages", func(b *testing.B) {
		for b.Loop() {
			if n := len(search(b, j, "parser", Query{Limit: 20})); n != 1 {
				b.Fatalf("%d hits", n)
			}
		}
	})
}
