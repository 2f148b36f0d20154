package simterminal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/claude/simchild"
	"teambridge/teams"
)

func (t *terminal) sessionPath() string {
	return filepath.Join(t.script.State, "sessions", strconv.Itoa(os.Getpid())+".json")
}

// status writes sessions/PID.json, in place.
func (t *terminal) status() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	s := map[string]any{"pid": os.Getpid(), "cwd": dir, "startedAt": t.started.UnixMilli(), "sessionId": uuid.NewString()}
	if t.late {
		s["sessionId"], s["version"], s["kind"], s["entrypoint"] = t.memory.Session(), t.script.Version.String(), "interactive", "cli"
		s["procStart"], s["statusUpdatedAt"] = procStart(), time.Now().UnixMilli()
		switch {
		case t.turn == nil:
			s["status"] = "idle"
		case t.turn.asks != "":
			s["status"], s["waitingFor"] = "waiting", "permission prompt"
		case t.turn.shell:
			s["status"] = "shell"
		default:
			s["status"] = "busy"
		}
	} else if _, err := os.Stat(t.sessionPath()); err == nil {
		return nil // it is written once
	}
	return writeJSON(t.sessionPath(), s)
}

// procStart is when the process was started, in ticks since boot, or empty where the system does not tell.
func procStart() string {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(after); len(fields) > 19 {
		return fields[19]
	}
	return ""
}

// member is one of config.json.
type member struct {
	AgentID string `json:"agentId"`
	Name    string `json:"name"`
	Type    string `json:"agentType"`
	Joined  int64  `json:"joinedAt"`
	Pane    string `json:"tmuxPaneId"`
	Dir     string `json:"cwd"`
	Subs    []any  `json:"subscriptions"`
	Backend string `json:"backendType,omitempty"`
}

// makeTeam makes the team that this process leads, with the lead alone.
func (t *terminal) makeTeam(name, session string) error {
	t.team, t.leads = name, session
	lead := member{AgentID: "team-lead@" + name, Name: "team-lead", Type: "team-lead", Joined: time.Now().UnixMilli(), Dir: mustDir(), Subs: []any{}}
	if t.late {
		lead.Pane, lead.Backend = "leader", "in-process"
	}
	return t.setMembers(lead)
}

// spawn adds a teammate, which lives in this process.
func (t *terminal) spawn(name string) error {
	if t.team == "" {
		if err := t.makeTeam("sim-team", t.memory.Session()); err != nil {
			return err
		}
	}
	var config struct {
		Members []member `json:"members"`
	}
	data, err := os.ReadFile(t.configPath())
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return err
	}
	return t.setMembers(append(config.Members, member{AgentID: name + "@" + t.team, Name: name, Type: "general-purpose", Joined: time.Now().UnixMilli(),
		Pane: "in-process", Dir: mustDir(), Subs: []any{}, Backend: "in-process"})...)
}

func (t *terminal) configPath() string {
	return filepath.Join(t.script.State, "teams", t.team, "config.json")
}

func (t *terminal) setMembers(members ...member) error {
	config := map[string]any{"name": t.team, "createdAt": t.started.UnixMilli(), "leadAgentId": "team-lead@" + t.team,
		"leadSessionId": t.leads, "members": members}
	if t.script.Version.Has(teams.LeadProcessWritten) == teams.Yes {
		config["leadProcess"] = map[string]any{"pid": os.Getpid(), "pidSpace": pidSpace(), "claimedAt": t.started.UnixMilli(), "procStart": procStart()}
	}
	return writeJSON(t.configPath(), config)
}

// pidSpace is the host and the pid namespace, or empty where the system does not tell.
func pidSpace() string {
	host, err := os.Hostname()
	namespace, nerr := os.Readlink("/proc/self/ns/pid")
	if err != nil || nerr != nil {
		return ""
	}
	return host + "#" + namespace
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func (t *terminal) remember(session string) (*simchild.Memory, error) {
	m, found, err := simchild.Remember(t.script.State, session, t.script.Version)
	if err == nil && found {
		err = fs.ErrExist
	}
	return m, err
}

// mustDir is the working directory; without one nothing here works.
func mustDir() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(errors.Join(errors.New("simterminal: no working directory"), err))
	}
	return dir
}
