// Package inbox reads and changes an inbox of a Claude Code agent team: the file
// teams/TEAM/inboxes/NAME.json, through which agents send messages to each other.
//
// # The file
//
// An inbox is a JSON array of rows, oldest first, indented by two spaces, without a newline at the end. A row
// is an object with from, text, timestamp (ISO 8601, milliseconds, Z) and read; summary and color are
// optional. Claude Code adds msgV, msg_id and type, other tools a messageId. All other keys are kept.
//
// An inbox is a queue, not a history. Old agents mark the rows that they take as read. Current agents remove
// them, together with all read rows and all entries that they cannot parse. A row that was taken is queued
// for the agent; its model may not have seen it yet.
//
// # What is promised
//
//   - [Inbox.Append] returns without an error only if the row was read back from the file,
//     under the lock that agents take.
//   - An unchanged row keeps every byte.
//   - A file that is not an array is never written: see [CorruptError].
//   - With a [Memory], a second send with the same id does nothing, even if the agent has
//     removed the row.
//   - Nothing is created for a team that does not exist.
//
// Append does not promise that an agent takes the row: a tool that ignores the lock can overwrite the file
// right after it was read back.
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

// MaxSize is the size of the largest inbox file that is read or written, in bytes.
const MaxSize = lockedfile.MaxSize

var (
	// ErrMissing means that the inbox file does not exist, although its team does.
	ErrMissing = errors.New("there is no inbox yet")

	// ErrEmpty means that the inbox file is empty, and that no program was about to write it.
	ErrEmpty = errors.New("the file is empty")

	// ErrBusy means that the inbox file was being written at each read.
	ErrBusy = errors.New("the file is being written")

	// ErrIDTaken means that a message with this id, but with another sender, text, summary or color, was sent
	// to this inbox before.
	ErrIDTaken = errors.New("the id belongs to another message")

	// ErrUnknown means that an earlier sender with this id died, and may have written the message: the row is
	// not in the file, but the file has changed since.
	ErrUnknown = errors.New("it is not known whether the message was sent before")

	// ErrNoMemory means that a message needs a [Memory] and there is none. A message needs one if it has an
	// explicit id, or if its sender promises a record of it.
	ErrNoMemory = errors.New("no ledger to record the message")
)

// CorruptError means that an inbox file is not an array of rows. The file is left alone. Claude Code treats
// such a file as empty, and replaces it at its next write.
type CorruptError struct {
	Path   string
	Offset int64  // bytes from the start of the file
	Reason string // the fault
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("inbox %s is corrupt: %s at byte %d", e.Path, e.Reason, e.Offset)
}

// Inbox is the inbox of one member of one team. It keeps no file open. It is safe for concurrent use.
type Inbox struct {
	team   *teams.Team
	name   string
	locker *lockedfile.Locker
	cache  *parseCache // nil if every read parses the whole file
}

// Open returns the inbox of a name in team. The file need not exist, and the name need not be a member's.
// locker should be the only one of the process; see [lockedfile.New]. The error is [teams.ErrBadName].
func Open(team *teams.Team, name string, locker *lockedfile.Locker) (*Inbox, error) {
	if err := teams.CheckName("inbox", name); err != nil {
		return nil, err
	}
	return &Inbox{team: team, name: name, locker: locker}, nil
}

// Name returns the name of the inbox, which is usually a member's.
func (b *Inbox) Name() string { return b.name }

// Path returns the path of the inbox file, which may not exist yet.
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
