package client_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/teamstest"
)

// BenchmarkPost measures sending a message through the service over its unix socket, from the request to the
// answer "verified". By then, the ledger, the inbox and the receipt are written. "disk" is the time of the disk
// alone, measured in turn with it.
//
//	go test -run '^$' -bench Post -benchtime 1000x ./status/client
func BenchmarkPost(b *testing.B) {
	w := newWorld(b)
	w.serve()
	c := w.find()
	box := w.Inbox(newer, "worker")
	var took []time.Duration
	disk := teamstest.NewDisk(b)
	n := 0
	for b.Loop() {
		start := time.Now()
		if _, err := c.Send(b.Context(), newer, "worker", "", api.NewMessage{Text: fmt.Sprintf("message %d", n)}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		disk.Commit(box.Path())
		if n++; n%20 == 0 { // as an agent does
			if _, err := teamstest.Take(b.Context(), box, teamstest.All); err != nil {
				b.Fatal(err)
			}
		}
	}
	teamstest.ReportTimes(b, "", took)
	disk.Report(b)
}

// BenchmarkEvent measures the time from another program's rename of an inbox with a new message until a client
// gets the event: the watching, the journal and the stream.
//
//	go test -run '^$' -bench Event -benchtime 1000x ./status/client
func BenchmarkEvent(b *testing.B) {
	w := newWorld(b)
	w.serve()
	c := w.find()
	path := w.Inbox(newer, "worker").Path()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	seen := make(chan string, 100)
	ready := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		first := true
		for e, err := range c.Events(ctx, newer, client.Now) {
			if err != nil {
				ended <- err
				return
			}
			if first {
				close(ready)
				first = false
			}
			if e.Message != nil && e.Message.Change == api.Appeared {
				seen <- e.Message.Message.Text
			}
		}
		ended <- nil
	}()
	<-ready
	var took []time.Duration
	disk := teamstest.NewDisk(b)
	n := 0
	for b.Loop() {
		text := fmt.Sprintf("message %d", n)
		n++
		row := fmt.Sprintf(`[{"from":"team-lead","text":%q,"timestamp":"2026-11-20T17:48:11.432Z","read":false}]`, text)
		must(b, os.WriteFile(path+".tmp", []byte(row), 0o600))
		start := time.Now()
		must(b, os.Rename(path+".tmp", path))
		for <-seen != text {
		}
		took = append(took, time.Since(start))
		disk.Commit(path)
	}
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	teamstest.ReportTimes(b, "", took)
	disk.Report(b)
}
