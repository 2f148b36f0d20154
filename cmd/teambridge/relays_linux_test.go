package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// BenchmarkRelays sends 50 messages a second in all to 30 headless agents that a service runs. It reports how much
// more memory the service has at the end than after the first quarter of the time, and how many messages were lost or
// worked on twice. The limit is ten minutes with flat memory, and no message lost or done twice.
//
//	go test -run '^$' -bench Relays -benchtime 600x ./cmd/teambridge
//
// An iteration is a second.
func BenchmarkRelays(b *testing.B) {
	const relays, rate = 30, 50
	binary, dir, root, state := built(b, "."), b.TempDir(), filepath.Join(b.TempDir(), "claude"), teamstest.StateDir(b)
	errtest.Must(b, os.MkdirAll(root, 0o700))
	agent := built(b, "../../relay/relaytest/simchild/program")
	env := append(os.Environ(), "HOME="+dir, "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state)
	socket := filepath.Join(state, "s")
	service := exec.Command(binary, "serve", "--listen", "unix:"+socket)
	service.Env = env
	said, err := service.StdoutPipe()
	errtest.Must(b, err)
	errtest.Must(b, service.Start())
	defer func() { _ = service.Process.Signal(syscall.SIGTERM); _ = service.Wait() }()
	if _, err := said.Read(make([]byte, 100)); err != nil { // the service serves
		b.Fatal(err)
	}
	for i := range relays {
		add := exec.Command(binary, "relay", "add", fmt.Sprintf("lead@team-%d", i), "--create-team", "--dir", dir, "--", agent)
		add.Env = env
		if out, err := add.CombinedOutput(); err != nil {
			b.Fatalf("relay add: %v\n%s", err, out)
		}
	}
	c, err := client.New(client.Options{Socket: socket})
	errtest.Must(b, err)
	defer c.Close()
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	sent, early := 0, 0.0
	for range b.N {
		for range rate {
			<-tick.C
			if _, err := c.Send(b.Context(), fmt.Sprintf("team-%d", sent%relays), "lead", "", api.NewMessage{Text: fmt.Sprintf("[m-%d]", sent)}); err != nil {
				b.Fatal(err)
			}
			sent++
		}
		if early == 0 && sent >= b.N*rate/4 {
			early = memory(b, service.Process.Pid, "VmRSS")
		}
	}
	late := memory(b, service.Process.Pid, "VmRSS")
	worked := map[string]int{}
	for over := time.Now().Add(2 * patience); len(worked) < sent && time.Now().Before(over); {
		<-tick.C
		entries, err := simchild.Log(root)
		errtest.Must(b, err)
		clear(worked)
		for _, e := range entries {
			for text := e.Text; e.Kind == "work"; {
				_, rest, found := strings.Cut(text, "[m-")
				if !found {
					break
				}
				id, rest, _ := strings.Cut(rest, "]")
				worked[id]++
				text = rest
			}
		}
	}
	twice := 0
	for _, n := range worked {
		twice += n - 1
	}
	b.ReportMetric(late-early, "MiB-more")
	b.ReportMetric(late, "MiB")
	b.ReportMetric(float64(sent-len(worked)), "lost")
	b.ReportMetric(float64(twice), "twice")
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "messages/s")
}
