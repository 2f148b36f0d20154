package lockedfile

import (
	"os"
	"testing"
	"time"

	"teambridge/teams/winetest"
)

// While we read a file all the time, an agent can replace it under its lock: at once if the file system has POSIX
// semantics, which Wine has not, and otherwise within a moment. A file that we have open can be renamed and removed.
func TestReadersDoNotHinderAnAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("0")
	var reads, failed int
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := Read(p.file.Dir, "x.json"); err != nil {
				t.Error(err)
				return
			}
			reads++
		}
	}()
	const rounds = 100
	for range rounds {
		for os.Mkdir(p.path("x.json.lock"), 0o700) != nil { // as an agent does: a reader can still have the last lock open
			time.Sleep(time.Millisecond)
		}
		must(t, os.WriteFile(p.path("x.json.tmp"), []byte("1"), 0o600))
		err := os.Rename(p.path("x.json.tmp"), p.path("x.json"))
		if err != nil {
			failed++
		}
		for start := time.Now(); err != nil && time.Since(start) < time.Minute; {
			time.Sleep(time.Millisecond)
			err = os.Rename(p.path("x.json.tmp"), p.path("x.json"))
		}
		must(t, err)
		must(t, os.Remove(p.path("x.json.lock")))
	}
	close(stop)
	<-done
	t.Logf("%d of %d renames failed at first, during %d reads", failed, rounds, reads)
	if failed > 0 && !winetest.Running() {
		t.Errorf("%d of %d renames failed", failed, rounds)
	}

	r, _, err := open(p.file.Dir, "x.json")
	must(t, err)
	defer r.Close()
	if err := os.Rename(p.path("x.json"), p.path("y.json")); err != nil {
		t.Errorf("while it is open: %v", err)
	}
	if err := os.Remove(p.path("y.json")); err != nil {
		t.Errorf("while it is open: %v", err)
	}
}
