package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// A program writes in place all the time, as older agents do: it takes the lock,
// empties the file and writes it in pieces. Reading without the lock never gives
// anything but one of the states between two writes.
func TestReadWhileWrittenInPlace(t *testing.T) {
	t.Parallel()
	for name, linger := range map[string]time.Duration{"fast": 0, "slow": 400 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			states := [][]byte{[]byte(foreign), []byte("[\n" + `{"from":"bob","text":"x","timestamp":"y"}` + "\n]")}
			counts := map[int]bool{2: true, 1: true} // rows in each
			p.write(states[0])
			ctx, cancel := context.WithCancel(t.Context())
			var writing sync.WaitGroup
			defer writing.Wait()
			defer cancel()
			writing.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if err := inPlace(ctx, p, states[i%2], linger); err != nil {
						t.Error(err)
						return
					}
				}
			})
			b := p.open(lockedfile.Options{})
			reads := 2000
			if linger > 0 {
				reads = 6
			}
			if testing.Short() {
				reads = max(2, reads/10)
			}
			for i := range reads {
				rows, err := b.Read(t.Context())
				if err != nil || !counts[len(rows)] {
					t.Fatalf("read %d: %d rows, %v", i, len(rows), err)
				}
			}
		})
	}
}

// inPlace writes the inbox as an older agent does, and stays in the middle of it
// for that long.
func inPlace(ctx context.Context, p *place, content []byte, linger time.Duration) error {
	for {
		err := os.Mkdir(p.lock(), 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || ctx.Err() != nil {
			return err
		}
	}
	f, err := os.OpenFile(p.path(), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	pieces := 5
	for i := range pieces {
		if linger > 0 && i == pieces/2 {
			timer := time.NewTimer(linger)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if _, err := f.Write(content[len(content)*i/pieces : len(content)*(i+1)/pieces]); err != nil {
			return err
		}
	}
	return errors.Join(f.Close(), os.Remove(p.lock()))
}

// A file that stays torn with nobody at it is what it is.
func TestReadTornForGood(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write([]byte(foreign[:40]))
	start := time.Now()
	_, err := p.open(lockedfile.Options{}).Read(t.Context())
	if _, ok := errors.AsType[*inbox.CorruptError](err); !ok {
		t.Errorf("got %v, want a CorruptError", err)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("answered after %s, without giving a writer time", took)
	}
	// A reader that is told to stop does.
	if err := os.Mkdir(p.lock(), 0o755); err != nil {
		t.Fatal(err)
	}
	stop := fmt.Errorf("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
	if _, err := p.open(lockedfile.Options{}).Read(ctx); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
}
