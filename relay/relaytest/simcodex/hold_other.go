//go:build !unix

package simcodex

import (
	"errors"
	"os"
)

func hold(string) (*os.File, error) { return nil, errors.ErrUnsupported }
