package teams

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels that errors of this package wrap.
var (
	// ErrBadName means that a name cannot be that of a team or a member: [CheckName].
	ErrBadName = errors.New("bad name")
	// ErrTeamGone means that the team was deleted, has no config.json (as after a crash), or was deleted and
	// made again since it was opened.
	ErrTeamGone = errors.New("the team is gone")
	// ErrNotDir means that a team's directory was replaced by a symbolic link or something else.
	ErrNotDir = errors.New("a link, or no directory")
	// ErrNameTaken says that a name to join under belongs to somebody else.
	ErrNameTaken = errors.New("the name is taken")
	// ErrNotOurs means that the entry to remove is not the one that was joined.
	ErrNotOurs = errors.New("the entry is somebody else's")
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
	Offset int64 // of the fault, in bytes
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("teams: %s: corrupt at byte %d: %v", e.Path, e.Offset, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// NotFoundError means that no member or team is called Query. For a team it is also an [ErrTeamGone].
type NotFoundError struct {
	Kind    string   // "member" or "team"
	Query   string   // as asked; empty when any team would have done
	Team    string   // the team of a missing member
	Nearest []string // existing names, most alike first, 5 at most
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

// Is makes a team that is not found ErrTeamGone: both mean that it is not there.
func (e *NotFoundError) Is(target error) bool {
	return target == ErrTeamGone && e.Kind == "team"
}

// AmbiguousTeamError means that no team was named and several are possible.
type AmbiguousTeamError struct {
	Teams []Candidate // sorted by name, two at least
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
	return fmt.Sprintf("teams: %d teams could be meant, name one of %s", len(names), quoted(names))
}

// TakenError names the holder of the name to join under. It is an [ErrNameTaken].
type TakenError struct {
	Team, Name string
	Holder     string // "an agent", or what the name is kept for
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
