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

// OwnedTeam identifies a team that [Root.Create] made. It no longer matches if the team was taken over by
// another process, or was replaced by a later team of the same name.
type OwnedTeam struct {
	Team      string
	CreatedAt int64  // milliseconds since 1970, as in [Instance]
	Lead      string // the name of its lead
	Session   string // leadSessionId as written; may be empty

	// Leaders identifies our processes that leadProcess may name, for use by this package: the last one that
	// made or adopted the team, and one that is about to adopt it.
	Leaders []string
}

// Create makes a team for a headless agent that has none, with the agent as its lead and only member. It
// makes the directory, inboxes, and a config.json that names this process as the leader. If a team of that
// name exists, made is false. session is the lead's Claude session, or empty.
//
// The team appears as a whole, by one rename. If record is not nil, it is called right before the rename,
// with the new team. An error of record ends Create.
//
// The errors are [ErrBadName], [ErrNotDir], [ErrTeamGone] if a directory of that name has no config.json, and
// those of the file system. After an error, nothing is left behind. [Root.Sweep] removes what a kill leaves
// behind.
func (r *Root) Create(ctx context.Context, name, lead, session, cwd string, record func(OwnedTeam) error) (made bool, err error) {
	if err := errors.Join(CheckName("team", name), CheckName("member", lead)); err != nil {
		return false, err
	}
	if err := r.exists(); err != nil {
		return false, err
	}
	if err := r.dir.Mkdir("teams", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("teams: make %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	path := filepath.Join(r.path, "teams", name)
	if there, err := r.there(ctx, name); there || err != nil {
		return false, err
	}
	now := time.Now()
	dir := hiddenName(unfinishedPrefix, now)
	if err := r.dir.Mkdir(dir, 0o700); err != nil {
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	defer func() {
		if !made {
			err = errors.Join(err, r.dir.RemoveAll(dir))
		}
	}()
	leader := thisLeader(now)
	f := OwnedTeam{Team: name, CreatedAt: millis(now), Lead: lead, Session: session, Leaders: []string{leader.text()}}
	config, err := firstConfig(f, cwd, leader)
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
		if err := record(f); err != nil {
			return false, err
		}
	}
	if err := r.dir.Rename(dir, "teams/"+name); err != nil {
		if there, terr := r.there(ctx, name); there && terr == nil {
			return false, nil // another process has just made it
		}
		return false, fmt.Errorf("teams: make %s: %w", path, reason(err))
	}
	return true, nil
}

// Prefixes of the directories of teams that are being made or removed. They are hidden, so that other
// programs ignore them. Claude Code lists them as teams anyway, and removes empty directories after 30 days.
const (
	unfinishedPrefix = ".teambridge-new-"
	removedPrefix    = ".teambridge-old-"
)

// hiddenName returns a new name with a prefix.
func hiddenName(kind string, now time.Time) string {
	return fmt.Sprintf("teams/%s%d-%d", kind, os.Getpid(), now.UnixNano())
}

// unfinishedFor is the age at which an unfinished team counts as a leftover of a killed process. To make a
// team takes milliseconds.
const unfinishedFor = time.Minute

// there reports whether the team exists. Any other file in its place is an error.
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

// writeNew writes a new file, and flushes it to the disk.
func (r *Root) writeNew(name string, data []byte) error {
	f, err := r.dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// Leftovers returns the paths of the directories of teams whose process was killed while it made or removed
// them. [Root.Sweep] removes them.
func (r *Root) Leftovers() ([]string, error) {
	names, err := r.leftovers()
	for i, name := range names {
		names[i] = filepath.Join(r.path, "teams", name)
	}
	return names, err
}

func (r *Root) leftovers() (names []string, err error) {
	entries, err := r.list("teams")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("teams: list %s: %w", filepath.Join(r.path, "teams"), reason(err))
	}
	for _, e := range entries {
		// Another process may be removing it right now. It does not hurt if both do.
		left := strings.HasPrefix(e.Name(), removedPrefix)
		if strings.HasPrefix(e.Name(), unfinishedPrefix) {
			info, err := e.Info()
			left = err == nil && time.Since(info.ModTime()) >= unfinishedFor
		}
		if left && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Sweep removes the [Root.Leftovers].
func (r *Root) Sweep() error {
	names, err := r.leftovers()
	for _, name := range names {
		if rerr := r.dir.RemoveAll("teams/" + name); rerr != nil {
			err = errors.Join(err, fmt.Errorf("teams: remove %s: %w", filepath.Join(r.path, "teams", name), reason(rerr)))
		}
	}
	return err
}

// leader is leadProcess in the form that is written.
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

// text returns the leader in the form of OwnedTeam.Leaders.
func (l leader) text() string {
	return strconv.Itoa(l.PID) + " " + l.ProcStart + " " + strconv.FormatInt(l.ClaimedAt, 10) + " " + l.PidSpace
}

func (p *LeadProcess) leader() leader {
	return leader{p.PID, p.PidSpace, millis(p.ClaimedAt), p.ProcStart}
}

// IsOwned reports whether the team is f and was not taken over: the instance, its lead and leadProcess are as
// we wrote them. It ignores added members and keys.
func (c *Config) IsOwned(f OwnedTeam) bool {
	lead, ok := c.Lead()
	return ok && c.Instance() == Instance{Team: f.Team, CreatedAt: f.CreatedAt} && lead.Name == f.Lead && !lead.Guest() &&
		c.LeadSessionID == f.Session && c.LeadProcess != nil && slices.Contains(f.Leaders, c.LeadProcess.leader().text())
}

// ifThere opens a team. It returns nil without an error if there is none.
func (r *Root) ifThere(name string) (*Team, error) {
	t, err := r.Team(name)
	if errors.Is(err, ErrTeamGone) {
		return nil, nil
	}
	return t, err
}

// Adopt makes this process the leader of a team that another process made with [Root.Create]. It changes
// leadProcess in config.json under Claude's lock, and keeps every other byte. It calls record with the new
// value of f right before the change.
//
// If the team does not exist, is no longer f ([Config.IsOwned]), or is led by another live process, Adopt
// changes nothing and adopted is false. If the liveness of that process is unknown (see
// [LeadProcess.Liveness]), the caller must be sure that it is dead. The errors come from record and
// [lockedfile.Locker.Transform], or are a [*CorruptError].
func (r *Root) Adopt(ctx context.Context, l *lockedfile.Locker, f OwnedTeam, record func(OwnedTeam) error) (adopted bool, err error) {
	t, err := r.ifThere(f.Team)
	if t == nil {
		return false, err
	}
	defer t.Close()
	mine := func(c *Config) (ours, done bool) {
		if !c.IsOwned(f) {
			return false, true
		}
		now := thisLeader(c.LeadProcess.ClaimedAt)
		return c.LeadProcess.leader() == now, c.LeadProcess.leader() == now || c.LeadProcess.Liveness() == Alive
	}
	// Check before locking: even the lock would be a write.
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
			at, found, err := lastValue(old, "leadProcess")
			if err != nil || !found {
				return nil, err
			}
			adopted = true
			return splice(old, at, value), nil
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

// Restore rewrites the missing config.json of a team that [Root.Create] made. The team is as new, except that
// this process leads it, and keeps its inboxes. If there is no such directory, or it has a config.json,
// Restore changes nothing and restored is false. The caller must be sure that no other process uses the name.
// record is as in [Root.Adopt].
func (r *Root) Restore(f OwnedTeam, cwd string, record func(OwnedTeam) error) (restored bool, err error) {
	t, err := r.ifThere(f.Team)
	if t == nil {
		return false, err
	}
	defer t.Close()
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("teams: take %q back: %w", f.Team, reason(err))
	}
	if _, err := t.dir.Lstat(configFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	now := time.Now()
	next := thisLeader(now)
	config, err := firstConfig(f, cwd, next)
	if err != nil {
		return false, err
	}
	// The file is complete before it is linked to its name. The link fails if another process has made a
	// config.json meanwhile.
	dir := hiddenName(unfinishedPrefix, now)
	if err := r.dir.Mkdir(dir, 0o700); err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, r.dir.RemoveAll(dir)) }()
	if err := r.writeNew(dir+"/"+configFile, config); err != nil {
		return fail(err)
	}
	if err := t.dir.Mkdir(inboxesDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	f.Leaders = []string{next.text()}
	if err := record(f); err != nil {
		return false, err
	}
	err = r.dir.Link(dir+"/"+configFile, "teams/"+f.Team+"/"+configFile)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return fail(err)
	}
	return true, nil
}

// firstConfig returns the config.json of a new or restored team.
func firstConfig(f OwnedTeam, cwd string, process leader) ([]byte, error) {
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
	id := f.Lead + "@" + f.Team
	data, err := json.MarshalIndent(struct {
		Name          string   `json:"name"`
		CreatedAt     int64    `json:"createdAt"`
		LeadAgentID   string   `json:"leadAgentId"`
		LeadSessionID string   `json:"leadSessionId"`
		LeadProcess   leader   `json:"leadProcess"`
		Members       []member `json:"members"`
	}{
		f.Team, f.CreatedAt, id, f.Session, process,
		[]member{{id, f.Lead, "team-lead", f.CreatedAt, "", cwd, []string{}, "in-process"}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("teams: make %q: %w", f.Team, err)
	}
	return data, nil
}

// Discard removes a team that [Root.Create] made, and reports whether it did. It removes nothing if the team
// does not exist, is no longer f ([Config.IsOwned]), or is led by another live process. If agents other than
// the lead are in the team, the error is an [*OccupiedError]. The team disappears as a whole, by one rename
// to a hidden name, which [Root.Sweep] removes after a kill.
func (r *Root) Discard(ctx context.Context, f OwnedTeam) (removed bool, err error) {
	return r.discard(ctx, f, false)
}

// DiscardLed is [Root.Discard], but ignores a live process that is recorded as the leader. The caller must be
// sure that the process no longer leads.
func (r *Root) DiscardLed(ctx context.Context, f OwnedTeam) (removed bool, err error) {
	return r.discard(ctx, f, true)
}

func (r *Root) discard(ctx context.Context, f OwnedTeam, led bool) (removed bool, err error) {
	t, err := r.ifThere(f.Team)
	if t == nil {
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
	if !c.IsOwned(f) || !led && c.LeadProcess.Liveness() == Alive && c.LeadProcess.leader() != thisLeader(c.LeadProcess.ClaimedAt) {
		return false, nil
	}
	if in := c.Occupants(); len(in) > 0 {
		return false, &OccupiedError{Team: f.Team, Members: in}
	}
	t.Close() // Windows cannot rename an open directory
	dir := hiddenName(removedPrefix, time.Now())
	if err := r.dir.Rename("teams/"+f.Team, dir); err != nil {
		return false, fmt.Errorf("teams: remove %s: %w", t.path, reason(err))
	}
	if r.hidden != nil {
		r.hidden()
	}
	if err := r.dir.RemoveAll(dir); err != nil {
		return true, fmt.Errorf("teams: remove %s: %w", filepath.Join(r.path, dir), reason(err))
	}
	return true, nil
}

// Occupants returns the names of the team's agents other than its lead. Claude Code removes agents that have
// shut down.
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

// OccupiedError means that a team cannot be removed because agents are in it.
type OccupiedError struct {
	Team    string
	Members []string // at least one
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("teams: %s has members besides its lead: %s", e.Team, strings.Join(e.Members, ", "))
}
