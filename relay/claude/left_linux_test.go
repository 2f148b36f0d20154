package claude_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/claude"
	"teambridge/relay/claude/simchild"
)

// TestNothingIsLeft is not parallel: it counts what belongs to the whole process.
func TestNothingIsLeft(t *testing.T) {
	one := func(script simchild.Script, end func(*claude.Process) error) {
		o, state := sim(t, script)
		p, err := claude.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		waitStarted(t, state)
		_ = p.Send(within(t), frame(t, "SLEEP:0.01 hello"))
		_ = end(p)
		if _, err := os.Stat("/proc/" + strconv.Itoa(p.Predecessor().PID)); err == nil {
			t.Errorf("process %d still stands in /proc", p.Predecessor().PID)
		}
	}
	round := func() {
		one(simchild.Script{}, func(p *claude.Process) error { return p.End(within(t), claude.Grace{EOF: time.Minute}) })
		one(simchild.Script{}, func(p *claude.Process) error { return p.Kill() })
		one(simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit}}},
			func(p *claude.Process) error { return p.Wait(within(t)) })
	}
	round() // what the runtime keeps for itself from the first time on
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	for range 5 {
		round()
	}
	if now := descriptors(t); now > files {
		t.Errorf("descriptors: got %d, want the %d from before", now, files)
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		runtime.Gosched() // those of a test's contexts end a moment later
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		stacks := make([]byte, 1<<16)
		t.Errorf("goroutines: got %d, want the %d from before; %s", now, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestGroupEndsWithItsLeader: what the child started in its group, and what holds its pipes, is gone with it.
func TestGroupEndsWithItsLeader(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"in its group":   `sleep 600 & echo $! >"$0"; exit 0`,
		"holding stdout": `setsid sleep 600 & echo $! >"$0"; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/pid"
			p := start(t, claude.Options{Command: []string{"/bin/sh", "-c", script, file}, Plain: true})
			if err := p.Wait(within(t)); err != nil {
				t.Fatalf("wait: got %v, want the end of the shell", err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			if name == "in its group" {
				if err := (claude.Predecessor{PID: pid, Group: pid, Start: "x"}).Wait(within(t)); err != nil {
					t.Errorf("its child: %v", err)
				}
				return
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil { // a group of its own: left alone
				t.Errorf("its child in a session of its own: got %v, want it alive", err)
			}
		})
	}
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{IgnoreTerm: true})
	p := start(t, o)
	waitStarted(t, state)
	self := p.Predecessor()
	if alive, err := self.Alive(); !alive || err != nil {
		t.Fatalf("running: got %t, %v", alive, err)
	}

	reused := self
	reused.Start = "1" + reused.Start
	if alive, err := reused.Alive(); alive || err != nil {
		t.Errorf("another process of that id: got %t, %v, want not alive", alive, err)
	}
	if err := reused.End(within(t), 0); err != nil {
		t.Errorf("end of one whose id is another's: %v", err)
	}
	unknown := self
	unknown.Start = ""
	if err := unknown.End(within(t), 0); err == nil {
		t.Error("end of one whose start is not known: got no error")
	}
	if alive, _ := self.Alive(); !alive {
		t.Fatal("the wrong process was ended")
	}

	if err := self.End(within(t), 20*time.Millisecond); err != nil {
		t.Errorf("end: %v", err)
	}
	if alive, err := self.Alive(); alive || err != nil {
		t.Errorf("ended: got alive %t, %v", alive, err)
	}
	if err := p.Wait(within(t)); err == nil {
		t.Error("wait: got exit code 0, want the signal")
	}
	if alive, err := (claude.Predecessor{}).Alive(); alive || err != nil {
		t.Errorf("zero: got %t, %v", alive, err)
	}
}
