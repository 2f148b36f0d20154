package api

import (
	"encoding/json"
	"time"
)

// The statuses that Claude Code gives tasks. There can be others.
const (
	TaskPending    = "pending"
	TaskInProgress = "in_progress"
	TaskCompleted  = "completed"
)

// TaskQuery says which tasks to return. The zero value is all.
type TaskQuery struct {
	Team    string // only of this team, which may have ended
	Session string // only of this session: its id, or the beginning of it, 8 characters or more
	Who     string // only those of this owner, or the one with this id
}

// Tasks are the tasks of lists, sorted by list and then as Claude Code sorts them.
type Tasks struct {
	Tasks    []Task  `json:"tasks"`
	Problems []Error `json:"problems,omitempty"` // with what is not in Tasks
}

// Task is a task in a list of Claude Code. An agent works on it, or will.
type Task struct {
	List        string          `json:"list"`              // the list that it is in: the name of a team, the id of a session, or one that a person chose
	Team        string          `json:"team,omitempty"`    // whose list it is, unless it is that of a session; the team may have ended, or be a name that a person chose
	Session     string          `json:"session,omitempty"` // whose list it is, or the session that leads the team
	ID          string          `json:"id"`                // in its list
	Subject     string          `json:"subject"`
	Description string          `json:"description"`
	ActiveForm  string          `json:"activeForm,omitempty"` // what is done while it is in progress, as in "Running tests"
	Status      string          `json:"status"`               // [TaskPending] and its like, or whatever is in the file
	Owner       string          `json:"owner,omitempty"`      // the member that works on it, or is to
	Blocks      []string        `json:"blocks"`               // ids of tasks that wait for this one
	BlockedBy   []string        `json:"blockedBy"`            // ids of tasks that this one waits for, or has waited for
	WaitsFor    []string        `json:"waitsFor"`             // those of BlockedBy that are not completed
	Since       time.Time       `json:"since"`                // when it last changed in any way
	Metadata    json.RawMessage `json:"metadata,omitempty"`   // an object, as its agents wrote it
}
