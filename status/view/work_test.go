package view

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude/session"
	"teambridge/relay/process"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

var must = errtest.Must

var began = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

func newJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	must(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// said returns an envelope of drums, some time after its start, with fields and an event as JSON.
func said(t *testing.T, id string, after time.Duration, fields, event string) journal.Envelope {
	t.Helper()
	e := journal.Envelope{
		InboxKey: inbox.Key("/claude", teams.Instance{Team: "band", CreatedAt: 1}, "drums"),
		ID:       id, Session: "s", At: began.Add(after),
		Raw: fmt.Appendf(nil, `{"id":%q,"time":%d,"role":"agent","turn":"t"%s,"ev":%s}`, id, began.Add(after).UnixMilli(), fields, event),
	}
	var parts struct {
		Role, Turn, Subagent string
		Ev                   struct{ T, Call string }
	}
	must(t, json.Unmarshal(e.Raw, &parts))
	e.Role, e.Turn, e.Subagent, e.Kind, e.Call = parts.Role, parts.Turn, parts.Subagent, parts.Ev.T, parts.Ev.Call
	return e
}

func record(t *testing.T, j *journal.Journal, list ...journal.Envelope) {
	t.Helper()
	recorded, err := j.Envelopes.Record(t.Context(), list...)
	must(t, err)
	for i, new := range recorded {
		if !new {
			t.Fatalf("envelope %s was there", list[i].ID)
		}
	}
}

// answered records the answer to frame t.
func answered(t *testing.T, j *journal.Journal, n int64, text, more string) {
	t.Helper()
	_, err := j.RelayEvents.CopyEvents(t.Context(), nil, ledger.Event{
		N: n, InboxKey: inbox.Key("/claude", teams.Instance{Team: "band", CreatedAt: 1}, "drums"), At: began, Answer: "t",
		Row: fmt.Appendf(nil, `{"from":"drums","text":%q,"timestamp":"2026-11-16T09:00:00.000Z","type":"answer","messageId":"t"%s}`, text, more),
	})
	must(t, err)
}

// works returns records as lines: kind, state, text.
func works(t *testing.T, j *journal.Journal, thinking bool) (list []string) {
	t.Helper()
	for r, err := range Works(t.Context(), j, nil, journal.Query{}, thinking) {
		must(t, err)
		list = append(list, r.Kind+" "+r.Work.State+": "+r.Text)
	}
	return list
}

func tool(call, command string) string { return titled(call, "run `"+command+"`") }

func titled(call, title string) string {
	return fmt.Sprintf(`{"t":"tool-call-start","call":%q,"name":"Bash","title":%q,"description":"runs it","args":{}}`, call, title)
}

func ended(call string) string { return became(call, "done") }

func became(call, outcome string) string {
	return fmt.Sprintf(`{"t":"tool-call-end","call":%q,"outcome":%q}`, call, outcome)
}

// The call that starts a subagent names it as the subagent's own envelopes do.
func TestWorkStarts(t *testing.T) {
	t.Parallel()
	line, err := session.Parse([]byte(`{"type":"assistant","uuid":"u","message":{"content":[{"type":"tool_use","id":"c","name":"Task","input":{}}]}}`))
	must(t, err)
	var subagent string
	_, told := session.New().Line(line, began)
	for _, e := range told {
		if _, ok := e.Event.(*wire.Start); ok {
			subagent = *e.Subagent
		}
	}
	j := newJournal(t)
	for name, want := range map[string]string{"Task": subagent, "Agent": subagent, "Bash": ""} {
		r, err := Work(t.Context(), j, nil, said(t, "a", 0, "", strings.Replace(tool("c", "x"), "Bash", name, 1)))
		if err != nil || r.Work.Starts != want {
			t.Errorf("%s starts %q, want %q, %v", name, r.Work.Starts, want, err)
		}
	}
	if subagent == "" {
		t.Error("no subagent starts")
	}
}

func TestWorks(t *testing.T) {
	t.Parallel()
	const s = time.Second
	text := func(text string) string { return fmt.Sprintf(`{"t":"text","text":%q}`, text) }
	for name, test := range map[string]struct {
		said   []journal.Envelope
		answer string
		more   string // fields of the answer
		want   []string
	}{
		"a tool call that runs": {said: []journal.Envelope{said(t, "a", 0, "", tool("c", "go test ./..."))}, want: []string{"tool running: runs `go test ./...`"}},
		"one that has ended":    {said: []journal.Envelope{said(t, "a", 0, "", tool("c", "go test ./...")), said(t, "b", 12*s, "", ended("c"))}, want: []string{"tool done: ran `go test ./...` · 12 s"}},
		"two at once, the later one first": {
			said: []journal.Envelope{said(t, "a", 0, "", tool("c", "one")), said(t, "b", s, "", tool("d", "two")), said(t, "e", 2*s, "", ended("d")), said(t, "f", 95*s, "", ended("c"))},
			want: []string{"tool done: ran `one` · 1 min 35 s", "tool done: ran `two` · 1.0 s"},
		},
		"one whose turn has ended": {
			said: []journal.Envelope{said(t, "a", 0, "", tool("c", "sleep")), said(t, "b", s, "", `{"t":"turn-end","status":"cancelled"}`)},
			want: []string{"tool cut: tried to run `sleep` · cut off", "turn cancelled: the turn was cancelled"},
		},
		"what was not done": {
			said: []journal.Envelope{
				said(t, "a", 0, "", tool("c", "rm -rf build")), said(t, "b", s, "", became("c", "denied")), said(t, "d", s, "", tool("e", "make")), said(t, "f", 3*s, "", became("e", "failed")),
				said(t, "g", 3*s, "", titled("h", "write /etc/motd")), said(t, "i", 5*s, "", became("h", "cut")), said(t, "k", 5*s, "", tool("l", "serve")), said(t, "m", 6*s, "", became("l", "started")),
			},
			want: []string{
				"tool denied: tried to run `rm -rf build` · denied", "tool failed: tried to run `make` · failed · 2.0 s", "tool cut: tried to write /etc/motd · cut off",
				"tool started: began to run `serve` in the background",
			},
		},
		"recorded by an earlier version, which did not tell": {
			said: []journal.Envelope{
				said(t, "a", 0, "", titled("c", "ran `rm -rf build`")), said(t, "b", s, "", `{"t":"tool-call-end","call":"c"}`), said(t, "d", s, "", titled("e", "wrote /etc/motd")),
				said(t, "f", s, "", titled("g", "edited a.go")), said(t, "h", s, "", became("g", "vaporized")),
			},
			want: []string{"tool unknown: tried to run `rm -rf build` · 1.0 s", "tool running: writes /etc/motd", "tool unknown: tried to edit a.go"},
		},
		"a title of several lines, and none": {
			said: []journal.Envelope{said(t, "a", 0, "", tool("c", "cat\n  x")), said(t, "b", 0, "", titled("d", " "))},
			want: []string{"tool running: runs `cat x`", "tool running: uses Bash"},
		},
		"titles of other programs": {
			said: []journal.Envelope{said(t, "a", 0, "", titled("c", "edit a.go")), said(t, "b", 0, "", titled("d", "make all")), said(t, "e", 0, "", titled("f", "make"))},
			want: []string{"tool running: edits a.go", "tool running: make all", "tool running: make"},
		},
		"a short call":           {said: []journal.Envelope{said(t, "a", s, "", tool("c", "ls")), said(t, "b", s+9*time.Millisecond, "", ended("c"))}, want: []string{"tool done: ran `ls`"}},
		"an end without a start": {said: []journal.Envelope{said(t, "a", 0, "", ended("c"))}},
		"a turn": {said: []journal.Envelope{
			said(t, "a", 0, "", `{"t":"turn-start"}`), said(t, "b", 0, `,"subagent":"sub1"`, `{"t":"start"}`), said(t, "c", 0, `,"subagent":"sub1"`, `{"t":"stop"}`),
			said(t, "d", 0, "", `{"t":"turn-end","status":"completed"}`),
		}},
		"a turn that failed": {said: []journal.Envelope{said(t, "a", 0, "", `{"t":"turn-end","status":"failed"}`)}, want: []string{"turn failed: the turn failed"}},
		"files and notes": {
			said: []journal.Envelope{
				said(t, "a", 0, "", `{"t":"file","ref":"/src/main.go","name":"main.go","size":2048}`), said(t, "b", 0, "", `{"t":"file","ref":"x","name":"x","size":0}`),
				said(t, "c", 0, "", `{"t":"service","text":"compacted"}`),
			},
			want: []string{"file done: file `/src/main.go` · 2.0 KiB", "file done: file `x`", "service done: compacted"},
		},
		"what was said to it":            {said: []journal.Envelope{said(t, "a", 0, `,"role":"user"`, text("do it"))}},
		"an envelope of a later version": {said: []journal.Envelope{said(t, "a", 0, "", `{"t":"hologram"}`)}},
		"texts while it works":           {said: []journal.Envelope{said(t, "a", 0, "", text("I look")), said(t, "b", 0, "", text("done"))}, want: []string{"text done: I look", "text done: done"}},
		"the last text is the answer":    {said: []journal.Envelope{said(t, "a", 0, "", text("done")), said(t, "b", 0, "", text("done"))}, answer: "done\n", want: []string{"text done: done"}},
		"another text than the answer":   {said: []journal.Envelope{said(t, "a", 0, "", text("done"))}, answer: "not done", want: []string{"text done: done"}},
		"a subagent's text is no answer": {
			said:   []journal.Envelope{said(t, "a", 0, "", text("done")), said(t, "b", 0, `,"subagent":"sub1"`, text("done")), said(t, "c", 0, "", `{"t":"text","text":"hm","thinking":true}`)},
			answer: "done", want: []string{"text done: done", "thinking done: hm"},
		},
		"of a long answer the beginning was kept": {said: []journal.Envelope{said(t, "a", 0, "", text("done and more"))}, answer: "done and", more: `,"truncated":true`},
		"the answer of another turn":              {said: []journal.Envelope{said(t, "a", s, `,"turn":"u"`, text("done"))}, answer: "done", want: []string{"text done: done"}},
		"the answer, in a transcript": {
			said:   []journal.Envelope{said(t, "a", -time.Millisecond, `,"turn":"u"`, text("done")), said(t, "b", 0, `,"turn":"u"`, text("done")), said(t, "c", 0, `,"turn":"u"`, text("more"))},
			answer: "done", want: []string{"text done: done", "text done: more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			record(t, j, test.said...)
			if test.answer != "" {
				answered(t, j, 1, test.answer, test.more)
			}
			if diff := cmp.Diff(test.want, works(t, j, true)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0.1 s": 120 * time.Millisecond, "9.9 s": 9949 * time.Millisecond, "10 s": 9951 * time.Millisecond, "59 s": 59*time.Second + 400*time.Millisecond,
		"1 min 0 s": 59*time.Second + 600*time.Millisecond, "59 min 59 s": time.Hour - time.Second, "1 h 0 min": time.Hour, "27 h 5 min": 27*time.Hour + 5*time.Minute + 9*time.Second,
	} {
		if got := duration(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

// The record of a tool call is that of its start, whichever of its envelopes is shown.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	record(t, j, said(t, "a", 0, `,"subagent":"sub1"`, tool("c", "make")), said(t, "b", 2*time.Second, `,"subagent":"sub1"`, ended("c")),
		said(t, "d", 0, `,"role":"user"`, `{"t":"text","text":"hello"}`))
	var list []api.Envelope
	for e, err := range j.Envelopes.All(t.Context(), journal.EnvelopeQuery{}) {
		must(t, err)
		shown, err := Envelope(t.Context(), j, nil, e)
		must(t, err)
		list = append(list, shown)
	}
	end := began.Add(2 * time.Second)
	want := &api.Record{
		Message: api.Message{Team: "band", Inbox: "drums", ID: "a", From: "drums", Text: "ran `make` · 2.0 s", Timestamp: "2026-11-16T09:00:00.000Z", Read: true, Kind: api.KindTool, Gone: true},
		Seq:     1, CreatedAt: 1, FirstSeen: began, GoneAt: &began,
		Work: &api.Work{Envelope: "a", Session: "s", Turn: "t", Subagent: "sub1", State: api.WorkDone, Tool: "Bash", Call: "c", Ended: &end},
	}
	for i, e := range list[:2] {
		if e.Seq != int64(i+1) || e.Member != "drums" || e.Session != "s" || !strings.Contains(string(e.Envelope), "tool-call") {
			t.Errorf("envelope %+v", e)
		}
		if diff := cmp.Diff(want, e.Record); diff != "" {
			t.Errorf("record of envelope %d (-want +got):\n%s", i, diff)
		}
	}
	if list[2].Record != nil {
		t.Errorf("what was said to it makes the record %+v", list[2].Record)
	}
}

func TestThinkingIsShownIfItIsAskedFor(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	record(t, j, said(t, "a", 0, "", `{"t":"text","text":"hmm","thinking":true}`))
	if got := works(t, j, false); got != nil {
		t.Errorf("shown %v, want nothing", got)
	}
	for _, thinking := range []bool{true, false} {
		n := 0
		for h, err := range WorkHits(t.Context(), j, nil, "hmm", journal.Query{}, thinking) {
			if err != nil || h.Kind != api.KindThinking || len(h.Snippet) == 0 {
				t.Errorf("found %+v, %v", h, err)
			}
			n++
		}
		if (n == 1) != thinking {
			t.Errorf("%d hits with thinking %v", n, thinking)
		}
	}
}

// A call without an end runs only as long as its agent does, even if no process records the end.
func TestWorkOfAnAgentThatEnded(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	e := said(t, "a", 0, "", tool("c", "sleep"))
	gone := exec.Command(os.Args[0], "-test.run=^$")
	must(t, gone.Run())
	us := process.Identify(os.Getpid())
	for _, test := range []struct {
		name, session, want string
		process             process.Predecessor
	}{
		{"it runs", "s", api.WorkRunning, us},
		{"it has ended", "s", api.WorkCut, process.Predecessor{PID: gone.Process.Pid, Start: us.Start}},
		{"it has another session", "other", api.WorkRunning, process.Predecessor{PID: gone.Process.Pid, Start: us.Start}},
	} {
		s := ledger.Session{InboxKey: e.InboxKey, ID: test.session, PID: test.process.PID, Start: test.process.Start, Command: "agent"}
		must(t, l.Sessions.SetSession(t.Context(), s))
		if r, err := Work(t.Context(), j, l, e); err != nil || r.Work.State != test.want {
			t.Errorf("%s: got %+v, %v; want it %s", test.name, r.Work, err, test.want)
		}
	}
}

// A hit shows the outcome of a tool call, and marks the searched words in it.
func TestWorkHits(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	titles := map[string]string{"c": "run `rm -rf build`", "d": "ran `make build`", "e": "run `build " + strings.Repeat("x ", 100) + "build`"}
	for n, call := range []string{"c", "d", "e"} {
		at := time.Duration(n) * time.Second
		record(t, j, said(t, "start-"+call, at, "", titled(call, titles[call])), said(t, "end-"+call, at, "", became(call, "denied")))
	}
	for words, want := range map[string][]string{
		"rm":    {"tried to run `[rm] -rf build` · denied"},
		"build": {"tried to run `[build] " + strings.TrimSpace(strings.Repeat("x ", 22)) + "… · denied", "tried to run `make [build]` · denied", "tried to run `rm -rf [build]` · denied"},
		"run":   {"tried to run `build " + strings.TrimSpace(strings.Repeat("x ", 22)) + "… · denied", "tried to run `rm -rf build` · denied"},
		"drums": {"[drums]", "[drums]", "[drums]"},
	} {
		var got []string
		for h, err := range WorkHits(t.Context(), j, nil, words, journal.Query{}, false) {
			must(t, err)
			line := ""
			for _, p := range h.Snippet {
				if p.Match {
					p.Text = "[" + p.Text + "]"
				}
				line += p.Text
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", words, diff)
		}
	}
}
