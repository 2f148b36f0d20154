package api

import "time"

// Session is a living process of Claude Code on this machine, with the session that it has now, or a session of Codex that a living process
// holds. Nothing has to be set up for it.
type Session struct {
	Name      string    `json:"name"`    // that its person gave it, or that Claude Code made of the directory
	Session   string    `json:"session"` // its id; /clear and /resume change it
	PID       int       `json:"pid"`     // of Codex, several sessions can be in one process
	Cwd       string    `json:"cwd"`
	Version   string    `json:"version"`            // of Claude Code; empty if it does not say, as old ones do not
	Outdated  bool      `json:"outdated,omitempty"` // that version is too old: the session cannot be reached, and what it does is unknown
	StartedAt time.Time `json:"startedAt,omitzero"`
	Headless  bool      `json:"headless,omitempty"` // no person is at a terminal

	Word      string     `json:"word" enum:"working,waiting for you,idle,unknown"` // what it does: [WordIdle] and its like
	Why       string     `json:"why,omitempty"`                                    // what it waits for
	WordSince *time.Time `json:"wordSince,omitempty"`                              // nil if it is not known

	// As is its name in messages, once something was sent to it or by it: that which it had then, and
	// another one if two had that; or the name that it was given since.
	As string `json:"as,omitempty"`

	// Team and Member name the lead or teammate whose session it is, if any.
	Team   string `json:"team,omitempty"`
	Member string `json:"member,omitempty"`

	Relayed bool `json:"relayed,omitempty"` // teambridge runs it

	// Socket says that it listens for messages of other sessions, as it does unless that is switched off.
	Socket bool `json:"socket,omitempty"`
	// how a message reaches it; absent if none does. Those with the ways session, hook and codex are the members of the team
	// sessions, which has no lead, by name, id, process id or directory
	Way string `json:"way,omitempty" enum:"inbox,session,hook,codex"`

	Program string `json:"program,omitempty" enum:"codex,qwen"` // whose session it is, if it is not Claude Code's. Several sessions of Codex can be in one process
}

// NewName is a name for a session.
type NewName struct {
	Name string `json:"name"` // as an address has it; empty: what Claude Code calls it
}

// Renamed is a session with its new name.
type Renamed struct {
	Team    string `json:"team"`    // sessions
	Member  string `json:"member"`  // what it is called from now on
	Was     string `json:"was"`     // what it was called before
	Session string `json:"session"` // its id
}

// The programs other than Claude Code.
const (
	ProgramCodex = "codex" // the Codex CLI
	ProgramQwen  = "qwen"  // Qwen Code
)

// WhoIs returns the id of the session that has a name in messages, since a new one can be called the same. It is the name itself
// if none of them has it.
func WhoIs(sessions []Session, name string) string {
	for _, s := range sessions {
		if s.As == name && name != "" {
			return s.Session
		}
	}
	return name
}
