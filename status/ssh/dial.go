// Package ssh connects to the service of another machine through the ssh program of the system.
//
// A connection is the stdin and stdout of one ssh process, which runs "teambridge dial-stdio" on the other machine.
// That program writes [Greeting] once it has connected to the service, and then passes bytes on unchanged. Before the
// greeting, ssh may prompt the person, and other output, for example from a shell's start files, is skipped.
//
// A library could not replace ssh: aliases, keys, agents, jump hosts and known hosts are in the user's ssh
// configuration, and only ssh can read most of it.
package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Greeting is the line that the program on the other machine prints before the service's bytes.
const Greeting = "teambridge: connected\n"

// Exit statuses of ssh: 255 is its own failure, and the others come from the remote command.
const (
	statusNoService    = 3
	statusUsage        = 2
	statusNotInstalled = 127
	statusFailed       = 255
)

// Why is the reason why there is no connection.
type Why int

// The reasons.
const (
	NoProgram    Why = iota + 1 // there is no ssh
	Failed                      // ssh did not reach the machine, or was refused
	NotInstalled                // there is no teambridge, or none is found
	NoService                   // no service runs there
	OtherVersion                // the other machine has an earlier version
	Ended                       // the remote program ended before it connected, for another reason
	Lost                        // an established connection ended
	Silent                      // the remote program printed no greeting in time
)

// Error is the failure of a connection.
type Error struct {
	Host   Host
	Remote string // the remote program
	Why    Why
	Status int    // of ssh; -1: it was killed, or did not run
	Said   string // the remote program's output, if Why is Ended
	Err    error  // if there is one
}

func (e *Error) Error() string {
	switch e.Why {
	case NoProgram:
		return fmt.Sprintf("cannot connect to %s: no ssh program was found", e.Host.Name)
	case Failed:
		return fmt.Sprintf("ssh could not connect to %s", e.Host.Name)
	case NotInstalled:
		return fmt.Sprintf("%s was not found on %s", e.Remote, e.Host.Name)
	case NoService:
		return fmt.Sprintf("no service is running on %s", e.Host.Name)
	case OtherVersion:
		return fmt.Sprintf("teambridge on %s is an earlier version", e.Host.Name)
	case Silent:
		return fmt.Sprintf("%s did not answer within %s", e.Host.Name, silence)
	case Lost:
		return fmt.Sprintf("the connection to %s was lost: ssh %s", e.Host.Name, e.ended())
	}
	text := fmt.Sprintf("there is no connection to the service on %s: ssh %s", e.Host.Name, e.ended())
	if e.Said != "" {
		text += fmt.Sprintf(", after %.200q", e.Said)
	}
	return text
}

func (e *Error) ended() string {
	switch {
	case e.Err != nil:
		return "failed: " + e.Err.Error()
	case e.Status < 0:
		return "was killed"
	}
	return fmt.Sprintf("ended with status %d", e.Status)
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// silence limits the time for connecting, not counting the time in which ssh prompts the person.
const silence = 30 * time.Second

// A Dialer connects to a machine. Host is needed. Close ends the processes that it has started.
type Dialer struct {
	Host   Host
	Ssh    string    // the program; "": ssh in $PATH
	Remote string    // the program on the machine; "": teambridge
	Stderr io.Writer // stderr of the first ssh
	Later  io.Writer // stderr of later ones

	// Batch means that ssh must not prompt the person, and gets no signals of the terminal. Without Batch, this
	// applies to all connections but the first: only then is the person sure to be at the terminal.
	Batch bool

	silence time.Duration                  // for tests; 0: the usual one
	asks    func(pid int, batch bool) bool // for tests: reports whether ssh prompts the person

	mu     sync.Mutex
	dialed int
	closed bool
	open   map[*conn]struct{}
}

// Processes returns the number of ssh processes that were started.
func (d *Dialer) Processes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dialed
}

// Close ends all connections, and waits for their processes.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.closed = true
	var all []*conn
	for c := range d.open {
		all = append(all, c)
	}
	d.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
	return nil
}

// Dial connects to the service. The error is an [*Error], or the cause of ctx.
func (d *Dialer) Dial(ctx context.Context) (net.Conn, error) {
	c, err := d.start()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	defer stop()
	greeted := make(chan struct{})
	silent := make(chan bool, 1)
	go func() { silent <- c.impatient(greeted) }()
	err = c.greeted()
	close(greeted)
	if <-silent {
		e := c.fault
		e.Why = Silent
		err = &e
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (d *Dialer) start() (*conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, net.ErrClosed
	}
	e := Error{Host: d.Host, Remote: cmp.Or(d.Remote, "teambridge"), Status: -1}
	program, err := exec.LookPath(cmp.Or(d.Ssh, "ssh"))
	if err != nil {
		e.Why, e.Err = NoProgram, err
		return nil, &e
	}
	batch := d.Batch || d.dialed > 0
	cmd := exec.Command(program, d.Host.args(e.Remote, batch)...)
	cmd.WaitDelay = time.Second // a master that ssh leaves behind can keep Stderr open
	if cmd.Stderr = d.Stderr; d.dialed > 0 {
		cmd.Stderr = d.Later
	}
	if batch {
		detach(cmd)
	}
	c := &conn{of: d, batch: batch, cmd: cmd, fault: e, ended: make(chan struct{})}
	in, theirIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirOut, out, err := os.Pipe()
	if err != nil {
		_, _ = in.Close(), theirIn.Close()
		return nil, err
	}
	c.in, c.out = theirOut, theirIn
	cmd.Stdin, cmd.Stdout = in, out
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		_, _ = c.in.Close(), c.out.Close()
		e.Why, e.Err = NoProgram, err
		return nil, &e
	}
	d.dialed++
	if d.open == nil {
		d.open = map[*conn]struct{}{}
	}
	d.open[c] = struct{}{}
	go c.wait()
	return c, nil
}

// impatient kills ssh if the greeting does not come in time, and reports whether it did.
func (c *conn) impatient(greeted <-chan struct{}) bool {
	left, asks := cmp.Or(c.of.silence, silence), c.of.asks
	if asks == nil {
		asks = asking
	}
	step := left / 60
	tick := time.NewTicker(step)
	defer tick.Stop()
	for left > 0 {
		select {
		case <-greeted:
			return false
		case <-tick.C:
		}
		if !asks(c.cmd.Process.Pid, c.batch) {
			left -= step
		}
	}
	_ = c.cmd.Process.Kill()
	return true
}

// conn is a connection through an ssh process.
type conn struct {
	of    *Dialer
	batch bool // it must not prompt the person
	cmd   *exec.Cmd
	in    *os.File // its stdout
	out   *os.File // its stdin
	fault Error
	early []byte // the bytes read after the greeting
	begun bool   // something came after the greeting

	ended chan struct{} // closed when it has ended
	once  sync.Once
}

// wait waits for the process, and then ends pending reads of its stdout.
func (c *conn) wait() {
	_ = c.cmd.Wait()
	_ = c.in.SetReadDeadline(time.Now().Add(time.Second)) // another process may have inherited its stdout
	close(c.ended)
}

// maxNoise limits the bytes before the greeting.
const maxNoise = 64 << 10

// greeted waits for the greeting.
func (c *conn) greeted() error {
	got := []byte{'\n'} // the greeting must be a line of its own, even as the first output
	buf := make([]byte, 4096)
	for {
		n, err := c.in.Read(buf)
		got = append(got, buf[:n]...)
		if _, after, ok := bytes.Cut(got, []byte("\n"+Greeting)); ok {
			c.early = after
			return nil
		}
		if err == nil && len(got) < maxNoise {
			continue
		}
		if err == nil {
			_ = c.cmd.Process.Kill()
		}
		<-c.ended
		e := c.fault
		e.Said, e.Status = string(bytes.TrimSpace(got)), c.cmd.ProcessState.ExitCode()
		switch e.Status {
		case statusNoService:
			e.Why = NoService
		case statusUsage:
			e.Why = OtherVersion
		case statusNotInstalled:
			e.Why = NotInstalled
		case statusFailed:
			e.Why = Failed
		default:
			e.Why = Ended
		}
		return &e
	}
}

func (c *conn) Read(b []byte) (n int, err error) {
	if len(c.early) > 0 {
		n = copy(b, c.early)
		c.early = c.early[n:]
	} else {
		n, err = c.in.Read(b)
	}
	if n > 0 && !c.begun {
		c.begun = true
		if bytes.HasPrefix(b[:n], []byte("HTTP/1.")) { // the answer of a service without HTTP/2
			e := c.fault
			e.Why = OtherVersion
			return 0, &e
		}
	}
	if n > 0 || err == nil {
		return n, nil
	}
	return 0, c.lost(err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	if err != nil {
		err = c.lost(err)
	}
	return n, err
}

// endsWithin is how long a process may run after it has closed its stdout.
const endsWithin = 2 * time.Second

// lost returns the error for a failed read or write.
func (c *conn) lost(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed // Close was called
	}
	e := c.fault
	e.Why = Lost
	select {
	case <-c.ended:
		e.Status = c.cmd.ProcessState.ExitCode()
	case <-time.After(endsWithin):
		e.Err = err
	}
	return &e
}

// closesWithin limits the wait for the other machine to close its side.
const closesWithin = time.Second

// Close closes our side of the connection, and waits until ssh has ended.
func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.out.Close()
		select {
		case <-c.ended:
		case <-time.After(closesWithin):
			_ = c.cmd.Process.Kill()
			<-c.ended
		}
		_ = c.in.Close()
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
	})
	return nil
}

// address is the address of both ends of a connection.
type address struct{ h Host }

func (address) Network() string  { return "ssh" }
func (a address) String() string { return a.h.String() }

func (c *conn) LocalAddr() net.Addr                { return address{c.of.Host} }
func (c *conn) RemoteAddr() net.Addr               { return address{c.of.Host} }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
