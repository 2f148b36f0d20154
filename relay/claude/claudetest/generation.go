package claudetest

import "fmt"

// Generation is one of the two measured generations of Claude Code. They differ in how they write an inbox, in how a
// team comes to be and in how they are started; people run both.
type Generation int

const (
	// G1 is 2.1.80: JavaScript on Node. A team is made by a tool call and has a chosen name, and it works headless.
	G1 Generation = 1
	// G2 is 2.1.329: a native binary. Every interactive session is a team of its own, session-<8 digits>; a headless
	// one never reads an inbox.
	G2 Generation = 2
)

// Version is the version under test, as npm spells it and as .ci/install-claude installs it. Empty for a generation
// that is neither G1 nor G2.
func (g Generation) Version() string {
	switch g {
	case G1:
		return "2.1.80"
	case G2:
		return "2.1.329"
	}
	return ""
}

// String is the name for test output, such as "G1-2.1.80": usable as a subtest's name.
func (g Generation) String() string {
	return fmt.Sprintf("G%d-%s", int(g), g.Version())
}
