//go:build !linux

package tmux

import (
	"errors"
	"fmt"
	"runtime"
)

// tty is the kernel's data about a pane's terminal.
type tty struct {
	canonical  bool
	waiting    int
	foreground int
}

// tty fails: this system does not show whether a program has read its input, and without that no Enter is
// safe.
func (p Pane) tty() (tty, error) {
	return tty{}, fmt.Errorf("tmux: the input queue of %s cannot be read on %s: %w", p.TTY, runtime.GOOS, errors.ErrUnsupported)
}

func (tty) script() bool { return false }
