package api

import "time"

// The sections of an overview, in its order.
const (
	SectionNeedsYou = "needs-you" // a person has to answer, release or read something
	SectionStuck    = "stuck"     // it cannot go on, or goes on in vain
	SectionWorking  = "working"
	SectionIdle     = "idle" // or nothing is known of it
	SectionEnded    = "ended"
)

// Sections lists the sections in their order.
var Sections = []string{SectionNeedsYou, SectionStuck, SectionWorking, SectionIdle, SectionEnded}

// Overview says where an overview lists an agent, and what the agent is at.
type Overview struct {
	Section string `json:"section,omitempty"` // [SectionNeedsYou] and its like
	// What needs the person, or why it is stuck, and since when. It can have text of an agent.
	SectionWhy   string     `json:"sectionWhy,omitempty"`
	SectionSince *time.Time `json:"sectionSince,omitempty"` // nil if unknown
	SectionKind  string     `json:"sectionKind,omitempty"`  // of the [Attention] that decided: [WaitsPermission] and its like

	Cwd string `json:"cwd,omitempty"` // the directory that it works in; empty if unknown

	// Doing is the subject, summary or beginning of the newest message to it, From is who wrote that,
	// and Tool the last tool call that was recorded of it, in words.
	Doing      string     `json:"doing,omitempty"`
	DoingFrom  string     `json:"doingFrom,omitempty"`
	DoingSince *time.Time `json:"doingSince,omitempty"`
	Tool       string     `json:"tool,omitempty"`
	ToolSince  *time.Time `json:"toolSince,omitempty"`

	// TaskList is the list of Claude Code that has its tasks: the team's, or the session's own, with the id of the
	// session. It is empty if there is none. Task is the one that it works on, TaskID, in the words for that time if it has any.
	TaskList string `json:"taskList,omitempty"`
	Task     string `json:"task,omitempty"`
	TaskID   string `json:"taskId,omitempty"`
}
