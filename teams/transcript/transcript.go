// Package transcript reads the records that Claude Code writes of its conversations: the transcripts ([Tail],
// [Record]), the prompts that wait for the end of a turn ([Queue]), the messages that the model got ([Index]), and
// the process of each session ([Process]).
//
// A transcript is a file <claude>/projects/<slug>/<session>.jsonl with one JSON object
// per line. Most records have a version and a timestamp. <slug> is made from the
// working directory: see [Slug]. A teammate in the lead's process has transcripts of
// its own below the lead's session. A teammate in a pane has a session of its own,
// and its records name the agent and the team.
//
// Nothing is written. Malformed or incomplete records are ignored. A function without an error ignores whole files
// like that.
package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"teambridge/teams/sharedfile"
)

// Slug returns the name of the folder below projects for processes in that directory: the path with "-" for each
// UTF-16 unit but a-z, A-Z and 0-9. If that is longer than 200, it is the first 200, "-", and a hash of the path: the
// absolute value of h = h*31 + unit in 32 bits, in base 36. The path must be absolute and without symbolic links.
func Slug(dir string) string {
	units := utf16.Encode([]rune(dir))
	name := make([]byte, len(units))
	var hash int32
	for i, u := range units {
		hash = hash*31 + int32(u)
		name[i] = '-'
		if u < 128 && (u >= '0' && u <= '9' || u >= 'a' && u <= 'z' || u >= 'A' && u <= 'Z') {
			name[i] = byte(u)
		}
	}
	if len(name) <= 200 {
		return string(name)
	}
	abs := int64(hash)
	if abs < 0 {
		abs = -abs
	}
	return string(name[:200]) + "-" + strconv.FormatInt(abs, 36)
}

// Session returns the transcript of a session that a process in dir began, if there is one. It searches the folders
// of other directories, too, since a process can change its own. root is the Claude directory.
func Session(root, dir, session string) (path string, ok bool) {
	path, err := Find(root, dir, session)
	return path, err == nil
}

// ErrInvalid means that a session's id cannot be the name of a file.
var ErrInvalid = errors.New("is no id of a session")

// Find is [Session] with an error that tells why there is no transcript. The error wraps [fs.ErrNotExist] only if no
// folder has one.
func Find(root, dir, session string) (path string, err error) {
	return ofSession(root, dir, session, ".jsonl")
}

// ofSession returns the file of a session with that suffix or, for an empty suffix, its folder.
func ofSession(root, dir, session, suffix string) (path string, err error) {
	if session == "" || session != filepath.Base(session) || strings.HasPrefix(session, ".") {
		return "", fmt.Errorf("transcript: %.60q %w", session, ErrInvalid)
	}
	is := func(path string) bool {
		info, failed := os.Stat(path)
		if failed != nil {
			if !errors.Is(failed, fs.ErrNotExist) {
				err = failed
			}
			return false
		}
		return suffix == "" && info.IsDir() || suffix != "" && info.Mode().IsRegular()
	}
	projects, name := filepath.Join(root, "projects"), session+suffix
	if path = filepath.Join(projects, slugOf(dir), name); is(path) {
		return path, nil
	}
	all, failed := sharedfile.ReadDir(projects)
	for _, e := range all {
		if path := filepath.Join(projects, e.Name(), name); is(path) {
			return path, nil
		}
	}
	return "", cmp.Or(err, failed, error(&fs.PathError{Op: "find", Path: path, Err: fs.ErrNotExist}))
}

// SessionOf returns the session that a transcript belongs to. A teammate in the lead's process belongs to the lead's
// session.
func SessionOf(path string) string {
	if dir := filepath.Dir(path); filepath.Base(dir) == "subagents" {
		return filepath.Base(filepath.Dir(dir))
	}
	return strings.TrimSuffix(filepath.Base(path), ".jsonl")
}

// Recent returns the transcripts of sessions that processes in dir began and that have changed since a time, the last
// written first.
func Recent(root, dir string, since time.Time) []string {
	return slices.DeleteFunc(latest(filepath.Join(root, "projects", slugOf(dir)), ".jsonl", mostSessions), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.ModTime().Before(since)
	})
}

// mostSessions is how many sessions of one directory, or subagents of one session, are searched
// for an agent, the last written first.
const mostSessions = 32

// Agent returns the transcript of a teammate with a process of its own in dir.
func Agent(root, dir, team, agent string) (path string, ok bool) {
	if agent == "" || dir == "" {
		return "", false
	}
	for _, path := range latest(filepath.Join(root, "projects", slugOf(dir)), ".jsonl", mostSessions) {
		if _, ok := newest(path, func(r Record) bool { return r.Agent == agent && r.Team == team }); ok {
			return path, true
		}
	}
	return "", false
}

// Teammate returns the transcripts of a teammate of that team in the process of its lead, during that session, the
// last written first. In old versions, transcripts name no team, and match any.
func Teammate(root, dir, session, team, name string) (paths []string) {
	if name == "" {
		return nil
	}
	for _, s := range subagents(root, dir, session) {
		if s.Name == name && (s.TeamName == "" || s.TeamName == team) && regular(s.Path) {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// HasTeammate reports whether a process started or woke a teammate of that team during that session.
func HasTeammate(root, dir, session, team string) bool {
	return team != "" && slices.ContainsFunc(subagents(root, dir, session), func(s Subagent) bool { return s.TeamName == team })
}

// Subagent is an agent in the process of another one.
type Subagent struct {
	Name      string // of a teammate
	TeamName  string // of its team
	ToolUseID string // of the call that started it
	Path      string `json:"-"` // of its transcript
}

// subagents returns the subagents of a session that started last.
func subagents(root, dir, session string) []Subagent {
	folder, err := ofSession(root, dir, session, "")
	if err != nil {
		return nil
	}
	list := Subagents(filepath.Join(folder, "subagents"))
	return list[:min(len(list), mostSessions)]
}

// Subagents returns the subagents whose transcripts are in a folder, the last started first.
func Subagents(folder string) (list []Subagent) {
	const suffix = ".meta.json"
	for _, path := range latest(folder, suffix, math.MaxInt) {
		s := Subagent{Path: strings.TrimSuffix(path, suffix) + ".jsonl"}
		if data, err := readSmall(path); err == nil && json.Unmarshal(data, &s) == nil {
			list = append(list, s)
		}
	}
	return list
}

// latest returns at most so many files of a folder with that suffix, the last written first.
func latest(folder, suffix string, most int) []string {
	all, err := sharedfile.ReadDir(folder)
	if err != nil {
		return nil
	}
	var files []fs.FileInfo
	for _, e := range all {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), suffix) && info.Mode().IsRegular() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	var paths []string
	for _, f := range files[:min(len(files), most)] {
		paths = append(paths, filepath.Join(folder, f.Name()))
	}
	return paths
}

// Newest returns the last record of a transcript that has a version.
func Newest(path string) (Record, bool) { return newest(path, nil) }

// slugOf returns the slug of a directory's real path.
func slugOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return Slug(dir)
}

// longTail is how much of the end of a file is searched for its newest record.
const longTail = 2 << 20

// newest returns the last record in the file that has a version and a time, and that wanted accepts.
func newest(path string, wanted func(Record) bool) (Record, bool) {
	file, info, err := open(path)
	if err != nil {
		return Record{}, false
	}
	defer file.Close()
	start := max(0, info.Size()-longTail)
	for _, line := range Backward(io.NewSectionReader(file, start, longTail), info.Size()-start) {
		if r, ok := Parse(line); ok && r.Version != "" && !r.Time().IsZero() && (wanted == nil || wanted(r)) {
			return r, true
		}
	}
	return Record{}, false
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
