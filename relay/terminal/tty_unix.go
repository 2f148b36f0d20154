//go:build unix

package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const supported = true

var (
	sigHangUp   os.Signal = unix.SIGHUP
	sigContinue os.Signal = unix.SIGCONT
	sigResize   os.Signal = unix.SIGWINCH
	sigChild    os.Signal = unix.SIGCHLD
)

// openPTY returns both ends of a new pseudo-terminal. master supports deadlines.
func openPTY() (master, slave *os.File, err error) {
	first, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer first.Close()
	// pty.Open calls Fd, and after that its file no longer supports deadlines.
	fd, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, true); err == nil {
			return os.NewFile(uintptr(fd), first.Name()), slave, nil
		}
		_ = unix.Close(fd)
	}
	_ = slave.Close()
	return nil, nil, fmt.Errorf("pseudo-terminal: %w", err)
}

// leadSession makes the command the leader of a session with its stdin as the terminal.
func leadSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// copySize gives a pseudo-terminal the size of the terminal. The kernel informs the program.
func copySize(master *os.File, terminal int) error {
	size, err := unix.IoctlGetWinsize(terminal, unix.TIOCGWINSZ)
	if err != nil {
		return fmt.Errorf("size of the terminal: %w", err)
	}
	return giveSize(master, size)
}

// setSize gives a pseudo-terminal a size.
func setSize(master *os.File, rows, columns uint16) error {
	return giveSize(master, &unix.Winsize{Row: rows, Col: columns})
}

func giveSize(master *os.File, size *unix.Winsize) error {
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	if e := conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) }); e != nil {
		return e
	}
	return err
}

// inFront reports whether teambridge is in the terminal's foreground; otherwise the modes belong to a shell.
// If the terminal does not control this process, it has no foreground, and inFront returns true.
func inFront(terminal int) bool {
	group, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// await waits for input of the terminal, and returns true if there is some. It returns io.EOF if wake has
// input, and false after timeout; zero means no timeout. It uses select because a read of a terminal cannot
// be interrupted, and the file, which other processes share, must not become non-blocking.
func await(terminal, wake int, timeout time.Duration) (bool, error) {
	for {
		var set unix.FdSet
		set.Set(terminal)
		set.Set(wake)
		var limit *unix.Timeval
		if timeout > 0 {
			t := unix.NsecToTimeval(timeout.Nanoseconds())
			limit = &t
		}
		_, err := unix.Select(max(terminal, wake)+1, &set, nil, nil, limit)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("wait for input: %w", err)
		case set.IsSet(wake):
			return false, io.EOF
		default:
			return set.IsSet(terminal), nil
		}
	}
}

func signalGroup(group int, s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: %w", s, errors.ErrUnsupported)
	}
	if err := unix.Kill(-group, number); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
