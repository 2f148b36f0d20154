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

// Overview says in which section an overview lists an agent, what the agent works on, and how a message reaches it.
type Overview struct {
	// [SectionNeedsYou] and its like: the section of an overview. stuck: it cannot go on, or goes on in vain; idle: or
	// nothing is known of it. Missing in the result of a wait, as are the fields below
	Section      string     `json:"section,omitempty" enum:"needs-you,stuck,working,idle,ended"`
	SectionWhy   string     `json:"sectionWhy,omitempty"`   // what needs the person, or why it is in the section; can have text of an agent
	SectionSince *time.Time `json:"sectionSince,omitempty"` // missing if unknown
	SectionKind  string     `json:"sectionKind,omitempty"`  // the kind of the Attention that decided the section; missing if its word did

	Cwd string `json:"cwd,omitempty"` // the directory that it works in; missing if unknown

	Doing      string     `json:"doing,omitempty"`     // the subject, summary or beginning of the newest message to it; cut if it is long
	DoingFrom  string     `json:"doingFrom,omitempty"` // who wrote that
	DoingSince *time.Time `json:"doingSince,omitempty"`
	Tool       string     `json:"tool,omitempty"` // its last recorded tool call, in words; cut if it is long
	ToolSince  *time.Time `json:"toolSince,omitempty"`

	TaskList string `json:"taskList,omitempty"` // the list of Claude Code that has its tasks: the name of the team or, of a session, its id; missing if there is none
	Task     string `json:"task,omitempty"`     // its task in progress, by its active form if it has one; cut if it is long
	TaskID   string `json:"taskId,omitempty"`   // of that task, in its list

	Way     string `json:"way,omitempty" enum:"inbox,pane,session,hook,codex,machine"` // how a message reaches it; missing if none does
	Promise string `json:"promise,omitempty"`                                          // what that way can promise, in words; missing of an agent that has ended
}
