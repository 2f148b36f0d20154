package claude_test

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/simchild"
)

// TestNothingIsLeft is not parallel: it counts resources of the whole process.
func TestNothingIsLeft(t *testing.T) {
	one := func(script simchild.Script, end func(*claude.Process) error) {
		o, state := sim(t, script)
		p, err := claude.Start(t.Context(), o)
		must(t, err)
		waitStarted(t, state)
		_ = p.Send(within(t), frame(t, "SLEEP:0.01 hello").Line)
		_ = end(p)
		if _, err := os.Stat("/proc/" + strconv.Itoa(p.ID().PID)); err == nil {
			t.Errorf("process %d is still in /proc", p.ID().PID)
		}
	}
	round := func() {
		one(simchild.Script{}, func(p *claude.Process) error { return end(t, p, agent.Grace{EOF: time.Minute}) })
		one(simchild.Script{}, func(p *claude.Process) error { return end(t, p, agent.Grace{}) })
		one(simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit}}},
			func(p *claude.Process) error { return p.Wait(within(t)) })
	}
	round() // the runtime keeps some resources from the first time on
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	for range 5 {
		round()
	}
	if now := descriptors(t); now > files {
		t.Errorf("descriptors: got %d, want the %d from before", now, files)
	}
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		runtime.Gosched() // goroutines of a test's contexts end a moment later
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		stacks := make([]byte, 1<<16)
		t.Errorf("goroutines: got %d, want the %d from before; %s", now, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// TestGroupEndsWithItsLeader: the processes of a child's group end with it. Processes in other groups live on, and do
// not delay us by holding the pipes.
func TestGroupEndsWithItsLeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before string
		lives        bool
	}{{"in its group", "", false}, {"in a session of its own", "setsid ", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/pid"
			script := test.before + `/bin/sh -c 'echo $$ >"$0"; exec sleep 600' "$0" & while [ ! -s "$0" ]; do sleep 0.01; done`
			p := start(t, claude.Options{Command: []string{"/bin/sh", "-c", script, file}, Plain: true})
			if err := p.Wait(within(t)); err != nil {
				t.Fatalf("wait: got %v, want the end of the shell", err)
			}
			data, err := os.ReadFile(file)
			must(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			must(t, err)
			if test.lives {
				if !runs(t, pid) {
					t.Error("it was ended")
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
				return
			}
			eventually(t, "it has ended", func() bool { return !runs(t, pid) })
		})
	}
}

// stat are the fields of /proc/<pid>/stat from the third on.
func stat(t testing.TB, pid int) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

func runs(t testing.TB, pid int) bool {
	fields := stat(t, pid)
	return len(fields) > 0 && fields[0] != "Z"
}

// TestZombieIsNotAlive: a process has ended even if it is never reaped, as under a container's first process.
func TestZombieIsNotAlive(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	d := process.Predecessor{PID: cmd.Process.Pid, Group: cmd.Process.Pid,
		Start: stat(t, cmd.Process.Pid)[19] + "@" + strings.TrimSpace(string(boot))}
	if alive, err := d.Alive(); !alive || err != nil {
		t.Errorf("running: got %t, %v", alive, err)
	}
	must(t, cmd.Process.Kill())
	if err := d.Wait(within(t)); err != nil {
		t.Errorf("as a zombie: %v", err)
	}
}

func TestPredecessor(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{IgnoreTerm: true})
	p := start(t, o)
	waitStarted(t, state)
	self := process.Predecessor(p.ID())
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
	if alive, err := (process.Predecessor{}).Alive(); alive || err != nil {
		t.Errorf("zero: got %t, %v", alive, err)
	}
}
