package teams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/teams/lockedfile"
	"teambridge/teams/rawjson"
)

// userName is the name of a person who has not joined. No agent can write to it.
const userName = "user"

// reservedFor returns the use that a name is reserved for, or "".
func reservedFor(name string) string {
	switch strings.ToLower(name) {
	case userName:
		return "Claude Code, which lets no agent write to it"
	case "team-lead":
		return "the lead, whatever its real name is"
	case "lead":
		return "the lead, as its short name"
	case "system":
		return "Claude Code, as a sender"
	}
	return ""
}

// Membership is the entry of a person, or of one of our agents, in a team. [Team.Leave] and [Team.Dismiss]
// compare all of it, so that they remove the right entry.
type Membership struct {
	Name     string
	AgentID  string
	JoinedAt time.Time // UTC, to the millisecond
	Added    bool      // the call wrote the entry; false if it existed before
}

// Join makes a person a member of the team, so that agents can write to the person. as is the person's name,
// and cwd the directory. It adds this entry to members in config.json under Claude's lock, and keeps every
// other byte:
//
//	{"agentId": "as@team", "name": "as", "joinedAt": <now in ms>,
//	 "tmuxPaneId": "", "cwd": "…", "subscriptions": []}
//
// With a backendType, the entry would be an agent's. With a pane, Claude Code would close the pane when the
// team ends.
//
// A second Join changes nothing. The name of a member, in any case, and user, team-lead, lead and system are
// refused with a [*TakenError]. The other errors are [ErrTeamGone], a [*CorruptError] and those of
// [lockedfile.Locker.Transform]. After an error, nothing was written.
func (t *Team) Join(ctx context.Context, l *lockedfile.Locker, as, cwd string) (Membership, error) {
	return t.enter(ctx, l, as, cwd, "", nil)
}

// enlistedType is the agentType of the agents that [Team.Enlist] adds. Claude Code writes it for a teammate
// without a type of its own.
const enlistedType = "general-purpose"

// Enlist makes a headless agent a member of the team, as [Team.Join] does for a person. The entry also has an
// agentType, which makes it an agent's. It has no backendType, because Claude Code ends the agents of each
// backend that it knows together with the lead.
//
// If record is not nil, it is called with the entry right before the entry is written. An error of record
// ends Enlist. [Team.Dismiss] removes the entry.
func (t *Team) Enlist(ctx context.Context, l *lockedfile.Locker, as, cwd string, record func(Membership) error) (Membership, error) {
	return t.enter(ctx, l, as, cwd, enlistedType, record)
}

// enter adds the entry of a person, or of an agent of type kind.
func (t *Team) enter(ctx context.Context, l *lockedfile.Locker, as, cwd, kind string, record func(Membership) error) (Membership, error) {
	if err := CheckName("member", as); err != nil {
		return Membership{}, err
	}
	at := time.Now()
	var joined Membership
	err := t.edit(ctx, l, func(old []byte, c *Config, members rawjson.Span) ([]byte, error) {
		var err error
		if joined, err = c.admit(as, kind, at); err != nil || !joined.Added {
			return nil, err
		}
		row, err := entry(joined, cwd, kind)
		if err != nil {
			return nil, err
		}
		if record != nil {
			if err := record(joined); err != nil {
				return nil, err
			}
		}
		list, err := rawjson.Append(members.Of(old), row, indentation(old, members.Start))
		if err != nil {
			return nil, err
		}
		return splice(old, members, list), nil
	})
	if err != nil {
		return Membership{}, fmt.Errorf("teams: join %q as %q: %w", t.name, as, err)
	}
	return joined, nil
}

// Leave removes the entry m under Claude's lock, and keeps every other byte of the file. It returns false if
// there is no entry of that name. The error is [ErrNotOurs] if the entry has another agent id or time, or is
// an agent's; [ErrTeamGone], a [*CorruptError], or one of [lockedfile.Locker.Transform]. After an error,
// nothing was written.
func (t *Team) Leave(ctx context.Context, l *lockedfile.Locker, m Membership) (bool, error) {
	return t.remove(ctx, l, m, Member.Guest)
}

// Dismiss removes the entry m of an agent that [Team.Enlist] has added. Otherwise it works like [Team.Leave].
// The error is [ErrNotOurs] if the entry now belongs to a teammate of Claude Code.
func (t *Team) Dismiss(ctx context.Context, l *lockedfile.Locker, m Membership) (bool, error) {
	return t.remove(ctx, l, m, Member.enlisted)
}

// enlisted reports whether m has the form of an entry of [Team.Enlist].
func (m Member) enlisted() bool {
	typed := m.AgentType == enlistedType
	m.AgentType = ""
	return typed && m.Guest()
}

// remove removes the entry m if ours accepts it.
func (t *Team) remove(ctx context.Context, l *lockedfile.Locker, m Membership, ours func(Member) bool) (bool, error) {
	left := false
	err := t.edit(ctx, l, func(old []byte, c *Config, members rawjson.Span) ([]byte, error) {
		left = false
		there, ok := c.Member(m.Name)
		if !ok {
			return nil, nil
		}
		if !ours(there) || there.AgentID != m.AgentID || millis(there.JoinedAt) != millis(m.JoinedAt) {
			return nil, ErrNotOurs
		}
		list := members.Of(old)
		i, err := position(list, m.Name)
		if err != nil {
			return nil, err
		}
		if list, err = rawjson.Remove(list, i); err != nil {
			return nil, err
		}
		left = true
		return splice(old, members, list), nil
	})
	if err != nil {
		return false, fmt.Errorf("teams: leave %q as %q: %w", t.name, m.Name, err)
	}
	return left, nil
}

// edit changes config.json under its lock. It calls change with the file, its content, and the range of its
// members. If change returns nil, the file stays unchanged.
func (t *Team) edit(ctx context.Context, l *lockedfile.Locker, change func(old []byte, c *Config, members rawjson.Span) ([]byte, error)) error {
	// Check before locking, too: a directory without config.json must not even get a lock.
	if err := t.Exists(); err != nil {
		return err
	}
	file := lockedfile.File{Dir: t.dir, Name: configFile, Guard: t.Exists}
	err := l.Transform(ctx, file, func(old []byte) ([]byte, error) {
		c, err := t.parse(old)
		if err != nil {
			return nil, err
		}
		members, err := t.members(old)
		if err != nil {
			return nil, err
		}
		return change(old, c, members)
	})
	if err != nil {
		// A deletion of the team takes many steps, and causes a different error here after each.
		if gone := t.Exists(); errors.Is(gone, ErrTeamGone) {
			return gone
		}
	}
	return err
}

// admit returns the entry under which as can join, as a person or as an agent of type kind, or an error.
func (c *Config) admit(as, kind string, at time.Time) (Membership, error) {
	if who := reservedFor(as); who != "" {
		return Membership{}, &TakenError{Team: c.Team, Name: as, Holder: who}
	}
	id := as + "@" + c.address()
	for _, m := range c.Members {
		switch {
		case m.Name == as && m.AgentID == id && (kind == "" && m.Guest() || kind != "" && m.enlisted()):
			return Membership{Name: as, AgentID: id, JoinedAt: m.JoinedAt}, nil
		case strings.EqualFold(m.Name, as):
			return Membership{}, &TakenError{Team: c.Team, Name: as, Holder: "the member " + m.String()}
		}
	}
	return Membership{Name: as, AgentID: id, JoinedAt: at.UTC().Truncate(time.Millisecond), Added: true}, nil
}

// address returns the part after the "@" in this team's agent ids.
func (c *Config) address() string {
	return cmp.Or(c.Name, c.Team)
}

// entry returns the entry that Join and Enlist add, with the keys in Claude's order.
func entry(m Membership, cwd, kind string) ([]byte, error) {
	return rawjson.Encode(struct {
		AgentID       string   `json:"agentId"`
		Name          string   `json:"name"`
		AgentType     string   `json:"agentType,omitempty"`
		JoinedAt      int64    `json:"joinedAt"`
		TmuxPaneID    string   `json:"tmuxPaneId"`
		Cwd           string   `json:"cwd"`
		Subscriptions []string `json:"subscriptions"`
	}{m.AgentID, m.Name, kind, millis(m.JoinedAt), "", cwd, []string{}})
}

// members finds the array of members in a config.json.
func (t *Team) members(data []byte) (rawjson.Span, error) {
	value, ok, err := lastValue(data, "members")
	switch {
	case err != nil:
		return rawjson.Span{}, err
	case !ok:
		return rawjson.Span{}, t.corrupt(len(data), "there are no members")
	case rawjson.Kind(value.Of(data)) != '[':
		return rawjson.Span{}, t.corrupt(value.Start, "members is not an array")
	}
	return value, nil
}

// lastValue finds the value of a key in a JSON object. The last of equal keys counts.
func lastValue(data []byte, key string) (value rawjson.Span, ok bool, err error) {
	fields, err := rawjson.Fields(data)
	for _, f := range fields {
		if f.Name == key {
			value, ok = f.Value, true
		}
	}
	return value, ok, err
}

func (t *Team) corrupt(offset int, why string) error {
	return &CorruptError{Path: t.file(), Offset: int64(offset), Err: errors.New(why)}
}

// position returns the index of the first object with a name, which is the element that Parse uses.
func position(list []byte, name string) (int, error) {
	spans, err := rawjson.Elements(list)
	if err != nil {
		return 0, err
	}
	for i, s := range spans {
		var scratch Config
		if o, err := scratch.object("", s.Of(list)); err == nil && o.text("name") == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no entry for %q", name)
}

// indentation returns the white space at the beginning of the line of data[at].
func indentation(data []byte, at int) string {
	line := data[bytes.LastIndexByte(data[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func splice(data []byte, s rawjson.Span, with []byte) []byte {
	return slices.Concat(data[:s.Start], with, data[s.End:])
}
