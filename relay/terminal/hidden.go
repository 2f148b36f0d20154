package terminal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"teambridge/relay/process"
)

// Hidden is a program in an invisible pseudo-terminal of 200 columns by 50 lines. Its output is read, and the
// end of the output is kept. Its methods are safe for concurrent use.
type Hidden struct {
	process.Predecessor
	master  *os.File
	printed process.Tail
	done    chan struct{}
}

// StartHidden starts a program as the leader of a session and of a process group. It sets stdin, stdout,
// stderr and SysProcAttr of cmd. The error is [errors.ErrUnsupported] on Windows.
func StartHidden(cmd *exec.Cmd) (*Hidden, error) {
	master, slave, err := openPTY()
	if err != nil {
		return nil, err
	}
	defer slave.Close() // the program has its own copy
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	leadSession(cmd)
	if err = setSize(master, 50, 200); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = master.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	h := &Hidden{
		Predecessor: process.Identify(cmd.Process.Pid), master: master,
		printed: process.Tail{Limit: 16 << 10}, done: make(chan struct{}),
	}
	go h.read()
	go func() {
		_ = reap(cmd, func() { _ = process.KillGroup(cmd.Process.Pid) }) // its children end with it
		_ = master.SetReadDeadline(time.Now().Add(lastOutput))
		close(h.done)
	}()
	return h, nil
}

func (h *Hidden) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := h.master.Read(buf)
		_, _ = h.printed.Write(buf[:n])
		if err != nil {
			_ = h.master.Close()
			return
		}
	}
}

// Done is closed once the program has ended.
func (h *Hidden) Done() <-chan struct{} { return h.done }

// Printed returns the end of the program's output, with control sequences.
func (h *Hidden) Printed() string { return h.printed.String() }

// Close asks the program to exit, and kills it after grace, or when ctx ends. It reports whether the program
// exited without being killed.
func (h *Hidden) Close(ctx context.Context, grace time.Duration) (byItself bool) {
	select {
	case <-h.done:
		return true
	default:
	}
	_ = process.TermGroup(h.PID)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-h.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = process.KillGroup(h.PID)
	<-h.done
	return false
}
