package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// BenchmarkStart measures a command that does nothing, as a whole process, in turns with "go version": the medians,
// and the ratio of the medians (x-go) and of the fastest (x-go-min). The limit is 1.5.
//
//	go test -run '^$' -bench Start -benchtime 200x ./cmd/teambridge
func BenchmarkStart(b *testing.B) {
	binary := built(b, ".")
	gotool, err := exec.LookPath("go")
	if err != nil {
		b.Skip(err)
	}
	version := func(name string) time.Duration {
		start := time.Now()
		errtest.Must(b, exec.Command(name, "version").Run())
		return time.Since(start)
	}
	var ours, theirs []time.Duration
	for b.Loop() {
		ours, theirs = append(ours, version(binary)), append(theirs, version(gotool))
	}
	reportRatio(b, "go", theirs, ours)
}

// reportRatio reports the medians, and how many times as long as theirs ours is, or for "node", how many times as
// fast.
func reportRatio(b *testing.B, name string, theirs, ours []time.Duration) {
	ratio := func(of func([]time.Duration) time.Duration) float64 {
		if name == "node" {
			return milliseconds(of(theirs)) / milliseconds(of(ours))
		}
		return milliseconds(of(ours)) / milliseconds(of(theirs))
	}
	b.ReportMetric(milliseconds(median(ours)), "median-ms")
	b.ReportMetric(milliseconds(median(theirs)), name+"-median-ms")
	b.ReportMetric(ratio(median), "x-"+name)
	b.ReportMetric(ratio(func(d []time.Duration) time.Duration { return slices.Min(d) }), "x-"+name+"-min")
}

// BenchmarkSendProcess measures sending one message as a whole process into an inbox of 100 rows: the median
// (median-ms); the same through a service (through-a-service); and next to a command that records an inbox of 2,000
// rows which changes 20 times a second (beside-an-observer), with the 99th percentile (p99-ms) and its ratio to the
// one without the recording, in turns (x-idle-p99). For inboxes of 100 and 10,000 rows, it measures how many times
// faster that is than the same job in Node, in turns (x-node; x-node-min for the fastest). The limits are 15 times
// and 9 times.
//
//	go test -run '^$' -bench SendProcess -benchtime 200x ./cmd/teambridge
//
// The half with Node needs node and $TEAMBRIDGE_INTEROP/proper-lockfile, where npm has installed proper-lockfile.
func BenchmarkSendProcess(b *testing.B) {
	binary := built(b, ".")
	root := filepath.Join(b.TempDir(), "claude")
	errtest.Must(b, os.CopyFS(filepath.Join(root, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.80", "teams"))))
	box := filepath.Join(root, "teams", "myteam", "inboxes", "worker.json")
	env := append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+filepath.Join(b.TempDir(), "state"))
	send := func(b *testing.B) time.Duration {
		return timed(b, box, 100, env, binary, "send", "worker", "please review task 12")
	}

	b.Run("teambridge", func(b *testing.B) {
		send(b) // makes the state directory
		var took []time.Duration
		for b.Loop() {
			took = append(took, send(b))
		}
		b.ReportMetric(milliseconds(median(took)), "median-ms")
		b.ReportMetric(milliseconds(p99(took)), "p99-ms")
	})
	b.Run("through-a-service", func(b *testing.B) {
		state := teamstest.StateDir(b)
		root := filepath.Join(b.TempDir(), "claude")
		errtest.Must(b, os.CopyFS(filepath.Join(root, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.329", "teams"))))
		boxes, err := filepath.Glob(filepath.Join(root, "teams", "*", "inboxes", "worker.json"))
		if err != nil || len(boxes) != 1 {
			b.Fatal(boxes, err)
		}
		env := append(env, "TEAMBRIDGE_STATE="+state, "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_TEAM=session-2de3961d")
		svc := exec.Command(binary, "serve", "--listen", "unix:"+filepath.Join(state, "s"))
		svc.Env = env
		said, err := svc.StdoutPipe()
		errtest.Must(b, err)
		errtest.Must(b, svc.Start())
		defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
		if _, err := said.Read(make([]byte, 100)); err != nil { // the service serves
			b.Fatal(err)
		}
		var took []time.Duration
		for b.Loop() {
			took = append(took, timed(b, boxes[0], 100, env, binary, "send", "worker", "please review task 12"))
		}
		b.ReportMetric(milliseconds(median(took)), "median-ms")
	})
	b.Run("beside-an-observer", func(b *testing.B) {
		watch := exec.Command(binary, "watch", "--json")
		watch.Env = env
		errtest.Must(b, watch.Start())
		defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
		var idle, beside []time.Duration
		for b.Loop() {
			// Twenty in a row: one pair is too short for the observer to run in it.
			for range 20 {
				idle = append(idle, send(b))
			}
			stop := change(b, filepath.Join(filepath.Dir(box), "team-lead.json"), 2000, 50*time.Millisecond)
			for range 20 {
				beside = append(beside, send(b))
			}
			stop()
		}
		b.ReportMetric(milliseconds(median(beside)), "median-ms")
		b.ReportMetric(milliseconds(median(idle)), "idle-median-ms")
		b.ReportMetric(milliseconds(p99(beside)), "p99-ms")
		b.ReportMetric(milliseconds(p99(idle)), "idle-p99-ms")
		b.ReportMetric(milliseconds(median(beside))/milliseconds(median(idle)), "x-idle")
		b.ReportMetric(milliseconds(p99(beside))/milliseconds(p99(idle)), "x-idle-p99")
	})
	for _, rows := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("node/rows=%d", rows), func(b *testing.B) {
			node := standin.RequireNode(b)
			lockfile := filepath.Join(standin.RequireProperLockfile(b), "proper-lockfile")
			script := filepath.Join("..", "..", "testdata", "node", "send.cjs")
			var ours, theirs []time.Duration
			for b.Loop() {
				// Four in a row, so that most have warm caches.
				for range 4 {
					ours = append(ours, timed(b, box, rows, env, binary, "send", "worker", "please review task 12"))
				}
				for range 4 {
					theirs = append(theirs, timed(b, box, rows, env, node, script, lockfile, box, "please review task 12"))
				}
			}
			reportRatio(b, "node", theirs, ours)
		})
	}
}

// timed runs a command that adds a row to an inbox of n rows, and checks that it did.
func timed(b *testing.B, box string, n int, env []string, name string, args ...string) time.Duration {
	b.Helper()
	errtest.Must(b, os.WriteFile(box, inboxOf(n, true), 0o600))
	cmd := exec.Command(name, args...)
	cmd.Env = env
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
	if now, err := os.ReadFile(box); err != nil || bytes.Count(now, []byte(`"from"`)) != n+1 {
		b.Fatalf("%s: %d rows afterwards (%v), want %d", name, bytes.Count(now, []byte(`"from"`)), err, n+1)
	}
	return took
}

// change replaces an inbox of n rows until stop is called: each time, the oldest row is removed and a new one added.
func change(b *testing.B, box string, n int, every time.Duration) (stop func()) {
	b.Helper()
	rows := make([]string, 0, n+1)
	add := func(i int64) {
		rows = append(rows, fmt.Sprintf("  {\n    \"from\": \"worker\",\n    \"text\": \"message %d, as long as messages to agents are on the average\",\n"+
			"    \"timestamp\": \"2026-11-20T17:48:11.432Z\",\n    \"read\": false\n  }", i))
	}
	for i := range n {
		add(int64(i))
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			rows = rows[1:]
			add(time.Now().UnixNano())
			err := os.WriteFile(box+".new", []byte("[\n"+strings.Join(rows, ",\n")+"\n]"), 0o600)
			if err = cmp.Or(err, os.Rename(box+".new", box)); err != nil {
				b.Error(err)
				return
			}
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

func p99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}

// inboxOf returns an inbox of n rows.
func inboxOf(n int, read bool) []byte {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("\n  {\n    \"from\": \"user\",\n    \"text\": \"message %d, as long as messages to agents are on the average\",\n"+
			"    \"timestamp\": \"2026-11-20T17:48:11.432Z\",\n    \"read\": %t,\n    \"messageId\": \"e6477fdc-5a8a-4c8f-bcc4-%012d\"\n  }", i, read, i)
	}
	return []byte("[" + strings.Join(rows, ",") + "\n]")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// built builds a program of this module without cgo and debug information, as .ci/run does.
func built(t testing.TB, dir string) string {
	t.Helper()
	path, err := filepath.Abs(dir)
	errtest.Must(t, err)
	binary := filepath.Join(t.TempDir(), filepath.Base(path))
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-ldflags=-w", "-o", binary, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
