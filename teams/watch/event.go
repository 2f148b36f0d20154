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
	Changed       Kind = iota + 1 // an inbox is new or was written
	Removed                       // an inbox was removed
	TeamAppeared                  // a team's directory is new; it may not have a config.json yet
	TeamGone                      // a team's directory was removed, with all inboxes
	ConfigChanged                 // a team's config.json was written, made or removed after the team appeared
)

// Event means that a file or directory must be checked. The receiver must close the event.
type Event struct {
	Kind  Kind
	Team  string    // the name of the team's directory
	Inbox string    // the name of the inbox, without ".json"; "" if the event is about the team
	Path  string    // the path of the inbox, the config.json or the team's directory
	At    time.Time // when the first of the joined changes was noticed

	// Versions are the contents of the inbox since the last event, oldest first. If the inbox was removed,
	// they are its earlier contents.
	Versions []Version

	// Unkept means that Versions lacks the newest version: read Path.
	Unkept bool

	// Missed counts versions that were noticed but not kept, and may have had rows that no other version has.
	Missed int

	dir identity // identifies the team's directory
}

// In reports whether the event is about the team in that directory, and not about another team of the same
// name. If the two cannot be distinguished, the result is true.
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
	Size    int64     // in bytes, at the last check
	ModTime time.Time // at the last check

	id       identity
	outgrown bool // the next version was not smaller
}
