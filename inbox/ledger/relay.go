package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/sqlite"
)

// Relays are the relays that a service is to run. The table is relays.
type Relays struct{ *file }

// A Relay is an agent that a service runs, for any team with the name Team.
type Relay struct {
	ID           string // a UUID; if empty, [Relays.Add] chooses one
	Root         string // real path of the Claude root
	Team, Member string
	Runtime      string        // the kind of agent; empty for Claude Code
	Command      []string      // the program and its arguments, without the flags that a relay adds; may be empty if there is a Runtime
	URL          string        // of a running server of the runtime; if empty, one is started
	PasswordFile string        // absolute path of a file with the server's password; empty if in the environment
	Profile      string        // of the agent; empty for none
	Plain        bool          // no flags are added
	Dir          string        // absolute path of its working directory
	OnCut        string        // what to do about a turn that a crash cut
	Permissions  string        // the tools that the agent may use
	IdleExit     time.Duration // how long the agent may be idle before it is ended; 0 for ever
	IdleReports  string        // the reports of idle agents that it gets; empty for those with content
	Mode         []byte        // JSON of its first mode; empty for none
	OwnTeam      bool          // make the team, with the member as its lead, if no team has the name
	Created      time.Time
}

func (r *Relay) check() error {
	if err := names("root", r.Root, "team", r.Team, "member", r.Member, "directory", r.Dir); err != nil {
		return err
	}
	if len(r.Command) == 0 && r.Runtime == "" || len(r.Command) > 0 && r.Command[0] == "" {
		return invalid("command", "is missing")
	}
	if r.IdleExit < 0 {
		return invalid("idle exit", "is "+r.IdleExit.String()+"; a time that is not negative is wanted")
	}
	size := len(r.OnCut) + len(r.Permissions) + len(r.Mode) + len(r.Runtime) + len(r.URL) + len(r.PasswordFile) + len(r.Profile) + len(r.IdleReports)
	for _, word := range r.Command {
		size += len(word)
	}
	if size > maxCommand {
		return invalid("command", fmt.Sprintf("has %d bytes with its settings, over %d", size, maxCommand))
	}
	return nil
}

// maxCommand limits the size of a command and its settings, in bytes. No system allows more.
const maxCommand = 128 << 10

// Add records a relay to be run, durably, and returns it with its ID. A zero Created
// is now. It fails with [ErrConflict] if the member, or the ID, has another relay, and with
// *[ValueError].
func (l Relays) Add(ctx context.Context, r Relay) (Relay, error) {
	if err := r.check(); err != nil {
		return Relay{}, err
	}
	if r.ID == "" {
		r.ID = uuid.NewString()
	}
	if r.Created.IsZero() {
		r.Created = time.Now()
	}
	r.Created = r.Created.Truncate(time.Microsecond).UTC()
	command, err := json.Marshal(r.Command)
	if err != nil {
		return Relay{}, err
	}
	err = l.write(ctx, "add relay", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec(`INSERT INTO relays (id, root, team, member, command, plain, dir, on_cut, permissions, mode, own_team, created, idle_exit,
			runtime, url, password_file, profile, idle_reports)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.ID, r.Root, r.Team, r.Member, string(command), r.Plain, r.Dir, r.OnCut, r.Permissions, r.Mode, r.OwnTeam, micros(r.Created), r.IdleExit.Microseconds(),
			r.Runtime, r.URL, r.PasswordFile, r.Profile, r.IdleReports)
		if err == nil && n == 0 {
			err = fmt.Errorf("ledger: add a relay for %s@%s: there is one: %w", r.Member, r.Team, ErrConflict)
		}
		return err
	})
	return r, err
}

// Remove removes a relay, durably. Its deliveries stay recorded. team, if not nil, is the team that was made for it,
// and members are agents that were made members for relays. Both are to be removed: the same commit sets their
// PendingDelete. Remove fails with [ErrUnknown], and removes nothing, if the ledger does not have the relay or the
// team.
func (l Relays) Remove(ctx context.Context, id string, team *OwnedTeam, members ...OwnedMember) error {
	return l.write(ctx, "remove relay", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec("DELETE FROM relays WHERE id=?", id)
		if err == nil && n == 0 {
			err = unknown("remove relay", id)
		}
		for _, m := range members {
			if err == nil {
				_, err = c.Exec("UPDATE owned_members SET pending_delete=1 WHERE root=? AND team=? AND created_at=? AND member=?",
					m.Root, m.Team, m.CreatedAt, m.Member)
			}
		}
		if err != nil || team == nil {
			return err
		}
		n, err = c.Exec("UPDATE owned_teams SET pending_delete=1, at=? WHERE root=? AND team=? AND created_at=?",
			micros(time.Time{}), team.Root, team.Team, team.CreatedAt)
		if err == nil && n == 0 {
			err = unknown("remove relay and team", team.Team)
		}
		return err
	})
}

// List returns the relays to be run of a Claude root, or of every root if root is "", in
// the order in which they were added.
func (l Relays) List(ctx context.Context, root string) ([]Relay, error) {
	var invalid error
	list, err := sqlite.Select(ctx, l.db, "relays", func(v sqlite.Row) Relay {
		r := Relay{
			ID: v.Text(0), Root: v.Text(1), Team: v.Text(2), Member: v.Text(3), Plain: v.Bool(5),
			Dir: v.Text(6), OnCut: v.Text(7), Permissions: v.Text(8), Mode: v.Blob(9), Created: v.Time(10),
			OwnTeam: v.Bool(11), IdleExit: time.Duration(v.Int(12)) * time.Microsecond,
			Runtime: v.Text(13), URL: v.Text(14), PasswordFile: v.Text(15), Profile: v.Text(16), IdleReports: v.Text(17),
		}
		if err := json.Unmarshal([]byte(v.Text(4)), &r.Command); err != nil {
			invalid = fmt.Errorf("ledger: relay %s: its command: %w", r.ID, err)
		}
		return r
	}, `SELECT id, root, team, member, command, plain, dir, on_cut, permissions, mode, created, own_team, idle_exit,
		runtime, url, password_file, profile, idle_reports
		FROM relays WHERE ?1='' OR root=?1 ORDER BY created, id`, root)
	return list, cmp.Or(err, invalid)
}
