package wire

// SessionMessage is a message of a session as a server stores it. The server cannot read the payload.
type SessionMessage struct {
	ID        string
	Seq       float64 // orders the messages of the session
	LocalID   Nullable[string]
	Encrypted string  // at "content.c", next to "t": "encrypted"; in any encoding
	CreatedAt float64 // milliseconds since January 1, 1970 UTC
	UpdatedAt float64
}

// VersionedEncryptedValue is an encrypted value with a version number.
type VersionedEncryptedValue struct {
	Version float64
	Value   string
}

// VersionedMachineEncryptedValue is the [VersionedEncryptedValue] of a machine.
type VersionedMachineEncryptedValue = VersionedEncryptedValue

// VersionedNullableEncryptedValue is a [VersionedEncryptedValue] that can be
// reset.
type VersionedNullableEncryptedValue struct {
	Version float64
	Value   *string // nil: null
}

// CoreUpdateContainer carries an update from a server to its clients.
type CoreUpdateContainer struct {
	ID        string
	Seq       float64 // orders the updates
	Body      CoreUpdateBody
	CreatedAt float64 // milliseconds since January 1, 1970 UTC
}

// CoreUpdateBody is an update: an *[UpdateNewMessageBody],
// *[UpdateSessionBody] or *[UpdateMachineBody].
type CoreUpdateBody interface {
	record
	coreUpdateBody()
}

// UpdateNewMessageBody reports a new message in a session.
type UpdateNewMessageBody struct {
	SID     string // of the session
	Message SessionMessage
}

// UpdateSessionBody reports changes of a session.
type UpdateSessionBody struct {
	ID         string
	Metadata   Nullable[VersionedEncryptedValue]
	AgentState Nullable[VersionedNullableEncryptedValue]
}

// UpdateMachineBody reports changes of a machine.
type UpdateMachineBody struct {
	MachineID   string
	Metadata    Nullable[VersionedMachineEncryptedValue]
	DaemonState Nullable[VersionedMachineEncryptedValue]
	Active      *bool
	ActiveAt    *float64 // milliseconds since January 1, 1970 UTC
}

// Names that older clients use.
type (
	ApiMessage            = SessionMessage
	ApiUpdateNewMessage   = UpdateNewMessageBody
	ApiUpdateSessionState = UpdateSessionBody
	ApiUpdateMachineState = UpdateMachineBody
	UpdateBody            = UpdateNewMessageBody
	Update                = CoreUpdateContainer
)

var coreUpdateBody = union("t", []variant[CoreUpdateBody]{
	{"new-message", func() CoreUpdateBody { return new(UpdateNewMessageBody) }},
	{"update-session", func() CoreUpdateBody { return new(UpdateSessionBody) }},
	{"update-machine", func() CoreUpdateBody { return new(UpdateMachineBody) }},
})

func (*UpdateNewMessageBody) coreUpdateBody() {}
func (*UpdateSessionBody) coreUpdateBody()    {}
func (*UpdateMachineBody) coreUpdateBody()    {}

func (m *SessionMessage) fields(o *object) {
	required(o, "id", &m.ID, text)
	required(o, "seq", &m.Seq, number)
	nullish(o, "localId", &m.LocalID, text)
	nested(o, "content", func(o *object) {
		required(o, "c", &m.Encrypted, text)
		literal(o, "t", "encrypted")
	})
	required(o, "createdAt", &m.CreatedAt, number)
	required(o, "updatedAt", &m.UpdatedAt, number)
}

func (v *VersionedEncryptedValue) fields(o *object) {
	required(o, "version", &v.Version, number)
	required(o, "value", &v.Value, text)
}

func (v *VersionedNullableEncryptedValue) fields(o *object) {
	required(o, "version", &v.Version, number)
	required(o, "value", &v.Value, nullable(text[string]))
}

func (c *CoreUpdateContainer) fields(o *object) {
	required(o, "id", &c.ID, text)
	required(o, "seq", &c.Seq, number)
	required(o, "body", &c.Body, coreUpdateBody)
	required(o, "createdAt", &c.CreatedAt, number)
}

func (b *UpdateNewMessageBody) fields(o *object) {
	literal(o, "t", "new-message")
	required(o, "sid", &b.SID, text)
	required(o, "message", &b.Message, structure)
}

func (b *UpdateSessionBody) fields(o *object) {
	literal(o, "t", "update-session")
	required(o, "id", &b.ID, text)
	nullish(o, "metadata", &b.Metadata, structure)
	nullish(o, "agentState", &b.AgentState, structure)
}

func (b *UpdateMachineBody) fields(o *object) {
	literal(o, "t", "update-machine")
	required(o, "machineId", &b.MachineID, text)
	nullish(o, "metadata", &b.Metadata, structure)
	nullish(o, "daemonState", &b.DaemonState, structure)
	optional(o, "active", &b.Active, boolean)
	optional(o, "activeAt", &b.ActiveAt, number)
}
