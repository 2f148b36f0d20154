package teams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/teams/lockedfile"
	"teambridge/teams/rawjson"
)

// A Founding tells a team that [Root.Create] made from every other, also from one
// of its name that is made later, and from itself once somebody else has taken it
// over.
type Founding struct {
	Team      string
	CreatedAt int64  // milliseconds since 1970, as in [Instance]
	Lead      string // the name of its lead
	Session   string // leadSessionId, as it was written; may be empty

	// Leaders are the processes of ours that may stand in its leadProcess, each in a
	// form that only this package reads: the one that made it or took it back last,
	// and the one that is about to.
	Leaders []string
}

// Create makes a team of one member, its lead, for a headless agent that has no
// team of its own: the directory, config.json in the form of newer
// versions with this process as the one that leads, and inboxes. made is false
// where a team of that name is there already, which is left as it is. session is
// the lead's Claude session, and may be empty where that is not known yet.
//
// The team appears as a whole, by one rename. record, if not nil, is told of it
// right before: its error ends Create, and what it was told of may never come to be.
//
// The errors are [ErrBadName], [ErrNotDir] and those of the file system; what
// was made by then is removed, also, later, what one that was killed has left.
func (r *Root) Create(ctx context.Context, name, lead, session, cwd string, record func(Founding) error) (made bool, err error) {
	if err := errors.Join(CheckName("team", name), CheckName("member", lead)); err != nil {
		return false, err
	}
	if err := r.dir.Mkdir("teams", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("teams: make %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	path := filepath.Join(r.path, "teams", name)
	if there, err := r.there(ctx, name); there || err != nil {
		return false, err
	}
	if err := r.sweepUnborn(); err != nil {
		return false, err
	}
	now := time.Now()
	dir := fmt.Sprintf("teams/%s%d-%d", unborn, os.Getpid(), now.UnixNano())
	if err := r.dir.Mkdir(dir, 0o700); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	defer func() {
		if !made {
			err = errors.Join(err, r.dir.RemoveAll(dir))
		}
	}()
	config, err := firstConfig(name, lead, session, cwd, now)
	if err != nil {
		return false, err
	}
	if err := r.dir.Mkdir(dir+"/"+inboxesDir, 0o700); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	if err := r.writeNew(dir+"/"+configFile, config); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	if record != nil {
		if err := record(Founding{Team: name, CreatedAt: millis(now), Lead: lead, Session: session, Leaders: []string{thisLeader(now).text()}}); err != nil {
			return false, err
		}
	}
	if err := r.dir.Rename(dir, "teams/"+name); err != nil {
		if there, terr := r.there(ctx, name); there && terr == nil {
			return false, nil // somebody made it in between
		}
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	return true, nil
}

// unborn begins the names of directories in which teams are made. They are hidden,
// and no names of teams.
const unborn = ".teambridge-new-"

// unbornFor is after how long such a directory was left by a process that was
// killed: one takes milliseconds.
const unbornFor = time.Minute

// there reports whether there is a team of that name; what is none, but stands
// where one would, is an error.
func (r *Root) there(ctx context.Context, name string) (bool, error) {
	if _, err := r.dir.Lstat("teams/" + name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	t, err := r.Team(name)
	if err != nil {
		return false, err
	}
	defer t.Close()
	_, err = t.Config(ctx)
	return err == nil, err
}

// writeNew writes a file that is on the disk when it returns.
func (r *Root) writeNew(name string, data []byte) error {
	f, err := r.dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// sweepUnborn removes what processes that were killed while they made a team left.
func (r *Root) sweepUnborn() error {
	entries, err := list(r.dir, "teams")
	if err != nil {
		return fmt.Errorf("teams: list %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unborn) || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < unbornFor {
			continue
		}
		if err := r.dir.RemoveAll("teams/" + e.Name()); err != nil {
			return fmt.Errorf("teams: remove %s: %w", filepath.Join(r.path, "teams", e.Name()), reason(err))
		}
	}
	return nil
}

// leader is leadProcess as it is written.
type leader struct {
	PID       int    `json:"pid"`
	PidSpace  string `json:"pidSpace"`
	ClaimedAt int64  `json:"claimedAt"`
	ProcStart string `json:"procStart"`
}

func thisLeader(now time.Time) leader {
	space, start := thisProcess()
	return leader{os.Getpid(), space, millis(now), start}
}

// text is the form of it in a [Founding].
func (l leader) text() string {
	return strconv.Itoa(l.PID) + " " + l.ProcStart + " " + strconv.FormatInt(l.ClaimedAt, 10) + " " + l.PidSpace
}

func (p *LeadProcess) leader() leader {
	return leader{p.PID, p.PidSpace, millis(p.ClaimedAt), p.ProcStart}
}

// Founded reports whether the team is the one that f tells of, and nobody else has
// taken it over since: it is the same instance, led by the same member, and
// leadProcess is as we wrote it. Who has come into it, and what else was added,
// does not count.
func (c *Config) Founded(f Founding) bool {
	lead, ok := c.Lead()
	return ok && c.Instance() == Instance{Team: f.Team, CreatedAt: f.CreatedAt} && lead.Name == f.Lead && !lead.Guest() &&
		c.LeadSessionID == f.Session && c.LeadProcess != nil && slices.Contains(f.Leaders, c.LeadProcess.leader().text())
}

// Adopt makes this process the one that leads a team which another made with
// [Root.Create] and then died: leadProcess in config.json is changed, under
// Claude's lock, and every other byte stays, so that who has come into the team
// since stays in it.
//
// adopted is false, and nothing is changed, where the team is not there, is not the
// one that f tells of ([Config.Founded]), or is led by another process that lives.
// Where that is not known (see [LeadProcess.Liveness]) the caller has to know that
// it does not. record is told of what f is from then on right before it becomes so.
//
// The errors are those of record, a [*CorruptError] and those of
// [lockedfile.Locker.Transform].
func (r *Root) Adopt(ctx context.Context, l *lockedfile.Locker, f Founding, record func(Founding) error) (adopted bool, err error) {
	t, err := r.Team(f.Team)
	if errors.Is(err, ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.Close()
	mine := func(c *Config) (ours, done bool) {
		if !c.Founded(f) {
			return false, true
		}
		now := thisLeader(c.LeadProcess.ClaimedAt)
		return c.LeadProcess.leader() == now, c.LeadProcess.leader() == now || c.LeadProcess.Liveness() == Alive
	}
	// Looked at before locking: the lock alone is something written.
	c, err := t.Config(ctx)
	if err == nil {
		var done bool
		if adopted, done = mine(c); done {
			return adopted, nil
		}
		err = t.edit(ctx, l, func(old []byte, c *Config, _ rawjson.Span) ([]byte, error) {
			var done bool
			if adopted, done = mine(c); done {
				return nil, nil
			}
			next := thisLeader(time.Now())
			f.Leaders = []string{c.LeadProcess.leader().text(), next.text()}
			if err := record(f); err != nil {
				return nil, err
			}
			value, err := json.MarshalIndent(next, "  ", "  ")
			if err != nil {
				return nil, err
			}
			fields, err := rawjson.Fields(old)
			if err != nil {
				return nil, err
			}
			for _, field := range slices.Backward(fields) {
				if field.Name == "leadProcess" {
					adopted = true
					return splice(old, field.Value, value), nil
				}
			}
			return nil, nil // not reached: it was read
		})
	}
	if errors.Is(err, ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("teams: take %q back: %w", f.Team, err)
	}
	return adopted, nil
}

// firstConfig is the config.json of a team that is made.
func firstConfig(name, lead, session, cwd string, now time.Time) ([]byte, error) {
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
	id := lead + "@" + name
	data, err := json.MarshalIndent(struct {
		Name          string   `json:"name"`
		CreatedAt     int64    `json:"createdAt"`
		LeadAgentID   string   `json:"leadAgentId"`
		LeadSessionID string   `json:"leadSessionId"`
		LeadProcess   leader   `json:"leadProcess"`
		Members       []member `json:"members"`
	}{
		name, millis(now), id, session, thisLeader(now),
		[]member{{id, lead, "team-lead", millis(now), "", cwd, []string{}, "in-process"}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("teams: make %q: %w", name, err)
	}
	return data, nil
}

// Discard removes a team that [Root.Create] made, and reports whether it did: not
// where it is not there, or not the one that f tells of any more ([Config.Founded]),
// or another process that lives leads it. If somebody else than its lead and guests
// is in it, it stays, and the error is an [*OccupiedError].
func (r *Root) Discard(ctx context.Context, f Founding) (removed bool, err error) {
	t, err := r.Team(f.Team)
	if errors.Is(err, ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if errors.Is(err, ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !c.Founded(f) || c.LeadProcess.Liveness() == Alive && c.LeadProcess.leader() != thisLeader(c.LeadProcess.ClaimedAt) {
		return false, nil
	}
	if in := c.Occupants(); len(in) > 0 {
		return false, &OccupiedError{Team: f.Team, Members: in}
	}
	if err := r.dir.RemoveAll("teams/" + f.Team); err != nil {
		return false, fmt.Errorf("teams: remove %s: %w", t.path, reason(err))
	}
	return true, nil
}

// Occupants are the names of the agents in a team beside its lead. Claude Code takes
// those that have shut down out of it.
func (c *Config) Occupants() []string {
	lead, _ := c.Lead()
	var in []string
	for _, m := range c.Members {
		if m.Name != lead.Name && !m.Guest() {
			in = append(in, m.Name)
		}
	}
	return in
}

// OccupiedError says that a team cannot be removed, since agents are in it.
type OccupiedError struct {
	Team    string
	Members []string // at least one
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("teams: %s has members beside its lead: %s", e.Team, strings.Join(e.Members, ", "))
}
