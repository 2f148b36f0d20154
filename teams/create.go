package teams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Create makes a team of one member, its lead, for a headless agent that has no
// team of its own: the directory, config.json in the form of the second
// generation with this process as the one that leads, and inboxes. made is false
// where a team of that name is there already, which is left as it is. session is
// the lead's Claude session, and may be empty where that is not known yet.
//
// The errors are [ErrBadName], [ErrNotDir] and those of the file system; what
// was made by then is removed.
func (r *Root) Create(ctx context.Context, name, lead, session, cwd string) (made bool, err error) {
	if err := errors.Join(CheckName("team", name), CheckName("member", lead)); err != nil {
		return false, err
	}
	if err := r.dir.Mkdir("teams", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("teams: make %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	path := filepath.Join(r.path, "teams", name)
	dir := "teams/" + name
	if err := r.dir.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		t, err := r.Team(name)
		if err != nil {
			return false, err
		}
		defer t.Close()
		_, err = t.Config(ctx)
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.dir.RemoveAll(dir))
		}
	}()
	config, err := firstConfig(name, lead, session, cwd, time.Now())
	if err != nil {
		return false, err
	}
	if err := r.dir.Mkdir(dir+"/"+inboxesDir, 0o700); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	if err := r.dir.WriteFile(dir+"/"+configFile, config, 0o600); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	return true, nil
}

// firstConfig is the config.json of a team that is made.
func firstConfig(name, lead, session, cwd string, now time.Time) ([]byte, error) {
	type process struct {
		PID       int    `json:"pid"`
		PidSpace  string `json:"pidSpace"`
		ClaimedAt int64  `json:"claimedAt"`
		ProcStart string `json:"procStart"`
	}
	type member struct {
		AgentID       string   `json:"agentId"`
		Name          string   `json:"name"`
		AgentType     string   `json:"agentType"`
		JoinedAt      int64    `json:"joinedAt"`
		TmuxPaneID    string   `json:"tmuxPaneId"`
		Cwd           string   `json:"cwd"`
		Subscriptions []string `json:"subscriptions"`
		BackendType   string   `json:"backendType"`
	}
	space, start := thisProcess()
	id := lead + "@" + name
	data, err := json.MarshalIndent(struct {
		Name          string   `json:"name"`
		CreatedAt     int64    `json:"createdAt"`
		LeadAgentID   string   `json:"leadAgentId"`
		LeadSessionID string   `json:"leadSessionId"`
		LeadProcess   process  `json:"leadProcess"`
		Members       []member `json:"members"`
	}{
		name, millis(now), id, session, process{os.Getpid(), space, millis(now), start},
		[]member{{id, lead, "team-lead", millis(now), "", cwd, []string{}, "in-process"}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("teams: make %q: %w", name, err)
	}
	return data, nil
}

// Discard removes a team that [Root.Create] made in this process, if nobody but
// its lead and guests is in it. It leaves every other team alone.
func (r *Root) Discard(ctx context.Context, name, lead string) error {
	t, err := r.Team(name)
	if errors.Is(err, ErrTeamGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if errors.Is(err, ErrTeamGone) {
		return nil
	}
	if err != nil {
		return err
	}
	space, start := thisProcess()
	p := c.LeadProcess
	if p == nil || p.PID != os.Getpid() || p.PidSpace != space || p.ProcStart != start {
		return nil
	}
	for _, m := range c.Members {
		if m.Name != lead && !m.Guest() {
			return nil
		}
	}
	if err := r.dir.RemoveAll("teams/" + name); err != nil {
		return fmt.Errorf("teams: remove %s: %w", t.path, reason(err))
	}
	return nil
}
