package teams

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels that errors of this package wrap.
var (
	// ErrBadName means that a name cannot be the name of a team or a member: [CheckName].
	ErrBadName = errors.New("bad name")
	// ErrTeamGone means that the team was deleted, has no config.json (for example after a crash), or was
	// deleted and made again since it was opened.
	ErrTeamGone = errors.New("the team is gone")
	// ErrNotDir means that a symbolic link or another file is in the place of a directory.
	ErrNotDir = errors.New("a link, or not a directory")
	// ErrNameTaken means that another member has the name, or that the name is reserved.
	ErrNameTaken = errors.New("the name is taken")
	// ErrNotOurs means that the entry to remove is not the one that was added.
	ErrNotOurs = errors.New("the entry belongs to somebody else")
)

// NoRootError means that there is no Claude directory at Dir.
type NoRootError struct {
	Dir string
	Err error // the cause: fs.ErrNotExist, fs.ErrPermission, not a directory
}

func (e *NoRootError) Error() string {
	return fmt.Sprintf("teams: no Claude directory at %s: %v", e.Dir, e.Err)
}

func (e *NoRootError) Unwrap() error { return e.Err }

// CorruptError means that a config.json is not a JSON object. The file is left alone.
type CorruptError struct {
	Path   string
	Offset int64 // the offset of the fault, in bytes
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("teams: %s: corrupt at byte %d: %v", e.Path, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// NotFoundError means that no member or team is called Query. For a team it is also an [ErrTeamGone].
type NotFoundError struct {
	Kind    string   // "member" or "team"
	Query   string   // the name in question; empty if any team would do
	Team    string   // the team of a missing member
	Nearest []string // existing names, the most similar first, at most 5
}

func (e *NotFoundError) Error() string {
	text := "teams: no team with a living lead"
	switch {
	case e.Kind == "member":
		text = fmt.Sprintf("teams: no member %q in team %q", e.Query, e.Team)
	case e.Query != "":
		text = fmt.Sprintf("teams: no team %q", e.Query)
	}
	if len(e.Nearest) > 0 {
		text += "; " + map[bool]string{true: "there is ", false: "there are "}[len(e.Nearest) == 1] + quoted(e.Nearest)
	}
	return text
}

// Is makes a team that is not found an [ErrTeamGone], because both mean that it does not exist.
func (e *NotFoundError) Is(target error) bool {
	return target == ErrTeamGone && e.Kind == "team"
}

// AmbiguousTeamError means that no team was named and several are possible.
type AmbiguousTeamError struct {
	Teams []Candidate // sorted by name, at least two
}

// Choices returns the names of the teams.
func (e *AmbiguousTeamError) Choices() (names []string) {
	for _, c := range e.Teams {
		names = append(names, c.Name)
	}
	return names
}

func (e *AmbiguousTeamError) Error() string {
	names := make([]string, len(e.Teams))
	for i, c := range e.Teams {
		names[i] = c.Name
	}
	return fmt.Sprintf("teams: no team is named, and %d are possible: %s", len(names), quoted(names))
}

// TakenError names the holder of a name that cannot be joined under. It unwraps to [ErrNameTaken].
type TakenError struct {
	Team, Name string
	Holder     string // a member, or the use that the name is reserved for
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("teams: join %q as %q: %v by %s", e.Team, e.Name, ErrNameTaken, e.Holder)
}

func (e *TakenError) Unwrap() error { return ErrNameTaken }

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
