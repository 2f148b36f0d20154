package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/teamstest"
)

// sender writes to an inbox as Claude Code does, without our code: lock directory,
// temporary file, rename.
type sender struct {
	t    testing.TB
	path string
	from string
}

func (s *station) agent() *sender {
	return &sender{t: s.t, path: filepath.Join(s.dir, "root/teams/demo/inboxes/team-lead.json"), from: "worker"}
}

// write appends rows, and returns the instant before the rename.
func (a *sender) write(texts ...string) (at time.Time) {
	a.t.Helper()
	fail := func(err error) {
		if err != nil {
			a.t.Helper()
			a.t.Fatal(err)
		}
	}
	for {
		err := os.Mkdir(a.path+".lock", 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			fail(err)
		}
		// As Claude Code does: the holder of the lock was killed.
		if info, err := os.Stat(a.path + ".lock"); err == nil && time.Since(info.ModTime()) > 10*time.Second {
			_ = os.Remove(a.path + ".lock")
		}
		<-time.After(time.Millisecond)
	}
	data, err := os.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = []byte("[]"), nil
	}
	fail(err)
	var b bytes.Buffer
	b.Write(bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(data), []byte("]")), "\n "))
	for _, text := range texts {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		row, err := json.MarshalIndent(map[string]any{
			"from": a.from, "text": text, "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"read": false, "msgV": 1, "msg_id": fmt.Sprintf("%08x-0000-4000-8000-000000000000", b.Len()), "type": "message",
		}, "  ", "  ")
		fail(err)
		b.WriteString("\n  ")
		b.Write(row)
	}
	b.WriteString("\n]")
	fail(os.WriteFile(a.path+".tmp.0a1b2c3d", b.Bytes(), 0o600))
	at = time.Now()
	fail(os.Rename(a.path+".tmp.0a1b2c3d", a.path))
	fail(os.Remove(a.path + ".lock"))
	return at
}

// ends counts the frames that have ended, by the output of the agent.
func ends(opts *Options) <-chan struct{} {
	done := make(chan struct{}, 1<<16)
	opts.Events = func(e agent.Event) {
		for _, p := range e.Progress {
			if !p.State.InFlight() {
				done <- struct{}{}
			}
		}
	}
	return done
}

// BenchmarkLatency measures the time from the rename of an inbox until the agent has
// read the frame from its stdin, with all commits of the ledger before it. It sends one
// message at a time to an idle agent, also with 1000 further rows in the inbox. "disk" is
// the time that the disk alone needs for the writes before it: a record, the inbox, and a
// record again; both are measured in turn.
//
//	go test -run '^$' -bench Latency -benchtime 1000x ./relay
func BenchmarkLatency(b *testing.B) {
	for _, rows := range []int{0, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := newStation(b, simchild.Script{})
			sender := s.agent()
			if rows > 0 {
				sender.write(slices.Repeat([]string{"old"}, rows)...)
				data, err := os.ReadFile(sender.path)
				must(b, err)
				must(b, os.WriteFile(sender.path, bytes.ReplaceAll(data, []byte(`"read": false`), []byte(`"read": true`)), 0o600))
			}
			opts := s.options()
			opts.Timing = Timing{} // the defaults
			done := ends(&opts)
			s.relay(opts)
			s.until("idle", func(st Status) bool { return st.State == Idle })
			sender.write("[warm]")
			<-done
			at := map[string]time.Time{}
			disk := teamstest.NewDisk(b)
			n := 0
			for b.Loop() {
				n++
				disk.Commit(sender.path)
				m := fmt.Sprintf("[m-%d]", n)
				at[m] = sender.write(m)
				<-done
			}
			entries, err := simchild.Log(s.script.State)
			must(b, err)
			var times []time.Duration
			for _, e := range entries {
				if i := strings.Index(e.Text, "[m-"); e.Kind == "read" && i >= 0 {
					m := e.Text[i : i+strings.Index(e.Text[i:], "]")+1]
					times = append(times, e.At.Sub(at[m]))
				}
			}
			if len(times) != n {
				b.Fatalf("%d of %d frames were read", len(times), n)
			}
			teamstest.ReportTimes(b, "", times)
			disk.Report(b)
		})
	}
}
