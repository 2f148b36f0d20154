package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/teams"
)

// Worker is the name of the teammate that every Team has.
const Worker = "worker"

// Process is a running Claude Code, headless or in a terminal.
type Process interface {
	// Prompt sends the session a user's prompt. Headless waits for the end of the turn, Terminal until it is taken.
	Prompt(ctx context.Context, text string) error
	// Pid is the process id.
	Pid() int
	// Screen returns its visible output, for failure messages.
	Screen() string
	// End asks it to finish and waits for that, Exited only waits, Kill ends it at once.
	End(ctx context.Context) error
	Exited(ctx context.Context) error
	Kill() error
}

var (
	_ Process = (*Headless)(nil)
	_ Process = (*Terminal)(nil)
)

// Team is a live team of the real program: a lead and the teammate `worker`, both waiting for messages.
type Team struct {
	// Version is the lead's version, Root its configuration root, Name the team's name.
	Version    teams.Version
	Root, Name string
	// Member is the teammate, Worker.
	Member string
	// It was started with Home, API and Lead. The lead is in a terminal.
	Home *Home
	API  *API
	Lead Process
}

// Config has the fields of config.json that tests use.
type Config struct {
	Name          string `json:"name"`
	CreatedAt     int64  `json:"createdAt"`
	LeadSessionID string `json:"leadSessionId"`
	Members       []struct{ Name string }
}

// Has reports whether a member of that name is in it.
func (c Config) Has(member string) bool {
	return slices.Contains(c.Members, struct{ Name string }{member})
}

// StartTeam starts a team in the home, a new one with Script as its model if that is nil, and returns when the worker
// has answered its first prompt and polls its inbox. A Responder of one's own must answer the lead's CALL lines, by
// Script. The lead may still be about to read the worker's first idle_notification.
func StartTeam(t testing.TB, v teams.Version, h *Home) *Team {
	t.Helper()
	// Before anything is started, so that a skip costs nothing.
	Require(t, v)
	if h == nil {
		h = NewHome(t, nil)
	}
	if makesTeam(v) {
		return LeadTeam(t, v, h, StartTerminal(t, v, h))
	}
	return LeadTeam(t, v, h, StartHeadless(t, v, h))
}

// makesTeam reports whether a session at a terminal makes its team when it starts. In the
// versions of lane taken that do not, a headless lead makes one with TeamCreate.
func makesTeam(v teams.Version) bool {
	return v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 178}) >= 0
}

// LeadTeam is StartTeam with a running lead, the only one in the home.
func LeadTeam(t testing.TB, v teams.Version, h *Home, lead Process) *Team {
	t.Helper()
	team := &Team{Version: v, Root: h.Root, Member: Worker, Home: h, API: h.API, Lead: lead}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if makesTeam(v) {
		// The one team that an interactive session makes, by itself and soon after its composer is ready.
		err = poll(ctx, func() (bool, error) {
			found, err := filepath.Glob(filepath.Join(h.Root, "teams", "*", "config.json"))
			if len(found) > 0 {
				team.Name = filepath.Base(filepath.Dir(found[0]))
			}
			return len(found) > 0, err
		})
	} else {
		team.Name = "myteam"
		err = team.Lead.Prompt(ctx, CallLine("TeamCreate", object{"team_name": team.Name, "description": "d"}))
	}
	if err == nil {
		err = team.Spawn(ctx, Worker)
	}
	if err != nil {
		t.Fatalf("standin: start a team of %v: %v; %s; API: %s", v, err, team.Lead.Screen(), h.API)
	}
	return team
}

// Spawn lets the lead start one more teammate and returns when that one has answered its first prompt,
// "You are NAME. Say hi".
func (t *Team) Spawn(ctx context.Context, name string) error {
	input := object{"description": name, "prompt": "You are " + name + ". Say hi", "name": name}
	if !makesTeam(t.Version) {
		input["team_name"], input["subagent_type"] = t.Name, "general-purpose"
	}
	if err := t.Lead.Prompt(ctx, CallLine("Agent", input)); err != nil {
		return err
	}
	if err := t.WaitMember(ctx, name); err != nil {
		return err
	}
	_, err := t.API.Wait(ctx, func(r Request) bool { return r.Agent == name && !r.Answered.IsZero() })
	return err
}

// StartMember starts one more teammate as a process of its own, in a terminal, as a lead does in tmux. It may be of
// another version than the lead. It returns when a prompt can be typed; then it polls its inbox.
func (t *Team) StartMember(tb testing.TB, v teams.Version, name string) *Terminal {
	tb.Helper()
	Require(tb, v)
	agent := name + "@" + t.Name
	if err := t.Add(tb.Context(), object{
		"agentId": agent, "name": name, "agentType": "general-purpose", "joinedAt": time.Now().UnixMilli(), "tmuxPaneId": "%1",
		"cwd": t.Home.Work, "subscriptions": []string{}, "backendType": "tmux",
	}); err != nil {
		tb.Fatalf("standin: add %s: %v", agent, err)
	}
	session := uuid.NewString()
	t.API.Knows(session, name)
	return StartTerminal(tb, v, t.Home, "--session-id", session, "--agent-id", agent, "--agent-name", name, "--team-name", t.Name)
}

// Add appends a member to config.json, under its lock.
func (t *Team) Add(ctx context.Context, member map[string]any) error {
	path := filepath.Join(t.Dir(), "config.json")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) {
		err := os.Mkdir(path+".lock", 0o700)
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return err
	}
	defer os.Remove(path + ".lock")
	var config map[string]any
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return err
	}
	members, _ := config["members"].([]any)
	config["members"] = append(members, member)
	if data, err = json.MarshalIndent(config, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Dir is the team's directory.
func (t *Team) Dir() string { return filepath.Join(t.Root, "teams", t.Name) }

// Inbox is the path of a member's inbox, whether it is there or not.
func (t *Team) Inbox(member string) string {
	return filepath.Join(t.Dir(), "inboxes", member+".json")
}

// Config reads config.json, without its lock: an error can be a torn read.
func (t *Team) Config() (Config, error) {
	var c Config
	data, err := os.ReadFile(filepath.Join(t.Dir(), "config.json"))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	return c, err
}

// WaitMember waits until the name is in config.json.
func (t *Team) WaitMember(ctx context.Context, name string) error {
	_, err := WaitFile(ctx, filepath.Join(t.Dir(), "config.json"), func(data []byte) bool {
		var c Config
		return json.Unmarshal(data, &c) == nil && c.Has(name)
	})
	if err != nil {
		return fmt.Errorf("standin: %s did not join %s: %w", name, t.Name, err)
	}
	return nil
}

// WaitText waits until a member's inbox has a row with the given text in its text, and returns the file. No agent may
// poll the inbox: agents remove the rows that they take.
func (t *Team) WaitText(ctx context.Context, member, text string) ([]byte, error) {
	return WaitFile(ctx, t.Inbox(member), func(data []byte) bool {
		type row struct{ Text string }
		var rows []row
		return json.Unmarshal(data, &rows) == nil && slices.ContainsFunc(rows, func(r row) bool { return strings.Contains(r.Text, text) })
	})
}
