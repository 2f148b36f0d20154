package teams

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of Claude Code. The zero Version is unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion parses three numbers with dots between them. It ignores text after a space, as in the output
// of "claude --version".
func ParseVersion(s string) (Version, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	var v Version
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("teams: %.40q is not a version of Claude Code", s)
	}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		var err error
		if *n, err = strconv.Atoi(parts[i]); err != nil || *n < 0 {
			return Version{}, fmt.Errorf("teams: %.40q is not a version of Claude Code", s)
		}
	}
	return v, nil
}

// String returns the version in Claude Code's form, or "unknown".
func (v Version) String() string {
	if !v.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Known reports whether v is not the zero Version.
func (v Version) Known() bool { return v != Version{} }

// Compare returns -1 if v is older than w, 0 if they are equal, and 1 if v is newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// Oldest is the oldest supported Claude Code. Agents of older versions are not run, relayed to, asked, moved,
// or reached by socket or hook, and nothing is proved about them. It was published on 1 September 2026. Files
// of every version are read, and rows are written to the inboxes of every version.
var Oldest = Version{2, 1, 257}

// Outdated reports whether v is known to be older than [Oldest]. An unknown version counts as current.
func (v Version) Outdated() bool { return v.Known() && v.Compare(Oldest) < 0 }

// Check returns an [*OutdatedError] if v is [Version.Outdated]. who names the agent, the session or the
// program.
func (v Version) Check(who string) error {
	if v.Outdated() {
		return &OutdatedError{who, v}
	}
	return nil
}

// OutdatedError means that an agent's version is older than [Oldest].
type OutdatedError struct {
	Who     string
	Version Version
}

func (e *OutdatedError) Error() string {
	return fmt.Sprintf("%s is Claude Code %s, and teambridge needs %s or newer: update it with claude update", e.Who, e.Version, Oldest)
}

// Answer is the answer to a question about an agent.
type Answer int

// The answers. Unsure calls for caution.
const (
	Unsure Answer = iota
	No
	Yes
)

func (a Answer) String() string { return [...]string{"unsure", "no", "yes"}[a] }
