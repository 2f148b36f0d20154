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

// TaskQuery selects tasks. The zero value selects all.
type TaskQuery struct {
	Team    string `query:"team"`                  // only of this team, which may have ended
	Session string `query:"session" minLength:"8"` // only of this session: its id, or the beginning of it
	Who     string `query:"who"`                   // only tasks of this owner, or the one with this id; in a history also those that it had before or was given
}

// Tasks are the tasks of lists, sorted by list and then as Claude Code sorts them.
type Tasks struct {
	Tasks    []Task  `json:"tasks"`
	Problems []Error `json:"problems,omitempty"` // why some tasks are missing
}

// What can change about a task.
const (
	TaskCreated   = "created" // with the status Now
	TaskDeleted   = "deleted" // with the status Was
	TaskStatus    = "status"
	TaskOwner     = "owner"
	TaskBlockedBy = "blockedBy" // ids, with ", " between them
)

// TaskHistoryQuery selects changes of tasks. Who is an owner that has a task, had it, or was given it.
type TaskHistoryQuery struct {
	TaskQuery
	Before int64 `query:"before"`                                 // only with a lower seq
	Limit  int   `query:"limit" min:"1" max:"1000" default:"100"` // the largest number of changes
}

// How many changes of tasks are returned by default, and at most.
const (
	TaskChanges     = 100
	MostTaskChanges = 1000
)

// TaskHistory has the changes of tasks. They are recorded while a service runs.
type TaskHistory struct {
	Changes []TaskChange `json:"changes"`         // the newest first
	More    bool         `json:"more,omitempty"`  // there are older ones
	Since   *time.Time   `json:"since,omitempty"` // since when changes are recorded; missing if they never were
}

// TaskChange is a change of a task. Who made it is not known.
type TaskChange struct {
	Seq     int64  `json:"seq"`                                                // its number among all changes of tasks
	List    string `json:"list"`                                               // the list that the task is or was in
	Team    string `json:"team,omitempty"`                                     // whose list it is, unless it is that of a session
	Session string `json:"session,omitempty"`                                  // whose list it is
	ID      string `json:"id"`                                                 // of the task, in its list
	Subject string `json:"subject"`                                            // at that time; a long one is cut, as all texts of a change are
	What    string `json:"what" enum:"created,deleted,status,owner,blockedBy"` // [TaskStatus] and its like
	Was     string `json:"was"`                                                // empty if there was nothing; of blockedBy, ids with commas between them
	Now     string `json:"now"`                                                // the same; if it was created, its status
	// After, if it is not nil, means that no service was running: the change was made between After and At.
	After *time.Time `json:"after,omitempty"`
	At    time.Time  `json:"at"`
}

// Task is a task in a list of Claude Code. An agent works on it, or will.
type Task struct {
	List        string          `json:"list"`              // the list that it is in: the name of a team, the id of a session, or one that a person chose
	Team        string          `json:"team,omitempty"`    // whose list it is, unless it is that of a session; the team may have ended, or be a name that a person chose
	Session     string          `json:"session,omitempty"` // whose list it is, or the session that leads the team
	ID          string          `json:"id"`                // in its list
	Subject     string          `json:"subject"`
	Description string          `json:"description"`
	ActiveForm  string          `json:"activeForm,omitempty"` // its name while it is in progress, such as "Running tests"
	Status      string          `json:"status"`               // pending, in_progress or completed, or another text in the file
	Owner       string          `json:"owner,omitempty"`      // the member that works on it, or is to
	Blocks      []string        `json:"blocks"`               // ids of tasks that wait for this one
	BlockedBy   []string        `json:"blockedBy"`            // ids of tasks that this one waits for, or has waited for
	WaitsFor    []string        `json:"waitsFor"`             // those of BlockedBy that are not completed
	Since       time.Time       `json:"since"`                // when it last changed in any way
	Metadata    json.RawMessage `json:"metadata,omitempty"`   // an object, as its agents wrote it
}
