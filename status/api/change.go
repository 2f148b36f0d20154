package api

import "time"

// ChangesQuery selects changes of files.
type ChangesQuery struct {
	Since   time.Time `query:"since"`   // only changes made at this time or later
	File    string    `query:"file"`    // only of this file: its path, or the end of it
	Patches bool      `query:"patches"` // also the changed lines
}

// FileChanges has the changes that an agent has made in a file with its tools, according to its transcript.
// Changes by its shell commands are not known.
type FileChanges struct {
	File    string    `json:"file"`
	Created bool      `json:"created,omitempty"` // by the first of the changes
	Changes int       `json:"changes"`
	Added   int       `json:"added"`   // lines, in all changes
	Removed int       `json:"removed"` // lines, in all changes
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Patches []Patch   `json:"patches,omitempty"` // oldest first; only if the query has patches
}

// Patch is one change of a file.
type Patch struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`          // the hunks of a unified diff
	Cut  bool      `json:"cut,omitempty"` // the text is the beginning of a longer one
}

// MaxPatch is how many bytes of a patch are shown.
const MaxPatch = 64 << 10
