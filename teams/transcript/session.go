package transcript

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"teambridge/teams/sharedfile"
)

// Process is the record of a process that has a session, <claude>/sessions/<pid>.json. If the process is killed, its
// file remains.
type Process struct {
	PID       int
	Session   string // the current one: /clear and /resume change it
	Version   string // of Claude Code; empty in old versions
	ProcStart string // as in a team's leadProcess; empty in old versions
	StartedAt int64  // when it wrote the file, in milliseconds since 1970
	Domain    string // machine and pid namespace, "linux:<machine id>:pid:[<inode>]"
	Cwd       string // with --worktree, the worktree
	Name      string // chosen by its person, or derived by Claude Code from the directory
	Socket    string // on which it gets messages of other sessions; empty if that is switched off

	// For background sessions, and for processes that show one: see [Moved].
	Job    string // the key of the background session that the process has
	Parked string // the key of the background session that the process, at a terminal, only shows
	Spare  bool   // the process is kept ready, and has no session yet

	Interactive bool   // as the process reports it, even if it is headless
	Entrypoint  string // "cli"; "sdk-cli" if it is headless, or was started by a headless one

	Status     string    // such as [ProcessIdle]; empty in old versions
	WaitingFor string    // while it waits: for example "permission prompt"
	Changed    time.Time // when Status changed; zero if unknown
	Path       string    // of the file
	Home       string    // the directory of its program if that is not Claude Code; else ""
}

// The values of [Process.Status]. The file follows the terminal within 50 ms.
const (
	ProcessIdle    = "idle"
	ProcessBusy    = "busy"    // it works, or a teammate in the process does
	ProcessWaiting = "waiting" // for the person at the terminal
	ProcessShell   = "shell"   // the person's shell command runs
)

// readSmall reads the first 64 KiB of a file.
func readSmall(path string) ([]byte, error) {
	file, err := sharedfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 64<<10))
}

// ProcessOf returns the process that has a session, alive or not. If there are several, it returns the last started.
func ProcessOf(root, session string) (last Process, ok bool) {
	if session == "" {
		return Process{}, false
	}
	for _, p := range Processes(root) {
		if p.Session == session && p.StartedAt >= last.StartedAt {
			last = p
		}
	}
	return last, last.PID != 0
}

// Started returns when the process wrote the file, in UTC; zero if that is unknown.
func (p Process) Started() time.Time {
	if p.StartedAt <= 0 {
		return time.Time{}
	}
	return ValidTime(time.UnixMilli(p.StartedAt))
}

// Processes returns the processes that have sessions, alive or not.
func Processes(root string) []Process {
	return slices.DeleteFunc(records(root), func(p Process) bool { return p.Spare || p.IsViewer() })
}

// Viewers returns the processes that only show a session, alive or not.
func Viewers(root string) []Process {
	return slices.DeleteFunc(records(root), func(p Process) bool { return p.Spare || !p.IsViewer() })
}

// ProcessWith returns the process with that id, if it has a file. The process may be a viewer or a spare one.
func ProcessWith(root string, pid int) (Process, bool) {
	return readProcess(ProcessFile(root, pid))
}

// ProcessFile returns the path of the record of a process.
func ProcessFile(root string, pid int) string {
	return filepath.Join(root, "sessions", strconv.Itoa(pid)+".json")
}

func readProcess(path string) (Process, bool) {
	data, err := readSmall(path)
	for tries := 1; err == nil && !json.Valid(data) && tries < 3; tries++ {
		time.Sleep(2 * time.Millisecond) // Claude Code writes it in place
		data, err = readSmall(path)
	}
	if err != nil {
		return Process{}, false
	}
	var s struct {
		PID       int    `json:"pid"`
		SessionID string `json:"sessionId"`
		Version   string `json:"version"`
		ProcStart string `json:"procStart"`
		PidDomain string `json:"pidDomain"`
		Cwd       string `json:"cwd"`
		StartedAt int64  `json:"startedAt"`
		Name      string `json:"name"`
		Socket    string `json:"messagingSocketPath"`

		Job    string `json:"jobId"`
		Parked string `json:"parkedJobId"`
		Spare  bool   `json:"spare"`

		Kind            string `json:"kind"`
		Entrypoint      string `json:"entrypoint"`
		Status          string `json:"status"`
		WaitingFor      string `json:"waitingFor"`
		StatusUpdatedAt int64  `json:"statusUpdatedAt"`

		Ours bool `json:"teambridge"` // not a session, but a mailbox of ours: see package relay/peer
	}
	if json.Unmarshal(data, &s) != nil || s.PID <= 0 || s.Ours {
		return Process{}, false
	}
	p := Process{
		PID: s.PID, Session: s.SessionID, Version: s.Version, ProcStart: s.ProcStart, Domain: s.PidDomain, StartedAt: s.StartedAt, Cwd: s.Cwd,
		Interactive: s.Kind == "interactive", Entrypoint: s.Entrypoint, Name: s.Name, Socket: s.Socket, Status: s.Status, WaitingFor: s.WaitingFor, Path: path,
		Job: key(s.Job), Parked: key(s.Parked), Spare: s.Spare,
	}
	if s.StatusUpdatedAt > 0 {
		p.Changed = ValidTime(time.UnixMilli(s.StatusUpdatedAt))
	}
	return p, true
}
