package terminal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/process"
)

const (
	// The program's last output arrives after its exit. If other processes keep the pseudo-terminal open,
	// there is no end of file, and they may print more.
	lastOutput      = 100 * time.Millisecond
	lastOutputLimit = 256 << 10 // more than a pseudo-terminal holds
	stalled         = 5 * time.Second
)

// Program is a program that runs or ran in the console. Its methods are safe for concurrent use.
type Program struct {
	*keyboard
	console *Console
	cmd     *exec.Cmd
	id      agent.Process
	master  *os.File
	title   atomic.Pointer[string]

	pastes atomic.Bool

	ended atomic.Bool // set with life held, before the process is reaped
	life  sync.Mutex
	err   error
	shown chan struct{} // closed once the last output is on the screen
	done  chan struct{}
}

// Start runs a program in a pseudo-terminal that follows the window size. It sets stdin, stdout, stderr and
// SysProcAttr of cmd. The error is [ErrRunning] while another program runs.
func (c *Console) Start(cmd *exec.Cmd) (*Program, error) {
	c.starting.Lock()
	defer c.starting.Unlock()
	switch {
	case c.program.Load() != nil:
		return nil, fmt.Errorf("start %s: %w", cmd.Path, ErrRunning)
	case c.closing.Load():
		return nil, fmt.Errorf("start %s: %w", cmd.Path, os.ErrClosed)
	}
	master, slave, err := openPTY()
	if err != nil {
		return nil, err
	}
	defer slave.Close() // the program has its own copy
	fail := func(err error) (*Program, error) {
		_ = master.Close()
		return nil, err
	}
	if err := c.prepare(master, slave); err != nil {
		return fail(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	leadSession(cmd)
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	p := &Program{
		keyboard: newKeyboard(master), console: c, cmd: cmd, master: master,
		id:    agent.Process(process.Identify(cmd.Process.Pid)),
		shown: make(chan struct{}), done: make(chan struct{}),
	}
	p.title.Store(new(string))
	c.program.Store(p)
	c.resize() // the size may have changed since
	go p.keyboard.run()
	go p.show()
	go p.wait()
	return p, nil
}

// wait handles the exit of the program.
func (p *Program) wait() {
	p.err = reap(p.cmd, func() {
		p.life.Lock()
		defer p.life.Unlock()
		p.ended.Store(true)
	})
	_ = p.master.SetReadDeadline(time.Unix(1, 0))
	select {
	case <-p.shown:
	case <-time.After(stalled): // our terminal accepts no output
	}
	p.keyboard.close()
	_ = p.master.Close()
	p.console.program.Store(nil)
	close(p.done)
	p.console.show(nil, nil) // show a notice that was set too late for the program
}

// show copies the program's output to the screen, and at the end undoes the program's changes to the
// terminal.
func (p *Program) show() {
	defer close(p.shown)
	c := p.console
	_ = c.write(pastesOff)
	buf := make([]byte, 32<<10)
	var late time.Time
	for limit := lastOutputLimit; limit > 0; {
		n, err := p.master.Read(buf)
		if n > 0 {
			c.show(buf[:n], p)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break // all processes with the pseudo-terminal have ended
		}
		if err != nil {
			_ = p.master.SetReadDeadline(time.Time{})
		}
		if !p.ended.Load() {
			c.show(nil, p) // draw a new notice
			continue
		}
		if err != nil && !late.IsZero() && !time.Now().Before(late) {
			break
		}
		limit -= n
		late = time.Now().Add(lastOutput)
		_ = p.master.SetReadDeadline(late)
	}
	c.reset()
}

// Title returns the title that the program has set (OSC 0 or 2), without control characters, at most 1 KiB.
func (p *Program) Title() string { return *p.title.Load() }

// Pastes reports whether the program has enabled bracketed paste. Claude Code enables it while it accepts
// keys.
func (p *Program) Pastes() bool { return p.pastes.Load() }

// Done is closed once the program has exited, its output is on the screen and its changes are undone; at the
// latest, 5 s after its exit if the terminal accepts no output. Other processes that still have the
// pseudo-terminal open get SIGHUP.
func (p *Program) Done() <-chan struct{} { return p.done }

// Wait waits for Done, and returns the result of [exec.Cmd.Wait].
func (p *Program) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal to the program's process group. It does nothing once the program has ended.
func (p *Program) Signal(s os.Signal) error {
	p.life.Lock()
	defer p.life.Unlock()
	if p.ended.Load() {
		return nil
	}
	if err := signalGroup(p.id.PID, s); err != nil {
		return fmt.Errorf("signal %v to process group %d: %w", s, p.id.PID, err)
	}
	return nil
}

// Kill sends SIGKILL to the program's process group.
func (p *Program) Kill() error { return p.Signal(os.Kill) }

// proceed continues the program if it is stopped.
func (p *Program) proceed() {
	p.life.Lock()
	defer p.life.Unlock()
	if !p.ended.Load() && stopped(p.id.PID) {
		_ = signalGroup(p.id.PID, sigContinue)
	}
}

// ID identifies the process, even after its end.
func (p *Program) ID() agent.Process { return p.id }
