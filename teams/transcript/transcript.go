// Package transcript finds the conversations that Claude Code writes down, and
// tells from their newest records which version wrote them, and when.
//
// A conversation is a file <claude>/projects/<slug>/<session>.jsonl with one JSON
// object a line, of which those that tell something have a version and a timestamp.
// <slug> is made of the working directory: [Slug]. A teammate in the lead's process
// has files of its own below the lead's session, but is of the same version; one in
// a pane has a session of its own, whose records name the agent and the team.
//
// It is only read. A file that is missing, strange or being written tells nothing,
// and is no error: what is known of an agent helps, and nothing depends on it.
package transcript

import (
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

// Record is what one record of a conversation tells of who wrote it.
type Record struct {
	Version string    // of Claude Code, as it writes it: "2.1.329"
	At      time.Time // when it was written, in UTC
	Agent   string    // the teammate's name; empty for a lead
	Team    string    // the team's name; empty where there is none yet
}

// Slug is the name of the folder below projects in which the transcripts of
// processes in that directory stand: the path with everything but a-z, A-Z and 0-9
// as "-", one for each UTF-16 unit. Over 200 of these, the first 200, "-", and a hash
// of the path, as JavaScript programs like to make one: h = h*31 + unit in 32 bits,
// its absolute value in base 36. Measured on 2.1.80 and 2.1.329. The path must be
// absolute and without symbolic links, as the system gives it to the process.
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

// Of returns the newest record of a session that a process in dir began. A session
// that stands under the name of another directory is found, too: a process can
// change its own, and ids of sessions are unique. root is the Claude directory.
func Of(root, dir, session string) (Record, bool) {
	if session == "" || session != filepath.Base(session) || strings.HasPrefix(session, ".") {
		return Record{}, false
	}
	projects, file := filepath.Join(root, "projects"), session+".jsonl"
	if r, ok := newest(filepath.Join(projects, slugOf(dir), file), nil); ok {
		return r, true
	}
	all, err := os.ReadDir(projects)
	if err != nil {
		return Record{}, false
	}
	for _, e := range all {
		if r, ok := newest(filepath.Join(projects, e.Name(), file), nil); ok {
			return r, true
		}
	}
	return Record{}, false
}

// mostSessions is how many sessions of one directory are looked into for one agent:
// those that were written last.
const mostSessions = 32

// OfAgent returns the newest record of a teammate with a process of its own in dir.
func OfAgent(root, dir, team, agent string) (Record, bool) {
	if agent == "" || dir == "" {
		return Record{}, false
	}
	folder := filepath.Join(root, "projects", slugOf(dir))
	all, err := os.ReadDir(folder)
	if err != nil {
		return Record{}, false
	}
	var sessions []fs.FileInfo
	for _, e := range all {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".jsonl") {
			sessions = append(sessions, info)
		}
	}
	slices.SortFunc(sessions, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, s := range sessions[:min(len(sessions), mostSessions)] {
		r, ok := newest(filepath.Join(folder, s.Name()), func(r Record) bool { return r.Agent == agent && r.Team == team })
		if ok {
			return r, true
		}
	}
	return Record{}, false
}

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

// How much of the end of a file is read: as a rule the first, and where no whole
// record is in that, the second. Records with pictures have some MB; before and
// after them there are short ones.
const (
	shortTail = 64 << 10
	longTail  = 2 << 20
)

// newest returns the last record in the file that has a version and is wanted.
func newest(path string, wanted func(Record) bool) (Record, bool) {
	// Asked first: opening a named pipe would wait for its writer.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return Record{}, false
	}
	file, err := os.Open(path)
	if err != nil {
		return Record{}, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return Record{}, false
	}
	for _, size := range []int64{shortTail, longTail} {
		start := max(0, info.Size()-size)
		data, err := io.ReadAll(io.NewSectionReader(file, start, size))
		if err != nil {
			return Record{}, false
		}
		for len(data) > 0 {
			i := bytes.LastIndexByte(data, '\n')
			line := data[i+1:]
			data = data[:max(i, 0)]
			if r, ok := parse(line); ok && (wanted == nil || wanted(r)) {
				return r, true
			}
		}
		if start == 0 {
			break
		}
	}
	return Record{}, false
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
	if err != nil {
		return Record{}, false
	}
	return Record{Version: r.Version, At: at.UTC(), Agent: r.AgentName, Team: r.TeamName}, true
}
