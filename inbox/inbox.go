// Package inbox reads and changes one inbox of a Claude Code agent team: the
// file teams/TEAM/inboxes/NAME.json, through which agents send each other
// messages.
//
// # The file
//
// A JSON array of rows, oldest first, written with two spaces of indentation
// and no newline at the end. A row is an object: from, text and timestamp
// (ISO 8601, milliseconds, Z), read, optional summary and color; newer writers
// add msgV, msg_id and type, other tools a messageId. Anything else in it is
// somebody's and is kept.
//
// An inbox is a queue and not a history. An older agent marks what it has
// taken as read and keeps it; a newer one removes it, with all rows that were
// read already and all it cannot understand. Taking a row means that it was
// queued for the agent, not that a model has seen it.
//
// # What is promised
//
//   - [Inbox.Append] returns without error only when the row was read back from
//     the file, under the lock that the agents themselves take.
//   - A row that is not meant to change keeps every byte, whatever is in it.
//   - A file that is not an array is never written to. [CorruptError] says at
//     which byte it goes wrong.
//   - Sending one id twice is sending once, as long as a [Memory] is there to
//     remember the first time: also when the agent has removed the row since.
//   - Nothing is created for a team that does not exist, or exists no longer.
//
// Not promised: that an agent takes the row. Another tool that ignores the
// lock can overwrite the file a moment after it was read back.
package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// MaxSize is the largest inbox file that is read or written, in bytes.
const MaxSize = lockedfile.MaxSize

var (
	// ErrMissing means that the inbox file does not exist. Its team does.
	ErrMissing = errors.New("there is no inbox yet")

	// ErrEmpty means that the inbox file has no content at all, not even an
	// empty array, and nobody was about to write it.
	ErrEmpty = errors.New("the file is empty")

	// ErrBusy means that the inbox file was being written all the time.
	ErrBusy = errors.New("the file is being written")

	// ErrIDTaken means that a message with this id, but another sender, text,
	// summary or color, was sent to this inbox before.
	ErrIDTaken = errors.New("the id belongs to another message")

	// ErrUnknown means that a message with this id was about to be written when
	// an earlier sender died, and that nothing tells whether it was: the row is
	// not in the file, and the file has changed since.
	ErrUnknown = errors.New("it is not known whether the message was sent before")

	// ErrNoMemory means that an explicit id was given and there is no [Memory]
	// that could tell whether it was sent before.
	ErrNoMemory = errors.New("no ledger to remember the id")
)

// CorruptError says that an inbox file is not an array of rows. It was left as
// it is. Claude Code itself takes such a file for empty, and replaces it with
// the next message it writes there.
type CorruptError struct {
	Path   string
	Offset int64  // bytes from the start of the file
	Reason string // what is there
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("inbox %s is corrupt: %s at byte %d", e.Path, e.Reason, e.Offset)
}

// Inbox is one member's inbox in one team. It holds nothing open, and nothing in
// memory but what [Inbox.Remembering] does, and may be used by several goroutines.
type Inbox struct {
	team   *teams.Team
	name   string
	locker *lockedfile.Locker
	past   *past // nil: every reading parses the whole file
}

// Open returns the inbox of a name in team. The file need not exist, and the
// name need not be a member: whether to write to one that is not is the
// caller's decision. locker should be the one that the whole process uses.
// The error is [teams.ErrBadName].
func Open(team *teams.Team, name string, locker *lockedfile.Locker) (*Inbox, error) {
	if err := teams.CheckName("inbox", name); err != nil {
		return nil, err
	}
	return &Inbox{team: team, name: name, locker: locker}, nil
}

// Name returns the name whose inbox it is.
func (b *Inbox) Name() string { return b.name }

// Path returns where the inbox file is or would be.
func (b *Inbox) Path() string { return filepath.Join(b.team.Path(), "inboxes", b.file()) }

func (b *Inbox) file() string { return b.name + ".json" }

// dir opens the directory of the inbox.
func (b *Inbox) dir(create bool) (*os.Root, error) {
	dir, err := b.team.InboxDir(create)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, teams.ErrTeamGone) {
		return nil, fmt.Errorf("inbox %s: %w", b.Path(), ErrMissing)
	}
	return dir, err
}
