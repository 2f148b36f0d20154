package pane

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Rename gives a session another name. The session keeps it with its process and, once that has ended, with a process
// that resumes the same id. If name is "", the session gets the name that Claude Code has for it. The errors are
// [ErrBusy] and those of [ledger.Panes.RenameSession].
func (ss *Sessions) Rename(ctx context.Context, of Pane, name string) (_ Pane, err error) {
	name = cmp.Or(name, SessionName(of.Title, of.Ref.ID))
	if of, err = ss.record(ctx, of); err != nil {
		return Pane{}, err
	}
	release, err := ss.lock(ctx, of, 5*time.Second)
	if err != nil {
		return Pane{}, err
	}
	err = errors.Join(ss.opts.Ledger.Panes.RenameSession(ctx, of.InboxKey, name), release())
	if err == nil {
		ss.changed(of.InboxKey)
		of.Inbox = name
		ss.changed(of.InboxKey)
	}
	return of, err
}
