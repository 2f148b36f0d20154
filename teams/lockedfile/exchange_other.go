//go:build !linux && !darwin

package lockedfile

import (
	"errors"
	"os"
)

// canExchange is false: a way may exist here, but none was tried.
const canExchange = false

func exchange(*os.Root, string, *os.Root, string) error { return errors.ErrUnsupported }

func moveNew(*os.Root, string, *os.Root, string) error { return errors.ErrUnsupported }

func sameDevice(*os.Root, *os.Root) bool { return false }
