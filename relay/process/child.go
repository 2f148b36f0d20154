package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Child is a started program with its own pipes. With the pipes of package exec, Wait would also wait for all
// other processes that hold them.
type Child struct {
	Predecessor
	Stdin          *os.File // nil unless requested
	Stdout, Stderr *os.File

	cmd  *exec.Cmd
	gone chan struct{}
}

// Start starts a command that [OwnGroup] has prepared. The caller must call [Child.Wait], read the output,
// and then call [Child.Drain].
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
		_ = f.Close() // ignore the error of a nil file
	}
}

// Gone is closed once the program has exited.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits for the exit, and returns the result of [exec.Cmd.Wait]. It also ends the rest of the program's
// group.
func (c *Child) Wait() error {
	err := wait(c.cmd, c.Group)
	close(c.gone)
	return err
}

// Drain waits for the readers of the output after the exit, and closes the pipes. If other processes hold the
// pipes open, it waits at most d.
func (c *Child) Drain(d time.Duration, reading *sync.WaitGroup) {
	late := time.Now().Add(d)
	_, _ = c.Stdout.SetReadDeadline(late), c.Stderr.SetReadDeadline(late)
	cut := time.AfterFunc(d, func() { closeAll(c.Stdout, c.Stderr) }) // on systems without such deadlines
	reading.Wait()
	cut.Stop()
	closeAll(c.Stdout, c.Stderr)
}

// Signal calls do with the program's group, if the program is still running.
func (c *Child) Signal(do func(group int) error) {
	select {
	case <-c.gone:
	default:
		_ = do(c.Group)
	}
}

// Within reports whether the program exits within d.
func (c *Child) Within(ctx context.Context, d time.Duration) bool { return Within(ctx, c.gone, d) }

// Within reports whether a channel is closed within d.
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
