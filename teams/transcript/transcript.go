// Package transcript finds the transcripts that Claude Code writes of its
// conversations. It reads from them which version wrote them, and which messages the
// model was given.
//
// A transcript is a file <claude>/projects/<slug>/<session>.jsonl with one JSON object
// per line. Most records have a version and a timestamp. <slug> is made from the
// working directory: see [Slug]. A teammate in the lead's process has transcripts of
// its own below the lead's session. A teammate in a pane has a session of its own,
// and its records name the agent and the team.
//
// Nothing is written. A file that is missing, malformed or incomplete is treated as
// if it said nothing, and is not an error: nothing may depend on a transcript.
package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// Record is the part of a transcript's record that says who wrote it.
type Record struct {
	Version string    // of Claude Code, as it writes it: "2.1.329"
	At      time.Time // when it was written, in UTC
	Agent   string    // the teammate's name; empty for a lead
	Team    string    // the team's name; empty where there is none yet
}

// Slug returns the name of the folder below projects for processes in that directory: the
// path with "-" for each UTF-16 unit but a-z, A-Z and 0-9. If that is longer than 200, it is
// the first 200, "-", and a hash of the path: the absolute value of h = h*31 + unit in 32
// bits, in base 36. Measured on 2.1.80 and 2.1.329. The path must be absolute and without
// symbolic links.
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

// Session returns the transcript of a session that a process in dir began, if there is one,
// even under the name of another directory, since a process can change its own. root is the
// Claude directory.
func Session(root, dir, session string) (path string, ok bool) {
	return ofSession(root, dir, session, ".jsonl")
}

// ofSession returns the file of a session with that suffix, or, if it is empty, its folder.
func ofSession(root, dir, session, suffix string) (path string, ok bool) {
	if session == "" || session != filepath.Base(session) || strings.HasPrefix(session, ".") {
		return "", false
	}
	is := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && (suffix == "" && info.IsDir() || suffix != "" && info.Mode().IsRegular())
	}
	projects, name := filepath.Join(root, "projects"), session+suffix
	if path = filepath.Join(projects, slugOf(dir), name); is(path) {
		return path, true
	}
	all, err := os.ReadDir(projects)
	if err != nil {
		return "", false
	}
	for _, e := range all {
		if path = filepath.Join(projects, e.Name(), name); is(path) {
			return path, true
		}
	}
	return "", false
}

// SessionOf is the session that a transcript belongs to: that of the lead for one of a teammate in
// the lead's process.
func SessionOf(path string) string {
	if dir := filepath.Dir(path); filepath.Base(dir) == "subagents" {
		return filepath.Base(filepath.Dir(dir))
	}
	return strings.TrimSuffix(filepath.Base(path), ".jsonl")
}

// Recent returns the transcripts of sessions that processes in dir began and that have
// changed since, the last written first.
func Recent(root, dir string, since time.Time) []string {
	return slices.DeleteFunc(latest(filepath.Join(root, "projects", slugOf(dir)), ".jsonl"), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.ModTime().Before(since)
	})
}

// mostSessions is how many sessions of one directory are searched for an agent, the last
// written first.
const mostSessions = 32

// Agent returns the transcript of a teammate with a process of its own in dir.
func Agent(root, dir, team, agent string) (path string, ok bool) {
	if agent == "" || dir == "" {
		return "", false
	}
	for _, path := range latest(filepath.Join(root, "projects", slugOf(dir)), ".jsonl") {
		if _, ok := newest(path, func(r Record) bool { return r.Agent == agent && r.Team == team }); ok {
			return path, true
		}
	}
	return "", false
}

// Teammate returns the transcripts of a teammate of that team in the process of its lead, while
// that had the session, the last written first. Older versions do not record whose they are, and
// begin another one with a copy of the conversation whenever the teammate wakes up. These are
// told by the prompt that the teammate was started with, if it is not empty.
func Teammate(root, dir, session, team, name, prompt string) (paths []string) {
	if name == "" {
		return nil
	}
	for _, s := range subagents(root, dir, session) {
		if !regular(s.path) || s.TeamName != "" && s.TeamName != team {
			continue
		}
		if s.Name == name || s.Name == "" && prompt != "" && startedWith(s.path, prompt) {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// HasTeammate reports whether a process started a teammate of that team, or woke it up, while it
// had the session. Versions up to 2.1.181 do not record it.
func HasTeammate(root, dir, session, team string) bool {
	return team != "" && slices.ContainsFunc(subagents(root, dir, session), func(s subagent) bool { return s.TeamName == team })
}

// subagent is an agent in the process of another one.
type subagent struct {
	Name     string // of a teammate
	TeamName string // of its team
	path     string // of its transcript
}

// subagents returns those of a session, the last started first.
func subagents(root, dir, session string) (list []subagent) {
	folder, ok := ofSession(root, dir, session, "")
	if !ok {
		return nil
	}
	const suffix = ".meta.json"
	for _, path := range latest(filepath.Join(folder, "subagents"), suffix) {
		data, err := readSmall(path)
		s := subagent{path: strings.TrimSuffix(path, suffix) + ".jsonl"}
		if err == nil && json.Unmarshal(data, &s) == nil {
			list = append(list, s)
		}
	}
	return list
}

// startedWith reports whether a conversation begins with that prompt.
func startedWith(path, prompt string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	line, err := bufio.NewReader(io.LimitReader(file, longTail)).ReadBytes('\n')
	if err != nil {
		return false
	}
	r, ok := parseGiven(line)
	list := r.messages()
	return ok && len(list) == 1 && list[0].from != plain && (list[0].text == prompt || list[0].text == EscapeText(prompt))
}

// latest returns the files in a folder whose name ends so, the last written first.
func latest(folder, suffix string) []string {
	all, err := os.ReadDir(folder)
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
	for _, f := range files[:min(len(files), mostSessions)] {
		paths = append(paths, filepath.Join(folder, f.Name()))
	}
	return paths
}

// Newest returns the last record of a transcript that has a version.
func Newest(path string) (Record, bool) { return newest(path, nil) }

// slugOf is Slug of the real path of a directory.
func slugOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return Slug(dir)
}

// How much of the end of a file is read: shortTail, and longTail if that holds no whole
// record. Records with pictures have some MB.
const (
	shortTail = 64 << 10
	longTail  = 2 << 20
)

// newest returns the last record in the file that has a version and is wanted.
func newest(path string, wanted func(Record) bool) (found Record, ok bool) {
	for _, size := range []int64{shortTail, longTail} {
		whole := backward(path, size, func(line []byte) bool {
			r, parsed := parse(line)
			if ok = parsed && (wanted == nil || wanted(r)); ok {
				found = r
			}
			return !ok
		})
		if ok || whole {
			return found, ok
		}
	}
	return Record{}, false
}

// backward calls yield with the lines at the end of a file, the last one first, until
// it returns false. It reads size bytes at most, and reports whether that was all.
func backward(path string, size int64, yield func(line []byte) bool) (whole bool) {
	// Asked first: opening a named pipe would wait for its writer.
	if !regular(path) {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return true
	}
	start := max(0, info.Size()-size)
	data, err := io.ReadAll(io.NewSectionReader(file, start, size))
	if err != nil {
		return true
	}
	for len(data) > 0 {
		i := bytes.LastIndexByte(data, '\n')
		if !yield(data[i+1:]) {
			break
		}
		data = data[:max(i, 0)]
	}
	return start == 0
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// parse reads one line; a torn one is none.
func parse(line []byte) (Record, bool) {
	var r struct {
		Version   string `json:"version"`
		Timestamp string `json:"timestamp"`
		AgentName string `json:"agentName"`
		TeamName  string `json:"teamName"`
	}
	if json.Unmarshal(line, &r) != nil || r.Version == "" {
		return Record{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if at = at.UTC(); err != nil || at.Year() < 0 || at.Year() > 9999 { // JSON has no such time
		return Record{}, false
	}
	return Record{Version: r.Version, At: at, Agent: r.AgentName, Team: r.TeamName}, true
}
