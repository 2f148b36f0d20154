//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"teambridge/teams/errtest"
)

// The end of a watch kills the program and its children: no process keeps its stderr open.
func TestProgramIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	errtest.Must(t, err)
	defer r.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	p, err := (newApp(host{stderr: w}, nil)).startProgram(ctx, []string{"sh", "-c", "sleep 10000 & echo started >&2; wait"})
	errtest.Must(t, err)
	p.enqueue(trigger{})
	p.enqueue(trigger{}) // it is not started any more
	printed := bufio.NewReader(r)
	if line, err := printed.ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	interrupt()
	p.finish()
	w.Close()
	if rest, err := io.ReadAll(printed); len(rest) > 0 || err != nil {
		t.Errorf("after the interrupt: %q, %v", rest, err)
	}
}

// If a program is too slow, messages are dropped, with one warning, and no memory is used.
func TestProgramQueueIsBounded(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	errtest.Must(t, err)
	defer r.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	a := newApp(host{stderr: w}, nil)
	p, err := a.startProgram(ctx, []string{"sleep", "10000"})
	errtest.Must(t, err)
	// The first trigger leaves the queue when it runs, so it must run before the others are added.
	p.enqueue(trigger{})
	for len(p.queue) > 0 {
		runtime.Gosched()
	}
	for range maxQueued + 10 {
		p.enqueue(trigger{})
	}
	interrupt()
	p.finish()
	w.Close()
	printed, err := io.ReadAll(r)
	if n := strings.Count(string(printed), "1000 messages wait for sleep"); n != 1 || err != nil {
		t.Errorf("%d warnings: %q, %v", n, printed, err)
	}
}
