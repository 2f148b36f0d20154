// Package terminal is the terminal that teambridge was started in, and one program at a
// time that runs in it, in a pseudo-terminal of ours.
//
// The program has the terminal as if it had been started in it directly: its output
// goes through byte for byte, the window size is followed, and what the person types
// goes to it, but for one hot key and Ctrl-Z. It never stops, because no shell could bring
// it back: outside a paste Ctrl-Z does nothing, and a program that is stopped is continued
// at once. Without a shell Claude Code does not even stop, and waits for ever to be continued.
//
// When a program ends, what it left behind is reset: the alternate screen, modes of
// mouse, paste, focus and keyboard, cursor, scroll region, colors, title. What it had
// drawn above the cursor stays.
//
// [Console.Close] restores the terminal. After SIGKILL, or a panic in a goroutine that does
// not close the console, a guard does: a small process that needs sh and stty. If it is
// killed, too, the terminal stays as it is.
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

// ErrNoTerminal means that input or output is no terminal.
var ErrNoTerminal = errors.New("not a terminal")

// ErrRunning means that a program has the terminal.
var ErrRunning = errors.New("a program has the terminal")

const (
	// A lone ESC is a key after this time. The bytes of a sequence come together, or as
	// fast as the network is.
	escapeDelay = 20 * time.Millisecond
	keysLimit   = 64
	hangUp      = 2 * time.Second // from SIGHUP to SIGKILL
	closeLimit  = 4 * time.Second

	// While no program runs pastes are marked, so that none is taken for keys.
	pastesOn  = "\x1b[?2004h"
	pastesOff = "\x1b[?2004l"
)

// Console is our terminal, in raw mode. Its methods may be called concurrently.
type Console struct {
	in, out *os.File
	fd      int // of in
	before  *term.State
	guard   *guard   // nil if there is none
	wake    *os.File // ends read
	keys    chan Key
	signals sync.WaitGroup
	reading chan struct{} // closed when read has ended

	starting sync.Mutex
	program  atomic.Pointer[Program]
	notice   atomic.Pointer[string]

	drawing sync.Mutex // held while the terminal takes output
	screen  screen
	failed  error // of the terminal, once: it is gone

	limit    time.Duration // of Close
	closing  atomic.Bool
	close    sync.Once
	closeErr error
	closed   chan struct{}
}

// Open puts the terminal of a process into raw mode. It fails with [ErrNoTerminal] if in
// or out is none, and with [errors.ErrUnsupported] on Windows.
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
	_ = c.write(pastesOn) // the next output fails as well
	go c.read(wake, hot)
	return c, nil
}

// handle does something after each signal, until the console is closed.
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

// prepare gives a pseudo-terminal the size and the modes that the terminal had.
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
		_ = copySize(p.master, c.fd) // the program may just have ended, or the terminal be gone
	}
}

// foreground takes the terminal again after somebody stopped and continued us: a shell
// had it meanwhile.
func (c *Console) foreground() {
	if c.closing.Load() || !inFront(c.fd) {
		return
	}
	_, _ = term.MakeRaw(c.fd)
	if p := c.program.Load(); p != nil {
		c.resize()
		_ = p.Signal(sigResize) // it draws its screen
	} else {
		_ = c.write(pastesOn)
	}
}

func (c *Console) child() {
	if p := c.program.Load(); p != nil {
		p.proceed()
	}
}

// read gets what the person types, until the terminal is gone or the console closed.
func (c *Console) read(wake *os.File, hot HotKey) {
	defer close(c.reading)
	defer close(c.keys)
	defer wake.Close()
	var now *Program
	var part []byte // of a character
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
		// What came for another program does not reach this one's middle of a paste.
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

// Keys is what the person types: while a program runs the hot key alone, else every key
// but no pastes. Keys that nobody receives are dropped when 64 wait. The channel is
// closed when the console is closed, and when the terminal is gone.
func (c *Console) Keys() <-chan Key { return c.keys }

// SetNotice puts a text in front of the title of the program, now and whenever the
// program changes it; while no program runs it is the title. Empty: none. Control
// characters are left out, and what is over 1 KiB.
func (c *Console) SetNotice(text string) {
	text = plainTitle(text)
	c.notice.Store(&text)
	if p := c.program.Load(); p != nil {
		// The goroutine that shows its output does it, in between two pieces.
		_ = p.master.SetReadDeadline(time.Unix(1, 0))
		return
	}
	c.show(nil, nil)
}

// Print writes lines for the person, \n as \r\n. It fails with [ErrRunning] while a
// program runs. What comes from outside must be escaped by the caller.
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

// send is called with drawing locked.
func (c *Console) send(b []byte) error {
	if c.failed == nil && len(b) > 0 {
		_, c.failed = c.out.Write(b)
	}
	return c.failed
}

// show puts what a program printed on the screen, and the notice.
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
	_ = c.send(out) // without a terminal the program runs until it is hung up
}

// reset undoes what the program left behind.
func (c *Console) reset() {
	c.drawing.Lock()
	defer c.drawing.Unlock()
	c.screen.notice = *c.notice.Load()
	_ = c.send(append(c.screen.reset(), pastesOn...))
}

// Close ends a program that still runs as the closing of its window would, resets what
// it left behind, and restores the modes of the terminal. It takes 4 s at most, even if
// the terminal takes no output. Later calls wait for the first and return the same.
func (c *Console) Close() error {
	c.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.limit)
		defer cancel()
		c.closing.Store(true)
		c.starting.Lock() // a start under way
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
			_ = c.write(pastesOff) // no error counts: the terminal may be gone, as it is after SIGHUP
		}()
		var err error
		select {
		case <-tidy:
		case <-ctx.Done():
			err = errors.New("close the console: the terminal takes no output, and was left as it is")
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

// hangUp ends the program as the closing of its window does, and kills it if it stays.
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
		err = errors.Join(err, fmt.Errorf("process %d has not ended, or the terminal not shown its last output", p.id.PID))
	}
	return err
}
