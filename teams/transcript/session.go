package transcript

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Process is what <claude>/sessions/<pid>.json says of a process that has a session.
// A session that was killed leaves the file behind.
type Process struct {
	PID       int
	Session   string
	Version   string // empty up to 2.1.177
	ProcStart string // as in a team's leadProcess; empty up to 2.1.177
	StartedAt int64  // milliseconds since 1970
	Domain    string // machine and pid namespace, "linux:<machine id>:pid:[<inode>]"; empty in some versions
}

// readSmall reads the beginning of a file that is smaller than that.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 64<<10))
}

// ProcessOf returns the process that has a session, alive or not; the last one that
// was started.
func ProcessOf(root, session string) (Process, bool) {
	folder := filepath.Join(root, "sessions")
	all, err := os.ReadDir(folder)
	if err != nil || session == "" {
		return Process{}, false
	}
	var last Process
	for _, e := range all {
		if !strings.HasSuffix(e.Name(), ".json") || !e.Type().IsRegular() {
			continue
		}
		if p, ok := readProcess(filepath.Join(folder, e.Name())); ok && p.Session == session && p.StartedAt >= last.StartedAt {
			last = p
		}
	}
	return last, last.PID != 0
}

func readProcess(path string) (Process, bool) {
	data, err := readSmall(path)
	if err != nil {
		return Process{}, false
	}
	var s struct {
		PID       int    `json:"pid"`
		SessionID string `json:"sessionId"`
		Version   string `json:"version"`
		ProcStart string `json:"procStart"`
		PidDomain string `json:"pidDomain"`
		StartedAt int64  `json:"startedAt"`
	}
	if json.Unmarshal(data, &s) != nil || s.PID <= 0 {
		return Process{}, false
	}
	return Process{PID: s.PID, Session: s.SessionID, Version: s.Version, ProcStart: s.ProcStart, Domain: s.PidDomain, StartedAt: s.StartedAt}, true
}
