package simagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrMember says that a name is in config.json already, or is not in it.
var ErrMember = errors.New("no such member, or there is one already")

const inProcess = "in-process"

// The forms of config.json, each in its version's key order. Only new entries
// are made from them; what is in the file is kept as it is.
type (
	configFile struct {
		Name          string            `json:"name"`
		Description   string            `json:"description,omitempty"`
		CreatedAt     int64             `json:"createdAt"`
		LeadAgentID   string            `json:"leadAgentId"`
		LeadSessionID string            `json:"leadSessionId"`
		LeadProcess   *leadProcess      `json:"leadProcess,omitempty"`
		Members       []json.RawMessage `json:"members"`
	}
	leadProcess struct {
		PID       int    `json:"pid"`
		PIDSpace  string `json:"pidSpace"`
		ClaimedAt int64  `json:"claimedAt"`
		ProcStart string `json:"procStart"`
	}
	// Of a team that was made by a tool, and of one that was made with its session.
	leadOfTool struct {
		AgentID       string   `json:"agentId"`
		Name          string   `json:"name"`
		AgentType     string   `json:"agentType"`
		Model         string   `json:"model"`
		JoinedAt      int64    `json:"joinedAt"`
		TmuxPaneID    string   `json:"tmuxPaneId"`
		Cwd           string   `json:"cwd"`
		Subscriptions []string `json:"subscriptions"`
	}
	leadOfSession struct {
		AgentID       string   `json:"agentId"`
		Name          string   `json:"name"`
		AgentType     string   `json:"agentType"`
		JoinedAt      int64    `json:"joinedAt"`
		TmuxPaneID    string   `json:"tmuxPaneId"`
		Cwd           string   `json:"cwd"`
		Subscriptions []string `json:"subscriptions"`
		BackendType   string   `json:"backendType"`
	}
	teammateOfTool struct {
		AgentID          string   `json:"agentId"`
		Name             string   `json:"name"`
		AgentType        string   `json:"agentType"`
		Model            string   `json:"model"`
		Prompt           string   `json:"prompt"`
		Color            string   `json:"color"`
		PlanModeRequired bool     `json:"planModeRequired"`
		JoinedAt         int64    `json:"joinedAt"`
		TmuxPaneID       string   `json:"tmuxPaneId"`
		Cwd              string   `json:"cwd"`
		Subscriptions    []string `json:"subscriptions"`
		BackendType      string   `json:"backendType"`
	}
	teammateOfSession struct {
		AgentID          string   `json:"agentId"`
		Name             string   `json:"name"`
		Color            string   `json:"color"`
		JoinedAt         int64    `json:"joinedAt"`
		TmuxPaneID       string   `json:"tmuxPaneId"`
		Subscriptions    []string `json:"subscriptions"`
		Model            string   `json:"model"`
		Prompt           string   `json:"prompt"`
		PlanModeRequired bool     `json:"planModeRequired"`
		Cwd              string   `json:"cwd"`
		BackendType      string   `json:"backendType"`
	}
)

// config is the config.json of one team. Old versions write it without a lock, so the
// agents of one team share one config, as the real ones share one thread.
type config struct {
	dir  string
	kind kind
	now  func() time.Time

	// one holds a token while the file is used. A mutex could not be given up
	// when a context ends, and would stop the clock of testing/synctest while
	// its holder waits for the file's lock.
	one chan struct{}
}

func newConfig(dir string, kind kind, now func() time.Time) *config {
	return &config{dir: dir, kind: kind, now: now, one: make(chan struct{}, 1)}
}

func (c *config) enter(ctx context.Context) error {
	select {
	case c.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("simagent: wait for %s: %w", c.path(), ctx.Err())
	}
}

func (c *config) leave() { <-c.one }

func (c *config) path() string { return filepath.Join(c.dir, "config.json") }

// has reports whether a member of that name is in the file.
func (c *config) has(ctx context.Context, name string) (bool, error) {
	if err := c.enter(ctx); err != nil {
		return false, err
	}
	defer c.leave()
	_, members, err := c.read()
	if err != nil {
		return false, err
	}
	return indexMember(members, name) >= 0, nil
}

// add appends an entry for name.
func (c *config) add(ctx context.Context, name string, entry json.RawMessage) error {
	return c.edit(ctx, func(members []json.RawMessage) ([]json.RawMessage, error) {
		if indexMember(members, name) >= 0 {
			return nil, fmt.Errorf("simagent: add %s to %s: %w", name, c.path(), ErrMember)
		}
		return append(members, entry), nil
	})
}

// remove takes out the entry of name. It is no error if there is none: the
// member may have been removed by two ways at once.
func (c *config) remove(ctx context.Context, name string) error {
	return c.edit(ctx, func(members []json.RawMessage) ([]json.RawMessage, error) {
		i := indexMember(members, name)
		if i < 0 {
			return nil, nil
		}
		return append(members[:i:i], members[i+1:]...), nil
	})
}

// edit changes the list of members; nil from change leaves the file alone.
func (c *config) edit(ctx context.Context, change func([]json.RawMessage) ([]json.RawMessage, error)) error {
	body := func() error {
		top, members, err := c.read()
		if err != nil {
			return err
		}
		members, err = change(members)
		if err != nil || members == nil {
			return err
		}
		value, err := encode(members)
		if err != nil {
			return err
		}
		top.set("members", value)
		data, err := top.encode()
		if err != nil {
			return err
		}
		return c.write(data)
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	if !c.kind.locksConfig {
		return body()
	}
	return locked(ctx, c.path(), c.now, body)
}

func (c *config) read() (object, []json.RawMessage, error) {
	data, err := os.ReadFile(c.path())
	if err != nil {
		return nil, nil, fmt.Errorf("simagent: read config: %w", err)
	}
	if !json.Valid(data) {
		return nil, nil, fmt.Errorf("simagent: read config: %s: not JSON", c.path())
	}
	top, err := parseObject(data)
	if err != nil {
		return nil, nil, fmt.Errorf("simagent: read config: %s: %w", c.path(), err)
	}
	var members []json.RawMessage
	if value := top.value("members"); value != nil {
		if err := json.Unmarshal(value, &members); err != nil {
			return nil, nil, fmt.Errorf("simagent: read config: %s: members: %w", c.path(), err)
		}
	}
	return top, members, nil
}

// write is in place in all versions.
func (c *config) write(data []byte) error {
	data, err := indent(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path(), data, 0o600); err != nil {
		return fmt.Errorf("simagent: write config: %w", err)
	}
	return nil
}

func indexMember(members []json.RawMessage, name string) int {
	for i, raw := range members {
		if !bytes.HasPrefix(raw, []byte("{")) {
			continue
		}
		if o, err := parseObject(raw); err == nil {
			if have, ok := o.text("name"); ok && have == name {
				return i
			}
		}
	}
	return -1
}
