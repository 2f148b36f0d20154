// Package history has what was seen and recorded on this machine: messages, what agents said and did, what waits for the person, tasks,
// and what transcripts tell. A command records while it asks; a service has a [Recording], since that goes on all the time.
package history

import (
	"context"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/local"
)

// Options says what an [Archive] has besides files.
type Options struct {
	Recording *Recording // nil: the archive records while somebody asks

	// HasInboxes reports whether a team has a member with an inbox, and not with a pane; the error is that there is none.
	HasInboxes func(ctx context.Context, team, member string) (bool, error)
	// WithoutLedger returns what is known of a team, or of all, if the ledger cannot be opened.
	WithoutLedger func(ctx context.Context, team string) (api.Snapshot, error)
}

// Recording is what an [Archive] has in a service, which records all the time.
type Recording struct {
	Journal *journal.Journal // for reading, so that a long search does not delay what records
	States  *attention.Cache // which is kept up to date
	Gather  time.Duration    // between two snapshots, at least

	News  func() (news <-chan struct{}, done func())  // signals when the journal has more
	Shown func() (shown <-chan struct{}, done func()) // signals when a snapshot shows something else

	LookAtTasks func(ctx context.Context, lists ...string) error // records what is in lists of tasks now
}

// Archive has what was seen and recorded: messages, what agents said and did, and what waits. It may be used by several
// goroutines.
type Archive struct {
	*local.Files

	opts   Options
	rec    Recording // of a command: one that has nothing
	always bool      // it records all the time

	mu        sync.Mutex
	recorders int              // that run
	journal   *journal.Journal // see OpenJournal
	temporary *temporary       // what recorders use in its place; nil: it can be used
	cache     *attention.Cache // what a command knows of what waits
	source    status.Source    // of cache
	idle      string           // why, as cache knows it, relays do not run
}

// Open returns an Archive. It opens nothing.
func Open(files *local.Files, opts Options) *Archive {
	l := &Archive{Files: files, opts: opts}
	if l.always = opts.Recording != nil; l.always {
		l.rec, l.recorders = *opts.Recording, 1
	} else {
		l.rec = Recording{
			Gather:      Gather,
			Shown:       func() (<-chan struct{}, func()) { return nil, func() {} },
			LookAtTasks: func(context.Context, ...string) error { return nil },
		}
	}
	return l
}

// Transcripts has what agents say, change and use, as they write it down themselves.
type Transcripts struct {
	*Archive

	meters meters
}

// TaskLists has the tasks of Claude Code, and what became of them.
type TaskLists struct{ *Archive }
