package teams

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"teambridge/teams/rawjson"
)

// Config is the content of a config.json.
type Config struct {
	// Team is the name of the directory, and Name the name in the file. Claude Code makes them equal.
	Team        string
	Name        string
	Description string
	CreatedAt   time.Time // UTC, to the millisecond

	LeadAgentID   string       // the lead is the member with this agent id
	LeadSessionID string       // the lead's Claude session
	LeadProcess   *LeadProcess // nil if written by 2.1.310 or older

	// Members holds every entry that is an object with a valid name, in file order. Of entries with the same
	// name, only the first counts.
	Members []Member

	// Faults describes the unusable parts of the file, for a person: values of the wrong type, which count as
	// absent, and members that were ignored. It quotes only names from the file.
	Faults []error
}

// Instance distinguishes teams of the same name. It is comparable.
type Instance struct {
	Team      string // name of the directory
	CreatedAt int64  // milliseconds since 1970; 0 if unknown
}

// String returns "team@milliseconds".
func (i Instance) String() string { return i.Team + "@" + strconv.FormatInt(i.CreatedAt, 10) }

// Fileless reports whether i is a team without a directory: the team of the sessions, or a team on another
// machine. Its inboxes are not files.
func (i Instance) Fileless() bool {
	return i.CreatedAt == SessionTeamCreated && (i.Team == SessionTeam || strings.Contains(i.Team, "@"))
}

// Instance returns the team's instance. It uses the name of the directory, because a copy of the directory
// has the same name and createdAt in its file.
func (c *Config) Instance() Instance {
	return Instance{Team: c.Team, CreatedAt: millis(c.CreatedAt)}
}

// Member returns the member with exactly this name.
func (c *Config) Member(name string) (Member, bool) {
	for _, m := range c.Members {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// Lead returns the member whose agent id is leadAgentId.
func (c *Config) Lead() (Member, bool) {
	for _, m := range c.Members {
		if c.LeadAgentID != "" && m.AgentID == c.LeadAgentID {
			return m, true
		}
	}
	return Member{}, false
}

// Parse parses the config.json of the directory called team. If data is not a JSON object, the error is a
// [*CorruptError]; lesser problems are in Faults. Keys are case-sensitive, and the last of equal keys counts,
// as in JavaScript.
func Parse(team string, data []byte) (*Config, error) {
	c := &Config{Team: team}
	top, err := c.object("", data)
	if err != nil {
		return nil, corrupt(err)
	}
	c.Name, c.Description, c.CreatedAt = top.text("name"), top.text("description"), top.time("createdAt")
	c.LeadAgentID, c.LeadSessionID = top.text("leadAgentId"), top.text("leadSessionId")
	if v := top.value("leadProcess", '{', "an object"); v != nil {
		c.LeadProcess = c.leadProcess(v)
	}
	if err := c.members(top); err != nil {
		return nil, err
	}
	return c, nil
}

func corrupt(err error) *CorruptError {
	ce := &CorruptError{Path: configFile, Err: err}
	if se, ok := errors.AsType[*rawjson.SyntaxError](err); ok {
		// ce has the offset already.
		ce.Offset, ce.Err = se.Offset, errors.New(se.Reason)
	}
	return ce
}

func (c *Config) leadProcess(v []byte) *LeadProcess {
	o, err := c.object("leadProcess", v)
	if err != nil {
		return nil // not reached: v is part of valid JSON
	}
	p := &LeadProcess{PidSpace: o.text("pidSpace"), ClaimedAt: o.time("claimedAt"), ProcStart: o.text("procStart")}
	if n := o.number("pid"); n >= 1 && n <= math.MaxInt32 {
		p.PID = int(n)
	}
	return p
}

func (c *Config) members(top object) error {
	list := top.value("members", '[', "an array")
	if list == nil {
		return nil
	}
	spans, err := rawjson.Elements(list)
	if err != nil {
		return corrupt(err)
	}
	seen := make(map[string]bool, len(spans))
	for i, s := range spans {
		where := fmt.Sprintf("members[%d]", i)
		o, err := c.object(where, s.Of(list))
		if err != nil {
			c.fault("%s: not an object, ignored", where)
			continue
		}
		name := o.text("name")
		if err := CheckName("member", name); err != nil {
			c.fault("%s: ignored: %w", where, err)
			continue
		}
		if seen[name] {
			c.fault("%s: %q is a duplicate, ignored", where, name)
			continue
		}
		seen[name] = true
		c.Members = append(c.Members, Member{
			AgentID:          o.text("agentId"),
			Name:             name,
			AgentType:        o.text("agentType"),
			Model:            o.text("model"),
			Prompt:           Secret(o.text("prompt")),
			Color:            o.text("color"),
			PlanModeRequired: o.flag("planModeRequired"),
			JoinedAt:         o.time("joinedAt"),
			TmuxPaneID:       o.text("tmuxPaneId"),
			Cwd:              o.text("cwd"),
			BackendType:      o.text("backendType"),
		})
	}
	return nil
}

func (c *Config) fault(format string, args ...any) {
	c.Faults = append(c.Faults, fmt.Errorf(format, args...))
}

// object is a JSON object being read. Values of the wrong type become faults.
type object struct {
	config *Config
	where  string
	values map[string][]byte
}

func (c *Config) object(where string, data []byte) (object, error) {
	fields, err := rawjson.Fields(data)
	if err != nil {
		return object{}, err
	}
	o := object{config: c, where: where, values: make(map[string][]byte, len(fields))}
	for _, f := range fields {
		o.values[f.Name] = f.Value.Of(data)
	}
	return o, nil
}

// value returns the raw value of key if it has the wanted kind, and nil otherwise. null counts as absent.
func (o object) value(key string, kind byte, want string) []byte {
	v := o.values[key]
	switch found := rawjson.Kind(v); found {
	case kind:
		return v
	case 0, 'n':
	default:
		if o.where != "" {
			key = o.where + "." + key
		}
		o.config.fault("%s: not %s, taken as absent", key, want)
	}
	return nil
}

func (o object) text(key string) string {
	s, _ := rawjson.Text(o.value(key, '"', "a string"))
	return s
}

func (o object) flag(key string) bool {
	if string(o.values[key]) == "false" {
		return false
	}
	return o.value(key, 't', "true or false") != nil
}

func (o object) number(key string) float64 {
	n, err := strconv.ParseFloat(string(o.value(key, '0', "a number")), 64)
	if err != nil {
		return 0 // absent, or out of range
	}
	return n
}

// maxMillis is the end of the year 9999, the last year that JSON can express; a JavaScript Date can
// express later ones. A time that is mistakenly in microseconds is later, and so counts as missing.
const maxMillis = 253402300799999

func (o object) time(key string) time.Time {
	n := o.number(key)
	if n <= 0 || n > maxMillis {
		return time.Time{}
	}
	return time.UnixMilli(int64(n)).UTC()
}

// Member is one entry of members in config.json. Claude Code removes the entries of members that have shut
// down. Other keys of an entry stay in the file unread.
type Member struct {
	AgentID          string // "name@team"
	Name             string // valid by CheckName
	AgentType        string // "team-lead" only for the lead; old versions also wrote other types
	Model            string
	Prompt           Secret // the initial prompt, which can hold secrets
	Color            string
	PlanModeRequired bool
	JoinedAt         time.Time // UTC, to the millisecond
	TmuxPaneID       string    // a tmux pane, "leader", "in-process", or ""
	Cwd              string
	BackendType      string // "in-process", "tmux"; empty for the lead of a team that Root.Create made
}

// Guest reports whether m is a person. Such an entry has the form that [Team.Join] writes, without type,
// model, prompt, color, backend and pane. Every agent has some of them.
func (m Member) Guest() bool {
	return m.AgentType == "" && m.Model == "" && m.Prompt == "" && m.Color == "" &&
		m.BackendType == "" && m.TmuxPaneID == ""
}

// String returns the agent id, or the name if there is no agent id.
func (m Member) String() string {
	return cmp.Or(m.AgentID, m.Name)
}

// millis returns JavaScript's Date.now at a time; 0 for the zero time.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
