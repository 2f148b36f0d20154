package api

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Bridge has the operations for people and programs. Package bridge does them on the files of this
// machine, and package client asks a service. Both pass the suite of package bridgetest.
//
// Teams are given by name; "tmux" is the team of the registered panes. Errors have the codes of
// this package, the same ones from both packages.
type Bridge interface {
	// Target returns which team, and which of its members or panes, a scope and names such as
	// MEMBER or MEMBER@TEAM mean. The directory selects no team on another machine. The error
	// is [CodeAmbiguousTeam] if several teams could be meant; [Choices] returns them.
	Target(ctx context.Context, s Scope, names ...string) (Target, error)

	// Teams returns all teams, sorted by name.
	Teams(ctx context.Context) ([]Team, error)
	// EndedTeams returns the teams that were recorded and no longer exist, the last heard first.
	EndedTeams(ctx context.Context) ([]EndedTeam, error)
	// Team returns one team, and the names of the person in it.
	Team(ctx context.Context, team string) (TeamDetail, error)

	// Members returns the members of a team, then the inboxes without a member.
	Members(ctx context.Context, team string) ([]Member, error)

	// Sessions returns the living sessions of Claude Code on this machine, in teams or not, the
	// oldest process first.
	Sessions(ctx context.Context) ([]Session, error)

	// Rename gives a session in no team a name of its own, or takes it away. The error is [CodeConflict] if the name is
	// taken or a message to the session is on its way, and [CodeInvalid] if the name is not valid.
	Rename(ctx context.Context, team, member string, n NewName) (Renamed, error)

	// Agents returns all living agents, on this machine and on others, reachable ones first.
	Agents(ctx context.Context) (Agents, error)

	// Tasks returns tasks of teams, and of sessions in none, as they are now. The error is [CodeNotFound] if there is no
	// such team or session, or no owner or task in it with the name or id that was asked for.
	Tasks(ctx context.Context, q TaskQuery) (Tasks, error)
	// FollowTasks yields what Tasks returns, and then again whenever it has changed, until ctx ends. An error is the last
	// thing that it yields.
	FollowTasks(ctx context.Context, q TaskQuery) iter.Seq2[Tasks, error]
	// TaskHistory returns how tasks have changed, as far as a service has recorded it. The error is that of
	// Tasks, unless something is recorded.
	TaskHistory(ctx context.Context, q TaskHistoryQuery) (TaskHistory, error)

	// Status returns the state of each agent of a team, or of each with a given name; one that has
	// left is known for as long as its messages are.
	Status(ctx context.Context, team string, members ...string) ([]Status, error)

	// Attention returns everything that waits for the person, the oldest first: of one team, or of
	// all if team is "".
	Attention(ctx context.Context, team string) ([]Attention, error)
	// Inbox returns everything that needs the person, with the messages that are unread. What could not be read is
	// among its problems.
	Inbox(ctx context.Context, q InboxQuery) (Inbox, error)
	// Dismiss hides the item with an id, for as long as it waits, and returns it. The error is
	// [CodeNotFound] if there is no such item, and [CodeInvalid] if it is not dismissable.
	Dismiss(ctx context.Context, id string) (Attention, error)

	// Relays returns the relays that were added to the service, and those that "teambridge run" runs
	// or ran: of teams of one name, or of all if team is "".
	Relays(ctx context.Context, team string) ([]RelayEntry, error)

	// Send sends a message to a member; "lead" is the lead. With [NewMessage.Scope], team is ignored, and
	// member is an address. Sending again under the same id is sending once. If id is "", it gets a new one.
	Send(ctx context.Context, team, member, id string, m NewMessage) (Sent, error)
	// Broadcast sends a message to every agent of a team. A result has an Error if that message
	// could not be sent. If id is not "", each message has the id ID-MEMBER.
	Broadcast(ctx context.Context, team, id string, m NewBroadcast) ([]Sent, error)
	// Await waits until a message that was sent with Send has reached a state: [Consumed] or [Seen]
	// or, in a pane, [Confirmed]. It returns the message as it is then, even with an error: that is
	// [CodeTimeout] after a timeout that is not 0, or says what happened to the message instead.
	Await(ctx context.Context, s Sent, until string, timeout time.Duration) (Sent, error)
	// Read returns messages that are in inboxes, oldest first, and with History those that have
	// left them. An inbox that cannot be read is a problem of the answer, not an error. Of panes,
	// it returns what waits to be typed.
	Read(ctx context.Context, team string, q Reading) (Rows, error)
	// MarkRead marks messages in an inbox of the person as read.
	MarkRead(ctx context.Context, team string, m MarkRead) (Marked, error)

	// Ask sends a message to a member, waits for the answer and returns it. Unless the person has
	// joined the team, it joins first, since agents of some versions can only write to members.
	// The error is [CodeTimeout] after the Timeout, and [CodeNoAnswer] if the member's turn with the
	// message ended without an answer: the message stays sent.
	Ask(ctx context.Context, team, member, id string, q NewQuestion) (Answered, error)
	// Reply answers a message to the person or, if the caller is an agent, to the sender of the answer: it sends a
	// message to the author, as Send or Ask does. The error is [CodeNotFound] if there is no such message.
	Reply(ctx context.Context, id string, r NewReply) (Replied, error)
	// Wait waits until something happens in a team. The error is [CodeTimeout] after the Timeout,
	// and [CodeNotFound] or [CodeGone] if it cannot happen any more.
	Wait(ctx context.Context, team string, o Occasion) (Happened, error)
	// Transcript yields what an agent received, said and did, oldest first: envelopes of the
	// session protocol, a line of JSON each. who is a member or, if team is "", the id of a
	// session; those of OpenCode begin with "ses_". An error is the last thing that it yields.
	Transcript(ctx context.Context, team, who string, q TranscriptQuery) iter.Seq2[json.RawMessage, error]

	// Changes returns the files that an agent and its subagents have changed with their tools, as their
	// transcripts say, the last changed first. who is as in Transcript; the error is [CodeInvalid] for
	// an agent of OpenCode.
	Changes(ctx context.Context, team, who string, q ChangesQuery) ([]FileChanges, error)

	// Messages returns recorded messages of a team, and what its agents said and did, oldest
	// first. The team may have ended.
	Messages(ctx context.Context, team string, q MessageQuery) (Page, error)
	// History returns messages of all teams, and what their agents said and did, the newest first.
	History(ctx context.Context, q SearchQuery) (Found, error)

	// Usage counts the tokens that agents have used, and what that cost, as far as Claude Code says so. It
	// reads transcripts, and for other programs what was recorded. The error is [CodeUsage] if they
	// cannot be counted in that way.
	Usage(ctx context.Context, q UsageQuery) (Usage, error)

	// Events yields the events of one team, or of all teams if the name is empty, after the event
	// with an id, or, if after is "", from now on. The first event is a snapshot, and another one
	// follows whenever the state changes. Messages, receipts, relay events and envelopes come once
	// each, in the order of the journal. If events were pruned, or the journal is another one,
	// there is an [EventReset]: the caller must read everything again. It ends without an error if
	// ctx ends.
	Events(ctx context.Context, team, after string) iter.Seq2[Event, error]

	// Join joins a team under a name that its agents can write to, [Guest] if none was chosen.
	// Joining twice is joining once.
	Join(ctx context.Context, team string, n NewJoin) (Membership, error)
	// Leave leaves a team under a name or, if it is empty, under every name that was joined
	// under, and returns them. Inboxes stay.
	Leave(ctx context.Context, team, as string) ([]Membership, error)

	// Relay returns the relay that a name means: its id, else MEMBER[@TEAM], else the beginning
	// of its id, 4 characters or more. Without @TEAM, team is that of the member; if it is "",
	// it may be any. The error is [CodeUsage] if there are several. All that take the id of a
	// relay take such a name.
	Relay(ctx context.Context, team, name string) (RelayEntry, error)
	// AddRelay has the service run a program, with the rights of its user, as a headless member
	// of a team. The error is [CodeConflict] if the member has a relay with other settings;
	// adding the same again changes nothing.
	AddRelay(ctx context.Context, n NewRelay) (RelayEntry, error)
	// RemoveRelay has the service end an agent, after its turn. Waiting messages stay where they
	// are. With deleteTeam, the team that was made for the relay is removed once its agent has ended;
	// the error is [CodeConflict] if the team has to stay, and then the relay stays, too. It returns
	// the relay as it was.
	RemoveRelay(ctx context.Context, id string, deleteTeam bool) (RelayEntry, error)
	// RetryRelay has the service start an agent again that it has given up. The error is
	// [CodeConflict] if it has not.
	RetryRelay(ctx context.Context, id string) (RelayEntry, error)
	// Interrupt stops the turn of an agent, and cancels its messages. The error is
	// [CodeNotInFlight] if there is none.
	Interrupt(ctx context.Context, id string) (RelayEntry, error)
	// Hold holds back the messages between two members of a team, in each direction that a
	// relay delivers, until Release, and returns the holds. Messages claimed before are
	// delivered; the others wait unread, in order. The error is [CodeConflict] if no relay
	// delivers to either of them.
	Hold(ctx context.Context, team, member, sender string) ([]Hold, error)
	// Release releases the messages of a sender, or of all if it is "", that are held back from
	// a member. It returns the holds.
	Release(ctx context.Context, team, member, sender string) ([]Hold, error)

	// Questions returns the open questions of agents, the oldest first, in one team or, if it is
	// "", in all. Only a service knows them.
	Questions(ctx context.Context, team string) ([]Asked, error)
	// Question returns one of them, by its id or the beginning of it. The error is
	// [CodeConflict] if it is not open any more.
	Question(ctx context.Context, team, id string) (Asked, error)
	// Answer answers a question, by its id or the beginning of it, and returns it in its new state. The error is
	// [CodeConflict] if it is not open any more, or p is for another input.
	Answer(ctx context.Context, id string, p Permit) (Asked, error)

	// Deliveries returns the deliveries to the member of a relay or, if it is "", to all agents,
	// the newest first.
	Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error)
	// RetryDelivery delivers a failed message again. The first attempt may already be in the
	// conversation of the agent. The beginning of the id of one that has not ended is enough.
	RetryDelivery(ctx context.Context, id string) (Delivery, error)
	// DropDelivery gives up a delivery that waits or failed: the agent never gets it.
	DropDelivery(ctx context.Context, id string) (Delivery, error)

	// Panes returns the registered panes, sorted by name.
	Panes(ctx context.Context) ([]Pane, error)
	// Pane looks at a registered pane now.
	Pane(ctx context.Context, name string) (Pane, error)
	// TestPane says what a message to it would do now; policy is [PolicyQueued] if it is "".
	TestPane(ctx context.Context, name, policy string) (PaneTest, error)
	// AddPane registers a pane. The error is [CodeConflict] if the name or the pane is
	// registered otherwise; registering the same again changes nothing.
	AddPane(ctx context.Context, n NewPane) (Pane, error)
	// RemovePane removes a pane, and drops its waiting messages. It returns the pane as it was.
	RemovePane(ctx context.Context, name string) (Pane, error)

	// Move asks for the session of a member to be moved, and returns where it is. It does not
	// wait for the move. The error is [CodeConflict] if the session cannot move.
	Move(ctx context.Context, team, member string, n NewPlace) (Placed, error)

	// Links returns the links of this machine with others, and their states.
	Links(ctx context.Context) (Links, error)
	// SetLink sets this machine's name and hub. It makes the machine's key if there is none. The
	// error is [CodeConflict] for another name while there are links.
	SetLink(ctx context.Context, n NewLink) (Links, error)
	// AddMachine makes a link with a machine, by its card. The error is [CodeConflict] if there is
	// a link with another card, unless that is to be replaced.
	AddMachine(ctx context.Context, n NewMachine) (Machine, error)
	// RemoveMachine ends the link with a machine. Messages that wait for it have failed. It returns
	// the machine as it was.
	RemoveMachine(ctx context.Context, machine string) (Machine, error)
	// ShareTeam lets a machine write to a team, or no longer lets it.
	ShareTeam(ctx context.Context, machine string, n NewShare) (Machine, error)

	// Findings returns what keeps messages to a team from arriving; if team is "", to all teams,
	// with what is in order. With fix, what blocks agents and belongs to nobody is fixed; else nothing is changed.
	Findings(ctx context.Context, team string, fix bool) (Report, error)
}

// Guest is the name that a person joins under, if none is chosen.
const Guest = "operator"

// NewJoin says how to join a team.
type NewJoin struct {
	As  string `json:"as,omitempty"`  // the name; default: operator, and then it is refused (409) if agents can write to user without it; with remote: MEMBER-MACHINE
	Dir string `json:"dir,omitempty"` // the directory of the person, which config.json gets; default: that of the lead

	// Remote is MEMBER@TEAM@MACHINE, if the name is to stand for a member on another machine, so
	// that agents can write to it.
	Remote string `json:"remote,omitempty"`
}

// Leave says which name to leave a team under.
type Leave struct {
	As string `json:"as,omitempty"` // the name; default: every name that was joined under
}

// Membership is a team, and the name of the person in it.
type Membership struct {
	Team   string `json:"team"`
	Member string `json:"member"`
}

// Scope selects a team, by flags, the environment and the directory.
type Scope struct {
	Team    string `query:"team" json:"team,omitempty"`       // the team, if one is given
	Default string `query:"default" json:"default,omitempty"` // the team if none is given, as in the environment
	Dir     string `query:"dir" json:"dir,omitempty"`         // the directory of the caller: of several teams, it selects the one whose lead runs there

	ToRead   bool   `query:"toRead" json:"-"`   // if no team lives, and no name is given, the sessions are meant
	Via      string `query:"via" json:"-"`      // as in a message to the target
	Existing bool   `query:"existing" json:"-"` // the names must be those of members or inboxes; members has their own names
}

// AnyTeam is the team of a message with [NewMessage.Scope].
const AnyTeam = "-"

// AnyTeam reports whether no team is given.
func (s Scope) AnyTeam() bool { return s.Team == "" && s.Default == "" }

// Target is what a [Scope] and names mean.
type Target struct {
	Team    string   `json:"team"`
	Members []string `json:"members,omitempty"`                     // the given names, without their team; none: all
	Way     string   `json:"way" enum:"inbox,pane,session,machine"` // how a message reaches them; machine: over a link, and team is TEAM@MACHINE
	How     string   `json:"how"`                                   // the same in words, and why
	Queued  bool     `json:"queued,omitempty"`                      // a message to them waits here in a queue, and its delivery says why
	Apart   bool     `json:"apart,omitempty"`                       // they are unrelated to one another
}

// Member is the only name that was asked for, or "".
func (t *Target) Member() string {
	if len(t.Members) != 1 {
		return ""
	}
	return t.Members[0]
}

// EndedTeam is a team that no longer exists. Another one can have its name.
type EndedTeam struct {
	Team      string    `json:"team"`
	CreatedAt time.Time `json:"createdAt"` // zero: unknown
	LastHeard time.Time `json:"lastHeard"` // when a record of it was last made
}

// The ways in which a message reaches its recipient.
const (
	WayInbox = "inbox" // a row of the member's inbox or, to an agent of the service, a prompt
	WayPane  = "pane"  // it is typed into a tmux pane

	WaySession = "session" // it is written to the socket of a session of Claude Code
	WayHook    = "hook"    // of sessions alone: the waiting hook hands it over
	WayCodex   = "codex"   // of sessions alone: Codex's shared server has it, and gives it to the model as the output of a tool
)

// Reading selects messages to read. The zero value selects all that are in inboxes, except
// confirmations.
type Reading struct {
	Inboxes  []string  `query:"inbox"`    // a name, "lead" or "user"; can be repeated; default: all
	Own      bool      `query:"own"`      // only inboxes of the person; it is an error (403) to name another
	From     string    `query:"from"`     // only of this sender
	Since    time.Time `query:"since"`    // only after this time
	After    string    `query:"after"`    // only after the message with this id, or with the only one that begins so
	Unread   bool      `query:"unread"`   // only unread ones
	Protocol bool      `query:"protocol"` // also confirmations that nobody needs to read
	History  bool      `query:"history"`  // also recorded messages that have left their inbox
	Limit    int       `query:"limit"`    // only the last ones; default, and 0: all
}

// Rows are messages that were read from inboxes.
type Rows struct {
	Messages []Message `json:"messages"`
	Hidden   int       `json:"hidden"`             // confirmations that were left out
	Problems []Error   `json:"problems,omitempty"` // why some inboxes are not in Messages
	Notes    []string  `json:"notes,omitempty"`    // what else may be missing
}

// NewQuestion is a message that waits for its answer.
type NewQuestion struct {
	NewMessage
	Timeout string `json:"timeout,omitempty"` // how long to wait for the answer, such as 5m; default: forever
	Dir     string `json:"dir,omitempty"`     // the directory of the person, which config.json gets if the team is joined; default: that of the lead
}

// The ways in which an answer comes.
const (
	ViaMessage = "message" // the member wrote it to the person
	ViaResult  = "result"  // of the member's turn
)

// Answered is a message with its answer.
type Answered struct {
	Sent    Sent    `json:"sent"`
	Reply   Message `json:"reply"`
	Text    string  `json:"text"`                      // the answer, even if the reply is a structured text
	Via     string  `json:"via" enum:"message,result"` // message: the member wrote it to the person; result: of the member's turn
	Certain bool    `json:"certain"`                   // false: it may belong to another task of the member
	Joined  string  `json:"joined,omitempty"`          // the name that the person has joined the team under to ask; empty: had joined before
}

// The occasions that can be waited for.
const (
	ForReply      = "reply"      // a message to the person, from Member if one is given
	ForMessage    = "message"    // a message to anybody, from Member if one is given
	ForIdle       = "idle"       // Member is idle, and no message waits for it
	ForAllIdle    = "all-idle"   // every agent but the lead is idle
	ForTerminated = "terminated" // Member has shut down, or the team's lead is not running
)

// Occasions are all of them.
func Occasions() []string { return []string{ForReply, ForMessage, ForIdle, ForAllIdle, ForTerminated} }

// Occasion is what to wait for. For is needed, and for some occasions Member.
type Occasion struct {
	// reply: a message to the person, from member if one is given; message: a message to anybody, from member if one is given;
	// idle: member is idle, and no message waits for it; all-idle: every agent but the lead is idle; terminated: member has shut
	// down, or the team's lead is not running
	For     string        `query:"for,required" enum:"reply,message,idle,all-idle,terminated"`
	Member  string        `query:"member"`  // needed for idle and terminated
	Timeout time.Duration `query:"timeout"` // how long to wait, such as 5m; default, and 0: forever
}

// Happened is what was waited for: a message, or the statuses of those that were waited for.
type Happened struct {
	Message *Record  `json:"message,omitempty"`
	Status  []Status `json:"status,omitempty"`
}

// LinesType is the media type of a transcript, one envelope per line.
const LinesType = "application/x-ndjson"

// LineError is the last line of a transcript that the service could not read to its end.
type LineError struct {
	Error Error `json:"error"`
}

// TranscriptQuery says how to read a transcript.
type TranscriptQuery struct {
	Follow bool   `query:"follow"` // go on with new envelopes, and with the next session of a member, until the client or the service ends
	Dir    string `query:"dir"`    // the directory that a server of OpenCode is started in to read a session of it; default: that of the service or, without one, of the program that reads it
}

// The number of messages in a [Page], and in what was [Found].
const (
	DefaultMessages, MaxMessages = 100, 500
	DefaultHits                  = 20
)

// MessageQuery selects messages. The zero value selects the last 100 of the team that
// exists now.
type MessageQuery struct {
	Inbox     string `query:"inbox"`                                 // only to this inbox
	From      string `query:"from"`                                  // only from this sender
	With      string `query:"with"`                                  // from this sender or to this inbox: one conversation; cannot be used with inbox or from
	After     int64  `query:"after"`                                 // only with a higher seq
	Forward   bool   `query:"after,given"`                           // the first ones after After, even if that is 0, instead of the last ones
	Before    int64  `query:"before"`                                // only with a lower seq
	Limit     int    `query:"limit" min:"1" max:"500" default:"100"` // the largest number of items
	CreatedAt int64  `query:"createdAt"`                             // the team's, in milliseconds, if several teams had the name. Default: the existing team, otherwise the last one
	Protocol  bool   `query:"protocol"`                              // also confirmations that nobody needs to read

	MessagesOnly bool `query:"work,not"` // also what agents said and did in the middle of their turns: records with work; unless it is false
	Thinking     bool `query:"thinking"` // also the reasoning of agents, as work of kind thinking
}

// SearchQuery selects what was recorded.
type SearchQuery struct {
	Words     string    `query:"q"`                                    // words that must all occur; "in quotes" as a phrase, and word* as a prefix
	Team      string    `query:"team"`                                 // only of teams with this name
	CreatedAt int64     `query:"createdAt"`                            // only of teams created at this time, in milliseconds
	Inbox     string    `query:"inbox"`                                // only to this inbox
	From      string    `query:"from"`                                 // only from this sender
	With      string    `query:"with"`                                 // only from this sender or to this inbox; of NAME@TEAM, without team, also what it wrote to other teams; not with from or inbox
	Since     time.Time `query:"since"`                                // only recorded at this time or later
	Until     time.Time `query:"until"`                                // only recorded before this time
	After     string    `query:"after"`                                // only after the message with this id, or with the only one that begins so
	Before    int64     `query:"before"`                               // only with a lower seq
	Limit     int       `query:"limit" min:"1" max:"500" default:"20"` // the largest number of items
	Protocol  bool      `query:"protocol"`                             // also confirmations that nobody needs to read

	MessagesOnly bool `query:"work,not"` // also what agents said and did in the middle of their turns: records with work; unless it is false
	Thinking     bool `query:"thinking"` // also the reasoning of agents, as work of kind thinking
}
