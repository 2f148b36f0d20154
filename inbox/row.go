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
	Raw       json.RawMessage // without the white space around it
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

// derivedPrefix begins the id of a row that has none of its own.
const derivedPrefix = "inbox-"

// Time returns when the row says it was written, in UTC, if that can be understood. A time outside of the years 0 to 9999
// cannot: JSON has none, so one such row would take a whole answer with it.
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

// IdleReport is how much a report says that an agent is idle.
type IdleReport int

// The reports.
const (
	NoIdleReport IdleReport = iota // the row is something else, or of a form that is not known
	IdleBare                       // the agent is idle, and nothing else
	IdleSummary                    // and to whom it has written
	IdleResult                     // and what came of its turn: a result, a finished task, an interruption or a failure
)

// IdleReport returns how much the row says of an agent that is idle, if that is what it is about.
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

// Noise reports whether nobody needs to read the row: an idle_notification without a result
// or a summary, or the confirmation of a shutdown. Unknown types are never noise.
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

// Digest tells messages with one id apart. It covers sender, text, summary and color.
func (r *Row) Digest() [32]byte { return digest(r.From, r.Text, r.Summary, r.Color) }

// Key tells rows of one inbox apart. It covers the id and what the sender wrote, but not
// whether the row is read or what others have added to it.
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

// ParseFile is [Parse] of the file at a path, of which what was read before by this process is not parsed again. The rows share
// their Extra with those of other calls, and it must not be changed.
func ParseFile(path string, data []byte) ([]Row, error) {
	rows, _, err := entries(path, data, nil)
	return rows, err
}

// ParseRow returns the row that an element of an inbox file is. It is an error if that is no object.
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

// entries is [Parse] of the file at a path, and what is passed over.
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
