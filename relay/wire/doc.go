// Package wire reads, checks and writes the messages of the session protocol, which shows an agent's work to front
// ends.
//
// An [Envelope] holds one [Event] of a session, such as a piece of text, the
// start of a tool call, or the end of a turn. Around it, from the inside out:
//
//   - [MessageContent] is the payload of a message: an envelope in a
//     [SessionProtocolMessage], or a legacy [UserMessage] or [AgentMessage].
//   - [SessionMessage] carries such a payload, encrypted.
//   - [CoreUpdateContainer] carries a SessionMessage, or an update of a session or a machine, from a server to its
//     clients.
//
// # Reading and writing
//
// All struct types implement [encoding/json.Marshaler] and
// [encoding/json.Unmarshaler]. The interface types have functions:
// [ParseEvent], [ParseMessageContent] and [ParseLegacyMessageContent].
//
// Reading and writing check the same rules. A text or value that breaks one is refused with an *[Error], which lists
// each broken rule with its path. Every value that was read can be written, and every text that was written can be
// read again with the same meaning.
//
// # Rules
//
//   - Keys are case-sensitive. Of a repeated key the last value counts.
//   - Unknown keys are dropped. Only the content of an [AgentMessage], [Usage] and the arguments of a [ToolCallStart]
//     keep them. One key is not in the protocol: the [Outcome] of a [ToolCallEnd].
//   - Unknown discriminators, such as the "t" of an event, are refused.
//   - null is not the same as a missing key. A pointer is nil where the key is
//     missing; where both are allowed, the field is a [Nullable].
//   - A number is a JSON number that is finite as a float64. An integer is such
//     a number without a fraction, however it is spelled: 1, 1.0 and 10e-1.
//     Integers lie within ±(2^53-1).
//   - The text must be valid UTF-8. A JSON string can also hold one half of a
//     surrogate pair, as the escape \ud800. In a Go string it becomes the three
//     bytes that UTF-8 would have for it, and an escape again when written.
//   - Times are milliseconds since January 1, 1970 UTC. They are numbers, not
//     integers, because the protocol allows fractions.
package wire
