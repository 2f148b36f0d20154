package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/simsession"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// BenchmarkServeIdle measures the service, as a process, while nothing happens in 100 teams of 4 and of 10 inboxes:
// its memory, and its share of a core. The limits are 0.1 % of a core and 28 MiB with 4 inboxes, even at its start, and
// 0.3 % with 30 sessions in terminals and 5 headless agents besides, which do nothing either.
//
//	go test -run '^$' -bench ServeIdle -benchtime 60x ./cmd/teambridge
//
// An iteration is a second.
func BenchmarkServeIdle(b *testing.B) {
	for _, inboxes := range []int{4, 10} {
		b.Run(fmt.Sprintf("inboxes=%d", inboxes), func(b *testing.B) { idle(b, inboxes, 0, 0) })
	}
	b.Run("sessions=30", func(b *testing.B) { idle(b, 4, 30, 5) })
}

// idle measures the service with 100 teams, each with a number of inboxes, with sessions and with relays.
func idle(b *testing.B, inboxes, sessions, relays int) {
	b.Helper()
	binary := built(b, ".")
	root := filepath.Join(b.TempDir(), "claude")
	for i := range 100 {
		opts := simagent.TeamOptions{Root: root, Name: fmt.Sprintf("team-%d", i)}
		for k := range inboxes - 1 {
			opts.Members = append(opts.Members, simagent.Member{Name: fmt.Sprintf("worker-%d", k), Absent: true})
		}
		team, err := simagent.Create(b.Context(), opts)
		errtest.Must(b, err)
		for k := range inboxes - 1 {
			m := simagent.Message{To: fmt.Sprintf("worker-%d", k), Text: "please review task 12"}
			if _, err := team.Agent(simagent.Lead).Send(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range sessions {
		simsession.Start(b, root, fmt.Sprintf("5e551000-0000-4000-8000-%012d", i))
	}
	cmd := exec.Command(binary, "serve", "--listen", "unix:"+filepath.Join(teamstest.StateDir(b), "s"))
	cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+filepath.Join(b.TempDir(), "state"))
	stderr, err := cmd.StderrPipe()
	errtest.Must(b, err)
	begun := time.Now()
	errtest.Must(b, cmd.Start())
	for s := bufio.NewScanner(stderr); s.Scan() && !strings.HasSuffix(s.Text(), "readOnly=false"); {
	}
	started := time.Since(begun)
	go io.Copy(io.Discard, stderr)
	for i := range relays {
		to := fmt.Sprintf("lead@relayed-%d", i)
		for _, args := range [][]string{
			{"relay", "add", to, "--create-team", "--dir", root, "--", built(b, "../../relay/relaytest/simchild/program")},
			{"ask", to, "please review task 12"},
		} {
			c := exec.Command(binary, args...)
			c.Env = cmd.Env
			if out, err := c.CombinedOutput(); err != nil {
				b.Fatalf("%s: %v\n%s", args, err, out)
			}
		}
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for range 2 * settles / time.Second { // effects of the start
		<-second.C
	}
	before, slept := processorTime(b, cmd.Process.Pid), []int{wakeups(b, cmd.Process.Pid)}
	start := time.Now()
	for b.Loop() {
		<-second.C
		slept = append(slept, wakeups(b, cmd.Process.Pid))
	}
	took := time.Since(start)
	cpu := (processorTime(b, cmd.Process.Pid) - before).Seconds() / took.Seconds()
	last := len(slept) - 1
	b.ReportMetric(float64(slept[last]-slept[0])/took.Minutes(), "wakeups/min")
	awake := 0
	for i := 1; i <= last; i++ {
		if slept[i] > slept[i-1] {
			awake++
		}
	}
	b.ReportMetric(60*float64(awake)/float64(last), "awake-s/min") // a sweep wakes 5 to 50 times, by chance
	b.ReportMetric(memory(b, cmd.Process.Pid, "VmRSS"), "MiB")
	b.ReportMetric(memory(b, cmd.Process.Pid, "VmHWM"), "peak-MiB")
	b.ReportMetric(100*cpu, "%core")
	b.ReportMetric(milliseconds(started), "start-ms")
	errtest.Must(b, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		b.Error(err)
	}
}

// processorTime returns the processor time of a process, in all its threads, including ended ones. Its unit is a
// nanosecond; /proc/PID/stat has hundredths of a second.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		b.Fatalf("the processor time of process %d is not known: %v", pid, err)
	}
	return time.Duration(t.Nano())
}

// wakeups returns how often the threads of a process have begun to wait.
func wakeups(b *testing.B, pid int) (n int) {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	errtest.Must(b, err)
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		_, text, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		k, err := strconv.Atoi(strings.Fields(text + " -")[0])
		errtest.Must(b, err)
		n += k
	}
	return n
}

// BenchmarkFaults counts the page faults of commands, as whole processes, and the bytes of the binary. Neither
// depends on how busy the machine is.
//
//	go test -run '^$' -bench Faults -benchtime 20x ./cmd/teambridge
func BenchmarkFaults(b *testing.B) {
	binary := built(b, ".")
	info, err := os.Stat(binary)
	errtest.Must(b, err)
	root := filepath.Join(b.TempDir(), "claude")
	errtest.Must(b, os.CopyFS(filepath.Join(root, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.80", "teams"))))
	env := append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+filepath.Join(b.TempDir(), "state"))
	faults := func(args ...string) int64 {
		cmd := exec.Command(binary, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", args, err, out)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt
	}
	for _, args := range [][]string{{"version"}, {"send", "worker", "please review task 12"}, {"status"}} {
		b.Run(args[0], func(b *testing.B) {
			faults(args...) // makes the state directory, and brings the binary into memory
			var all []int64
			for b.Loop() {
				all = append(all, faults(args...))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2]), "faults")
			b.ReportMetric(float64(info.Size()), "bytes")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// memory returns the memory of a process from /proc/PID/status, in MiB.
func memory(t testing.TB, pid int, field string) float64 {
	t.Helper()
	proc, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	errtest.Must(t, err)
	_, text, _ := strings.Cut(string(proc), field+":")
	kib, err := strconv.Atoi(strings.Fields(text + " -")[0])
	if err != nil {
		t.Fatalf("%s of process %d: %v", field, pid, err)
	}
	return float64(kib) / 1024
}

// A service frees the memory that only its start needed.
func TestServiceGivesMemoryBack(t *testing.T) {
	t.Parallel()
	f := teamstest.New(t)
	svc := exec.Command("teambridge", "serve", "--listen", "unix:"+filepath.Join(f.State, "s")) // the program of the scripts
	svc.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+f.Root.Path(), "TEAMBRIDGE_STATE="+f.State, "TEST_SETTLES=100ms")
	said, err := svc.StdoutPipe()
	errtest.Must(t, err)
	errtest.Must(t, svc.Start())
	defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
	if _, err := said.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		now, most := memory(t, svc.Process.Pid, "VmRSS"), memory(t, svc.Process.Pid, "VmHWM")
		if now < most*3/4 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has %.1f MiB, and had %.1f at its start", now, most)
		}
		time.Sleep(50 * time.Millisecond) // another process changes it
	}
}
