package standin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

const (
	// patience bounds every start and every step of one: forty times the duration on an idle machine.
	patience = 2 * time.Minute
	// pollEvery is how often files and screens are read. Only a library could report their changes, and this package
	// would then trust that library in its own tests.
	pollEvery = 20 * time.Millisecond
)

// poll asks until ok, an error or the end of ctx.
func poll(ctx context.Context, ask func() (ok bool, err error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitFile reads a file again and again, every 20 ms, until match is true for its bytes, and returns those. A file that
// is missing is waited for; any other trouble with reading is an error at once. Readers of an inbox or a config.json
// without their lock can see torn bytes, so match must answer false to what it cannot parse.
func WaitFile(ctx context.Context, path string, match func([]byte) bool) ([]byte, error) {
	var data []byte
	err := poll(ctx, func() (bool, error) {
		var err error
		data, err = os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil && match(data), err
	})
	if err != nil {
		return nil, fmt.Errorf("standin: %s is not as expected: %w; it holds: %.2000s", path, err, data)
	}
	return data, nil
}
