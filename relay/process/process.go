// Package process starts programs in groups of their own. It also finds and ends processes that an earlier
// process of ours has left behind.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/relay/agent"
)

// ErrUnverified means that this system cannot distinguish the process from another with the same id.
var ErrUnverified = errors.New("process cannot be told from another with its id")

// Predecessor identifies a process that may outlive its starter.
type Predecessor agent.Process

// Alive reports whether the process is running. A zombie does not count, nor does another process that reuses
// the id. On systems that do not report when a process started, the error for a running process with the id
// is [ErrUnverified].
func (d Predecessor) Alive() (bool, error) {
	if d.PID <= 0 {
		return false, nil
	}
	now, there := started(d.PID)
	switch {
	case !there:
		return false, nil
	case d.Start == "" || now == "":
		return true, fmt.Errorf("process %d: %w", d.PID, ErrUnverified)
	}
	return now == d.Start, nil
}

// Wait waits until the process has ended. It checks every 20 ms. If ctx ends first, it returns the error of
// ctx.
func (d Predecessor) Wait(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// An unverified process may be the right one, so keep waiting.
		if alive, err := d.Alive(); !alive {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d still runs: %w", d.PID, context.Cause(ctx))
		}
	}
}

// End ends the group of the process, if the process is running. It sends SIGTERM, and SIGKILL if the process
// is still running after grace, which may be 0. It waits until the process is gone or ctx ends. It does not
// touch an [ErrUnverified] process.
func (d Predecessor) End(ctx context.Context, grace time.Duration) error {
	for _, signal := range []func(int) error{TermGroup, KillGroup} {
		alive, err := d.Alive()
		if !alive || err != nil {
			return err
		}
		if err := signal(cmp.Or(max(d.Group, 0), d.PID)); err != nil {
			return fmt.Errorf("end process %d: %w", d.PID, err)
		}
		patience, cancel := context.WithTimeoutCause(ctx, grace, errGrace)
		err = d.Wait(patience)
		cancel()
		if !errors.Is(err, errGrace) {
			return err
		}
	}
	return d.Wait(ctx)
}

var errGrace = errors.New("it did not end in time")
