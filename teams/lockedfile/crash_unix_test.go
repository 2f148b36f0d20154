//go:build unix

package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary runs itself again as the process that is killed or stopped.
// These variables say what it is to do.
const (
	envDir    = "LOCKEDFILE_TEST_DIR"    // directory of the file
	envState  = "LOCKEDFILE_TEST_STATE"  // state directory
	envCount  = "LOCKEDFILE_TEST_COUNT"  // how many increments
	envStep   = "LOCKEDFILE_TEST_STEP"   // the step before which ...
	envSignal = "LOCKEDFILE_TEST_SIGNAL" // ... this signal is sent to itself
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	signal, _ := strconv.Atoi(os.Getenv(envSignal))
	count, _ := strconv.Atoi(os.Getenv(envCount))
	l := locker(Options{Dir: os.Getenv(envState), Wait: time.Minute, Before: func(s Step) {
		if string(s) == os.Getenv(envStep) {
			if err := syscall.Kill(os.Getpid(), syscall.Signal(signal)); err != nil {
				fmt.Println(err)
			}
			// The signal may go to another thread, and this one go on for a moment.
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}})
	for range count {
		if err := l.Transform(context.Background(), File{Dir: root, Name: "x.json"}, increment); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) child(count int, step Step, signal syscall.Signal) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+p.dir, envState+"="+p.state, envCount+"="+strconv.Itoa(count),
		envStep+"="+string(step), envSignal+"="+strconv.Itoa(int(signal)))
	return cmd
}

// age makes the lock directory, if there is one, as old as a dead holder's.
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
		cmd := p.child(each, "", 0)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	p.want(strconv.Itoa(each * workers))
}

// A process killed before any step leaves the old or the new content, and
// nothing that keeps the next one out for longer than a stale lock does.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for step, want := range map[Step]string{
		StepLock: "7", StepRead: "7", StepWrite: "7", StepFence: "7", StepRename: "7",
		StepReadBack: "8", StepUnlock: "8",
	} {
		p := newPlace(t)
		p.write("7")
		err := p.child(1, step, syscall.SIGKILL).Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("killed before %s: child ended with %v", step, err)
		}
		if got, err := os.ReadFile(p.path("x.json")); err != nil || string(got) != want {
			t.Errorf("killed before %s: file holds %q, %v; want %q", step, got, err, want)
		}
		p.age()
		n, _ := strconv.Atoi(want)
		if err := locker(Options{Dir: p.state, Wait: time.Minute}).Transform(t.Context(), p.file, increment); err != nil {
			t.Errorf("after a kill before %s: %v", step, err)
		}
		p.want(strconv.Itoa(n + 1)) // no lock and no temporary file is left
	}
}

// A process is stopped right before the fence and another takes its lock over,
// as it may after 10 s: on waking it writes nothing, removes nothing of the
// other's, and says so. The lock is aged by hand instead of waiting.
func TestStoppedWhileHolding(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("7")
	cmd := p.child(1, StepFence, syscall.SIGSTOP)
	var out strings.Builder
	cmd.Stdout = &out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("child did not stop: %v %v", status, err)
	}
	p.age()
	lock := p.path("x.json.lock")
	// The other program holds its lock and has written.
	if err := makeAgain(lock); err != nil {
		t.Fatal(err)
	}
	p.write("other")
	if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), stdin.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "taken over") {
		t.Errorf("child ended with %v: %s", err, out.String())
	}
	p.want("other", filepath.Base(lock))
}
