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

// Row is one entry of an inbox. A field of the wrong type counts as absent, and the last of repeated keys
// counts, as in Claude Code.
type Row struct {
	Raw       json.RawMessage // without surrounding white space
	From      string
	Text      string // may be structured: see [Row.Kind]
	Timestamp string // usually ISO 8601, but agents accept any text
	Read      bool   // false if missing, as in Claude Code
	Summary   string
	Color     string
	MsgID     string // Claude Code's msg_id
	MessageID string // the messageId of other tools and of this one
	Type      string // Claude Code's type, "message"

	// Extra holds all other fields, by name. It is nil if there are none.
	Extra map[string]json.RawMessage
}

// ID returns messageId if that is not blank, else msg_id, else "inbox-" and the first 16 hexadecimal digits
// of the SHA-256 of sender, timestamp and text. Several rows can have the same id.
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

// Time returns the timestamp of the row in UTC. ok is false if it cannot be parsed, or is outside the years 0
// to 9999: JSON cannot express such a time, and one such row would make a whole answer fail.
func (r *Row) Time() (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, r.Timestamp)
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// Kind returns "message" for an ordinary text. For a JSON object with a type it returns the type, known or
// not, such as "idle_notification" or "shutdown_request".
func (r *Row) Kind() string {
	if rawjson.Kind([]byte(r.Text)) != '{' {
		return "message"
	}
	// A map keeps the case of keys, as JavaScript does; a struct would not.
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
	NoIdleReport IdleReport = iota // another row, or one of unknown form
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

// Noise reports whether the row is of no interest to a reader. Such a row is an idle_notification without a
// result or a summary, or the confirmation of a shutdown. Unknown types are never noise.
func (r *Row) Noise() bool { return r.IdleReport() == IdleBare || r.ConfirmsShutdown() }

// ConfirmsShutdown reports whether the row confirms a shutdown.
func (r *Row) ConfirmsShutdown() bool {
	kind := r.Kind()
	return kind == "shutdown_approved" || kind == "teammate_terminated"
}

// HasID reports whether the row has its own id, not one derived from its content.
func (r *Row) HasID() bool {
	return strings.TrimSpace(r.MessageID) != "" || strings.TrimSpace(r.MsgID) != ""
}

// Digest distinguishes messages with the same id. It covers sender, text, summary and color.
func (r *Row) Digest() [32]byte { return digest(r.From, r.Text, r.Summary, r.Color) }

// Key distinguishes the rows of one inbox. It covers the id and the sender's fields, but neither the read
// mark nor fields that others have added.
func (r *Row) Key() string {
	d := digest(r.ID(), r.From, r.Text, r.Timestamp, r.Summary, r.Color)
	return hex.EncodeToString(d[:16])
}

func digest(parts ...string) [32]byte {
	h := sha256.New()
	for _, p := range parts {
		// Hash the parts one by one, so that the end of one cannot pass for the start of the next.
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return [32]byte(h.Sum(nil))
}

// Parse returns the rows of an inbox file; nil if there are none. It skips elements that are not objects. The
// error is a [*CorruptError] without a path.
func Parse(data []byte) ([]Row, error) {
	rows, _, err := entries("", data, nil)
	return rows, err
}

// ParseFile is [Parse] for the file at a path. It does not parse again the parts that this process has read
// before. The rows share their Extra with those of other calls, so it must not be changed.
func ParseFile(path string, data []byte) ([]Row, error) {
	rows, _, err := entries(path, data, nil)
	return rows, err
}

// ParseRow parses one element of an inbox file. It fails if the element is not an object.
func ParseRow(element []byte) (Row, error) {
	rows, err := Parse(slices.Concat([]byte("["), element, []byte("]")))
	if err == nil && len(rows) != 1 {
		err = errors.New("it is not an object")
	}
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// entries is [Parse] for the file at a path, and also returns the entries that are not messages.
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
			passed = append(passed, PassedOver{next + 1, "it is not an object"})
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

// elements is [rawjson.MoreElements] with this package's error.
func elements(data []byte, known []rawjson.Span) ([]rawjson.Span, error) {
	spans, err := rawjson.MoreElements(data, known)
	if syn, ok := err.(*rawjson.SyntaxError); ok {
		return nil, &CorruptError{Offset: syn.Offset, Reason: syn.Reason}
	}
	return spans, err
}

// parseRow parses one element, which [elements] has found to be valid JSON.
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
