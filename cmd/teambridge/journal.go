package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/sqlite"
)

func (a *app) journal(ctx context.Context) (*journal.Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, sqlite.Patience))
	defer cancel()
	if a.there != nil {
		return nil, a.errNoFiles()
	}
	j, err := journal.Open(ctx, filepath.Join(a.state, "journal.db"))
	if err == nil {
		a.atEnd(j.Close)
	}
	return j, err
}

// journalWait is how long a command that can do without the journal waits for its lock.
const journalWait = 2 * time.Second
