package api

import "time"

// TeamPanes is the name of the team of all registered panes. It has no directory.
const TeamPanes = "tmux"

// Pane is a tmux pane that was registered as a recipient, under the name Member.
type Pane struct {
	Team    string    `json:"team"` // [TeamPanes]
	Member  string    `json:"member"`
	Target  string    `json:"target"` // the pane's id in its tmux server, such as %12
	Socket  string    `json:"socket"` // of that server
	Profile string    `json:"profile"`
	Created time.Time `json:"created"`          // when it was registered
	Queue   int       `json:"queue"`            // messages that were not sent yet
	Reason  string    `json:"reason,omitempty"` // why the first of them waits
	Look    *PaneLook `json:"look,omitempty"`   // what is in the pane now
}

// The states of panes.
const (
	PaneIdle    = "idle"    // its agent waits at an empty prompt
	PaneDraft   = "draft"   // a person has typed something at the prompt
	PaneWorking = "working" // its agent works
	PaneDialog  = "dialog"  // its agent asks the person something
	PaneShell   = "shell"   // a shell is in front, or a program that reads lines
	PaneGone    = "gone"    // there is no such pane any more
	PaneUnclear = "unclear" // the screen does not say
)

// PaneLook is what one look at a pane saw. Texts are from the screen.
type PaneLook struct {
	State   string `json:"state"`             // [PaneIdle] and its like
	Why     string `json:"why,omitempty"`     // what the agent asks, or why the state is unclear
	Where   string `json:"where,omitempty"`   // session:window.pane
	Title   string `json:"title,omitempty"`   // of the pane
	Program string `json:"program,omitempty"` // in front
	Cwd     string `json:"cwd,omitempty"`
	PID     int    `json:"pid,omitempty"`     // of the agent, or of the pane's first process
	Session string `json:"session,omitempty"` // of the agent, if it is known
	Draft   string `json:"draft,omitempty"`   // what the person has typed; only if it was asked for
}

// ViaPane is a value of [PaneOptions.Via].
const ViaPane = "pane"

// PaneOptions are those of a message that is typed into a pane: a part of [NewMessage]
// once the service takes it.
type PaneOptions struct {
	// Via "pane" types the message into the pane that config.json has for the member,
	// instead of putting it into the inbox. Members of [TeamPanes] need no Via.
	Via          string `json:"via,omitempty"`
	Policy       string `json:"policy,omitempty"`       // [PolicyQueued] and its like; default: queued
	SaveDraft    bool   `json:"saveDraft,omitempty"`    // put a person's draft aside while the message is typed
	NotifyOnStop bool   `json:"notifyOnStop,omitempty"` // tell the sender when the task of the message is done
}

// The policies of messages to panes: when they may be typed. None is typed into a draft or
// a dialog.
const (
	PolicyQueued    = "queued"    // also while the agent works
	PolicyImportant = "important" // as queued, before other messages
	PolicyWhenIdle  = "when-idle" // only at an empty prompt
	PolicyUrgent    = "urgent"    // interrupts the agent with ESC first
)

// The states of a message sent to a pane. See [Sent].
const (
	Waiting     = "waiting"     // it was not typed yet
	Confirmed   = "confirmed"   // the agent has taken it from the keyboard
	Unconfirmed = "unconfirmed" // it was typed, but nothing shows that the agent has taken it
	NotSent     = "not_sent"    // it was not typed and will not be
)
