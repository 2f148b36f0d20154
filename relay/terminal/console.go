// Package terminal takes over the terminal of this process, and runs one program at a time in it, through a
// pseudo-terminal.
//
// The program runs as if it had been started in the terminal directly: its output passes through byte for
// byte, it follows the window size, and it gets all typed keys except one hot key and Ctrl-Z. It never stays
// stopped, because no shell could continue it: outside a paste Ctrl-Z does nothing, and a stopped program is
// continued at once. On Ctrl-Z without a shell, Claude Code would not even stop, and would wait for ever to
// be continued.
//
// When a program ends, the console undoes its changes to the terminal: the alternate screen, modes of mouse,
// paste, focus and keyboard, cursor, scroll region, colors, title. The program's output above the cursor
// stays.
//
// [Console.Close] restores the terminal. After SIGKILL, or a panic in a goroutine that does not close the
// console, a guard restores it: a small process that needs sh and stty. If the guard is killed, too, the
// terminal is not restored.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// ErrNoTerminal means that the input or the output is not a terminal.
var ErrNoTerminal = errors.New("not a terminal")

// ErrRunning means that a program is using the terminal.
var ErrRunning = errors.New("a program has the terminal")

const (
	// A lone ESC counts as a key after this time. The bytes of a sequence arrive together, or as fast as the
	// network allows.
	escapeDelay = 20 * time.Millisecond
	keysLimit   = 64
	hangUp      = 2 * time.Second // from SIGHUP to SIGKILL
	closeLimit  = 4 * time.Second

	// While no program runs, the terminal marks pastes, so that they are not read as keys.
	pastesOn  = "\x1b[?2004h"
	pastesOff = "\x1b[?2004l"
)

// Console is the terminal, in raw mode. Its methods are safe for concurrent use.
type Console struct {
	in, out *os.File
	fd      int // of in
	before  *term.State
	guard   *guard   // nil if stty is missing
	wake    *os.File // ends read
	keys    chan Key
	signals sync.WaitGroup
	reading chan struct{} // closed once read has ended

	starting sync.Mutex
	program  atomic.Pointer[Program]
	notice   atomic.Pointer[string]

	drawing sync.Mutex // held while output is written
	screen  screen
	failed  error // the first error of the terminal, which is then gone

	limit    time.Duration // the limit of Close
	closing  atomic.Bool
	close    sync.Once
	closeErr error
	closed   chan struct{}
}

// Open puts a process's terminal into raw mode. The error is [ErrNoTerminal] if in or out is not a terminal,
// and [errors.ErrUnsupported] on Windows.
func Open(in, out *os.File, hot HotKey) (*Console, error) {
	if !supported {
		return nil, fmt.Errorf("a program in our terminal: %w", errors.ErrUnsupported)
	}
	c := &Console{in: in, out: out, fd: int(in.Fd()), keys: make(chan Key, keysLimit), reading: make(chan struct{}), closed: make(chan struct{}), limit: closeLimit}
	for _, f := range []*os.File{in, out} {
		if !term.IsTerminal(int(f.Fd())) {
			return nil, fmt.Errorf("%s: %w", f.Name(), ErrNoTerminal)
		}
	}
	c.notice.Store(new(string))
	wake, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.wake = w
	asBefore, _ := modes(in) // without stty there is no guard
	if c.before, err = term.MakeRaw(c.fd); err != nil {
		_, _ = wake.Close(), w.Close()
		return nil, fmt.Errorf("raw mode of %s: %w", in.Name(), err)
	}
	if asBefore != "" {
		if c.guard, err = newGuard(in, out, asBefore); err != nil {
			_, _, _ = wake.Close(), w.Close(), term.Restore(c.fd, c.before)
			return nil, err
		}
	}
	for s, do := range map[os.Signal]func(){sigResize: c.resize, sigContinue: c.foreground, sigChild: c.child} {
		got := make(chan os.Signal, 1)
		signal.Notify(got, s)
		c.signals.Go(func() { c.handle(got, do) })
	}
	_ = c.write(pastesOn) // ignore the error: the next output reports it
	go c.read(wake, hot)
	return c, nil
}

// handle calls do after each signal until the console is closed.
func (c *Console) handle(got chan os.Signal, do func()) {
	defer signal.Stop(got)
	for {
		select {
		case <-got:
			do()
		case <-c.closed:
			return
		}
	}
}

// prepare gives a pseudo-terminal the size and the original modes of the terminal.
func (c *Console) prepare(master, slave *os.File) error {
	if err := copySize(master, c.fd); err != nil {
		return err
	}
	if err := term.Restore(int(slave.Fd()), c.before); err != nil {
		return fmt.Errorf("modes of the pseudo-terminal: %w", err)
	}
	return nil
}

func (c *Console) resize() {
	if p := c.program.Load(); p != nil {
		_ = copySize(p.master, c.fd) // ignore the error: the program may have ended, or the terminal may be gone
	}
}

// foreground takes the terminal back after teambridge was stopped and continued: a shell used it meanwhile.
func (c *Console) foreground() {
	if c.closing.Load() || !inFront(c.fd) {
		return
	}
	_, _ = term.MakeRaw(c.fd)
	if p := c.program.Load(); p != nil {
		c.resize()
		_ = p.Signal(sigResize) // makes the program redraw its screen
	} else {
		_ = c.write(pastesOn)
	}
}

func (c *Console) child() {
	if p := c.program.Load(); p != nil {
		p.proceed()
	}
}

// read reads the person's keys until the terminal is gone or the console is closed.
func (c *Console) read(wake *os.File, hot HotKey) {
	defer close(c.reading)
	defer close(c.keys)
	defer wake.Close()
	var now *Program
	var part []byte // the first bytes of a character
	emit := func(kind tokenKind, b []byte) {
		switch {
		case kind == hotKey:
			if now != nil {
				now.keyboard.add(nil, true)
			}
			c.key(Key{Hot: true})
		case now != nil && (kind == hotKeyAgain || kind == suspend):
			now.keyboard.add(nil, true)
		case now != nil:
			now.keyboard.add(b, kind != report)
		case kind == sequence || kind == suspend:
			c.key(Key{Text: string(b)})
		case kind == characters:
			part = append(part, b...)
			for utf8.FullRune(part) {
				r, n := utf8.DecodeRune(part)
				if r != utf8.RuneError {
					c.key(Key{Text: string(r)})
				}
				part = part[n:]
			}
		}
	}
	s := scanner{hot: hot}
	buf := make([]byte, 64<<10)
	wakeFD := int(wake.Fd())
	for {
		var limit time.Duration
		if s.pending() {
			limit = escapeDelay
		}
		ready, err := await(c.fd, wakeFD, limit)
		if err != nil {
			return
		}
		// The rest of a paste for an earlier program must not reach this one.
		if p := c.program.Load(); p != now {
			s.reset()
			now, part = p, nil
		}
		if !ready {
			s.release(emit)
			continue
		}
		n, err := c.in.Read(buf)
		if n == 0 || err != nil {
			return
		}
		s.scan(buf[:n], emit)
	}
}

func (c *Console) key(k Key) {
	select {
	case c.keys <- k:
	default:
	}
}

// Keys returns the person's keys. While a program runs, these are only the hot key; otherwise every key, but
// no pastes. If 64 keys wait unread, more are dropped. The channel is closed when the console is closed or
// the terminal is gone.
func (c *Console) Keys() <-chan Key { return c.keys }

// SetNotice sets a text to show before the program's title, or as the title while no program runs. An empty
// text removes it. Control characters, and all text over 1 KiB, are omitted.
func (c *Console) SetNotice(text string) {
	text = plainTitle(text)
	c.notice.Store(&text)
	if p := c.program.Load(); p != nil {
		// The goroutine that shows the program's output draws the notice, between two pieces of output.
		_ = p.master.SetReadDeadline(time.Unix(1, 0))
		return
	}
	c.show(nil, nil)
}

// Print writes lines for the person, with \n as \r\n. The error is [ErrRunning] while a program runs. The
// caller must escape text from outside.
func (c *Console) Print(lines string) error {
	if c.program.Load() != nil {
		return fmt.Errorf("print: %w", ErrRunning)
	}
	return c.write(strings.ReplaceAll(lines, "\n", "\r\n"))
}

func (c *Console) write(s string) error {
	c.drawing.Lock()
	defer c.drawing.Unlock()
	return c.send([]byte(s))
}

// send writes to the terminal. The caller holds c.drawing.
func (c *Console) send(b []byte) error {
	if c.failed == nil && len(b) > 0 {
		_, c.failed = c.out.Write(b)
	}
	return c.failed
}

// show writes a program's output, and the notice, to the screen.
func (c *Console) show(b []byte, p *Program) {
	c.drawing.Lock()
	defer c.drawing.Unlock()
	c.screen.notice = *c.notice.Load()
	out := c.screen.print(nil, b)
	if p != nil {
		if title := plainTitle(c.screen.title); title != p.Title() {
			p.title.Store(&title)
		}
		p.pastes.Store(c.screen.private[2004])
	}
	_ = c.send(out) // ignore the error: without a terminal, the program runs until it gets SIGHUP
}

// reset undoes the program's changes to the terminal.
func (c *Console) reset() {
	c.drawing.Lock()
	defer c.drawing.Unlock()
	c.screen.notice = *c.notice.Load()
	_ = c.send(append(c.screen.reset(), pastesOn...))
}

// Close ends a running program as a closed window would, undoes its changes to the terminal, and restores the
// terminal's modes. It takes at most 4 s, even if the terminal accepts no output. Later calls wait for the
// first, and return its error.
func (c *Console) Close() error {
	c.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.limit)
		defer cancel()
		c.closing.Store(true)
		c.starting.Lock() // wait for a start in progress
		p := c.program.Load()
		c.starting.Unlock()
		if p != nil {
			c.closeErr = p.hangUp(ctx)
		}
		_ = c.wake.Close()
		close(c.closed)
		tidy := make(chan struct{})
		go func() {
			defer close(tidy)
			<-c.reading
			c.signals.Wait()
			c.SetNotice("")
			_ = c.write(pastesOff) // ignore the error: the terminal may be gone, for example after SIGHUP
		}()
		var err error
		select {
		case <-tidy:
		case <-ctx.Done():
			err = errors.New("close the console: the terminal accepts no output, so the program's changes to it remain")
		}
		if inFront(c.fd) {
			if e := term.Restore(c.fd, c.before); e != nil && !errors.Is(e, syscall.EIO) {
				err = errors.Join(err, fmt.Errorf("restore the modes of %s: %w", c.in.Name(), e))
			}
		}
		c.guard.release()
		c.closeErr = errors.Join(c.closeErr, err)
	})
	return c.closeErr
}

// hangUp ends the program as a closed window would, and kills it if it does not exit.
func (p *Program) hangUp(ctx context.Context) error {
	err := errors.Join(p.Signal(sigHangUp), p.Signal(sigContinue))
	select {
	case <-p.Done():
		return err
	case <-time.After(hangUp):
	}
	err = errors.Join(err, p.Kill())
	select {
	case <-p.Done():
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("process %d has not ended, or the terminal has not shown its last output", p.id.PID))
	}
	return err
}
