package simagent

import (
	"bytes"
	"encoding/json"
	"time"
)

// Taken is a row that an agent took out of its inbox, or marked as read there.
type Taken struct {
	Raw       json.RawMessage // the row's bytes as in the file
	From      string
	Text      string
	Timestamp string // as written by the sender, unchecked
	Summary   string // "" if missing or not a string, as the fields below
	Color     string
	MsgID     string
	MessageID string
	At        time.Time // when it was taken, by the agent's clock, in UTC
}

// Kind returns the type of a structured text ("idle_notification",
// "shutdown_request" …), or "message" for every other text.
func (t Taken) Kind() string {
	if kind, ok := structured(t.Text).text("type"); ok {
		return kind
	}
	return "message"
}

// structured returns the object in a text that is one, else nil.
func structured(text string) object {
	if !json.Valid([]byte(text)) {
		return nil
	}
	o, err := parseObject([]byte(text))
	if err != nil {
		return nil
	}
	return o
}

// parseRows returns no rows for data that is no array.
func parseRows(data []byte) []json.RawMessage {
	var rows []json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil
	}
	return rows
}

func formatRows(rows []json.RawMessage) ([]byte, error) {
	data, err := encode(append([]json.RawMessage{}, rows...)) // none are an empty array
	if err != nil {
		return nil, err
	}
	return indent(data)
}

// delivered reports whether an agent takes the row, and its fields.
func delivered(raw json.RawMessage) (Taken, object, bool) {
	o, err := parseObject(raw)
	if err != nil || string(o.value("read")) == "true" {
		return Taken{}, nil, false
	}
	taken := Taken{Raw: bytes.Clone(raw)}
	for _, f := range []struct {
		key  string
		into *string
		must bool
	}{
		{"from", &taken.From, true},
		{"text", &taken.Text, true},
		{"timestamp", &taken.Timestamp, true},
		{"summary", &taken.Summary, false},
		{"color", &taken.Color, false},
		{"msg_id", &taken.MsgID, false},
		{"messageId", &taken.MessageID, false},
	} {
		value, ok := o.text(f.key)
		if !ok && f.must {
			return Taken{}, nil, false
		}
		*f.into = value
	}
	return taken, o, true
}

// take splits rows into those that the agent takes, and those that stay in the file. changed
// is false if the file need not be written.
func (w ways) take(rows []json.RawMessage) (taken []Taken, kept []json.RawMessage, changed bool, err error) {
	for _, raw := range rows {
		row, o, ok := delivered(raw)
		if ok {
			taken = append(taken, row)
		}
		if !w.marks {
			// Taken, read before or malformed: none of them stays.
			continue
		}
		if ok {
			if raw, err = marked(o); err != nil {
				return nil, nil, false, err
			}
		}
		kept = append(kept, raw)
	}
	return taken, kept, len(taken) > 0 || len(kept) < len(rows), nil
}

// without returns the rows that stay in the file once those that were delivered at an earlier
// poll are marked. Rows that came in between stay as they are.
func without(rows []json.RawMessage, taken []Taken) (kept []json.RawMessage, err error) {
	left := make(map[string]int)
	for _, row := range taken {
		left[string(row.Raw)]++
	}
	for _, raw := range rows {
		if _, o, ok := delivered(raw); ok && left[string(raw)] > 0 {
			left[string(raw)]--
			if raw, err = marked(o); err != nil {
				return nil, err
			}
		}
		kept = append(kept, raw)
	}
	return kept, nil
}

func marked(o object) (json.RawMessage, error) {
	o.set("read", json.RawMessage("true"))
	return o.encode()
}
