package api

// Scope is what flags, the environment and the directory say about the team that is meant.
type Scope struct {
	Team    string // its name, if somebody gave one
	Default string // its name if nobody gives one, as in the environment
	Dir     string // where it was asked: of several teams, the one whose lead runs there
}

// The ways in which a message reaches somebody.
const (
	WayInbox = "inbox" // a row of the member's inbox or, to an agent of the service, a prompt
	WayPane  = "pane"  // it is typed into a tmux pane
)
