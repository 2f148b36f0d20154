package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/sqlite"
)

func (f *files) journal(ctx context.Context) (*journal.Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.wait, sqlite.Patience))
	defer cancel()
	if f.there != nil {
		return nil, f.errNoFiles()
	}
	j, err := journal.Open(ctx, filepath.Join(f.state, "journal.db"))
	if err == nil {
		f.atEnd(j.Close)
	}
	return j, err
}

// journalWait limits the wait for the journal's lock in a command that works without the journal.
const journalWait = 2 * time.Second
