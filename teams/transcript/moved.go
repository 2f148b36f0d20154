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

// Moved finds where the conversation of a session continues. With ← at its prompt, Claude Code moves it to a
// background process, under another id, and the process at the terminal only shows it. now is its current id, which
// is session if it was not moved. job is the key of the background session, which outlives changes of process and id;
// "" if there is none. in is the background process, if alive accepts it; else its PID is 0.
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
				if job = jobWith(root, now); job == "" {
					return now, "", in
				}
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

// jobLength is the length of a background session's key. The session's first id begins with the key.
const jobLength = 8

// key returns text if it can be an id or a key of a session, else "". It goes into paths, and into people's commands.
func key(text string) string {
	if len(text) > 64 || strings.Trim(strings.ToLower(text), "0123456789abcdefghijklmnopqrstuvwxyz-_") != "" {
		return ""
	}
	return text
}

// Job is a session in the background as its file describes it, which outlives its process.
type Job struct {
	Key     string
	Session string // its id; if it was stopped, its last one
	Name    string
	Cwd     string
}

// Jobs returns the sessions in the background, sorted by key, and those that were stopped, until they are removed.
func Jobs(root string) (list []Job) {
	all, _ := sharedfile.ReadDir(filepath.Join(root, "jobs")) // an unreadable folder has none
	processes := records(root)
	for _, e := range all {
		spare := slices.ContainsFunc(processes, func(p Process) bool { return p.Spare && p.Job == e.Name() })
		if j, ok := readJob(root, e.Name()); ok && !spare {
			list = append(list, j)
		}
	}
	return list
}

func readJob(root, of string) (j Job, ok bool) {
	var state struct {
		Session string `json:"sessionId"`
		Resume  string `json:"resumeSessionId"`
		Name    string
		Cwd     string
	}
	data, err := readSmall(filepath.Join(root, "jobs", of, "state.json"))
	if err != nil || key(of) == "" || json.Unmarshal(data, &state) != nil {
		return j, false
	}
	j = Job{of, key(cmp.Or(state.Resume, state.Session)), state.Name, state.Cwd}
	return j, j.Session != ""
}

// jobSession returns the id of a background session, or its last id if it was stopped; "" if the id is unknown.
func jobSession(root, job string) string {
	j, _ := readJob(root, job)
	return j.Session
}

// jobWith returns the key of a background session that has an id since /clear; "" if there is none.
func jobWith(root, session string) string {
	for _, j := range Jobs(root) {
		if j.Session == session {
			return j.Key
		}
	}
	return ""
}

// nearMove is how many bytes at the end of a transcript are searched for the record that names its continuation. A
// process that does not know of the move may still append records after it.
const nearMove = 4 << 20

var (
	movesMu sync.Mutex
	moves   = map[string]move{} // by path
)

// move is the content of a file when it was read, as far as it concerns a move.
type move struct {
	size int64
	time time.Time
	to   string
}

// continued returns the id of the session that continues another session's conversation; "" if none does.
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

// IsViewer reports whether a process only shows a session, the one with the key Parked.
func (p Process) IsViewer() bool { return p.Parked != "" }

// records returns the records of all processes.
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
