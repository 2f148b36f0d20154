package tmux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// tty is what the kernel says about a pane's terminal.
type tty struct {
	canonical  bool // the program in front reads lines: a longer one than 4095 characters would be cut
	waiting    int  // bytes that the program has not read yet
	foreground int  // process group in front
}

// look opens the terminal for a moment only: while anybody has it open, tmux does not learn that its program has ended.
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
	// TIOCGPGRP is for the terminal's own session alone, so the first process of the pane is asked.
	file := "/proc/" + strconv.Itoa(p.PID) + "/stat"
	stat, err := os.ReadFile(file)
	if err != nil {
		return tty{}, fmt.Errorf("tmux: first process of pane %s: %w", p.ID, err)
	}
	if _, _, t.foreground, err = groups(stat); err != nil {
		return tty{}, fmt.Errorf("tmux: %s: %w", file, err)
	}
	return t, nil
}

// groups reads the name of a process, its process group, and the group in front of its terminal from /proc/PID/stat.
func groups(stat []byte) (name string, own, foreground int, err error) {
	// The name is in parentheses and may hold some itself. After it: state, parent, group, session, terminal, group in front.
	start, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	after := bytes.Fields(stat[end+1:])
	if start < 0 || end < start || len(after) < 6 {
		return "", 0, 0, errors.New("unknown format")
	}
	own, err = strconv.Atoi(string(after[2]))
	if err == nil {
		foreground, err = strconv.Atoi(string(after[5]))
	}
	return string(stat[start+1 : end]), own, foreground, err
}

// script reports whether a shell in front runs another program: a script does in its own process group, a shell that
// waits for commands does not.
func (t tty) script() bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	return slices.ContainsFunc(dirs, func(dir string) bool {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return false // ended since
		}
		name, group, _, err := groups(stat)
		return err == nil && group == t.foreground && !isShell(name)
	})
}
