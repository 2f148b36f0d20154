package wire

// Event is the content of an envelope: a *[Text], *[Service], *[ToolCallStart], *[ToolCallEnd], *[File],
// *[TurnStart], *[Start], *[TurnEnd] or *[Stop].
type Event interface {
	record
	event()
}

// Text is a piece of text from the user or the agent.
type Text struct {
	Text     string
	Thinking *bool // true: the agent's reasoning, not its answer
}

// Service is a note from the program that runs the agent.
type Service struct {
	Text string
}

// ToolCallStart is the start of a tool call.
type ToolCallStart struct {
	Call        string // identifies the call
	Name        string // of the tool
	Title       string // one line for people
	Description string
	Args        Object
}

// ToolCallEnd is the end of a tool call.
type ToolCallEnd struct {
	Call    string  // as in its ToolCallStart
	Outcome Outcome // how it ended; empty if unknown
}

// Outcome is how a tool call ended. The session protocol does not have this key, so other readers may ignore it. When
// reading, an unknown outcome is dropped like an unknown key.
type Outcome string

const (
	OutcomeDone    Outcome = "done"
	OutcomeStarted Outcome = "started" // what it started continues in the background
	OutcomeFailed  Outcome = "failed"  // the tool reported an error, or could not be run
	OutcomeDenied  Outcome = "denied"  // nothing ran: a person or a rule did not allow it
	OutcomeCut     Outcome = "cut"     // it was interrupted, or its agent died, and its effects are unknown
)

var outcomes = []Outcome{OutcomeDone, OutcomeStarted, OutcomeFailed, OutcomeDenied, OutcomeCut}

// File is a file that the agent made, or that the user attached.
type File struct {
	Ref      string // where to get it
	Name     string
	Size     float64 // in bytes
	MimeType *string
	Image    *Image // if it is a picture
}

// Image describes a picture for front ends that have not loaded it yet.
type Image struct {
	Width, Height float64 // in pixels
	Thumbhash     string
}

// TurnStart is the start of an agent's turn.
type TurnStart struct{}

// TurnEnd is the end of an agent's turn.
type TurnEnd struct {
	Status TurnStatus
}

// TurnStatus is how a turn ended.
type TurnStatus string

const (
	TurnCompleted TurnStatus = "completed"
	TurnFailed    TurnStatus = "failed"
	TurnCancelled TurnStatus = "cancelled"
)

// Start is the start of a subagent.
type Start struct {
	Title *string
}

// Stop is the end of a subagent.
type Stop struct{}

// ParseEvent reads an event.
func ParseEvent(data []byte) (Event, error) { return parse(data, event) }

var event = union("t", []variant[Event]{
	{"text", func() Event { return new(Text) }},
	{"service", func() Event { return new(Service) }},
	{"tool-call-start", func() Event { return new(ToolCallStart) }},
	{"tool-call-end", func() Event { return new(ToolCallEnd) }},
	{"file", func() Event { return new(File) }},
	{"turn-start", func() Event { return new(TurnStart) }},
	{"start", func() Event { return new(Start) }},
	{"turn-end", func() Event { return new(TurnEnd) }},
	{"stop", func() Event { return new(Stop) }},
})

func (*Text) event()          {}
func (*Service) event()       {}
func (*ToolCallStart) event() {}
func (*ToolCallEnd) event()   {}
func (*File) event()          {}
func (*TurnStart) event()     {}
func (*TurnEnd) event()       {}
func (*Start) event()         {}
func (*Stop) event()          {}

func (e *Text) fields(o *object) {
	literal(o, "t", "text")
	required(o, "text", &e.Text, text)
	optional(o, "thinking", &e.Thinking, boolean)
}

func (e *Service) fields(o *object) {
	literal(o, "t", "service")
	required(o, "text", &e.Text, text)
}

func (e *ToolCallStart) fields(o *object) {
	literal(o, "t", "tool-call-start")
	required(o, "call", &e.Call, text)
	required(o, "name", &e.Name, text)
	required(o, "title", &e.Title, text)
	required(o, "description", &e.Description, text)
	required(o, "args", &e.Args, open)
}

func (e *ToolCallEnd) fields(o *object) {
	literal(o, "t", "tool-call-end")
	required(o, "call", &e.Call, text)
	lenient(o, "outcome", &e.Outcome, outcomes)
}

func (e *File) fields(o *object) {
	literal(o, "t", "file")
	required(o, "ref", &e.Ref, text)
	required(o, "name", &e.Name, text)
	required(o, "size", &e.Size, number)
	optional(o, "mimeType", &e.MimeType, text)
	optional(o, "image", &e.Image, structure)
}

func (i *Image) fields(o *object) {
	required(o, "width", &i.Width, number)
	required(o, "height", &i.Height, number)
	required(o, "thumbhash", &i.Thumbhash, text)
}

func (e *TurnStart) fields(o *object) {
	literal(o, "t", "turn-start")
}

func (e *TurnEnd) fields(o *object) {
	literal(o, "t", "turn-end")
	required(o, "status", &e.Status, oneOf(TurnCompleted, TurnFailed, TurnCancelled))
}

func (e *Start) fields(o *object) {
	literal(o, "t", "start")
	optional(o, "title", &e.Title, text)
}

func (e *Stop) fields(o *object) {
	literal(o, "t", "stop")
}
