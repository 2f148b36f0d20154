package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HoldDir is not supported: Windows cannot lock directories.
func HoldDir(_ context.Context, _ time.Duration, dir string) (release func() error, err error) {
	return nil, fmt.Errorf("lock directory %s: %w", dir, errors.ErrUnsupported)
}
