package inbox_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/lockedfile"
)

// written has the contents that a program writes in place, and how many rows each has.
var written = []struct {
	content []byte
	rows    int
}{
	{[]byte(foreign), 2},
	{[]byte("[\n" + `{"from":"bob","text":"x","timestamp":"y"}` + "\n]"), 1},
}

// While a program writes in place all the time, as older agents do (it takes the lock, empties the file and writes it
// in pieces), reading without the lock returns only states between two writes.
func TestReadWhileWrittenInPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(written[0].content)
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := inPlace(p, written[i%2].content, func() {}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	b := p.open(lockedfile.Options{})
	for i := range killtest.Rounds(t, envRounds, 500) {
		rows, err := b.Read(t.Context())
		if err != nil || len(rows) != 1 && len(rows) != 2 {
			t.Fatalf("read %d: %d rows, %v", i, len(rows), err)
		}
	}
}

// A reader waits for a writer that holds the lock, even if the file is torn for longer than a reader otherwise waits.
func TestReadWhileWrittenSlowly(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.open(lockedfile.Options{})
	for _, w := range written {
		p.write([]byte("[]"))
		middle := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			if err := inPlace(p, w.content, func() {
				close(middle)
				<-time.After(400 * time.Millisecond)
			}); err != nil {
				t.Error(err)
			}
		})
		<-middle
		if rows, err := b.Read(t.Context()); err != nil || len(rows) != w.rows {
			t.Errorf("%d rows, %v; want %d", len(rows), err, w.rows)
		}
		writing.Wait()
	}
}

// inPlace writes the inbox as an older agent does, and calls middle when half of the content is written.
func inPlace(p *place, content []byte, middle func()) error {
	for {
		err := os.Mkdir(p.lock(), 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) { // on Windows, a reader can have the last lock open for a moment
			return err
		}
	}
	f, err := os.OpenFile(p.path(), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	const pieces = 4
	for i := range pieces {
		if i == pieces/2 {
			middle()
		}
		if _, err := f.Write(content[len(content)*i/pieces : len(content)*(i+1)/pieces]); err != nil {
			return err
		}
	}
	return errors.Join(f.Close(), os.Remove(p.lock()))
}

// A file that stays torn while no writer holds the lock is corrupt. While the lock is held, a reader waits until its
// ctx is canceled.
func TestReadTornForGood(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write([]byte(foreign[:40]))
	b := p.open(lockedfile.Options{})
	start := time.Now()
	_, err := b.Read(t.Context())
	if _, ok := errors.AsType[*inbox.CorruptError](err); !ok {
		t.Errorf("got %v, want a CorruptError", err)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("answered after %s, without giving a writer time", took)
	}
	must(t, os.Mkdir(p.lock(), 0o755))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
	if _, err := b.Read(ctx); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
}
