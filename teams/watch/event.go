package watch

import (
	"io/fs"
	"os"
	"time"
)

// Kind is the kind of an event.
type Kind int

// The kinds of events.
const (
	Changed       Kind = iota + 1 // an inbox is there, and is new or was written
	Removed                       // an inbox is gone
	TeamAppeared                  // a team's directory is there; its config.json may not be yet
	TeamGone                      // a team's directory is gone, with all inboxes
	ConfigChanged                 // a team's config.json was written, made or removed after the team appeared
)

// Event means that something must be checked. Its receiver must close it.
type Event struct {
	Kind  Kind
	Team  string    // the name of the team's directory
	Inbox string    // the name of the inbox, without ".json"; "" if the event is about the team
	Path  string    // of the inbox, the config.json or the team's directory
	At    time.Time // when the first of the joined changes was noticed

	// Versions are the contents of the inbox since the last event, oldest first. If the inbox is gone, they
	// are its earlier contents.
	Versions []Version

	// Unkept means that the newest version is not in Versions: read Path.
	Unkept bool

	// Missed counts versions that were noticed but not kept, and may have had rows that no other version has.
	Missed int

	dir identity // of the team's directory
}

// In reports whether the event is about the team in that directory, and not another one of the same name. If
// they cannot be distinguished, it is true.
func (e *Event) In(dir fs.FileInfo) bool {
	id := identify(dir)
	return e.dir == id || e.dir == identity{} || id == identity{}
}

// Close closes the files of all versions.
func (e *Event) Close() {
	for _, v := range e.Versions {
		v.File.Close()
	}
	e.Versions = nil
}

// Version is an open file with an earlier content of an inbox.
type Version struct {
	File    *os.File  // open for reading, at its beginning
	Size    int64     // in bytes, when it was last looked at
	ModTime time.Time // when it was last looked at

	id       identity
	outgrown bool // the version right after it was not smaller
}
