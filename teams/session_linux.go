package teams

import (
	"os"
	"strconv"
	"strings"

	"teambridge/teams/transcript"
)

// sessionLiveness reports whether the process of a session is alive, and whether it could be checked. A
// missing process is Gone only if the file names this machine and this pid namespace.
func sessionLiveness(p transcript.Process) (state Liveness, looked bool) {
	space, err := pidSpace()
	if err != nil || p.ProcStart == "" {
		return Unknown, false
	}
	state = (&LeadProcess{PID: p.PID, PidSpace: space, ProcStart: p.ProcStart}).Liveness()
	if state == Gone && p.Domain != domain(space) {
		return Unknown, true
	}
	return state, true
}

// Terminal returns the terminal of a process of Claude Code, such as "/dev/pts/3"; "" if it has none, or if
// unknown.
func Terminal(p transcript.Process) string {
	if state, looked := sessionLiveness(p); !looked || state != Alive {
		return ""
	}
	name, err := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/fd/0")
	if err != nil || !strings.HasPrefix(name, "/dev/pts/") && !strings.HasPrefix(name, "/dev/tty") {
		return ""
	}
	return name
}

// domain names the machine and the pid namespace in the form of Claude's sessions/<pid>.json.
func domain(space string) string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	_, namespace, _ := strings.Cut(space, "#")
	return "linux:" + strings.TrimSpace(string(id)) + ":" + namespace
}
