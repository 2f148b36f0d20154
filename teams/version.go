package teams

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of Claude Code. The zero Version is unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion parses three numbers with dots between them. Text after a space,
// as "claude --version" prints it, is ignored.
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

// String returns the version as Claude Code writes it, or "unknown".
func (v Version) String() string {
	if !v.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Known reports whether v is not the zero Version.
func (v Version) Known() bool { return v != Version{} }

// Compare returns -1, 0 or 1: v is older than w, the same, or newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// Answer is what is known about a question.
type Answer int

// The answers. Unsure calls for the careful way.
const (
	Unsure Answer = iota
	No
	Yes
)

func (a Answer) String() string { return [...]string{"unsure", "no", "yes"}[a] }

// Trait is something in which versions of Claude Code differ.
type Trait string

// The traits, each of which came with one version and has stayed since.
const (
	// LocksConfig: config.json is written under the lock directory config.json.lock.
	LocksConfig Trait = "locks config.json"
	// RenamesInbox: an inbox is replaced by rename, not written in place.
	RenamesInbox Trait = "replaces its inbox by rename"
	// RemovesTaken: rows that an agent took are removed, not marked as read.
	RemovesTaken Trait = "removes rows it took"
	// TeamAtStart: each interactive session makes its team, session-<8 hex>, when it starts.
	TeamAtStart Trait = "makes a team at start"
	// RefusesUser: SendMessage reaches only members, and so not "user".
	RefusesUser Trait = "refuses to write to user"
	// HeadlessDeaf: a headless lead does not poll its inbox, not even in a team
	// that its own session made.
	HeadlessDeaf Trait = "does not poll when headless"
	// Lifecycle: a headless agent prints command_lifecycle for each frame.
	Lifecycle Trait = "prints command_lifecycle"
	// MarksFirst: an agent takes rows under the lock before they are delivered.
	// Without it, rows are delivered again at every poll while the lock is held.
	MarksFirst Trait = "marks rows before it delivers them"
	// KeepsSystemPrompt: a resumed session keeps its first system prompt unless
	// --system-prompt-snapshot off is given.
	KeepsSystemPrompt Trait = "keeps its first system prompt"
	// LeadProcessWritten: config.json has leadProcess.
	LeadProcessWritten Trait = "writes leadProcess"
)

// changes says between which two versions a trait came: the last one measured
// without it, and the first one measured with it. Those between were not
// measured, and were in part never published. About 55 versions from 2.1.62 to
// 2.1.330 were run against a stand-in for the model.
var changes = map[Trait]struct{ without, with Version }{
	LocksConfig:        {Version{2, 1, 104}, Version{2, 1, 105}},
	RenamesInbox:       {Version{2, 1, 153}, Version{2, 1, 154}},
	RemovesTaken:       {Version{2, 1, 159}, Version{2, 1, 160}},
	TeamAtStart:        {Version{2, 1, 177}, Version{2, 1, 178}},
	RefusesUser:        {Version{2, 1, 181}, Version{2, 1, 182}},
	HeadlessDeaf:       {Version{2, 1, 160}, Version{2, 1, 200}},
	Lifecycle:          {Version{2, 1, 205}, Version{2, 1, 206}},
	MarksFirst:         {Version{2, 1, 252}, Version{2, 1, 257}},
	KeepsSystemPrompt:  {Version{2, 1, 240}, Version{2, 1, 280}},
	LeadProcessWritten: {Version{2, 1, 310}, Version{2, 1, 311}},
}

// Has says whether v has the trait. It is Unsure for the zero Version, and for
// one between the two that were measured.
func (v Version) Has(t Trait) Answer {
	c, ok := changes[t]
	switch {
	case !ok || !v.Known():
		return Unsure
	case v.Compare(c.without) <= 0:
		return No
	case v.Compare(c.with) >= 0:
		return Yes
	}
	return Unsure
}
