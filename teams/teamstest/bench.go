package teamstest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Disk measures what the disk alone takes for one message, to compare with a benchmark that sends messages.
type Disk struct {
	b    testing.TB
	log  *os.File
	took []time.Duration
}

// NewDisk returns a Disk that writes into a directory of the test.
func NewDisk(b testing.TB) *Disk {
	b.Helper()
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	return &Disk{b: b, log: log}
}

// Commit does what every program that stores a message must do: it writes a record of 8 KiB, a copy of the inbox, and
// a record again, and flushes each.
func (d *Disk) Commit(inbox string) {
	d.b.Helper()
	data, err := os.ReadFile(inbox)
	if err != nil {
		d.b.Fatal(err)
	}
	start := time.Now()
	flushed := func(f *os.File, data []byte) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Sync())
	}
	err = flushed(d.log, make([]byte, 8<<10))
	if err == nil {
		var f *os.File
		if f, err = os.Create(d.log.Name() + ".copy"); err == nil {
			err = errors.Join(flushed(f, data), f.Close(), os.Rename(f.Name(), d.log.Name()+".inbox"))
		}
	}
	if err == nil {
		err = flushed(d.log, make([]byte, 8<<10))
	}
	if err != nil {
		d.b.Fatal(err)
	}
	d.took = append(d.took, time.Since(start))
}

// Report reports the median and the 99th percentile of all commits: disk-p50-ms and disk-p99-ms.
func (d *Disk) Report(b *testing.B) { ReportTimes(b, "disk-", d.took) }

// ReportTimes sorts times, and reports their median and 99th percentile, as p50-ms and p99-ms with a prefix.
func ReportTimes(b *testing.B, prefix string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for name, p := range map[string]int{"p50-ms": 50, "p99-ms": 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1000, prefix+name)
	}
}
