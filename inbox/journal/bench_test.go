package journal

import (
	"fmt"
	"path/filepath"
	"testing"

	"teambridge/inbox"
)

// benchRows are rows from the n-th on, with a text as an agent may write it.
func benchRows(b *testing.B, n, count int) []inbox.Row {
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
		if o, err := j.Observe(b.Context(), s); err != nil || n == 0 && len(o.Changes) != 500 {
			b.Fatal(err)
		}
		n += 500
		b.StopTimer()
		s.Rows, s.At = nil, at(float64(n)-1) // or the next would end these
		if _, err := j.Observe(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(number(b, j, "SELECT page_count*4096 FROM pragma_page_count"))/float64(n), "bytes/row")
}

// BenchmarkUnchanged measures a snapshot that differs in nothing.
func BenchmarkUnchanged(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			j := newJournal(b)
			s := look(b, 1)
			s.Rows = benchRows(b, 0, count)
			observe(b, j, s)
			for b.Loop() {
				if _, err := j.Observe(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/look")
		})
	}
}

// BenchmarkAppend measures one new row at the end of a file of 10,000: with
// what this process remembers, and without.
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
				if _, err := j.Observe(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/look")
		})
	}
}

// BenchmarkOne measures one row that comes and goes in an inbox of a newer
// agent.
func BenchmarkOne(b *testing.B) {
	j := newJournal(b)
	rows := benchRows(b, 0, 1)
	n := 0
	for b.Loop() {
		n += 2
		s := look(b, float64(n))
		s.Rows = rows
		if _, err := j.Observe(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		s.Rows, s.At = nil, at(float64(n)+1)
		if _, err := j.Observe(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuery measures questions to a journal of 50,000 messages of 50
// inboxes.
func BenchmarkQuery(b *testing.B) {
	j := mustOpen(b, filepath.Join(b.TempDir(), "journal.db"))
	for i := range 50 {
		s := look(b, 1)
		s.Team.Team, s.Inbox = fmt.Sprint("team", i/10), fmt.Sprint("member", i%10)
		s.Rows = benchRows(b, i*1000, 1000)
		observe(b, j, s)
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
				for _, err := range j.Messages(b.Context(), q) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != max(1, q.Limit) {
					b.Fatalf("%d messages", n)
				}
			}
		})
	}
	for name, words := range map[string]string{"word": "review", "rare word": "4777", "symbol": "☃"} {
		b.Run("search "+name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range j.Search(b.Context(), words, Query{Limit: 20}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
