package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// An agent's text is judged by the time when the agent took the message: 0 ms here; the message was still
// there 10 ms before.
func TestWeigh(t *testing.T) {
	t.Parallel()
	took := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	idle := func(fields string) string { return `{"type":"idle_notification",` + fields + `}` }
	const (
		available = `"idleReason":"available","result":"done"`
		goesOn    = `"result":"done"`
		silent    = `"idleReason":"available"`
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
		"of its turn, of a fast model":         {"team-lead", idle(available), 1, "done by result, certain"},
		"of which turn is not known":           {"team-lead", idle(available), -5, "done by result"},
		"of its turn, without a time":          {"team-lead", idle(available), 0, "done by result"},
		"idle without a word":                  {"team-lead", idle(silent), 1, errNoWord.Error()},
		"idle without a word, and it goes on":  {"team-lead", idle(`"summary":"[to bob] hello"`), 1000, errNoWord.Error()},
		"that is not known, without a time":    {"team-lead", idle(silent), 0, "nothing"},
		"the turn before was without a word":   {"team-lead", idle(silent), -5, "nothing"},
		"another structured text":              {"me", `{"type":"task_completed"}`, 1000, "nothing"},
		"a failure":                            {"team-lead", idle(`"idleReason":"failed","failureReason":"no credit"`), 1000, "worker took the message, and its turn failed: no credit"},
		"an interruption":                      {"team-lead", idle(`"idleReason":"interrupted"`), 1000, "worker took the message, and was interrupted"},
		"the result of another agent":          {"team-lead", idle(`"from":"bob",` + available), 1000, "nothing"},
		"a failure of the turn before":         {"team-lead", idle(`"idleReason":"failed"`), -5, "nothing"},
	} {
		q := Question{since: took.Add(-10 * time.Millisecond), taken: took, From: "me", Delivered: mail.Delivered{Member: "worker"}}
		row := map[string]any{"from": "worker", "text": tc.text}
		if tc.at != 0 {
			row["timestamp"] = took.Add(time.Duration(tc.at) * time.Millisecond).Format(inbox.TimestampLayout)
		}
		raw, err := json.Marshal([]any{row})
		must(t, err)
		rows, err := inbox.Parse(raw)
		must(t, err)
		r, ok, err := q.weigh(journal.Record{Row: rows[0], InboxKey: inbox.InboxKey{Inbox: tc.to}, FirstSeen: took.Add(time.Second)})
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case ok:
			got = r.Text + " by " + r.Via
			if r.Certain {
				got += ", certain"
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// takenAtZero returns a message that an agent took at time 0, and a function for the agent's texts, some ms
// later.
func takenAtZero(t *testing.T) (q *Question, said func(ms int, fields string) journal.Record) {
	took := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	q = &Question{since: took.Add(-10 * time.Millisecond), taken: took, From: "me", Delivered: mail.Delivered{Member: "worker"}}
	return q, func(ms int, fields string) journal.Record {
		raw, err := json.Marshal([]any{map[string]any{"from": "worker", "text": `{"type":"idle_notification",` + fields + `}`,
			"timestamp": took.Add(time.Duration(ms) * time.Millisecond).Format(inbox.TimestampLayout)}})
		must(t, err)
		rows, err := inbox.Parse(raw)
		must(t, err)
		return journal.Record{Row: rows[0], InboxKey: inbox.InboxKey{Inbox: "team-lead"}}
	}
}

// If the conversation shows when the turn with the message began, nothing is guessed from elapsed time.
func TestWeighByConversation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fields  string
		at      int // ms after the message was taken; its turn began after 900 ms
		answer  string
		failure error
	}{
		"of the turn before, very late":        {`"result":"of before"`, 800, "", nil},
		"of the turn before, the last":         {`"idleReason":"available","result":"of before"`, -5, "", nil},
		"the turn before failed":               {`"idleReason":"failed"`, -5, "", nil},
		"of its turn, written down after it":   {`"idleReason":"available","result":"ours"`, 400, "ours", nil},
		"of its turn, of a fast model":         {`"idleReason":"available","result":"ours"`, 901, "ours", nil},
		"of its turn, and it goes on at once":  {`"result":"ours"`, 901, "ours", nil},
		"of its turn, without a word":          {`"idleReason":"available"`, 2000, "", errNoWord},
		"of its turn, without, and it goes on": {`"summary":"[to bob] hello"`, 901, "", errNoWord},
	} {
		q, said := takenAtZero(t)
		q.begun = q.taken.Add(900 * time.Millisecond)
		r, ok, err := q.weigh(said(tc.at, tc.fields))
		if ok != (tc.answer != "") || r.Text != tc.answer || !errors.Is(err, tc.failure) || ok && !r.Certain {
			t.Errorf("%s: %+v, %v, %v; want %q, %v", name, r, ok, err, tc.answer, tc.failure)
		}
	}
}

// Without a transcript, a report may be of a turn with another message that came.
func TestWeighWithAnotherMessage(t *testing.T) {
	t.Parallel()
	q, said := takenAtZero(t)
	q.other = true
	if r, ok, err := q.weigh(said(3000, `"idleReason":"available","result":"most likely"`)); !ok || err != nil || r.Text != "most likely" || r.Certain {
		t.Errorf("%+v, %v, %v; want it, not certain", r, ok, err)
	}
	if r, ok, err := q.weigh(said(3000, `"idleReason":"available"`)); ok || err != nil {
		t.Errorf("without a word: %+v, %v, %v; want nothing", r, ok, err)
	}
}

// ofWorker is a question that a worker was just asked.
func ofWorker(t *testing.T) (*Question, *simagent.Agent) {
	t.Helper()
	dir := t.TempDir()
	sim, err := simagent.Create(t.Context(), simagent.TeamOptions{Root: dir, Name: "t", Members: []simagent.Member{{Name: "worker"}, {Name: "operator", Absent: true}}})
	must(t, err)
	sends, err := mail.New(t.Context(), mail.Options{Team: teamstest.Open(t, dir).Team("t")})
	must(t, err)
	now := time.Now()
	q := &Question{Sender: sends, From: "operator", since: now, taken: now, Delivered: mail.Delivered{Team: "t", Member: "worker"}}
	q.ID = "m-1"
	return q, sim.Agent("worker")
}

// At the end of a turn, the agent's message to us, in another file, may not have been seen yet.
func TestEndOfATurnBehindAMessage(t *testing.T) {
	t.Parallel()
	q, worker := ofWorker(t)
	if r, err := q.unseen(t.Context()); view.Explain(err).Code != api.CodeNoAnswer {
		t.Errorf("no inbox: %+v, %v; want no answer", r, err)
	}
	for _, m := range []simagent.Message{{To: "operator", Text: "here it is"}, {To: simagent.Lead, Text: "I told him"}} {
		if _, err := worker.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := q.unseen(t.Context()); err != nil || r.Text != "here it is" || r.Via != api.ViaMessage || r.Message.Inbox != "operator" {
		t.Errorf("%+v, %v; want the message", r, err)
	}
	q.since = q.since.Add(time.Minute)
	q.taken = q.since
	if r, err := q.unseen(t.Context()); view.Explain(err).Code != api.CodeNoAnswer {
		t.Errorf("a message of before: %+v, %v; want no answer", r, err)
	}
}

// If the report of a turn was taken from the inbox before it was recorded here, the answer is
// read from the agent's transcript, once the turn has been over for a while.
func TestAnswerByTheTranscript(t *testing.T) {
	t.Parallel()
	begun := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	given := turnRecord("user", "u-1", "", begun, `"role":"user","content":"<teammate-message teammate_id=\"operator\">\nthe question\n</teammate-message>"`)
	const silent = "it has ended without a word"
	for name, tc := range map[string]struct {
		records []string
		answer  string
	}{
		silent:                 {[]string{given, turnRecord("assistant", "a-1", "u-1", begun.Add(time.Second), `"role":"assistant","stop_reason":"end_turn","content":[]`)}, ""},
		"it has ended":         {[]string{given, says("a-1", "u-1", begun.Add(time.Second), "the answer", "end_turn")}, "the answer"},
		"it goes on":           {[]string{given, says("a-1", "u-1", begun.Add(time.Second), "let me look", "tool_use")}, ""},
		"it has just ended":    {[]string{given, says("a-1", "u-1", time.Now().Add(time.Hour), "the answer", "end_turn")}, ""},
		"nothing was said yet": {[]string{given}, ""},
		"of the turn before": {[]string{
			turnRecord("user", "u-0", "", begun.Add(-2*time.Second), `"role":"user","content":"<teammate-message teammate_id=\"operator\">\nanother\n</teammate-message>"`),
			says("a-0", "u-0", begun.Add(-time.Second), "not this", "end_turn"),
			turnRecord("user", "u-1", "a-0", begun, `"role":"user","content":"<teammate-message teammate_id=\"operator\">\nthe question\n</teammate-message>"`),
		}, ""},
	} {
		path := filepath.Join(t.TempDir(), "agent-worker.jsonl")
		must(t, os.WriteFile(path, []byte(strings.Join(tc.records, "\n")+"\n"), 0o600))
		q, _ := ofWorker(t)
		q.begun, q.Transcripts = begun, func() []string { return []string{path} }
		r, ok, err := q.transcript(t.Context())
		if ok != (tc.answer != "") || r.Text != tc.answer || (err != nil) != (name == silent) || err != nil && view.Explain(err).Code != api.CodeNoAnswer {
			t.Errorf("%s: %t, %q, %v; want %q", name, ok, r.Text, err, tc.answer)
		}
		if ok && (!r.Certain || r.Via != api.ViaResult || r.Message.From != "worker" || r.Message.Kind() != journal.KindAnswer) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	q, worker := ofWorker(t)
	q.begun, q.Transcripts = begun, func() []string { return []string{filepath.Join(t.TempDir(), "none.jsonl")} }
	if _, ok, err := q.transcript(t.Context()); ok || err != nil {
		t.Error("an answer without a transcript")
	}

	// A message that was sent in that turn is the answer, though it was not recorded yet.
	path := filepath.Join(t.TempDir(), "agent-worker.jsonl")
	records := given + "\n" + says("a-1", "u-1", begun.Add(time.Second), "done", "end_turn") + "\n"
	must(t, os.WriteFile(path, []byte(records), 0o600))
	if _, err := worker.Send(t.Context(), simagent.Message{To: "operator", Text: "the answer"}); err != nil {
		t.Fatal(err)
	}
	q.transcribed, q.Transcripts = time.Time{}, func() []string { return []string{path} }
	if r, ok, err := q.transcript(t.Context()); err != nil || !ok || r.Text != "the answer" || r.Via != api.ViaMessage {
		t.Errorf("with a message: %t, %+v", ok, r)
	}
}

// turnRecord returns a record of a teammate's transcript.
func turnRecord(kind, uuid, parent string, at time.Time, message string) string {
	return fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%q,"timestamp":%q,"isSidechain":true,"agentId":"aworker-1","sessionId":"s-1","version":"2.1.329","message":{%s}}`,
		kind, uuid, parent, at.UTC().Format(inbox.TimestampLayout), message)
}

// says returns the record of a teammate's text.
func says(uuid, parent string, at time.Time, text, stop string) string {
	return turnRecord("assistant", uuid, parent, at, fmt.Sprintf(`"role":"assistant","stop_reason":%q,"content":[{"type":"text","text":%q}]`, stop, text))
}

// If the report of a turn is seen before a message that the agent sent us in the turn, the message
// is the answer, unless it came later.
func TestAnswerBeforeTheReport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reported time.Duration // after the message
		want     string
	}{
		"in the turn": {time.Minute, "the answer"},
		"after it":    {-time.Minute, "done"},
	} {
		q, worker := ofWorker(t)
		if _, err := worker.Send(t.Context(), simagent.Message{To: "operator", Text: "the answer"}); err != nil {
			t.Fatal(err)
		}
		report := Reply{Text: "done", Via: api.ViaResult}
		at := time.Now().Add(tc.reported).UTC().Format(inbox.TimestampLayout)
		report.Message.Timestamp, report.Message.Text = at, fmt.Sprintf(`{"type":"idle_notification","from":"worker","timestamp":%q,"result":"done"}`, at)
		if r := q.first(t.Context(), report); r.Text != tc.want {
			t.Errorf("%s: %q, want %q", name, r.Text, tc.want)
		}
	}
}

// A report that mentions a message to us is the answer only if that message does not
// come.
func TestReportOfAMessageThatComes(t *testing.T) {
	t.Parallel()
	q, worker := ofWorker(t)
	at := time.Now().Add(time.Minute)
	report := journal.Record{FirstSeen: time.Now()}
	report.From, report.Timestamp = "worker", at.UTC().Format(inbox.TimestampLayout)
	report.Text = `{"type":"idle_notification","from":"worker","idleReason":"available","result":"done","summary":"[to operator] it is"}`
	if r, what, err := q.answer(t.Context(), report); what != undecided {
		t.Errorf("without the message: %+v, %v, %v", r, what, err)
	}
	late := report
	late.FirstSeen = late.FirstSeen.Add(-quiet)
	if r, what, err := q.answer(t.Context(), late); what != decided || r.Text != "done" || err != nil {
		t.Errorf("if it does not come: %+v, %v, %v", r, what, err)
	}
	if _, err := worker.Send(t.Context(), simagent.Message{To: "operator", Text: "it is blue"}); err != nil {
		t.Fatal(err)
	}
	if r, what, err := q.answer(t.Context(), report); what != decided || r.Text != "it is blue" || r.Via != api.ViaMessage || err != nil {
		t.Errorf("with the message: %+v, %v, %v", r, what, err)
	}
}

var must = errtest.Must

// A message was taken no later than its inbox changed, however late that is seen: otherwise the report of its turn
// would count as that of the turn before.
func TestLatest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "worker.json")
	must(t, os.WriteFile(file, []byte("[]"), 0o600))
	now := time.Now()
	for name, test := range map[string]struct {
		changed, then, want time.Duration // before now
	}{
		"seen at once": {0, time.Second, 0}, "seen late": {3 * time.Second, 5 * time.Second, 3*time.Second - fileTime}, "it has changed before": {5 * time.Second, 3 * time.Second, 0},
	} {
		must(t, os.Chtimes(file, now, now.Add(-test.changed)))
		info, err := os.Stat(file)
		must(t, err)
		if got := now.Sub(latest(info, now.Add(-test.then), now)); got != test.want {
			t.Errorf("%s: %v before now, want %v", name, got, test.want)
		}
	}
	if got := latest(nil, now.Add(-time.Second), now); !got.Equal(now) {
		t.Errorf("without a file: %v, want %v", got, now)
	}
}
