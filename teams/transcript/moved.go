package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/teams/sharedfile"
)

// Moved tells where the conversation of a session goes on. With ← at its prompt, Claude Code moves it to a process in the
// background, under another id, and the process at the terminal only shows it. now is the id that it has, which is session if
// it was not moved. job is the key of the background session, which stays when its process and its id change; empty: it is in
// none. in is its process, of those that alive accepts; its PID is 0 if there is none.
func Moved(root, session string, alive func(Process) bool) (now, job string, in Process) {
	all, seen := records(root), map[string]bool{session: true}
	for now = session; now != ""; {
		next := continued(root, now)
		if len(next) >= jobLength {
			job = next[:jobLength]
		}
		for _, p := range all {
			if p.Session != now || p.Spare || !alive(p) {
				continue
			}
			if p.Job != "" {
				return now, p.Job, p
			}
			if p.Parked == "" { // it is at a terminal, or headless
				return now, "", in
			}
			job = p.Parked
		}
		if job == "" && len(now) >= jobLength { // the id may be the first one of a background session
			job = key(now[:jobLength])
			if job == "" || jobSession(root, job) == "" && !slices.ContainsFunc(all, func(p Process) bool { return p.Job == job && !p.Spare && alive(p) }) {
				return now, "", in
			}
		}
		for _, p := range all {
			if p.Job == job && !p.Spare && alive(p) {
				return p.Session, job, p
			}
		}
		if id := jobSession(root, job); id != "" {
			next = id // it has another since /clear
		}
		if next == "" || seen[next] {
			break
		}
		seen[next], now = true, next
	}
	return now, job, in
}

// jobLength is the length of the key of a background session, with which its first id begins.
const jobLength = 8

// key is an id, or a key, of a session; empty if the text can be none. It is a part of paths, and of commands that people run.
func key(text string) string {
	if len(text) > 64 || strings.Trim(strings.ToLower(text), "0123456789abcdefghijklmnopqrstuvwxyz-_") != "" {
		return ""
	}
	return text
}

// jobSession is the id that a background session has, or had when it was stopped; empty if that is not known.
func jobSession(root, job string) string {
	data, err := readSmall(filepath.Join(root, "jobs", job, "state.json"))
	var state struct {
		Session string `json:"sessionId"`
		Resume  string `json:"resumeSessionId"`
	}
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	return key(cmp.Or(state.Resume, state.Session))
}

// nearMove is how many bytes of the end of a transcript are searched for the record that names its continuation. A process that does
// not know of the move may still append records after that one.
const nearMove = 4 << 20

var (
	movesMu sync.Mutex
	moves   = map[string]move{} // by path
)

// move is what a file said when it was read.
type move struct {
	size int64
	time time.Time
	to   string
}

// continued is the id of the session in which the conversation of one is continued; empty if it is in none.
func continued(root, session string) (to string) {
	path, ok := Session(root, "", session)
	if !ok {
		return ""
	}
	f, err := sharedfile.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	movesMu.Lock()
	known, ok := moves[path]
	movesMu.Unlock()
	if ok && known.size == info.Size() && known.time.Equal(info.ModTime()) {
		return known.to
	}
	left := int64(nearMove)
	for _, line := range Backward(f, info.Size()) {
		if left -= int64(len(line)) + 1; left < 0 {
			break
		}
		if !bytes.Contains(line, []byte(`"continued-in"`)) {
			continue
		}
		var r struct {
			Type, SessionID string
			To              string `json:"continuedInSessionId"`
		}
		if Decode(line, &r) && r.Type == "continued-in" && r.SessionID == session && r.To != session {
			to = key(r.To)
			break
		}
	}
	movesMu.Lock()
	defer movesMu.Unlock()
	if len(moves) > 1000 {
		clear(moves)
	}
	moves[path] = move{info.Size(), info.ModTime(), to}
	return to
}

// IsViewer reports whether a process only shows a session, whose key is Parked.
func (p Process) IsViewer() bool { return p.Parked != "" }

// records are the records of all processes.
func records(root string) (list []Process) {
	folder := filepath.Join(root, "sessions")
	all, err := sharedfile.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range all {
		if !strings.HasSuffix(e.Name(), ".json") || !e.Type().IsRegular() {
			continue
		}
		if p, ok := readProcess(filepath.Join(folder, e.Name())); ok {
			list = append(list, p)
		}
	}
	return list
}
