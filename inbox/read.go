package inbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/teams/lockedfile"
)

// How long [Inbox.Read] waits for a complete file: since the file was last changed or locked, and in total.
// Old versions of Claude Code write an inbox in place, within 1 ms.
const (
	settleTime = 250 * time.Millisecond
	settleStep = 3 * time.Millisecond
	busyTime   = lockedfile.StaleAfter
)

// Read returns the rows of the inbox, without taking the lock. Because old agents write in place, a file that
// is empty or not an array does not count as an empty inbox: Read reads it again until no program has locked
// or changed it for 250 ms. If ctx has ended, Read reads it once.
//
// An inbox without rows yields nil and no error. The errors are [ErrMissing], [ErrEmpty], [ErrBusy],
// [*CorruptError], [lockedfile.ErrTooLarge], [lockedfile.ErrNotRegular], [teams.ErrTeamGone] and those of the
// file system.
func (b *Inbox) Read(ctx context.Context) ([]Row, error) {
	rows, _, err := b.ReadAll(ctx)
	return rows, err
}

// ReadAll is [Inbox.Read], and also returns the entries that are not messages. Those that are objects are
// also among the rows.
func (b *Inbox) ReadAll(ctx context.Context) ([]Row, []PassedOver, error) {
	dir, err := b.dir(false)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	start := time.Now()
	quiet := start // when a writer was last seen
	var last fs.FileInfo
	for {
		held := lockedfile.Busy(dir, b.file())
		data, info, err := lockedfile.Read(dir, b.file())
		var rows []Row
		var passed []PassedOver
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if gone := b.team.Exists(); gone != nil {
				return nil, nil, gone
			}
			return nil, nil, fmt.Errorf("inbox %s: %w", b.Path(), ErrMissing)
		case err != nil:
			return nil, nil, fmt.Errorf("inbox %s: %w", b.Path(), reason(err))
		case len(data) == 0:
			err = fmt.Errorf("inbox %s: %w", b.Path(), ErrEmpty)
		default:
			if rows, passed, err = entries(b.Path(), data, b.cache); err == nil {
				return rows, passed, nil
			}
			if corrupt, ok := errors.AsType[*CorruptError](err); ok {
				corrupt.Path = b.Path()
			}
		}
		now := time.Now()
		// A program may have taken the lock since.
		held = held || lockedfile.Busy(dir, b.file())
		// The first look counts from its end: however long it took, the file is looked at again.
		if held || last == nil || !lockedfile.SameFile(last, info) {
			quiet = now
		}
		last = info
		switch {
		case now.Sub(quiet) > settleTime:
			return nil, nil, err
		case now.Sub(start) > busyTime+settleTime, held && now.Sub(start) > busyTime:
			return nil, nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
		select {
		case <-time.After(settleStep):
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("inbox %s: %w", b.Path(), context.Cause(ctx))
		}
	}
}

// reason removes the path from err, because the caller adds the full path.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}
