package api

import (
	"encoding/json"
	"time"
)

// What only the service says and is told. openapi.json of package
// teambridge/status/server explains the same for programs that are not Go.

// TeamDetail is a team, and who asks in it.
type TeamDetail struct {
	Team
	Ours       []string `json:"ours"`       // the inboxes of the person: "user", and the names that were joined under
	From       string   `json:"from"`       // the name that messages are sent under
	Answerable bool     `json:"answerable"` // agents can write to that name
}

// Record is a message as the journal has it.
type Record struct {
	Message
	Seq       int64      `json:"seq"`              // its number in the journal, in the order of appearing
	CreatedAt int64      `json:"createdAt"`        // of the team, in milliseconds: it tells teams of one name apart
	Noise     bool       `json:"noise"`            // a confirmation that nobody needs to read; answers leave it out unless asked
	FirstSeen time.Time  `json:"firstSeen"`        // to the microsecond
	ReadAt    *time.Time `json:"readAt,omitempty"` // when it was first seen to be read
	GoneAt    *time.Time `json:"goneAt,omitempty"` // when it was first seen to be gone
	Receipt   *Receipt   `json:"receipt,omitempty"`
	Relay     *Fate      `json:"relay,omitempty"` // what became of it if it was relayed

	// Person says that these are a person's own words to a headless agent. They never
	// stood in the inbox, and no row of an inbox can say so of itself.
	Person bool `json:"person,omitempty"`

	// Answer says that this is what a headless agent said last in a turn. It never stood
	// in the inbox, which is the agent's own, and no row can say so of itself.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer says what a headless agent answered to.
type Answer struct {
	Frame     string   `json:"frame"`     // what the agent was given in one turn
	InReplyTo []string `json:"inReplyTo"` // the ids of the messages in it
	Truncated bool     `json:"truncated,omitempty"`
}

// Receipt says what became of a message that was sent.
type Receipt struct {
	Seq        int64      `json:"seq"` // number of its last change in the journal
	Team       string     `json:"team"`
	CreatedAt  int64      `json:"createdAt"` // of the team, in milliseconds
	Member     string     `json:"member"`
	ID         string     `json:"id"`
	State      string     `json:"state"`            // verified, consumed, lost, unknown
	Reason     string     `json:"reason,omitempty"` // why it is lost or unknown
	VerifiedAt *time.Time `json:"verifiedAt,omitempty"`
	ConsumedAt *time.Time `json:"consumedAt,omitempty"`
	LostAt     *time.Time `json:"lostAt,omitempty"` // when it was found to be lost or unknown
}

// Page is a part of the messages of a team, oldest first.
type Page struct {
	Messages []Record `json:"messages"`

	// More says that there are more in the direction that was asked for: behind the
	// last one with after, else before the first one.
	More bool `json:"more"`

	// Seq is the number that the journal had come to before the messages were
	// read: events after it miss nothing, and may repeat what is here.
	Seq int64 `json:"seq"`
}

// Found is what a search found, the newest first.
type Found struct {
	Hits []Hit `json:"hits"`
	More bool  `json:"more"` // there are older ones
}

// Hit is a message that was found, with the part of it that fits best.
type Hit struct {
	Record
	Snippet []Piece `json:"snippet"`
}

// Piece is a part of a snippet.
type Piece struct {
	Text  string `json:"text"`
	Match bool   `json:"match"` // it is what was looked for
}

// NewMessage is a message to send. Only Text is needed. Its id, under which
// sending again is sending once, is the header Idempotency-Key.
type NewMessage struct {
	Text    string `json:"text"`
	Summary string `json:"summary,omitempty"`
	Color   string `json:"color,omitempty"`
	From    string `json:"from,omitempty"` // default: [TeamDetail.From]

	// Protocol says that Text may be an object of Claude Code's own protocol, which
	// agents obey. In the name of an agent it is refused anyway.
	Protocol bool `json:"protocol,omitempty"`

	// Only for members that the service relays to, and in the person's name. Mode
	// changes how the agent works, from this message on; Isolated keeps it from being
	// joined with others. See package relay.
	Mode     json.RawMessage `json:"mode,omitempty"`
	Isolated bool            `json:"isolated,omitempty"`

	// Force sends to an inbox that nobody is known to read, and although it is
	// not known whether the id was sent before.
	Force bool `json:"force,omitempty"`
}

// NewBroadcast is a message to all agents of a team.
type NewBroadcast struct {
	Text        string   `json:"text"`
	Summary     string   `json:"summary,omitempty"`
	Color       string   `json:"color,omitempty"`
	From        string   `json:"from,omitempty"`
	Protocol    bool     `json:"protocol,omitempty"` // as in [NewMessage]
	Except      []string `json:"except,omitempty"`
	IncludeLead bool     `json:"includeLead,omitempty"`
}

// MarkRead says which messages to mark as read, of an inbox that is the person's.
type MarkRead struct {
	Inbox string   `json:"inbox,omitempty"` // default: "user"
	IDs   []string `json:"ids"`
}

// Marked says how many messages were marked: not those that were read already.
type Marked struct {
	Inbox  string `json:"inbox"`
	Marked int    `json:"marked"`
}

// SignIn is an address that opens the page of the service, signed in, once.
type SignIn struct {
	URL   string    `json:"url"`
	Until time.Time `json:"until"` // when it opens nothing any more
}

// ServiceVersion says which teambridge the service is.
type ServiceVersion struct {
	Version
	ReadOnly bool `json:"readOnly"` // it refuses whatever changes anything, and relays nothing
}

// Health says that the service is there.
type Health struct {
	Status string `json:"status"` // ok
}

// The events of the stream, by the name that is in their "event:" line.
const (
	EventSnapshot = "snapshot" // Snapshot
	EventMessage  = "message"  // MessageEvent
	EventReceipt  = "receipt"  // Receipt
	EventRelay    = "relay"    // RelayEvent
	EventReset    = "reset"    // Reset
)

// Snapshot is all teams and what their agents are doing.
type Snapshot struct {
	Teams  []Team   `json:"teams"`
	Status []Status `json:"status"`
}

// The changes of messages.
const (
	Appeared = "appeared"
	Read     = "read"
	Gone     = "gone"
)

// MessageEvent says that a message appeared, was read, or is gone from its inbox.
type MessageEvent struct {
	Seq     int64  `json:"seq"` // of the change; the message has its own
	Change  string `json:"change"`
	Message Record `json:"message"`
}

// Reset says that events were forgotten before they could be told: what the
// client knows has gaps, and it reads anew what it shows. Events go on after Seq.
type Reset struct {
	Seq int64 `json:"seq"`
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem is how the service tells an error (RFC 9457), with the code and the
// hint of the command line.
type Problem struct {
	Type    string   `json:"type"` // urn:teambridge:CODE
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	Code    Code     `json:"code"`
	Hint    string   `json:"hint"`
	Nearest []string `json:"nearest,omitempty"` // names that are most like one that was not found
}

// Error returns what went wrong. A client returns the *Problem itself, so that its
// caller gets the same code, text and hint as without the service.
func (p *Problem) Error() string { return p.Detail }

// Is reports whether target is the code of p.
func (p *Problem) Is(target error) bool { return target == p.Code }
