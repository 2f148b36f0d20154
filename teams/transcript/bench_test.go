package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A transcript of 50 MB, of which most is what tools gave: read as a whole, from near its
// end, and looked at again when one record was added.
func BenchmarkIndex(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a.jsonl")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	tool := fmt.Sprintf(`{"type":"user","uuid":"t","version":"2.1.329","timestamp":"2026-11-20T10:00:01.000Z","message":{"content":[{"type":"tool_result","content":%q}]}}`+"\n",
		strings.Repeat("some output\n", 800))
	size := 0
	for n := 0; size < 50<<20; n++ {
		record := tool
		if n%10 == 0 {
			record = line(fmt.Sprint(n), 1, hello("ann"))
		}
		if _, err := f.WriteString(record); err != nil {
			b.Fatal(err)
		}
		size += len(record)
	}
	if _, err := f.WriteString(line("last", 11, hello("ann"))); err != nil {
		b.Fatal(err)
	}
	for name, since := range map[string]time.Time{"whole": {}, "end": at(10)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if x := NewIndex(since); !x.Read(path) {
					b.Fatal("nothing was read")
				}
			}
			b.ReportMetric(float64(size)/(1<<20), "MB")
		})
	}
	b.Run("added", func(b *testing.B) {
		x := NewIndex(at(10))
		x.Read(path)
		for n := 0; b.Loop(); n++ {
			if _, err := f.WriteString(line(fmt.Sprint("more", n), 12, hello("ann"))); err != nil {
				b.Fatal(err)
			}
			if !x.Read(path) {
				b.Fatal("nothing was read")
			}
		}
	})
}
