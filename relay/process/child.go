package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Child is a started program with its own pipes: those of package exec make Wait wait for every other holder.
type Child struct {
	Predecessor
	Stdin          *os.File // nil unless it was asked for
	Stdout, Stderr *os.File

	cmd  *exec.Cmd
	gone chan struct{}
}

// Start starts a command, which [OwnGroup] was called with. Its caller calls [Child.Wait], reads
// what it prints, and then calls [Child.Drain].
func Start(cmd *exec.Cmd, stdin bool) (*Child, error) {
	c := &Child{cmd: cmd, gone: make(chan struct{})}
	var theirs [3]*os.File
	var err error
	if stdin {
		if theirs[0], c.Stdin, err = os.Pipe(); err == nil {
			cmd.Stdin = theirs[0]
		}
	}
	if err == nil {
		c.Stdout, theirs[1], err = os.Pipe()
	}
	if err == nil {
		c.Stderr, theirs[2], err = os.Pipe()
	}
	if err == nil {
		cmd.Stdout, cmd.Stderr = theirs[1], theirs[2]
		err = cmd.Start()
	}
	closeAll(theirs[:]...)
	if err != nil {
		closeAll(c.Stdin, c.Stdout, c.Stderr)
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	c.Predecessor = Identify(cmd.Process.Pid)
	return c, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // a nil one has an error
	}
}

// Gone is closed when the program has exited.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits for the exit, and returns what [exec.Cmd.Wait] does. What the program started in its group ends with it.
func (c *Child) Wait() error {
	err := wait(c.cmd, c.Group)
	close(c.gone)
	return err
}

// Drain waits for the readers of its output after its exit, and closes its pipes. Other processes may hold
// these open: what is in them is read, for at most d.
func (c *Child) Drain(d time.Duration, reading *sync.WaitGroup) {
	late := time.Now().Add(d)
	_, _ = c.Stdout.SetReadDeadline(late), c.Stderr.SetReadDeadline(late)
	cut := time.AfterFunc(d, func() { closeAll(c.Stdout, c.Stderr) }) // where there are no deadlines
	reading.Wait()
	cut.Stop()
	closeAll(c.Stdout, c.Stderr)
}

// Signal calls do with its group, if the program still runs.
func (c *Child) Signal(do func(group int) error) {
	select {
	case <-c.gone:
	default:
		_ = do(c.Group)
	}
}

// Within reports whether the program exits within that time.
func (c *Child) Within(ctx context.Context, d time.Duration) bool { return Within(ctx, c.gone, d) }

// Within reports whether a channel is closed within that time.
func Within(ctx context.Context, closed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
