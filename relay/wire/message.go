package wire

// MessageContent is the payload of a message, by its role: a *[UserMessage]
// ("user"), *[AgentMessage] ("agent") or *[SessionProtocolMessage] ("session").
type MessageContent interface {
	record
	messageContent()
}

// LegacyMessageContent is a payload from before the session protocol: a
// *[UserMessage] or an *[AgentMessage].
type LegacyMessageContent interface {
	MessageContent
	legacyMessageContent()
}

// SessionProtocolMessage is a payload with an envelope.
type SessionProtocolMessage struct {
	Content Envelope
	Meta    *MessageMeta
}

// UserMessage is a user's message to the agent, as a legacy payload.
type UserMessage struct {
	Text     string // at "content.text"
	LocalKey *string
	Meta     *MessageMeta
}

// AgentMessage is a text or an action of the agent, as a legacy payload.
type AgentMessage struct {
	Type    string // at "content.type"
	Content Object // all other keys of "content"
	Meta    *MessageMeta
}

// MessageMeta has the origin of a message, and the settings that the agent uses for it. An absent setting stays
// unchanged; null asks for the agent's default.
type MessageMeta struct {
	SentFrom           *string
	PermissionMode     *string
	Model              Nullable[string]
	FallbackModel      Nullable[string]
	CustomSystemPrompt Nullable[string]
	AppendSystemPrompt Nullable[string]
	AllowedTools       Nullable[[]string]
	DisallowedTools    Nullable[[]string]
	DisplayText        *string // shown instead of the text
}

// ParseMessageContent reads a payload.
func ParseMessageContent(data []byte) (MessageContent, error) {
	return parse(data, union("role", []variant[MessageContent]{
		{"user", func() MessageContent { return new(UserMessage) }},
		{"agent", func() MessageContent { return new(AgentMessage) }},
		{"session", func() MessageContent { return new(SessionProtocolMessage) }},
	}))
}

// ParseLegacyMessageContent reads a legacy payload.
func ParseLegacyMessageContent(data []byte) (LegacyMessageContent, error) {
	return parse(data, union("role", []variant[LegacyMessageContent]{
		{"user", func() LegacyMessageContent { return new(UserMessage) }},
		{"agent", func() LegacyMessageContent { return new(AgentMessage) }},
	}))
}

func (*SessionProtocolMessage) messageContent() {}
func (*UserMessage) messageContent()            {}
func (*AgentMessage) messageContent()           {}
func (*UserMessage) legacyMessageContent()      {}
func (*AgentMessage) legacyMessageContent()     {}

func (m *SessionProtocolMessage) fields(o *object) {
	literal(o, "role", "session")
	required(o, "content", &m.Content, structure)
	optional(o, "meta", &m.Meta, structure)
}

func (m *UserMessage) fields(o *object) {
	literal(o, "role", "user")
	nested(o, "content", func(o *object) {
		literal(o, "type", "text")
		required(o, "text", &m.Text, text)
	})
	optional(o, "localKey", &m.LocalKey, text)
	optional(o, "meta", &m.Meta, structure)
}

func (m *AgentMessage) fields(o *object) {
	literal(o, "role", "agent")
	nested(o, "content", func(o *object) {
		required(o, "type", &m.Type, text)
		rest(o, &m.Content)
	})
	optional(o, "meta", &m.Meta, structure)
}

func (m *MessageMeta) fields(o *object) {
	optional(o, "sentFrom", &m.SentFrom, text)
	optional(o, "permissionMode", &m.PermissionMode, text)
	nullish(o, "model", &m.Model, text)
	nullish(o, "fallbackModel", &m.FallbackModel, text)
	nullish(o, "customSystemPrompt", &m.CustomSystemPrompt, text)
	nullish(o, "appendSystemPrompt", &m.AppendSystemPrompt, text)
	nullish(o, "allowedTools", &m.AllowedTools, texts)
	nullish(o, "disallowedTools", &m.DisallowedTools, texts)
	optional(o, "displayText", &m.DisplayText, text)
}
