//go:build !linux

package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HoldName is not supported: only Linux has sockets without a file.
func HoldName(_ context.Context, _ time.Duration, key string) (release func() error, err error) {
	return nil, fmt.Errorf("lock %q: %w", key, errors.ErrUnsupported)
}
