package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/sim/simagent"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// BenchmarkWatchIdle measures what watch --all costs, as a process, while nothing
// happens in 100 teams of 10 inboxes: its memory, and its part of a core.
//
//	go test -run '^$' -bench WatchIdle -benchtime 30x ./cmd/teambridge
//
// An iteration is a second.
func BenchmarkWatchIdle(b *testing.B) {
	idle(b, 10, "watching", syscall.SIGINT, api.ExitInterrupted, "watch", "--all", "-v")
}

// BenchmarkServeIdle measures the same of the service, with 100 teams of 4 and of 10
// inboxes. The bars are 0.2 % of a core, and 30 MiB, with 4 on an idle machine.
//
//	go test -run '^$' -bench ServeIdle -benchtime 60x ./cmd/teambridge
func BenchmarkServeIdle(b *testing.B) {
	for _, inboxes := range []int{4, 10} {
		b.Run(fmt.Sprintf("inboxes=%d", inboxes), func(b *testing.B) {
			idle(b, inboxes, "readOnly=false", syscall.SIGTERM, api.ExitOK, "serve", "--listen", "unix:"+filepath.Join(teamstest.StateDir(b), "s"))
		})
	}
}

// idle measures a command that says on stderr when it is there, in a line with that
// end, and ends with a status when it gets a signal. Each of the 100 teams has so many inboxes.
func idle(b *testing.B, inboxes int, ready string, end syscall.Signal, status int, args ...string) {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "teambridge")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	root := filepath.Join(b.TempDir(), "claude")
	for i := range 100 {
		opts := simagent.TeamOptions{Root: root, Name: fmt.Sprintf("team-%d", i)}
		for k := range inboxes - 1 {
			opts.Members = append(opts.Members, simagent.Member{Name: fmt.Sprintf("worker-%d", k), Absent: true})
		}
		team, err := simagent.Create(b.Context(), opts)
		if err != nil {
			b.Fatal(err)
		}
		for k := range inboxes - 1 {
			m := simagent.Message{To: fmt.Sprintf("worker-%d", k), Text: "please review task 12"}
			if _, err := team.Agent(simagent.Lead).Send(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+filepath.Join(b.TempDir(), "state"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for s := bufio.NewScanner(stderr); s.Scan() && !strings.HasSuffix(s.Text(), ready); {
	}
	started := time.Since(begun)
	go io.Copy(io.Discard, stderr)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	<-second.C // what the start leaves behind
	before := onCore(b, cmd.Process.Pid)
	start := time.Now()
	for b.Loop() {
		<-second.C
	}
	cpu := (onCore(b, cmd.Process.Pid) - before).Seconds() / time.Since(start).Seconds()
	proc, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rss, _ := strings.Cut(string(proc), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rss)[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(kib)/1024, "MiB")
	b.ReportMetric(100*cpu, "%core")
	b.ReportMetric(milliseconds(started), "start-ms")
	if err := cmd.Process.Signal(end); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != status {
		b.Errorf("%s ended with %v", args[0], err)
	}
}

// onCore is how long the threads of a process have been running on a core. Unlike
// /proc/PID/stat it counts in nanoseconds, and not in hundredths of a second. A thread that
// ended is not counted; those of Go stay.
func onCore(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // proc(5)
	if err != nil || len(threads) == 0 {
		b.Fatalf("the threads of process %d are not known: %v", pid, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.Fields(string(stat))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n)
	}
	return sum
}
