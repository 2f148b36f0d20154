package terminal

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Windows has pseudo-terminals, but of another kind.
const supported = false

var sigHangUp, sigContinue, sigResize, sigChild os.Signal

func openPTY() (master, slave *os.File, err error) { return nil, nil, errors.ErrUnsupported }
func leadSession(*exec.Cmd)                        {}
func copySize(*os.File, int) error                 { return errors.ErrUnsupported }
func setSize(*os.File, uint16, uint16) error       { return errors.ErrUnsupported }
func inFront(int) bool                             { return true }
func await(int, int, time.Duration) (bool, error)  { return false, errors.ErrUnsupported }
func signalGroup(int, os.Signal) error             { return errors.ErrUnsupported }
func stopped(int) bool                             { return false }

// reap waits for the end of a command, and then calls ended.
func reap(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}

type guard struct{}

func modes(*os.File) (string, error)                          { return "", errors.ErrUnsupported }
func newGuard(in, out *os.File, modes string) (*guard, error) { return nil, errors.ErrUnsupported }
func (*guard) release()                                       {}
