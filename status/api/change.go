package api

import "time"

// ChangesQuery says which changes of files are wanted.
type ChangesQuery struct {
	Since   time.Time `query:"since"`   // only changes made at this time or later
	File    string    `query:"file"`    // only of this file: its path, or the end of it
	Patches bool      `query:"patches"` // also what was changed
}

// FileChanges says what an agent has changed in a file with its tools, as its transcript says. What its
// shell commands have changed is not known.
type FileChanges struct {
	File    string    `json:"file"`
	Created bool      `json:"created,omitempty"` // with the first of the changes
	Changes int       `json:"changes"`
	Added   int       `json:"added"`   // lines, in all changes
	Removed int       `json:"removed"` // lines, in all changes
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Patches []Patch   `json:"patches,omitempty"` // oldest first; only if they were asked for
}

// Patch is one change of a file.
type Patch struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`          // the hunks of a unified diff
	Cut  bool      `json:"cut,omitempty"` // the text is the beginning of a longer one
}

// MaxPatch is how many bytes of a patch are shown.
const MaxPatch = 64 << 10
