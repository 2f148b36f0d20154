package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"teambridge/teams/errtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_WAIT") != "" {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("waits")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Predecessor distinguishes a process from a later one with the same id, and ends it, even one that ignores SIGTERM.
func TestPredecessor(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 10 * time.Millisecond} {
		t.Run(grace.String(), func(t *testing.T) { t.Parallel(); endsPredecessor(t, grace) })
	}
}

var must = errtest.Must

func endsPredecessor(t *testing.T, grace time.Duration) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCESS_TEST_WAIT=1")
	OwnGroup(cmd)
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p := Identify(cmd.Process.Pid)
	if p.Start == "" {
		_ = cmd.Process.Kill()
		<-ended
		t.Skip("this system does not tell when a process started")
	}
	if alive, err := p.Alive(); !alive || err != nil {
		t.Errorf("alive is %t, %v", alive, err)
	}
	other := p
	other.Start = "another time"
	if alive, err := other.Alive(); alive || err != nil {
		t.Errorf("of another process with its id, alive is %t, %v", alive, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.End(ctx, grace); err != nil {
		t.Error(err)
	}
	<-ended
	if alive, err := p.Alive(); alive || err != nil {
		t.Errorf("once it has ended, alive is %t, %v", alive, err)
	}
}
