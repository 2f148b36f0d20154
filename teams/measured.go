package teams

import "fmt"

// Measured is the newest Claude Code that "teambridge-probe" has measured for this release. Newer ones are
// assumed to behave the same.
var Measured = Version{2, 1, 332}

// Newer reports whether v is newer than [Measured].
func (v Version) Newer() bool { return v.Compare(Measured) > 0 }

// NewerNote describes a version that is [Version.Newer]. If where is not empty, it names the member with this
// version.
func (v Version) NewerNote(where string) string {
	of := ""
	if where != "" {
		of = " of " + where
	}
	return fmt.Sprintf("Claude Code %s%s is newer than all that teambridge was measured with: it is assumed to work like %s", v, of, Measured)
}
