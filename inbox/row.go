package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"teambridge/teams/rawjson"
)

// Row is one entry of an inbox. A field of the wrong type reads as absent; of repeated keys
// the last counts, as for Claude Code.
type Row struct {
	Raw       json.RawMessage // without surrounding white space
	From      string
	Text      string // may be a structured text: [Row.Kind]
	Timestamp string // ISO 8601 as a rule, but any text is accepted by agents
	Read      bool   // false where it is missing, as for Claude Code
	Summary   string
	Color     string
	MsgID     string // msg_id, of Claude Code
	MessageID string // messageId, of other tools and of this one
	Type      string // "message", of Claude Code

	// Extra holds the fields that are not known, by name. nil where there are
	// none.
	Extra map[string]json.RawMessage
}

// ID returns messageId if that is not blank, else msg_id, else "inbox-" and the first 16
// hexadecimal digits of the SHA-256 of sender, timestamp and text. Rows can share an id.
func (r *Row) ID() string {
	for _, id := range []string{r.MessageID, r.MsgID} {
		if strings.TrimSpace(id) != "" {
			return id
		}
	}
	sum := sha256.Sum256([]byte(r.From + "\n" + r.Timestamp + "\n" + r.Text))
	return derivedPrefix + hex.EncodeToString(sum[:8])
}

// derivedPrefix begins an id that is derived from a row's content.
const derivedPrefix = "inbox-"

// Time returns the timestamp of the row in UTC; ok is false if it cannot be parsed, or is outside the years 0
// to 9999, which JSON cannot express: one such row would make a whole answer fail.
func (r *Row) Time() (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// Kind returns "message" for an ordinary text, and the type of a JSON object that has one,
// known or not: "idle_notification", "shutdown_request" and others.
func (r *Row) Kind() string {
	if rawjson.Kind([]byte(r.Text)) != '{' {
		return "message"
	}
	// A map, because keys are case-sensitive in JavaScript, and those of a struct are not.
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(r.Text), &fields) != nil {
		return "message"
	}
	var kind string
	if json.Unmarshal(fields["type"], &kind) != nil || kind == "" {
		return "message"
	}
	return kind
}

// IdleReport is the amount of information in a report that an agent is idle.
type IdleReport int

// The reports.
const (
	NoIdleReport IdleReport = iota // the row is something else, or of unknown form
	IdleBare                       // only that the agent is idle
	IdleSummary                    // also which agents it has written to
	IdleResult                     // also the outcome of its turn: a result, a finished task, an interruption or a failure
)

// IdleReport returns how much the row reports about an idle agent.
func (r *Row) IdleReport() IdleReport {
	var idle struct {
		IdleReason, Summary, Result, FailureReason, CompletedTaskID string
	}
	switch {
	case r.Kind() != "idle_notification", json.Unmarshal([]byte(r.Text), &idle) != nil, idle.IdleReason == "":
		return NoIdleReport
	case idle.IdleReason != "available", idle.Result != "", idle.FailureReason != "", idle.CompletedTaskID != "":
		return IdleResult
	case idle.Summary != "":
		return IdleSummary
	}
	return IdleBare
}

// Noise reports whether the row is of no interest to a reader: an idle_notification without a result or a
// summary, or the confirmation of a shutdown. Unknown types are never noise.
func (r *Row) Noise() bool { return r.IdleReport() == IdleBare || r.ConfirmsShutdown() }

// ConfirmsShutdown reports whether the row is the confirmation of a shutdown.
func (r *Row) ConfirmsShutdown() bool {
	kind := r.Kind()
	return kind == "shutdown_approved" || kind == "teammate_terminated"
}

// HasID reports whether the row has an id of its own, not one made of its content.
func (r *Row) HasID() bool {
	return strings.TrimSpace(r.MessageID) != "" || strings.TrimSpace(r.MsgID) != ""
}

// Digest distinguishes messages with the same id. It covers sender, text, summary and color.
func (r *Row) Digest() [32]byte { return digest(r.From, r.Text, r.Summary, r.Color) }

// Key distinguishes the rows of one inbox. It covers the id and the sender's fields, but neither the read
// mark nor fields added by others.
func (r *Row) Key() string {
	d := digest(r.ID(), r.From, r.Text, r.Timestamp, r.Summary, r.Color)
	return hex.EncodeToString(d[:16])
}

func digest(parts ...string) [32]byte {
	h := sha256.New()
	for _, p := range parts {
		// Hashed one by one, so that no part can run over into the next.
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return [32]byte(h.Sum(nil))
}

// Parse returns the rows of an inbox file; nil if there are none. Elements that are not
// objects are skipped. The error is a [*CorruptError] without a path.
func Parse(data []byte) ([]Row, error) {
	rows, _, err := entries("", data, nil)
	return rows, err
}

// ParseFile is [Parse] for the file at a path. Parts that this process has read before are not parsed again.
// The rows share their Extra with those of other calls, and it must not be changed.
func ParseFile(path string, data []byte) ([]Row, error) {
	rows, _, err := entries(path, data, nil)
	return rows, err
}

// ParseRow parses one element of an inbox file. It fails if the element is no object.
func ParseRow(element []byte) (Row, error) {
	rows, err := Parse(slices.Concat([]byte("["), element, []byte("]")))
	if err == nil && len(rows) != 1 {
		err = errors.New("it is no object")
	}
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// entries is [Parse] for the file at a path, and also returns the entries that are no messages.
func entries(path string, data []byte, cache *parseCache) (rows []Row, passed []PassedOver, err error) {
	d := &Draft{data: data}
	switch {
	case cache != nil:
		d.spans, d.known, err = cache.parse(data)
	case path != "" && len(data) >= largeInbox:
		d.spans, d.known, err = recent.parse(path, data)
	default:
		d.spans, err = elements(data, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	rows = make([]Row, 0, len(d.spans))
	next := 0
	noObjects := func(end int) {
		for ; next < end; next++ {
			passed = append(passed, PassedOver{next + 1, "it is no object"})
		}
	}
	for i, row := range d.All() {
		noObjects(i)
		if next = i + 1; unfit(&row) != "" {
			passed = append(passed, PassedOver{next, unfit(&row)})
		}
		rows = append(rows, row)
	}
	if noObjects(len(d.spans)); len(rows) == 0 {
		return nil, passed, nil
	}
	return rows, passed, nil
}

// elements is [rawjson.MoreElements] with the error of this package.
func elements(data []byte, known []rawjson.Span) ([]rawjson.Span, error) {
	spans, err := rawjson.MoreElements(data, known)
	if syn, ok := err.(*rawjson.SyntaxError); ok {
		return nil, &CorruptError{Offset: syn.Offset, Reason: syn.Reason}
	}
	return spans, err
}

// parseRow reads one element, which [elements] has found to be valid JSON.
func parseRow(raw []byte) (row Row, ok bool) {
	if rawjson.Kind(raw) != '{' {
		return Row{}, false
	}
	fields, err := rawjson.Fields(raw)
	if err != nil {
		return Row{}, false
	}
	row.Raw = raw
	for _, f := range fields {
		value := f.Value.Of(raw)
		var dst *string
		switch f.Name {
		case "from":
			dst = &row.From
		case "text":
			dst = &row.Text
		case "timestamp":
			dst = &row.Timestamp
		case "summary":
			dst = &row.Summary
		case "color":
			dst = &row.Color
		case "msg_id":
			dst = &row.MsgID
		case "messageId":
			dst = &row.MessageID
		case "type":
			dst = &row.Type
		case "read":
			row.Read = string(value) == "true"
			continue
		case "msgV":
			continue
		default:
			if row.Extra == nil {
				row.Extra = map[string]json.RawMessage{}
			}
			row.Extra[f.Name] = value
			continue
		}
		*dst, _ = rawjson.Text(value)
	}
	return row, true
}
