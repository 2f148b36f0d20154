//go:build unix && !linux

package claude

import (
	"errors"
	"os"
	"syscall"
)

func exists(p *os.Process) bool {
	err := p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}
