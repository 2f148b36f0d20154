package api

import (
	"encoding/json"
	"time"
)

// The types below are used only by the service; see also its openapi.json.

// TeamDetail is a team, and the names of the person in it.
type TeamDetail struct {
	Team
	Ours       []string `json:"ours"`       // the inboxes of the person: "user", and the names the person joined under
	From       string   `json:"from"`       // the default sender of messages
	Answerable bool     `json:"answerable"` // agents can write to that name
}

// Record is a message in the journal.
type Record struct {
	Message
	Seq       int64      `json:"seq"`              // its number in the journal, in order of appearance
	CreatedAt int64      `json:"createdAt"`        // of the team, in milliseconds; it tells teams with the same name apart
	Noise     bool       `json:"noise"`            // a confirmation that nobody needs to read; left out unless asked for
	FirstSeen time.Time  `json:"firstSeen"`        // to the microsecond
	ReadAt    *time.Time `json:"readAt,omitempty"` // when it was first seen as read
	GoneAt    *time.Time `json:"goneAt,omitempty"` // when it was first missing
	Receipt   *Receipt   `json:"receipt,omitempty"`
	Relay     *Fate      `json:"relay,omitempty"` // its state if it was relayed

	// Person marks a user prompt to a headless agent. It was never in the inbox, and
	// no row of an inbox can claim to be one.
	Person bool `json:"person,omitempty"`

	// Answer marks the last text of a headless agent in a turn. It was never in the
	// inbox, which is the agent's own, and no row can claim to be one.
	Answer *Answer `json:"answer,omitempty"`

	// Work marks what an agent said or did in the middle of a turn. The message is in its
	// own inbox, from itself; its kind is that of the work, and its text is one line for a
	// tool call. No row of an inbox can claim to be work.
	Work *Work `json:"work,omitempty"`
}

// The kinds of work.
const (
	KindText     = "text"     // said before the turn ended; the last text of a turn is its answer
	KindThinking = "thinking" // the agent's reasoning
	KindTool     = "tool"     // a tool call, from its start to its end
	KindFile     = "file"     // a file that it wrote
	KindService  = "service"  // a note of the program that runs the agent
	KindTurn     = "turn"     // a turn that failed or was cancelled
)

// The states of work. Only work that is done or started was done as its text says.
const (
	WorkRunning   = "running" // of a tool call: it has no end yet
	WorkDone      = "done"
	WorkStarted   = "started"   // of a tool call: its work goes on in the background
	WorkFailed    = "failed"    // of a tool call: it reported an error, or could not be run; of a turn
	WorkDenied    = "denied"    // of a tool call: it was not allowed, and nothing was done
	WorkCut       = "cut"       // of a tool call: it was interrupted or its agent died, and how much was done is not known
	WorkUnknown   = "unknown"   // of a tool call: an earlier version recorded its end, and not how it ended
	WorkCancelled = "cancelled" // of a turn
)

// Work is what an agent said or did, made of envelopes of the session protocol.
type Work struct {
	Envelope string `json:"envelope"` // the id of the first envelope
	Session  string `json:"session"`
	Turn     string `json:"turn,omitempty"`     // for a relayed agent, the frame that began it. A text that is the answer to this frame is not shown again as work
	Subagent string `json:"subagent,omitempty"` // which subagent did it; missing for the agent itself
	// [WorkDone] and its like: of a tool call: running, it has no end yet; done; started, its work goes on in the
	// background; failed, it reported an error or could not be run; denied, it was not allowed and nothing was done; cut, it
	// was interrupted or its agent died, and how much was done is not known; unknown, an earlier version recorded its
	// end and not how it ended. Of a turn: failed, cancelled. Of everything else: done
	State  string     `json:"state" enum:"running,done,started,failed,denied,cut,unknown,cancelled"`
	Tool   string     `json:"tool,omitempty"`   // the name of the tool
	Call   string     `json:"call,omitempty"`   // the id of the tool call
	Starts string     `json:"starts,omitempty"` // the subagent that the tool call started
	Ended  *time.Time `json:"ended,omitempty"`  // when the tool call ended
}

// Answer says which messages a headless agent answered.
type Answer struct {
	Frame     string   `json:"frame"`               // the id of the frame that the agent got in the turn
	InReplyTo []string `json:"inReplyTo"`           // the ids of the messages in it
	Truncated bool     `json:"truncated,omitempty"` // it was longer than 1 MiB, and was cut
}

// Receipt is the state of a sent message.
type Receipt struct {
	Seq       int64  `json:"seq"` // the number of its last change in the journal
	Team      string `json:"team"`
	CreatedAt int64  `json:"createdAt"` // of the team, in milliseconds
	Member    string `json:"member"`    // whose inbox it was sent to
	ID        string `json:"id"`        // of the message
	// verified: in the inbox, or in the queue of a relay. consumed: taken by the agent. lost: overwritten by another
	// program, or given up before the agent took it. unknown: gone from the inbox, or the inbox is corrupt, and whether
	// the agent took it is not known. A lost or unknown message can be sent again under its id with force; then it is
	// verified again
	State      string     `json:"state" enum:"verified,consumed,lost,unknown"`
	Reason     string     `json:"reason,omitempty"` // why the state is lost or unknown
	VerifiedAt *time.Time `json:"verifiedAt,omitempty"`
	ConsumedAt *time.Time `json:"consumedAt,omitempty"`
	// when the agent's model was given the message, according to the agent's transcript or its relay; missing if that is not
	// known. It can be before consumedAt
	SeenAt *time.Time `json:"seenAt,omitempty"`
	LostAt *time.Time `json:"lostAt,omitempty"` // when the state became lost or unknown

	Outcome
}

// Page is one page of the messages of a team, in the order of their numbers (Seq), in which
// they were recorded. People see them in the order of FirstSeen, as "teambridge history" and
// the page show them: one that was sent without a service is recorded later, and can have a
// larger number than the answer to it.
type Page struct {
	Messages []Record `json:"messages"`

	// there are more, as there can be with fewer than limit, since an answer has about 4 MiB of texts at most: after the
	// last one if the request had after and not before, otherwise before the first one
	More bool `json:"more"`

	// Seq is the last number in the journal before the messages were read. Events
	// after it miss nothing, but can repeat what is here.
	Seq int64 `json:"seq"`

	Ours []string `json:"ours"` // your names in the team, also after it has ended
}

// Found is the result of a search, the newest first.
type Found struct {
	Hits []Hit `json:"hits"`
	More bool  `json:"more"` // there are older ones, also if an answer has fewer than limit: request them with before

	Hidden int `json:"hidden,omitempty"` // confirmations that were left out
}

// Hit is a message that was found, and the part of it that matches best.
type Hit struct {
	Record
	Snippet []Piece `json:"snippet"`
}

// Piece is a part of a snippet.
type Piece struct {
	Text  string `json:"text"`
	Match bool   `json:"match"` // it matches the search
}

// NewMessage is a message to send. Only Text is needed. Its id is the header
// Idempotency-Key: sending again under the same id is sending once.
type NewMessage struct {
	Text    string `json:"text"`              // not blank, at most 100 KiB
	Summary string `json:"summary,omitempty"` // one line that is shown next to the sender, at most 1 KiB
	Color   string `json:"color,omitempty" enum:",blue,green,yellow,purple,orange,pink,cyan,red"`
	From    string `json:"from,omitempty"` // the sender; default: from of the team

	// the text may be an object of Claude Code's own protocol, such as {"type":"shutdown_request"}, which agents obey.
	// Without it, such a text is refused (403); in the name of an agent it is always refused
	Protocol bool `json:"protocol,omitempty"`

	// Mode and Isolated are only for members that the service relays to, and only if
	// the person is the sender. Mode changes how the agent works from this message on.
	// Isolated keeps the message from being joined with others. See package relay.
	Mode     json.RawMessage `json:"mode,omitempty" schema:"Mode"`
	Isolated bool            `json:"isolated,omitempty"` // do not join it with other messages. Only for user prompts

	// Force sends even if no reader of the inbox is known, or if it is unknown
	// whether the id was sent before.
	Force bool `json:"force,omitempty"`

	DryRun bool `json:"dryRun,omitempty"` // check everything, and send nothing: the answer is 200, and its state dry-run

	PaneOptions // if it is typed into a pane

	// Scope says where to look up the member, as [Bridge.Target] does: it is NAME, NAME@TEAM, or the beginning of a
	// name, and the team in the path is ignored. From an agent, "user" is the person, and its team is searched first.
	Scope *Scope `json:"scope,omitempty"`

	// Wait is the state that the sender gives to [Sent.Until] for [Bridge.Await], if it is not [Sent.Next]. The message
	// is refused if it can never be known to reach that state.
	Wait string `json:"wait,omitempty"`
}

// NewBroadcast is a message to all agents of a team.
type NewBroadcast struct {
	Text        string   `json:"text"`
	Summary     string   `json:"summary,omitempty"`
	Color       string   `json:"color,omitempty"`
	From        string   `json:"from,omitempty"`
	Protocol    bool     `json:"protocol,omitempty"` // as in [NewMessage]
	Except      []string `json:"except,omitempty"`   // members to leave out; the sender is always left out
	IncludeLead bool     `json:"includeLead,omitempty"`
	Scope       *Scope   `json:"scope,omitempty"` // says where to look the team up; the team in the path is ignored

	PaneOptions // only to [TeamPanes] and [TeamSessions]; Via is not for them
}

// PayloadsType is the media type of session protocol payloads, one per line, which can be
// sent in place of a [NewMessage] to a member that the service relays to.
const PayloadsType = "application/x-ndjson; profile=wire"

// SentPayloads is the result of sending payloads of the session protocol.
type SentPayloads struct {
	Dropped int             `json:"dropped"` // how many payloads
	Results []PayloadResult `json:"results"` // in the order of the lines
}

// PayloadResult is the result of one line. Either Sent or Dropped is set.
type PayloadResult struct {
	Line    int    `json:"line"` // from 1
	Sent    *Sent  `json:"sent,omitempty"`
	Dropped string `json:"dropped,omitempty" enum:"legacy,modern"` // its form, legacy or modern, which the service does not take now
}

// MarkRead says which messages to mark as read in an inbox of the person.
type MarkRead struct {
	Inbox string   `json:"inbox,omitempty"` // one of ours; default: user
	IDs   []string `json:"ids" minItems:"1"`
}

// Marked says how many messages were marked. Those already read do not count.
type Marked struct {
	Inbox  string `json:"inbox"`
	Marked int    `json:"marked"` // those already read do not count
}

// SignIn is a URL that opens the page of the service signed in. It works once.
type SignIn struct {
	URL   string    `json:"url"`
	Until time.Time `json:"until"` // when it expires
	// File, if it was requested, is a page that only the user can read and that forwards to
	// URL. It can be named in the arguments of a program, which every user of the machine can
	// read. It is removed when URL was used or has expired.
	File string `json:"file,omitempty"`
}

// ServiceVersion is the version of the service.
type ServiceVersion struct {
	Version
	ReadOnly   bool `json:"readOnly"`   // it refuses every change, and relays nothing
	Operations int  `json:"operations"` // grows when operations are added
}

// Operations grows when [Bridge] gets more operations. A service with the same number, or a larger
// one, has all operations that the client knows.
const Operations = 4

// AgentHeader marks a request of an agent, with any value. It has less authority than a person: it may read, and write in
// its own name; see openapi.json.
const AgentHeader = "Teambridge-Agent"

// Health says that the service is running.
type Health struct {
	Status string `json:"status" enum:"ok"` // ok
}

// The events of the stream, by the name in their "event:" line.
const (
	EventSnapshot = "snapshot" // Snapshot
	EventMessage  = "message"  // MessageEvent
	EventReceipt  = "receipt"  // Receipt
	EventRelay    = "relay"    // RelayEvent
	EventEnvelope = "envelope" // Envelope
	EventReset    = "reset"    // Reset
	EventQuestion = "question" // QuestionEvent
)

// Event is one event of a stream. One of the pointers is set, or none if this package
// does not know the kind of event.
type Event struct {
	Name string // EventSnapshot and its like
	ID   string // the next stream goes on after it
	Seq  int64  // the number in ID

	Snapshot *Snapshot
	Message  *MessageEvent
	Receipt  *Receipt
	Relay    *RelayEvent
	Envelope *Envelope
	Reset    *Reset
	Question *QuestionEvent

	Data json.RawMessage // as it was received
}

// Payload returns a pointer to the field that the data of an event of this name is in, or nil if this package does not
// know the name.
func (e *Event) Payload() any {
	switch e.Name {
	case EventSnapshot:
		return &e.Snapshot
	case EventMessage:
		return &e.Message
	case EventReceipt:
		return &e.Receipt
	case EventRelay:
		return &e.Relay
	case EventEnvelope:
		return &e.Envelope
	case EventReset:
		return &e.Reset
	case EventQuestion:
		return &e.Question
	}
	return nil
}

// Snapshot is the state of all teams and their agents.
type Snapshot struct {
	Teams     []Team      `json:"teams"`
	Status    []Status    `json:"status"`
	Attention []Attention `json:"attention"` // the items that wait for a person
}

// The changes of messages.
const (
	Appeared = "appeared"
	Read     = "read"
	Gone     = "gone"
)

// MessageEvent says that a message appeared, was read, or left its inbox.
type MessageEvent struct {
	Seq     int64  `json:"seq"` // of the change; the message has its own
	Change  string `json:"change" enum:"appeared,read,gone"`
	Message Record `json:"message"`
}

// The changes of questions.
const (
	QuestionAsked    = "asked"
	QuestionAnswered = "answered"
)

// QuestionEvent says that an agent asks something, or no longer does. Questions that were open when the stream began
// are in its first snapshot, and have no event.
type QuestionEvent struct {
	Change   string    `json:"change" enum:"asked,answered"` // answered: here or elsewhere; or the agent no longer waits
	Question Attention `json:"question"`                     // as in the snapshot
}

// Envelope says that an agent said or did something.
type Envelope struct {
	Seq       int64           `json:"seq"` // its number in the journal
	Team      string          `json:"team"`
	CreatedAt int64           `json:"createdAt"` // of the team, in milliseconds
	Member    string          `json:"member"`
	Session   string          `json:"session"`
	Envelope  json.RawMessage `json:"envelope"` // of the session protocol. The event tool-call-end has a key more, outcome: done, started, failed, denied or cut, as in the state of Work

	// Record is the record that a conversation shows for it, as it is then: for the end of a tool
	// call, the record of its start. It is nil if a conversation does not show it.
	Record *Record `json:"record,omitempty"`
}

// Envelopes is a page of the envelopes of one agent, oldest first.
type Envelopes struct {
	Envelopes []Envelope `json:"envelopes"`
	// there are more, as there can be with fewer than limit, since an answer has about 4 MiB of texts at most: after the
	// last one if the request had after, otherwise before the first one
	More bool  `json:"more"`
	Seq  int64 `json:"seq"` // the highest number in the journal when the page was read
}

// Reset says that events were deleted before the client got them: it must read everything
// again. Events continue after Seq.
type Reset struct {
	Seq int64 `json:"seq"` // events continue after it
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem is an error of the service (RFC 9457).
type Problem struct {
	Type    string   `json:"type"` // urn:teambridge:CODE
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"` // what went wrong
	Code    Code     `json:"code"`
	Hint    string   `json:"hint"`              // what to do about it, with operations as method and path; may be empty
	Command string   `json:"command,omitempty"` // the same for a person at the command line, if it is another text
	Nearest []string `json:"nearest,omitempty"` // names similar to one that was not found, or of teams that could be meant
	Option  string   `json:"option,omitempty"`  // the option that the request cannot have
}

// Error returns what went wrong.
func (p *Problem) Error() string { return p.Detail }

// Is reports whether target is the code of p.
func (p *Problem) Is(target error) bool { return target == p.Code }

// Installed says what "service install" has done.
type Installed struct {
	Unit    string `json:"unit"`    // the file that describes the service to the system
	Changed bool   `json:"changed"` // it was written
	Started bool   `json:"started"` // the system says that it runs
}

// Uninstalled says what "service uninstall" has done.
type Uninstalled struct {
	Unit    string `json:"unit"`
	Removed bool   `json:"removed"` // there was one
}
