package main

import (
	"encoding/json"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
)

// What an agent says is weighed by when it took the message, at 0 ms here; 10 ms
// before it was still there.
func TestWeigh(t *testing.T) {
	t.Parallel()
	took := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	idle := func(fields string) string { return `{"type":"idle_notification",` + fields + `}` }
	const (
		available = `"idleReason":"available","result":"done"`
		goesOn    = `"result":"done"`
	)
	for name, tc := range map[string]struct {
		to   string
		text string
		at   int // ms after the message was taken; 0: the row has no time
		want string
	}{
		"a message":                            {"me", "hello", 1000, "hello by message, certain"},
		"a message at once":                    {"me", "hello", 1, "hello by message, certain"},
		"a message of before":                  {"me", "hello", -1000, "nothing"},
		"a message without a time":             {"me", "hello", 0, "hello by message"},
		"a message to another":                 {"team-lead", "hello", 1000, "nothing"},
		"the result of its turn":               {"team-lead", idle(available), 1000, "done by result, certain"},
		"of its turn, and it goes on":          {"team-lead", idle(goesOn), 1000, "done by result, certain"},
		"of the turn before":                   {"team-lead", idle(available), -1000, "nothing"},
		"of the turn before, it took and said": {"team-lead", idle(goesOn), 60, "nothing"},
		"of which turn is not known":           {"team-lead", idle(available), 60, "held: done"},
		"idle without a word":                  {"team-lead", idle(`"idleReason":"available"`), 1000, "nothing"},
		"another structured text":              {"me", `{"type":"task_completed"}`, 1000, "nothing"},
		"a failure":                            {"team-lead", idle(`"idleReason":"failed","failureReason":"no credit"`), 1000, "worker took the message, and its turn failed: no credit"},
		"an interruption":                      {"team-lead", idle(`"idleReason":"interrupted"`), 1000, "worker took the message, and was interrupted"},
		"a failure of the turn before":         {"team-lead", idle(`"idleReason":"failed"`), 60, "nothing"},
	} {
		q := question{since: took.Add(-10 * time.Millisecond), taken: took, from: "me", Delivered: mail.Delivered{Member: "worker"}}
		row := map[string]any{"from": "worker", "text": tc.text}
		if tc.at != 0 {
			row["timestamp"] = took.Add(time.Duration(tc.at) * time.Millisecond).Format(inbox.TimestampLayout)
		}
		raw, err := json.Marshal([]any{row})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := inbox.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		r, ok, err := q.weigh(journal.Message{Row: rows[0], Inbox: tc.to, FirstSeen: took.Add(time.Second)})
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case q.held != nil:
			got = "held: " + q.held.text
		case ok:
			got = r.text + " by " + r.via
			if r.certain {
				got += ", certain"
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A model that answers within milliseconds: once the turn before is reported,
// what the agent says next is of the turn with the message.
func TestWeighOfAFastAgent(t *testing.T) {
	t.Parallel()
	took := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	q := question{since: took.Add(-10 * time.Millisecond), taken: took, from: "me", Delivered: mail.Delivered{Member: "worker"}}
	said := func(ms int, fields string) journal.Message {
		raw, err := json.Marshal([]any{map[string]any{"from": "worker", "text": `{"type":"idle_notification",` + fields + `}`,
			"timestamp": took.Add(time.Duration(ms) * time.Millisecond).Format(inbox.TimestampLayout)}})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := inbox.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return journal.Message{Row: rows[0], Inbox: "team-lead"}
	}
	if r, ok, err := q.weigh(said(30, `"result":"of before"`)); ok || err != nil || q.held != nil {
		t.Fatalf("the report of the turn before: %+v, %v, %v", r, ok, err)
	}
	r, ok, err := q.weigh(said(60, `"idleReason":"available","result":"the answer"`))
	if !ok || err != nil || r.text != "the answer" || !r.certain {
		t.Errorf("%+v, %v, %v; want the answer, certain", r, ok, err)
	}
}
