package api

import "time"

// Session is a living process of Claude Code on this machine, with the session that it has now, or a session of Codex that a living process
// holds. Nothing has to be set up for it.
type Session struct {
	Name      string    `json:"name"`    // given by its person, or made from the directory by Claude Code
	Session   string    `json:"session"` // its id; /clear and /resume change it
	PID       int       `json:"pid"`     // several sessions of Codex can be in one process
	Cwd       string    `json:"cwd"`
	Version   string    `json:"version"`            // of Claude Code; empty if it does not report it, as old ones do not
	Outdated  bool      `json:"outdated,omitempty"` // that version is too old: the session cannot be reached, and what it does is unknown
	StartedAt time.Time `json:"startedAt,omitzero"`
	Headless  bool      `json:"headless,omitempty"` // no person is at a terminal

	Word      string     `json:"word" enum:"working,waiting for you,idle,unknown"` // what it does: [WordIdle] and its like
	Why       string     `json:"why,omitempty"`                                    // what it waits for
	WordSince *time.Time `json:"wordSince,omitempty"`                              // nil if it is not known

	// As is its name in messages, from its first message on: the name that it had then, or another one
	// if two sessions had that; or the name that it was given since.
	As string `json:"as,omitempty"`

	// Team and Member name the lead or teammate whose session it is, if any.
	Team   string `json:"team,omitempty"`
	Member string `json:"member,omitempty"`

	Relayed bool `json:"relayed,omitempty"` // teambridge runs it

	// Socket says that it listens for messages of other sessions. It does unless that is switched off.
	Socket bool `json:"socket,omitempty"`
	// how a message reaches it; absent if none does. Those with the ways session, hook and codex are the members of the team
	// sessions, which has no lead, by name, id, process id or directory
	Way string `json:"way,omitempty" enum:"inbox,session,hook,codex"`

	Program string `json:"program,omitempty" enum:"codex,qwen"` // its program, if it is not Claude Code. Several sessions of Codex can be in one process
}

// NewName is a name for a session.
type NewName struct {
	Name string `json:"name"` // in the form of an address; empty: Claude Code's name for it
}

// Renamed is a session with its new name.
type Renamed struct {
	Team    string `json:"team"`    // sessions
	Member  string `json:"member"`  // its name from now on
	Was     string `json:"was"`     // its name before
	Session string `json:"session"` // its id
}

// The programs other than Claude Code.
const (
	ProgramCodex = "codex" // the Codex CLI
	ProgramQwen  = "qwen"  // Qwen Code
)

// WhoIs returns the id of the session that has a name in messages, since a new session can have the same name. It
// returns the name itself if no session has it.
func WhoIs(sessions []Session, name string) string {
	for _, s := range sessions {
		if s.As == name && name != "" {
			return s.Session
		}
	}
	return name
}
