package tmux

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"teambridge/teams/proc"
)

// tty is the kernel's data about a pane's terminal.
type tty struct {
	canonical  bool // the program in front reads lines, and the kernel cuts one after 4095 characters
	waiting    int  // bytes that the program has not read yet
	foreground int  // the process group in front
}

// tty opens the terminal only briefly: while it is open, tmux does not notice that the program has ended.
func (p Pane) tty() (tty, error) {
	fd, err := unix.Open(p.TTY, unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return tty{}, fmt.Errorf("tmux: open %s of pane %s: %w", p.TTY, p.ID, err)
	}
	defer unix.Close(fd) // read only
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return tty{}, fmt.Errorf("tmux: mode of %s: %w", p.TTY, err)
	}
	t := tty{canonical: modes.Lflag&unix.ICANON != 0}
	if t.waiting, err = unix.IoctlGetInt(fd, unix.TIOCINQ); err != nil {
		return tty{}, fmt.Errorf("tmux: input queue of %s: %w", p.TTY, err)
	}
	// The kernel answers TIOCGPGRP only for the caller's own terminal, so read the first process of the pane
	// instead.
	first, err := proc.Read(p.PID)
	if err != nil {
		return tty{}, fmt.Errorf("tmux: first process of pane %s: %w", p.ID, err)
	}
	t.foreground = first.Foreground
	return t, nil
}

// script reports whether a shell in front runs another program. A script runs it in the shell's own process
// group; a shell that waits for commands does not.
func (t tty) script() bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	return slices.ContainsFunc(dirs, func(dir string) bool {
		pid, _ := strconv.Atoi(filepath.Base(dir)) // the pattern has only numbers
		s, err := proc.Read(pid)                   // it may have ended since
		return err == nil && s.Group == t.foreground && !isShell(s.Name)
	})
}
