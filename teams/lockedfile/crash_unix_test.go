//go:build unix

package lockedfile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/killtest"
)

func TestMain(m *testing.M) {
	killtest.Main(m, killtest.Roles{"incrementer": killtest.Job(incrementAll)})
}

// job is the work of a process: it increments the file Count times. Its points are the steps.
type job struct {
	Dir, State string
	Count      int
}

func incrementAll(j job) error {
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return err
	}
	l := locker(Options{Dir: j.State, Wait: time.Minute, Before: func(s Step) { killtest.At(string(s)) }})
	for range j.Count {
		if err := l.Transform(context.Background(), File{Dir: root, Name: "x.json"}, increment); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) process(count int) *exec.Cmd {
	return killtest.Command(p.t.Context(), "incrementer", job{p.dir, p.state, count})
}

// age makes the lock directory, if there is one, as old as that of a dead holder.
func (p *place) age() {
	old := time.Now().Add(-StaleAfter - time.Second)
	if err := ignoreNotExist(os.Chtimes(p.path("x.json.lock"), old, old)); err != nil {
		p.t.Error(err)
	}
}

func TestProcessesExclude(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var wg sync.WaitGroup
	const each, workers = 40, 6
	for range workers {
		cmd := p.process(each)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	p.want(strconv.Itoa(each * workers))
}

// A process that is killed before any step leaves the old or the new content, and the next process waits no longer
// than for a stale lock.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for step, want := range map[Step]string{
		StepLock: "7", StepRead: "7", StepWrite: "7", StepFence: "7", StepRename: "7",
		StepReadBack: "8", StepUnlock: "8",
	} {
		p := newPlace(t)
		p.write("7")
		killtest.Killed(t, killtest.KillAt(p.process(1), string(step)))
		if got, err := os.ReadFile(p.path("x.json")); err != nil || string(got) != want {
			t.Errorf("killed before %s: file holds %q, %v; want %q", step, got, err, want)
		}
		p.age()
		n, _ := strconv.Atoi(want)
		if err := locker(Options{Dir: p.state, Wait: time.Minute}).Transform(t.Context(), p.file, increment); err != nil {
			t.Errorf("after a kill before %s: %v", step, err)
		}
		p.want(strconv.Itoa(n + 1)) // and no lock and no temporary file
	}
}

// If a process is stopped right before the fence, and another one takes its lock over, as it may after 10 s, the
// process writes nothing when it continues, removes nothing of the other, and returns an error. The test sets the
// lock's age instead of waiting.
func TestStoppedWhileHolding(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("7")
	stopped := killtest.Stop(t, p.process(1), string(StepFence))
	p.age()
	lock := p.path("x.json.lock")
	// The other process holds its lock and has written.
	must(t, makeAgain(lock))
	p.write("other")
	if _, err := stopped.Continue(); err == nil || !strings.Contains(stopped.Stderr(), "taken over") {
		t.Errorf("it ended with %v: %s", err, stopped.Stderr())
	}
	p.want("other", filepath.Base(lock))
}
