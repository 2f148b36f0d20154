package api

import (
	"cmp"
	"slices"
	"time"
)

// The kinds of [Attention].
const (
	WaitsPermission = AsksPermission // a relayed agent asks to use a tool
	WaitsPlan       = AsksPlan       // a relayed agent asks to approve its plan
	WaitsQuestion   = AsksPerson     // a relayed agent asks the person something
	WaitsLead       = "lead"         // a member asks its lead, at whose terminal it is answered
	WaitsTerminal   = "terminal"     // an interactive agent waits for its person, who answers at its terminal
	WaitsUnread     = "unread"       // messages to the person are unread
	WaitsFailed     = "failed"       // the last turn of an agent failed
	WaitsEnded      = "ended"        // the lead of a team is not running
	WaitsStopped    = "stopped"      // a relay stopped, or its agent died
	WaitsLost       = "lost"         // a message is lost, or its delivery failed
	WaitsUnknown    = "unknown"      // it is unknown whether a message arrived
	WaitsHeld       = "held"         // messages between two agents are held back
	WaitsIdle       = "idle"         // all agents of a team but the lead are idle
	WaitsDraft      = "draft"        // messages to a pane wait because somebody has typed something there
	WaitsDone       = "done"         // the agent of a pane has finished the task of a message
	WaitsSilent     = "silent"       // an agent works, and nothing new has come from it for minutes
	WaitsLoop       = "loop"         // two agents only answer each other
)

// Wait describes a kind of [Attention].
type Wait struct {
	Kind    string
	Title   string // the heading that it is listed under, with similar kinds
	Words   string // what the agent does or what is wrong, without text of an agent; of [WaitsUnread] without the number
	Section string // the section that lists its agent because of it; empty: it concerns a whole team
	Dismiss bool   // a person can dismiss it; the others are answered, read or released instead
}

// Waits has all kinds, in the order in which they are listed.
var Waits = []Wait{
	{WaitsPermission, "Waiting for your answer", "asks for permission", SectionNeedsYou, false},
	{WaitsPlan, "Waiting for your answer", "asks you to approve its plan", SectionNeedsYou, false},
	{WaitsQuestion, "Waiting for your answer", "asks you a question", SectionNeedsYou, false},
	{WaitsLead, "Waiting for their lead", "asks its lead for permission", SectionNeedsYou, false},
	{WaitsTerminal, "Waiting at their terminal", "waits at its terminal", SectionNeedsYou, false},
	{WaitsUnread, "Unread messages", "has unread messages", SectionNeedsYou, false},
	{WaitsSilent, "Agents that are stuck", "works, and nothing new comes from it", SectionStuck, true},
	{WaitsLoop, "Agents that are stuck", "it and another agent only answer each other", SectionStuck, true},
	{WaitsFailed, "Agents that failed or stopped", "its last turn failed", SectionStuck, true},
	{WaitsStopped, "Agents that failed or stopped", "its agent or its relay has stopped", SectionStuck, true},
	{WaitsLost, "Messages that failed, or may not have been delivered", "a message to it is lost", SectionStuck, true},
	{WaitsUnknown, "Messages that failed, or may not have been delivered", "a message may not have reached it", SectionStuck, true},
	{WaitsHeld, "Messages held back", "messages to it are held back", SectionNeedsYou, false},
	{WaitsDraft, "Messages held back", "messages wait for what is typed at its prompt", SectionNeedsYou, false},
	{WaitsDone, "Finished tasks", "has finished a task", SectionNeedsYou, true},
	{WaitsEnded, "Teams", "the lead of the team is not running", "", true},
	{WaitsIdle, "Teams", "all agents are idle", "", true},
}

// WaitOf returns the entry of a kind in [Waits], or a general one for an unknown kind.
func WaitOf(kind string) Wait {
	if i := slices.IndexFunc(Waits, func(w Wait) bool { return w.Kind == kind }); i >= 0 {
		return Waits[i]
	}
	return Wait{Kind: kind, Title: "Other", Words: "needs you"}
}

// Attention is one item that waits for a person.
type Attention struct {
	ID string `json:"id"` // the same as long as it waits, and another when it waits again
	// silent: an agent works, and nothing new has come from it for 5 minutes; loop: two agents only answer each other, 16
	// times within 10 minutes or 100 times within 24 hours; lead: a member asks its lead, and is answered at the lead's
	// terminal; terminal: an interactive agent waits for its person, who answers at its terminal; draft: messages to a pane
	// wait because somebody has typed something there; done: the agent of a pane has finished the task of a message
	Kind   string     `json:"kind" enum:"permission,plan,question,lead,terminal,unread,failed,ended,stopped,lost,unknown,held,idle,draft,done,silent,loop"`
	Title  string     `json:"title"` // the heading that it is listed under, with similar kinds
	Team   string     `json:"team"`
	Member string     `json:"member"`          // the agent, or the inbox of the person; empty for a whole team
	Since  *time.Time `json:"since,omitempty"` // missing if unknown
	What   string     `json:"what"`            // what it is, with the name of the tool and of its MCP server; can have text of an agent, which is cut if it is long
	Words  string     `json:"words"`           // the same without text of an agent, to follow its name
	Do     string     `json:"do"`              // what to do, with operations as method and path
	// the same for a person at the command line, if it is another text
	Command string `json:"command,omitempty"`

	Answerable  bool `json:"answerable"`  // POST /v1/questions/{question} answers the question
	Dismissable bool `json:"dismissable"` // POST /v1/attention/dismiss hides it

	Relay    string    `json:"relay,omitempty"` // id of the relay
	Question *Question `json:"question,omitempty"`
	Partial  bool      `json:"partial,omitempty"` // the question is too long to be here; GET /v1/relays has it

	From    string `json:"from,omitempty"`    // the sender of the messages
	Count   int    `json:"count,omitempty"`   // the number of messages; of a loop, how often the two answered each other
	Message string `json:"message,omitempty"` // id of the last message

	Holdable []string `json:"holdable,omitempty"` // of a loop: those of the two whose messages POST /v1/teams/{team}/members/{member}/hold can hold back; missing: none

	Delivery string `json:"delivery,omitempty"` // of a failed message to a relayed agent

	Messages []Message `json:"messages,omitempty"` // the unread messages, only in GET /v1/inbox
}

// AtShell returns what a person at the command line does about it.
func (a Attention) AtShell() string { return cmp.Or(a.Command, a.Do) }

// Dismiss hides one [Attention] for as long as it waits.
type Dismiss struct {
	ID string `json:"id"` // of the item
}
