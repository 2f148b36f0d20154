package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/teams/errtest"
)

// unused are the durable events that make no envelopes.
var unused = []string{
	"session.next.prompt.admitted", // it may be taken up much later
	"session.next.agent.switched", "session.next.model.switched", "session.next.moved",
	"session.next.context.updated", // OpenCode's texts for the model, such as its skills
	"session.next.text.started", "session.next.reasoning.started",
	"session.next.tool.input.started", "session.next.tool.input.ended", "session.next.tool.progress",
	"session.next.compaction.started",
	"session.next.revert.staged", "session.next.revert.cleared", "session.next.revert.committed",
}

const fixtures = "../../testdata/opencode-1.18.33"

var must = errtest.Must

// samples returns the events of a captured session, one a line.
func samples(t testing.TB) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, "history.jsonl"))
	must(t, err)
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

// records reads events.
func records(t testing.TB, lines ...[]byte) iter.Seq2[record, error] {
	t.Helper()
	return func(yield func(record, error) bool) {
		for _, line := range lines {
			r, err := parseRecord(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// told returns the envelopes of a conversation, one a line.
func told(t testing.TB, a adapter, since time.Time, ended bool, lines ...[]byte) string {
	t.Helper()
	var b strings.Builder
	for e, err := range a.conversation(records(t, lines...), since, ended) {
		must(t, err)
		b.WriteString(shown(t, e) + "\n")
	}
	return b.String()
}

func shown(t testing.TB, e wire.Envelope) string {
	t.Helper()
	if _, err := e.MarshalJSON(); err != nil {
		t.Errorf("%+v: %v", e, err)
	}
	s := string(e.Role) + ": "
	switch ev := e.Event.(type) {
	case *wire.Text:
		if ev.Thinking != nil {
			s += "thinks "
		}
		return s + fmt.Sprintf("%.40q", ev.Text)
	case *wire.Service:
		return s + fmt.Sprintf("note %.60q", ev.Text)
	case *wire.ToolCallStart:
		return s + ev.Title
	case *wire.ToolCallEnd:
		return s + "end of a tool: " + string(ev.Outcome)
	case *wire.File:
		return s + "file " + filepath.ToSlash(ev.Ref)
	case *wire.TurnStart:
		return s + "turn"
	case *wire.TurnEnd:
		s += string(ev.Status)
		if u := e.Usage; u != nil {
			s += fmt.Sprintf(" %d+%d %d", u.InputTokens, *u.CacheReadInputTokens, u.OutputTokens)
		}
		return s
	}
	return s + "?"
}

func plainAdapter(marks ...string) adapter {
	return adapter{dir: "/home/user/project", marked: func(what string) bool { return slices.Contains(marks, what) }}
}

// event returns an event that was not captured.
func event(kind string, data map[string]any) []byte {
	line, err := json.Marshal(map[string]any{"id": "evt_" + kind, "type": "session.next." + kind, "durable": map[string]any{"seq": 1}, "data": data})
	if err != nil {
		panic(err)
	}
	return line
}

// TestConversation: a captured session gives the right envelopes. It has texts, reasoning, tools,
// failures of the model, interrupts, and kills of the server in a tool and in a text.
func TestConversation(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join(fixtures, "envelopes.txt"))
	must(t, err)
	if diff := cmp.Diff(string(want), told(t, plainAdapter(), time.Time{}, true, samples(t)...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ids returns the ids of the envelopes of a conversation, and their times.
func ids(t testing.TB, since time.Time, ended bool, lines ...[]byte) (all []string, times []float64) {
	t.Helper()
	a := plainAdapter()
	for e, err := range a.conversation(records(t, lines...), since, ended) {
		must(t, err)
		if slices.Contains(all, e.ID) {
			t.Errorf("twice: %s", shown(t, e))
		}
		all, times = append(all, e.ID), append(times, e.Time)
	}
	return all, times
}

// TestSameIDs: envelopes that are read live, in pieces, or since a time have the same ids, in the
// same order, as those that are read later.
func TestSameIDs(t *testing.T) {
	t.Parallel()
	lines := samples(t)
	want, times := ids(t, time.Time{}, true, lines...)
	if !slices.IsSorted(times) {
		t.Error("the times are not in order")
	}

	live := plainAdapter()
	var got []string
	hear := func(list []wire.Envelope) {
		for _, e := range list {
			got = append(got, e.ID)
		}
	}
	for r := range records(t, lines...) {
		if r.Type == "session.next.prompt.admitted" {
			// The session was idle; after a kill of the server, the conversation has the end.
			hear(live.end(r.At))
		}
		hear(live.event(r.Event))
	}
	hear(live.end(time.Now()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}

	for n := range lines {
		if got, _ := ids(t, time.Time{}, false, lines[:n]...); !slices.Equal(got, want[:len(got)]) {
			t.Errorf("the first %d events: got %d envelopes, not the first of all", n, len(got))
		}
		from := live.at.Add(-time.Duration(n) * time.Second)
		got, _ := ids(t, from, true, lines...)
		first := len(want) - len(got)
		if !slices.Equal(got, want[first:]) {
			t.Fatalf("since %v: got %d envelopes, not the last of all", from, len(got))
		}
		if first > 0 && times[first-1] >= float64(from.UnixMilli()) {
			t.Errorf("since %v: lacks one of %v", from, time.UnixMilli(int64(times[first-1])))
		}
	}
	if got, _ := ids(t, live.at, true, lines...); len(got) == len(want) {
		t.Error("old turns came unasked")
	}
}

// TestTurnsThatLeftNothing: only our own record distinguishes an interrupt before the first output
// from a cut.
func TestTurnsThatLeftNothing(t *testing.T) {
	t.Parallel()
	ours, other := "11111111-1111-4111-8111-111111111111", "msg_fromelsewhere"
	lines := [][]byte{
		event("prompted", map[string]any{"messageID": MessageID(ours), "prompt": map[string]any{"text": "one"}}),
		event("prompted", map[string]any{"messageID": other, "prompt": map[string]any{"text": "two"}}),
	}
	const begin = "agent: turn\nuser: \"one\"\n"
	for _, tt := range []struct {
		interrupted string
		since       time.Time
		ended       bool
		want        string
	}{
		// The time of the cut is not recorded: it may have been after since.
		{"", time.Now(), true, "agent: turn\nuser: \"two\"\nagent: failed\n"},
		{ours, time.Time{}, true, begin + "agent: cancelled\nagent: turn\nuser: \"two\"\nagent: failed\n"},
		{other, time.Time{}, true, begin + "agent: failed\nagent: turn\nuser: \"two\"\nagent: cancelled\n"},
		{"", time.Time{}, false, begin + "agent: failed\nagent: turn\nuser: \"two\"\n"},
	} {
		if got := told(t, plainAdapter(tt.interrupted), tt.since, tt.ended, lines...); got != tt.want {
			t.Errorf("interrupted %q: got\n%swant\n%s", tt.interrupted, got, tt.want)
		}
	}
}

// TestRareEvents: events that the stand-in does not cause give the right envelopes, by their description in /doc.
func TestRareEvents(t *testing.T) {
	t.Parallel()
	got := told(t, plainAdapter(deniedCall("m3", "c 2")), time.Time{}, true,
		event("synthetic", map[string]any{"messageID": "m0", "text": "before all turns"}),
		event("shell.started", map[string]any{"messageID": "m0", "callID": "c0", "command": "date"}),
		event("prompted", map[string]any{"messageID": "m1", "prompt": map[string]any{"text": " "}}),
		event("retried", map[string]any{"attempt": 1, "error": map[string]any{"message": "overloaded"}}),
		event("shell.started", map[string]any{"messageID": "m2", "callID": "c1", "command": "ls"}),
		event("shell.ended", map[string]any{"callID": "c1", "output": "x"}),
		event("step.started", map[string]any{"assistantMessageID": "m3"}),
		event("tool.called", map[string]any{"assistantMessageID": "m3", "callID": "c1", "tool": "write", "input": map[string]any{"path": "/etc/x", "content": "12345"}}),
		event("tool.failed", map[string]any{"assistantMessageID": "m3", "callID": "c1", "error": map[string]any{"message": "denied"}}),
		event("tool.called", map[string]any{"assistantMessageID": "m3", "callID": "c 2", "tool": "write", "input": map[string]any{"path": "/etc/x"}}),
		event("tool.failed", map[string]any{"assistantMessageID": "m3", "callID": "c 2", "error": map[string]any{"message": "denied"}}),
		event("step.ended", map[string]any{"assistantMessageID": "m3", "finish": "error"}),
		event("compaction.ended", map[string]any{"messageID": "m4"}),
		event("something.new", map[string]any{"text": "?"}),
	)
	const want = `agent: note "before all turns"
agent: run ` + "`date`" + `
agent: end of a tool: cut
agent: turn
agent: note "overloaded"
agent: run ` + "`ls`" + `
agent: end of a tool: done
agent: write /etc/x
agent: end of a tool: failed
agent: write /etc/x
agent: end of a tool: denied
agent: note "Conversation compacted"
agent: failed
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestLongTexts: no envelope has many MB.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1<<20)
	a := plainAdapter()
	for e := range a.conversation(records(t,
		event("prompted", map[string]any{"messageID": "m1", "prompt": map[string]any{"text": long}}),
		event("text.ended", map[string]any{"assistantMessageID": "m2", "textID": "t", "text": long}),
		event("tool.called", map[string]any{"assistantMessageID": "m2", "callID": "c1", "tool": "write", "input": map[string]any{"path": "x", "content": long}}),
		event("step.failed", map[string]any{"assistantMessageID": "m2", "error": map[string]any{"message": long}}),
	), time.Time{}, true) {
		if line, err := e.MarshalJSON(); err != nil || len(line) > 3*toolcall.Limit {
			t.Errorf("%.80s: %d bytes, %v", shown(t, e), len(line), err)
		}
	}
}

// TestUnreadableEvent: an event in an unexpected form is skipped, and reported as missed.
func TestUnreadableEvent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line   string
		fails  bool
		missed bool
	}{
		{`{"type":"session.next.prompted","durable":{"seq":7},"data":{"messageID":"m"}}`, false, false},
		{`{"type":"session.next.prompted","durable":{"seq":7},"data":{"messageID":1}}`, false, true},
		{`{"type":"session.next.prompted","durable":{"seq":7},"data":{"timestamp":"x"}}`, false, true},
		{`{"type":"session.next.prompted","durable":{"seq":7}}`, false, true},
		{`{"type":"session.next.new","durable":{"seq":7},"data":1}`, false, false},
		{`{"type":"session.next.prompted"}`, true, false},
		{`{"type":1}`, true, false},
		{`x`, true, false},
	} {
		r, err := parseRecord([]byte(tt.line))
		if (err != nil) != tt.fails || r.missed != tt.missed || r.missed && r.Data != nil {
			t.Errorf("%s: got %+v, %v", tt.line, r, err)
		}
	}
}

// heard returns the events of an agent until stop is true for one, or it has ended.
func heard(t *testing.T, a *Agent, stop func(agent.Event) bool) (all []agent.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range a.Events(ctx) {
		must(t, err)
		if all = append(all, e); stop(e) {
			break
		}
	}
	return all
}

func over(e agent.Event) bool { return e.Result != nil }

// TestCutTurnIsMissed: if the agent ends in the middle of a turn, its events are incomplete: the
// server's last records may not have arrived. The end is read from the conversation.
func TestCutTurnIsMissed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		prompt func(*fake)
		until  func(agent.Event) bool
		want   bool
	}{
		{"in a turn", func(*fake) {}, func(e agent.Event) bool { return e.Start != nil }, true},
		{"between turns", func(f *fake) { f.answer("stop", "x"); f.active = false }, over, false},
	} {
		f := newFake(t)
		f.prompt = f.runs(func() { tt.prompt(f) })
		_, a := f.start()
		send(t, a)
		heard(t, a, tt.until)
		if err := a.Kill(); err != nil {
			t.Error(err)
		}
		missed := false
		for _, e := range heard(t, a, func(agent.Event) bool { return false }) {
			missed = missed || e.Missed
			for _, e := range e.Envelopes {
				t.Errorf("%s: told %s", tt.name, shown(t, e))
			}
		}
		if missed != tt.want {
			t.Errorf("%s: missed %t, want %t", tt.name, missed, tt.want)
		}
	}
}

// TestUnreadableEventInATurn: an unreadable event does not suppress the others.
func TestUnreadableEventInATurn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.prompt = f.runs(func() {
		f.event("text.ended", `"text":["not","a","text"]`)
		f.answer("stop", "hello")
		f.active = false
	})
	r, a := f.start()
	send(t, a)
	missed, text := false, ""
	for _, e := range heard(t, a, over) {
		missed = missed || e.Missed
		if e.Result != nil {
			text = e.Result.Text
		}
	}
	if !missed || text != "hello" {
		t.Errorf("missed %t, the answer is %q", missed, text)
	}
	n := 0
	for _, err := range r.Conversation(t.Context(), fakeSession, time.Time{}, true) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 4 {
		t.Errorf("the conversation has %d envelopes, want 4", n)
	}
}

// FuzzEvents: any events of a server become valid envelopes, and each turn and tool call that
// begins ends once.
func FuzzEvents(f *testing.F) {
	lines := samples(f)
	f.Add(bytes.Join(lines[:40], []byte("\n")))
	f.Add(bytes.Join(lines[100:], []byte("\n")))
	f.Add(event("tool.called", map[string]any{"callID": "c"}))
	f.Add(event("text.ended", map[string]any{"timestamp": 1e300, "text": "\xed\xa0\x80"}))
	f.Add([]byte("{\"type\":\"session.next.prompted\",\"data\":{\"messageID\":\"0\"}}\n{\"type\":\"session.next.prompted\",\"data\":{}}"))
	f.Add([]byte(`{"type":"session.next.step.ended","data":{"timestamp":-1,"tokens":{"input":1e99,"output":-5}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := plainAdapter()
		began := map[string]int{}
		hear := func(list []wire.Envelope) {
			for _, e := range list {
				if _, err := e.MarshalJSON(); err != nil {
					t.Errorf("%+v: %v", e, err)
				}
				switch ev := e.Event.(type) {
				case *wire.TurnStart:
					began["turn "+*e.Turn]++
				case *wire.TurnEnd:
					began["turn "+*e.Turn]--
				case *wire.ToolCallStart:
					began["call "+ev.Call]++
				case *wire.ToolCallEnd:
					began["call "+ev.Call]--
				}
			}
		}
		for line := range bytes.Lines(data) {
			if r, err := parseRecord(line); err == nil {
				hear(a.event(r.Event))
			}
		}
		hear(a.end(time.Now()))
		for what, n := range began {
			if n != 0 {
				t.Errorf("%s: %d more begun than ended", what, n)
			}
		}
	})
}
