package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"teambridge/relay/standin"
	"teambridge/teams/teamstest"
)

// BenchmarkSendProcess measures sending one message as a whole process, from
// its start to its end, into an inbox of 100 rows: the median (median-ms), and
// how many times faster that is than the same job in Node (x-node), measured in
// turns; the same beside a service that it goes through (through-a-service). The
// bars are under 6 ms on an idle machine, and 12 times.
//
//	go test -run '^$' -bench SendProcess -benchtime 200x ./cmd/teambridge
//
// The half with Node needs node and $TEAMBRIDGE_INTEROP/proper-lockfile, in
// which npm has installed proper-lockfile.
func BenchmarkSendProcess(b *testing.B) {
	binary := builtBinary(b)
	root := filepath.Join(b.TempDir(), "claude")
	if err := os.CopyFS(filepath.Join(root, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.80", "teams"))); err != nil {
		b.Fatal(err)
	}
	box := filepath.Join(root, "teams", "myteam", "inboxes", "worker.json")
	env := append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+filepath.Join(b.TempDir(), "state"))
	send := func(b *testing.B) time.Duration {
		return timed(b, box, env, binary, "send", "worker", "please review task 12")
	}

	b.Run("teambridge", func(b *testing.B) {
		send(b) // makes the state directory
		var took []time.Duration
		for b.Loop() {
			took = append(took, send(b))
		}
		b.ReportMetric(milliseconds(median(took)), "median-ms")
	})
	b.Run("through-a-service", func(b *testing.B) {
		state := teamstest.StateDir(b)
		root := filepath.Join(b.TempDir(), "claude")
		if err := os.CopyFS(filepath.Join(root, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.329", "teams"))); err != nil {
			b.Fatal(err)
		}
		boxes, err := filepath.Glob(filepath.Join(root, "teams", "*", "inboxes", "worker.json"))
		if err != nil || len(boxes) != 1 {
			b.Fatal(boxes, err)
		}
		env := append(env, "TEAMBRIDGE_STATE="+state, "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_TEAM=session-2de3961d")
		svc := exec.Command(binary, "serve", "--listen", "unix:"+filepath.Join(state, "s"))
		svc.Env = env
		said, err := svc.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := svc.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
		if _, err := said.Read(make([]byte, 100)); err != nil { // it serves
			b.Fatal(err)
		}
		var took []time.Duration
		for b.Loop() {
			took = append(took, timed(b, boxes[0], env, binary, "send", "worker", "please review task 12"))
		}
		b.ReportMetric(milliseconds(median(took)), "median-ms")
	})
	b.Run("node", func(b *testing.B) {
		node := standin.RequireNode(b)
		lockfile := filepath.Join(standin.RequireProperLockfile(b), "proper-lockfile")
		script := filepath.Join("..", "..", "testdata", "node", "send.cjs")
		var ours, theirs []time.Duration
		for b.Loop() {
			// Four in a row, so that most find the caches as they left them.
			for range 4 {
				ours = append(ours, send(b))
			}
			for range 4 {
				theirs = append(theirs, timed(b, box, env, node, script, lockfile, box, "please review task 12"))
			}
		}
		b.ReportMetric(milliseconds(median(ours)), "median-ms")
		b.ReportMetric(milliseconds(median(theirs)), "node-median-ms")
		b.ReportMetric(milliseconds(median(theirs))/milliseconds(median(ours)), "x-node")
	})
}

// timed runs a command that adds a row to an inbox of 100, and looks whether it did.
func timed(b *testing.B, box string, env []string, name string, args ...string) time.Duration {
	b.Helper()
	var rows bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&rows, ",\n  {\n    \"from\": \"user\",\n    \"text\": \"message %d, as long as messages to agents are on the average\",\n"+
			"    \"timestamp\": \"2026-11-20T17:48:11.432Z\",\n    \"read\": true,\n    \"messageId\": \"e6477fdc-5a8a-4c8f-bcc4-%012d\"\n  }", i, i)
	}
	content := append([]byte("["), append(rows.Bytes()[1:], "\n]"...)...)
	if err := os.WriteFile(box, content, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = env
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
	if now, err := os.ReadFile(box); err != nil || bytes.Count(now, []byte(`"from"`)) != 101 {
		b.Fatalf("%s: %d rows afterwards (%v), want 101", name, bytes.Count(now, []byte(`"from"`)), err)
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// builtBinary builds teambridge as it is released.
func builtBinary(b *testing.B) string {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "teambridge")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
