// Package history reads the records of this machine: messages, events of agents, items that wait for the
// person, tasks, and transcripts. A command records while it reads. A service records all the time, and passes
// its [Recording].
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

// Options are the sources of an [Archive] besides files.
type Options struct {
	Recording *Recording // nil: the archive records only during operations that need it

	// HasInboxes reports whether a team has a member with an inbox rather than a pane. If it has none, the
	// error says so.
	HasInboxes func(ctx context.Context, team, member string) (bool, error)
	// Complete returns the name of a recipient as it is, the address that an abbreviated name stands for, or "" if it
	// stands for none.
	Complete func(ctx context.Context, name string) (string, error)
	// WithoutLedger returns a snapshot of a team, or of all, without a ledger that cannot be opened.
	WithoutLedger func(ctx context.Context, team string) (api.Snapshot, error)
}

// Recording is the part of a service that an [Archive] reads. The service records all the time.
type Recording struct {
	Journal *journal.Journal // for reading, so that a long search does not delay the recording
	States  *attention.Cache // kept up to date
	Gather  time.Duration    // the least time between two snapshots

	News  func() (news <-chan struct{}, done func())  // signals when the journal has more
	Shown func() (shown <-chan struct{}, done func()) // signals when a snapshot would differ

	LookAtTasks func(ctx context.Context, lists ...string) error // records the present content of task lists
}

// Archive is the history: recorded messages and events, and the items that wait. It is safe for concurrent use.
type Archive struct {
	*local.Files

	opts   Options
	rec    Recording // empty in a command
	always bool      // a service records all the time

	mu        sync.Mutex
	recorders int              // number of recorders that run
	journal   *journal.Journal // see OpenJournal
	temporary *temporary       // replaces the journal for recorders; nil: the journal works
	cache     *attention.Cache // of a command, for attention items
	source    status.Source    // of cache
	idle      string           // the reason that cache has for relays that do not run
}

// Open returns an Archive. It opens no file yet.
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

// Transcripts reads agents' own records of their conversations, changes and usage.
type Transcripts struct {
	*Archive

	meters meters
}

// TaskLists reads the tasks of Claude Code, and their history.
type TaskLists struct{ *Archive }
