package api

import "time"

// TeamPanes is the name of the team of all registered panes. It has no directory.
const TeamPanes = "tmux"

// TeamSessions is the name of the team of all sessions that are in no other team and listen for messages. It has no
// directory.
const TeamSessions = "sessions"

// Pane is a tmux pane that was registered as a recipient, under the name Member.
type Pane struct {
	Team    string    `json:"team"`                          // tmux
	Member  string    `json:"member"`                        // its name
	Target  string    `json:"target"`                        // the pane's id in its tmux server, such as %12
	Socket  string    `json:"socket"`                        // of that server
	Profile string    `json:"profile" enum:"claude,generic"` // how its screen is read
	Created time.Time `json:"created"`                       // when it was registered
	Queue   int       `json:"queue"`                         // messages that were not sent yet
	Reason  string    `json:"reason,omitempty"`              // why the first of them waits
	Look    *PaneLook `json:"look,omitempty"`                // what is in the pane now

	Added bool `json:"-"` // by the request that this answers; see [Bridge.AddPane]
}

// PaneTest says what a message to a pane would do now.
type PaneTest struct {
	Pane          // its Look has the draft
	Policy string `json:"policy" enum:"queued,important,when-idle,urgent"` // of the message
	Ready  bool   `json:"ready"`                                           // it would be typed now
	Held   string `json:"held,omitempty"`                                  // why it would wait, for programs
	Hold   string `json:"hold,omitempty"`                                  // the same for people
	Prompt bool   `json:"prompt,omitempty"`                                // its prompt was found, so that it is known whether there is a draft
}

// NewPane is the request to register a pane. Member and Target are needed.
type NewPane struct {
	Member  string `json:"member"`                                   // the name to register it under
	Target  string `json:"target"`                                   // %12, or session:window.pane
	Socket  string `json:"socket,omitempty"`                         // of the tmux server; default: that of a plain tmux
	Profile string `json:"profile,omitempty" enum:",claude,generic"` // claude (the default) or generic: how its screen is read
	Replace bool   `json:"replace,omitempty"`                        // give a registered name this pane; waiting messages go there
}

// The states of panes.
const (
	PaneEmpty   = "empty"   // an agent waits at its prompt, at which nothing is typed
	PaneBusy    = "busy"    // an agent works, and nothing is typed at its prompt
	PaneDraft   = "draft"   // a person has typed something that is not sent yet
	PaneDialog  = "dialog"  // the agent asks its person something
	PaneUnknown = "unknown" // the screen shows none of these
	PaneClosed  = "closed"  // nothing can be typed; Reason says why
	PaneGone    = "gone"    // there is no such pane any more
)

// PaneLook is the state of a pane at one look.
type PaneLook struct {
	// [PaneEmpty] and its like: empty: an agent waits at its prompt, at which nothing is typed; busy: it works; draft: a
	// person has typed something; dialog: the agent asks its person something; unknown: the screen shows none of these;
	// closed: nothing can be typed, for the reason; gone: there is no such pane any more
	State   string `json:"state" enum:"empty,busy,draft,dialog,unknown,closed,gone"`
	Reason  string `json:"reason,omitempty"` // why nothing can be typed now, for programs: not_agent, draft, dialog, in_mode, input_off, synchronized, dead, gone, unknown
	Detail  string `json:"detail,omitempty"` // the same for people
	Where   string `json:"where,omitempty"`  // session:window.pane
	Title   string `json:"title,omitempty"`
	Program string `json:"program,omitempty"` // that is in front
	Cwd     string `json:"cwd,omitempty"`
	PID     int    `json:"pid,omitempty"`    // of the agent, or of the pane's first process
	Raw     bool   `json:"raw"`              // the program reads each key as it is typed
	Queued  int    `json:"queued"`           // messages that the agent itself shows as queued
	Dialog  string `json:"dialog,omitempty"` // what the agent asks
	Draft   string `json:"draft,omitempty"`  // the text of a person; only if it was asked for
}

// The values of [PaneOptions.Via].
const (
	ViaPane    = "pane"    // the tmux pane that config.json has for the member
	ViaSession = "session" // the session of the member's own process, by its socket or hook
	ViaQueue   = "queue"   // Codex's own queue, for a session of Codex that takes no messages; only for a person
)

// PaneOptions are the options of a message that is typed into a pane: a part of [NewMessage] and
// [NewBroadcast]. From is then the person, a registered pane, or MEMBER@TEAM.
type PaneOptions struct {
	// pane: type it into the tmux pane that config.json has for the member; session: write it to the session of the member's
	// process; queue: put it into Codex's queue, for a session of Codex that takes no messages, whose model takes it for the
	// words of its person. Members of the teams tmux and sessions need none
	Via string `json:"via,omitempty" enum:",pane,session,queue"`
	// [PolicyQueued] and its like: when it is typed into the pane: queued (the default), also while the agent works;
	// important, the same, before other messages; when-idle, only at an empty prompt; urgent, after Esc, which stops the
	// agent. Never into a draft or a dialog
	Policy       string `json:"policy,omitempty" enum:",queued,important,when-idle,urgent"`
	SaveDraft    bool   `json:"saveDraft,omitempty"`    // put what a person has typed in the pane aside while the message is typed
	NotifyOnStop bool   `json:"notifyOnStop,omitempty"` // notify the sender when the task of the message is done: the person by attention, an agent by a message

	Tmux         string `json:"tmux,omitempty"`         // the socket of the tmux server with the pane of via; default: that of the service
	RequireAgent bool   `json:"requireAgent,omitempty"` // refuse the message if the pane is gone or no agent is in it. Without it, the message waits
}

// The policies of messages to panes: when they may be typed. None is typed into a draft or
// a dialog.
const (
	PolicyQueued    = "queued"    // also while the agent works
	PolicyImportant = "important" // as queued, before other messages
	PolicyWhenIdle  = "when-idle" // only at an empty prompt
	PolicyUrgent    = "urgent"    // interrupts the agent with ESC first
)

// Policies returns the policies, the default first.
func Policies() []string {
	return []string{PolicyQueued, PolicyImportant, PolicyWhenIdle, PolicyUrgent}
}

// The states of a message sent to a pane. See [Sent].
const (
	Waiting     = "waiting"     // it was not typed yet
	Confirmed   = "confirmed"   // the agent has taken it from the keyboard
	Unconfirmed = "unconfirmed" // it was typed, but nothing shows that the agent has taken it
	NotSent     = "not_sent"    // it was not typed and will not be
)
