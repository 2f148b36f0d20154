package inbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// BenchmarkAppend measures an append to an inbox of rows of 350 bytes, and in the same run what the disk alone takes:
// a copy of the file, with fsync and rename. "x-copy" is the ratio. For 10,000 rows, which are 3.5 MB, it must be
// under 2.
func BenchmarkAppend(b *testing.B) {
	// A process that sends one message collects no garbage. Here each append and each copy leaves 3.5 MB of garbage,
	// which would be collected each time by default.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	for _, bc := range []struct {
		name     string
		rows     int
		explicit bool
	}{{"0", 0, false}, {"100", 100, false}, {"10000", 10000, false}, {"10000 with an id", 10000, true}} {
		b.Run(bc.name, func(b *testing.B) {
			p := newPlace(b)
			box := p.open(lockedfile.Options{})
			file := benchFile(bc.rows)
			p.write(file)
			copied := filepath.Join(p.root, "copy")
			var ours, bare time.Duration
			for i := range b.N {
				m := inbox.Message{From: "bob", Text: fmt.Sprint("message ", i)}
				var opts inbox.AppendOptions
				if bc.explicit {
					m.ID, opts.Memory = uuid.NewString(), p.memory()
				}
				start := time.Now()
				if _, err := box.Append(b.Context(), m, opts); err != nil {
					b.Fatal(err)
				}
				took := time.Since(start)
				ours += took
				time.Sleep(3 * took) // the lock stays free for the agents for twice as long as an append holds it
				start = time.Now()
				must(b, bareCopy(p.path(), copied))
				bare += time.Since(start)
				if bc.rows <= 100 {
					p.write(file) // a large one may grow by these few rows: writing it again would keep the disk busy
				}
			}
			// The timer runs on: stopping it would stop the world, twice for each append.
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(ours)/float64(bare), "x-copy")
			b.ReportMetric(float64(bare.Nanoseconds())/float64(b.N), "copy-ns/op")
		})
	}
}

// bareCopy copies a file with the fewest steps that are safe.
func bareCopy(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(to+".tmp", to)
}

// benchFile is an inbox of n rows in the form of Claude Code 2.1.329.
func benchFile(n int) []byte {
	l := layouts["two spaces"]
	rows := make([]string, n)
	for i := range rows {
		rows[i] = l.row(fmt.Sprintf(`{"from":"team-lead","text":"row %d of a file that has grown: %s","timestamp":"2026-11-20T12:00:00.000Z","color":"blue","msgV":1,"msg_id":"%08x-0000-4000-8000-000000000000","type":"message","read":true}`,
			i, strings.Repeat("word ", 15), i))
	}
	return l.file(rows)
}
