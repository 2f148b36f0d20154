package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// linked is two machines and a hub on loopback.
type linked struct {
	dir  string                                               // has the home of each machine
	run  func(machine, program string, args ...string) string // a command of a machine, or of "hub"
	pids map[string]int                                       // the services of "laptop" and "build"
}

// newLinked starts the machines and the hub. "build" has the team session-2de3961d.
func newLinked(b *testing.B) linked {
	b.Helper()
	dir := b.TempDir()
	programs := map[string]string{"teambridge": built(b, "."), "teambridge-hub": built(b, "../teambridge-hub")}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	errtest.Must(b, err)
	hub := free.Addr().String()
	free.Close()
	command := func(machine, program string, args ...string) *exec.Cmd {
		home := filepath.Join(dir, machine)
		errtest.Must(b, os.MkdirAll(filepath.Join(home, "claude", "teams"), 0o700))
		cmd := exec.Command(programs[program], args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "CLAUDE_CONFIG_DIR="+filepath.Join(home, "claude"), "TEAMBRIDGE_STATE="+filepath.Join(home, "state"), "TEAMBRIDGE_HUB_DIR="+filepath.Join(dir, "hub"))
		return cmd
	}
	run := func(machine, program string, args ...string) string {
		out, err := command(machine, program, args...).Output()
		if err != nil {
			b.Fatalf("%s %v: %v", program, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	start := func(machine, program string, args ...string) (pid int) {
		cmd := command(machine, program, args...)
		errtest.Must(b, cmd.Start())
		b.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGTERM)
			cmd.Wait()
		})
		return cmd.Process.Pid
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	start("hub", "teambridge-hub", "run", "--listen", hub)
	pids := map[string]int{}
	for conn, err := net.Dial("tcp", hub); ; conn, err = net.Dial("tcp", hub) {
		if err == nil {
			conn.Close()
			break
		}
		<-second.C
	}
	errtest.Must(b, os.CopyFS(filepath.Join(dir, "build", "claude", "teams"), os.DirFS(filepath.Join("..", "..", "testdata", teamstest.NewerVersion, "teams"))))
	cards := map[string]string{}
	for _, machine := range []string{"laptop", "build"} {
		cards[machine] = run(machine, "teambridge", "link", "card", "--name", machine)
		run("hub", "teambridge-hub", "add", cards[machine])
		run(machine, "teambridge", "link", "hub", "nats://"+hub)
	}
	run("laptop", "teambridge", "link", "add", cards["build"])
	run("build", "teambridge", "link", "add", cards["laptop"])
	for _, machine := range []string{"laptop", "build"} {
		pids[machine] = start(machine, "teambridge", "serve", "--listen", "unix:"+filepath.Join(dir, machine, "s"))
	}
	for !strings.Contains(run("laptop", "teambridge", "link", "list"), "build    here") {
		<-second.C
	}
	return linked{dir, run, pids}
}

// BenchmarkLinkUnread measures the processor time that a message takes in all on the machine that receives it, until
// its sender knows that it is in the inbox, with 0 and 2,000 unread rows. The limit is 20 ms.
//
//	go test -run '^$' -bench LinkUnread -benchtime 50x ./cmd/teambridge
func BenchmarkLinkUnread(b *testing.B) {
	for _, rows := range []int{0, 2000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			l := newLinked(b)
			l.run("build", "teambridge", "link", "share", "laptop", teamstest.Newer)
			inbox := filepath.Join(l.dir, "build", "claude", "teams", teamstest.Newer, "inboxes", "worker.json")
			errtest.Must(b, os.WriteFile(inbox, inboxOf(rows, false), 0o600))
			send := func() {
				l.run("laptop", "teambridge", "send", "worker@"+teamstest.Newer+"@build", "please review task 12", "--wait", "sent")
			}
			send() // the link is up
			before := processorTime(b, l.pids["build"])
			for b.Loop() {
				send()
			}
			b.ReportMetric(milliseconds(processorTime(b, l.pids["build"])-before)/float64(b.N), "cpu-ms")
		})
	}
}
