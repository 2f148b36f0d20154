package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/agent"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

// of makes envelopes of lines, in which ' stands for ".
func of(t testing.TB, frames []string, lines ...string) []wire.Envelope {
	t.Helper()
	a := New()
	for _, f := range frames {
		send(a, quoted(f))
	}
	var all []wire.Envelope
	for _, l := range lines {
		all = append(all, tells(a, quoted(l))...)
	}
	left, err := a.End(start, nil)
	must(t, err)
	return append(all, left...)
}

// send says that a frame is about to be written.
func send(f *Fold, line []byte) {
	if l, err := Parse(line); err == nil && l.UUID != "" {
		f.Sent(agent.Frame{UUID: l.UUID, Line: line})
	}
}

// tells returns the envelopes of a line.
func tells(f *Fold, line []byte) []wire.Envelope {
	l, err := Parse(line)
	if err != nil {
		return nil
	}
	_, all := f.Line(l, start)
	return all
}

var start = time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)

func quoted(s string) []byte { return []byte(strings.ReplaceAll(s, "'", `"`)) }

// Lines of a process.
const (
	isInit = `{'type':'system','subtype':'init','session_id':'s'}`
	isDone = `{'type':'result','subtype':'success','usage':{'input_tokens':3,'output_tokens':4}}`
)

func frame(uuid, text string) string {
	return `{'type':'user','uuid':'` + uuid + `','message':{'role':'user','content':'` + text + `'}}`
}

func echo(uuid, text string) string {
	return `{'type':'user','uuid':'` + uuid + `','isReplay':true,'timestamp':'2026-11-20T18:00:01Z','message':{'role':'user','content':'` + text + `'}}`
}

func lifecycle(uuid, state string) string {
	return `{'type':'command_lifecycle','command_uuid':'` + uuid + `','state':'` + state + `'}`
}

func says(uuid, blocks string) string {
	return `{'type':'assistant','uuid':'` + uuid + `','message':{'id':'m','content':[` + blocks + `]}}`
}

func TestLines(t *testing.T) {
	t.Parallel()
	hello := []string{frame("f1", "hello")}
	for _, test := range []struct {
		name          string
		frames, lines []string
		want          string
	}{
		{"thinking, text and a tool in one message", hello, []string{
			isInit, echo("f1", "hello"),
			says("a1", `{'type':'thinking','thinking':'hm'},{'type':'text','text':'ok'},{'type':'text','text':' '},{'type':'tool_use','id':'c1','name':'Bash','input':{'command':'go test ./...'}}`),
			`{'type':'user','uuid':'r1','message':{'content':[{'type':'tool_result','tool_use_id':'c1'}]}}`, isDone,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: thinking "hm"
f1 agent: text "ok"
f1 agent: tool-call-start c1: run ` + "`go test ./...`" + `
f1 agent: tool-call-end c1: done
f1 agent: turn-end completed
`},
		{"a written file", hello, []string{
			isInit, echo("f1", "hello"),
			says("a1", `{'type':'tool_use','id':'c1','name':'Write','input':{'file_path':'/x/a.txt','content':'four'}},{'type':'tool_use','id':'c2','name':'Write','input':{'file_path':'/x/b.txt','content':''}},{'type':'tool_use','id':'c3','name':'Edit','input':{'file_path':'C:\\x\\c.txt'}}`),
			`{'type':'user','uuid':'r1','message':{'content':[{'type':'tool_result','tool_use_id':'c1'},{'type':'tool_result','tool_use_id':'c2','is_error':true},{'type':'tool_result','tool_use_id':'c3'}]}}`, isDone,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: write /x/a.txt
f1 agent: tool-call-start c2: write /x/b.txt
f1 agent: tool-call-start c3: edit C:\x\c.txt
f1 agent: tool-call-end c1: done
f1 agent: file a.txt 4
f1 agent: tool-call-end c2: failed
f1 agent: tool-call-end c3: done
f1 agent: file c.txt 0
f1 agent: turn-end completed
`},
		{"the model API fails", hello, []string{
			lifecycle("f1", "started"), isInit, echo("f1", "hello"),
			`{'type':'assistant','uuid':'a1','message':{'model':'<synthetic>','content':[{'type':'text','text':'API Error: 400'}]}}`,
			`{'type':'result','subtype':'success','is_error':true,'terminal_reason':'api_error'}`, lifecycle("f1", "cancelled"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: service "API Error: 400"
f1 agent: turn-end failed
`},
		{"a limit of turns, with a tool call that is open", hello, []string{
			isInit, echo("f1", "hello"), says("a1", `{'type':'tool_use','id':'c1','name':'X'}`), `{'type':'result','subtype':'error_max_turns'}`,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: use X
f1 agent: tool-call-end c1: cut
f1 agent: turn-end failed
`},
		{"an interrupt, told in the result alone", hello, []string{
			lifecycle("f1", "started"), isInit, echo("f1", "hello"), `{'type':'result','subtype':'error_during_execution','is_error':true,'terminal_reason':'aborted_tools'}`,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: turn-end cancelled
`},
		{"the process dies in a turn", hello, []string{
			isInit, echo("f1", "hello"), says("a1", `{'type':'tool_use','id':'c1','name':'Task','input':{'description':'look'}}`),
			`{'type':'assistant','uuid':'a2','parent_tool_use_id':'c1','message':{'content':[{'type':'tool_use','id':'c2','name':'Read','input':{'file_path':'x'}}]}}`,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: run agent: look
f1 subagent: start look
f1 subagent: tool-call-start c2: read x
f1 subagent: tool-call-end c2: cut
f1 subagent: stop
f1 agent: tool-call-end c1: cut
f1 agent: turn-end failed
`},
		{"the process dies before it acknowledges", hello, []string{lifecycle("f1", "started"), isInit}, `
f1 agent: turn-start
`},
		{"a frame that is known already", hello, []string{
			`{'type':'user','uuid':'f1','isReplay':true,'message':{'content':'hello'}}`, lifecycle("f1", "completed"),
		}, "\n"},
		{"joined frames are one turn", []string{frame("f1", "one"), frame("f2", "two")}, []string{
			`{'type':'user','uuid':'f1','isReplay':true,'message':{'content':'one'}}`,
			lifecycle("f1", "started"), lifecycle("f2", "started"), isInit, echo("f2", `one\ntwo`), says("a1", `{'type':'text','text':'ok'}`), isDone,
		}, `
f2 agent: turn-start
f2 user: text "one\ntwo"
f2 agent: text "ok"
f2 agent: turn-end completed
`},
		{"a frame in the middle of a turn", []string{frame("f1", "one"), frame("f2", "two")}, []string{
			lifecycle("f1", "started"), isInit, echo("f1", "one"), echo("f2", "two"), says("a1", `{'type':'text','text':'ok'}`), isDone,
		}, `
f1 agent: turn-start
f1 user: text "one"
f1 user: text "two"
f1 agent: text "ok"
f1 agent: turn-end completed
`},
		{"a message to another program, which begins turns and echoes nothing", []string{frame("f1", "<teammate-message teammate_id=x>")}, []string{
			isInit, says("a1", `{'type':'text','text':'ok'}`), isDone,
		}, `
f1 agent: turn-start
f1 user: text "<teammate-message teammate_id=x>"
f1 agent: text "ok"
f1 agent: turn-end completed
`},
		{"a command of another program", []string{frame("f1", "/clear")}, []string{isInit, isDone}, `
f1 agent: turn-start
f1 user: text "/clear"
f1 agent: turn-end completed
`},
		{"a command prints before its echo", []string{frame("f1", "/context")}, []string{
			lifecycle("f1", "started"), isInit,
			`{'type':'assistant','uuid':'a1','message':{'model':'<synthetic>','content':[{'type':'text','text':'Usage'}]}}`,
			echo("f1", "<command-name>/context</command-name>"), isDone,
		}, `
f1 agent: turn-start
f1 user: text "/context"
f1 agent: service "Usage"
f1 agent: turn-end completed
`},
		{"the answer to set_model is in no turn", nil, []string{
			`{'type':'user','uuid':'u1','isReplay':true,'timestamp':'2026-11-20T18:00:01Z','message':{'content':'<local-command-stdout>Set model to x</local-command-stdout>'}}`,
		}, `
- agent: service "Set model to x"
`},
		{"a subagent in the background, and the turn that its end begins", hello, []string{
			lifecycle("f1", "started"), isInit, echo("f1", "hello"),
			says("a1", `{'type':'tool_use','id':'c1','name':'Agent','input':{}}`),
			`{'type':'user','uuid':'r1','tool_use_result':{'status':'async_launched','agentId':'x'},'message':{'content':[{'type':'tool_result','tool_use_id':'c1'}]}}`,
			isDone,
			`{'type':'assistant','uuid':'a2','parent_tool_use_id':'c1','message':{'content':[{'type':'text','text':'found it'}]}}`,
			`{'type':'system','subtype':'task_notification','tool_use_id':'c1'}`,
			isInit, `{'type':'result','subtype':'success','num_turns':0}`,
			isInit, says("a3", `{'type':'text','text':'thanks'}`), isDone,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: use Agent
f1 subagent: start
f1 agent: tool-call-end c1: started
f1 agent: turn-end completed
f1 subagent: text "found it"
f1 subagent: stop
a3 agent: turn-start
a3 agent: text "thanks"
a3 agent: turn-end completed
`},
		{"a result that was too long to be read", hello, []string{
			lifecycle("f1", "started"), isInit, echo("f1", "hello"), lifecycle("f2", "started"), isInit, echo("f2", "next"), isDone,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: turn-end failed
f2 agent: turn-start
f2 user: text "next"
f2 agent: turn-end completed
`},
		{"a program that prints only results", hello, []string{`{'type':'result','subtype':'success','result':'hi'}`}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "hi"
f1 agent: turn-end completed
`},
		{"a program without uuids", hello, []string{
			`{'type':'assistant','message':{'content':'one'}}`, `{'type':'assistant','message':{'content':'two'}}`, `{'type':'result','subtype':'success','result':'two'}`,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: text "two"
f1 agent: turn-end completed
`},
		{"a process that cannot begin", hello, []string{cannotBegin}, "\n"},
		{"a program that prints only results, and fails", hello, []string{failure}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: turn-end failed
`},
		{"a version whose echoes have no timestamp", hello, []string{
			isInit, `{'type':'user','uuid':'f1','isReplay':true,'message':{'content':'hello'}}`, says("a1", `{'type':'text','text':'ok'}`), isDone,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "ok"
f1 agent: turn-end completed
`},
		{"lines that say nothing", hello, []string{
			``, `null`, `[]`, `{`, `{'type':7}`, `{'type':'user','message':7}`, `{'type':'system','subtype':'api_retry'}`,
		}, "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			all := of(t, test.frames, test.lines...)
			if diff := cmp.Diff(test.want, "\n"+showAll(all)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if test.name != "the process dies before it acknowledges" {
				check(t, all)
			}
		})
	}
}

// TestUsage: the end of a turn has the turn's usage.
func TestUsage(t *testing.T) {
	t.Parallel()
	all := of(t, nil, isInit, echo("f1", "hello"), isDone)
	if u := all[len(all)-1].Usage; u == nil || u.InputTokens != 3 || u.OutputTokens != 4 {
		t.Errorf("got %+v, want 3 in and 4 out", u)
	}
}

// TestLongTexts: no text and no tool call of an agent makes an envelope of many MB.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 1<<20)
	all := of(t, nil, isInit, echo("f1", long),
		says("a1", `{'type':'text','text':'`+long+`'},{'type':'tool_use','id':'c1','name':'Write','input':{'a':'`+long+`','b':'`+long+`','content':'`+long+`','file_path':'/x','more':['`+long+`']}}`), isDone)
	check(t, all)
	for _, e := range all {
		line, err := e.MarshalJSON()
		if err != nil || len(line) > 3*toolcall.Limit {
			t.Errorf("%.80s: %d bytes, %v", shown(e), len(line), err)
		}
		if e, ok := e.Event.(*wire.Text); ok && !strings.HasSuffix(e.Text, "[1835008 bytes left out]") {
			t.Errorf("text ends with %q", e.Text[len(e.Text)-40:])
		}
	}
}

// TestEndFromTranscript: the transcript ends the turn of a process that died before it printed its answer.
func TestEndFromTranscript(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	write(t, path,
		kept("user", "f0", "", "earlier"), kept("assistant", "a0", "end_turn", "before"),
		kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "hi"))
	a := New()
	for _, l := range []string{isInit, echo("f1", "hello")} {
		tells(a, quoted(l))
	}
	all, err := a.End(start, Read(t.Context(), path, Options{Gone: true}))
	if want := "f1 agent: text \"hi\"\nf1 agent: turn-end completed\n"; err != nil || showAll(all) != want {
		t.Errorf("got %v and\n%swant\n%s", err, showAll(all), want)
	}
}

// kept returns a record of a transcript.
func kept(kind, uuid, stop, text string) string {
	return fmt.Sprintf(`{"type":%q,"uuid":%q,"timestamp":"2026-11-20T18:00:00Z","message":{"id":%q,"stop_reason":%q,"content":[{"type":"text","text":%q}]}}`, kind, uuid, "m"+uuid, stop, text)
}

func write(t testing.TB, path string, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer file.Close()
	if _, err := file.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	const caveat = `{"type":"user","uuid":"x","isMeta":true,"message":{"content":"<local-command-caveat>…"}}`
	command := func(uuid, name, more string) string {
		return `{"type":"user","uuid":"` + uuid + `"` + more + `,"message":{"content":"<command-name>` + name + `</command-name>\n<command-args>now</command-args>"}}`
	}
	const boundary = `{"type":"system","subtype":"compact_boundary","uuid":"b1"}`
	const summary = `{"type":"user","uuid":"x","isCompactSummary":true,"message":{"content":"This session is being continued"}}`
	for _, test := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a message in several records", []string{
			kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"), kept("assistant", "a2", "end_turn", "two"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: text "two"
f1 agent: turn-end completed
`},
		{"a hook makes the agent go on", []string{
			kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"),
			`{"type":"user","uuid":"x","isMeta":true,"message":{"content":"Stop hook feedback"}}`, kept("assistant", "a2", "end_turn", "two"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: text "two"
f1 agent: turn-end completed
`},
		{"a turn that was cut, and what is added when it is resumed", []string{
			kept("user", "f1", "", "hello"), `{"type":"assistant","uuid":"a1","message":{"content":[{"type":"tool_use","id":"c1","name":"X"}]}}`,
			`{"type":"user","uuid":"x","isMeta":true,"message":{"content":"Continue from where you left off."}}`,
			`{"type":"assistant","uuid":"a2","message":{"model":"<synthetic>","stop_reason":"stop_sequence","content":[{"type":"text","text":"No response requested."}]}}`,
			kept("user", "f2", "", "go on"), kept("assistant", "a3", "end_turn", "ok"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: use X
f1 agent: tool-call-end c1: cut
f1 agent: turn-end failed
f2 agent: turn-start
f2 user: text "go on"
f2 agent: text "ok"
f2 agent: turn-end completed
`},
		{"/compact is a turn, and the compaction is in it", []string{
			kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"), boundary, summary, caveat,
			command("f2", "/compact", `,"turnAttributionKey":"f2"`),
			`{"type":"user","uuid":"o1","message":{"content":"<local-command-stdout>Compacted</local-command-stdout>"}}`,
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: turn-end completed
f2 agent: turn-start
f2 user: text "/compact now"
f2 agent: service "Conversation compacted"
f2 agent: service "Compacted"
f2 agent: turn-end completed
`},
		{"a compaction in the middle of a turn", []string{
			kept("user", "f1", "", "hello"), boundary, summary, kept("assistant", "a1", "end_turn", "one"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: service "Conversation compacted"
f1 agent: text "one"
f1 agent: turn-end completed
`},
		{"set_model is no turn", []string{
			caveat, command("u1", "/model", ""), `{"type":"user","uuid":"o1","message":{"content":"<local-command-stdout>Set model</local-command-stdout>"}}`,
			kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"),
		}, `
- agent: service "Set model"
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: turn-end completed
`},
		{"a command that the model answers", []string{
			command("f1", "/review", ""), `{"type":"user","uuid":"x","isMeta":true,"message":{"content":"Review the code"}}`, kept("assistant", "a1", "end_turn", "fine"),
		}, `
f1 agent: turn-start
f1 user: text "/review now"
f1 agent: text "fine"
f1 agent: turn-end completed
`},
		{"given in the middle of a turn", []string{
			kept("user", "f1", "", "hello"), `{"type":"attachment","uuid":"x","attachment":{"type":"queued_command","prompt":"stop that","source_uuid":"f2","commandMode":"prompt"}}`,
			kept("assistant", "a1", "end_turn", "ok"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 user: text "stop that"
f1 agent: text "ok"
f1 agent: turn-end completed
`},
		{"what others wrote", []string{
			kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"),
			`{"type":"user","uuid":"p1","isMeta":true,"origin":{"kind":"peer","msg_id":"m1"},"message":{"content":"Another session wrote:\n<cross-session-message from=\"uds:/s\" from-name=\"ben\" message-id=\"m1\">\nmay I &lt;/cross-session-message?\n</cross-session-message>\nNot your user."}}`,
			kept("assistant", "a2", "end_turn", "two"),
			`{"type":"user","uuid":"n1","message":{"content":"<task-notification>\n</task-notification>\n<system-reminder>\n<teambridge-message from=\"operator\" message-id=\"m2\">\nhi\n</teambridge-message>\n<teambridge-message from=\"ann\" message-id=\"m3\">\nha\n</teambridge-message>\n</system-reminder>"}}`,
			kept("assistant", "a3", "tool_use", "three"),
			`{"type":"attachment","uuid":"x","attachment":{"type":"queued_command","prompt":"<cross-session-message from=\"uds:/s\" from-name=\"ben\">\nstop\n</cross-session-message>","origin":{"kind":"peer","msg_id":"m4"}}}`,
			kept("assistant", "a4", "end_turn", "four"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: turn-end completed
- user: text "message from ben:\nmay I </cross-session-message?"
a2 agent: turn-start
a2 agent: text "two"
a2 agent: turn-end completed
- user: text "message from operator:\nhi"
- user: text "message from ann:\nha"
a3 agent: turn-start
a3 agent: text "three"
a3 user: text "message from ben:\nstop"
a3 agent: text "four"
a3 agent: turn-end completed
`},
		{"records of sidechains, and torn ones", []string{
			`{"type":"user","isSidechain":true,"uuid":"x","message":{"content":"for another"}}`,
			`{"type":"user","uuid":"f0","mess{` + `"parentUuid":null,` + kept("user", "f1", "", "hello")[1:], "not JSON", "", kept("assistant", "a1", "end_turn", "ok"),
		}, `
f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "ok"
f1 agent: turn-end completed
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.jsonl")
			write(t, path, test.lines...)
			all := read(t, path, Options{})
			if diff := cmp.Diff(test.want, "\n"+showAll(all)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			check(t, all)
		})
	}
}

// TestOpenTurn: a running turn stays open, unless the process is gone.
func TestOpenTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	write(t, path, kept("user", "f1", "", "hello"), kept("assistant", "a1", "tool_use", "let me see"))
	const open = "f1 agent: turn-start\nf1 user: text \"hello\"\nf1 agent: text \"let me see\"\n"
	if got := showAll(read(t, path, Options{})); got != open {
		t.Errorf("got\n%swant\n%s", got, open)
	}
	if got, want := showAll(read(t, path, Options{Gone: true})), open+"f1 agent: turn-end failed\n"; got != want {
		t.Errorf("gone: got\n%swant\n%s", got, want)
	}
}

// TestSince: reading from any time on gives the last envelopes of the whole conversation, from the beginning
// of a turn, and all those after that time.
func TestSince(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	at := start
	long := strings.Repeat("x", 300_000) // lines on both sides of a chunk
	for i := range 8 {
		for _, r := range []string{kept("user", fmt.Sprint("f", i), "", long), kept("assistant", fmt.Sprint("a", i), "end_turn", "ok")} {
			write(t, path, strings.Replace(r, "2026-11-20T18:00:00Z", at.Format(time.RFC3339), 1))
			at = at.Add(time.Minute)
		}
	}
	all := read(t, path, Options{})
	for since := start.Add(-6 * time.Minute); since.Before(at.Add(6 * time.Minute)); since = since.Add(150 * time.Second) {
		got := read(t, path, Options{Since: since})
		rest := all[len(all)-len(got):]
		for i := range got {
			if got[i].ID != rest[i].ID {
				t.Fatalf("since %v: envelope %d is %s, want %s", since, i, shown(got[i]), shown(rest[i]))
			}
		}
		if _, ok := got[0].Event.(*wire.TurnStart); !ok {
			t.Errorf("since %v: begins with %s", since, shown(got[0]))
		}
		for _, left := range all[:len(all)-len(got)] {
			if time.UnixMilli(int64(left.Time)).After(since) {
				t.Errorf("since %v: %s is left out", since, shown(left))
			}
		}
		if begins := time.UnixMilli(int64(got[0].Time)); begins.After(start) && begins.After(since.Add(-time.Minute)) {
			t.Errorf("since %v: begins at %v; a record that was written late is left out", since, begins)
		}
		if begins := time.UnixMilli(int64(got[0].Time)); since.Before(at) && since.After(start) && since.Sub(begins) > 5*time.Minute {
			t.Errorf("since %v: begins at %v", since, begins)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	write(t, path, kept("user", "f1", "", "hello"))
	add := func(text string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	torn := kept("assistant", "a1", "end_turn", "hi")
	steps := []func(){ // each after a look that found nothing
		func() { add(torn[:50]) }, func() { add(torn[50:] + "\n") }, func() { write(t, path, kept("user", "f2", "", "more")) }, cancel,
	}
	var all []wire.Envelope
	for e, err := range Follow(ctx, path, time.Time{}, time.Millisecond, func() bool {
		if len(steps) > 0 { // it may look once more after the last, before it sees that the context has ended
			steps[0]()
			steps = steps[1:]
		}
		return false
	}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the end of the context", err)
			}
			break
		}
		all = append(all, e)
	}
	want := `f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "hi"
f1 agent: turn-end completed
f2 agent: turn-start
f2 user: text "more"
`
	if got := showAll(all); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestFollowHook: a turn that seemed to have ended and goes on does not end twice.
func TestFollowHook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	write(t, path, kept("user", "f1", "", "hello"), kept("assistant", "a1", "end_turn", "one"))
	got, went := "", false
	for e, err := range Follow(t.Context(), path, time.Time{}, time.Millisecond, func() bool {
		if !went {
			write(t, path, `{"type":"user","uuid":"x","isMeta":true,"message":{"content":"Stop hook feedback"}}`,
				kept("assistant", "a2", "end_turn", "two"), kept("user", "f2", "", "next"))
		}
		defer func() { went = true }()
		return went
	}) {
		if err != nil {
			t.Error(err)
		}
		got += shown(e) + "\n"
	}
	want := `f1 agent: turn-start
f1 user: text "hello"
f1 agent: text "one"
f1 agent: turn-end completed
f1 agent: text "two"
f2 agent: turn-start
f2 user: text "next"
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNoTranscript(t *testing.T) {
	t.Parallel()
	for _, err := range Read(t.Context(), filepath.Join(t.TempDir(), "s.jsonl"), Options{}) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
}

// The work of a subagent is read from its own transcript, even if it began before the part
// that is read, or went on after it.
func TestSubagentTranscripts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	folder := filepath.Join(strings.TrimSuffix(path, ".jsonl"), "subagents")
	must(t, os.MkdirAll(folder, 0o700))
	at := func(minute int, record string) string {
		stamp := start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339)
		return strings.Replace(strings.Replace(record, "2026-11-20T18:00:00Z", "", 1), `"timestamp":""`, `"timestamp":"`+stamp+`"`, 1)
	}
	notified := func(minute int, text string) string {
		return at(minute, kept("user", "n"+text, "", "<task-notification>\n<tool-use-id>c1</tool-use-id>"))
	}
	call := `{"type":"assistant","uuid":"a1","timestamp":"","message":{"content":[{"type":"tool_use","id":"c1","name":"Agent","input":{"description":"look"}}]}}`
	result := `{"type":"user","uuid":"r1","timestamp":"","toolUseResult":{"status":"async_launched","agentId":"x"},"message":{"content":[{"type":"tool_result","tool_use_id":"c1"}]}}`
	write(t, filepath.Join(folder, "agent-x.meta.json"), `{"toolUseId":"c1"}`)
	write(t, filepath.Join(folder, "agent-x.jsonl"), at(0, kept("user", "s0", "", "look")), at(1, kept("assistant", "s1", "end_turn", "found it")))
	write(t, path, at(0, kept("user", "f1", "", "hello")), at(0, call), at(0, result), at(1, kept("assistant", "a2", "end_turn", "it looks")),
		at(10, kept("user", "f2", "", "and now?")), at(10, kept("assistant", "a3", "end_turn", "wait")), notified(20, "1"), at(20, kept("assistant", "a4", "end_turn", "there")))
	const rest = `f2 agent: turn-start
f2 user: text "and now?"
f2 agent: text "wait"
f2 agent: turn-end completed
`
	all := read(t, path, Options{})
	check(t, all)
	if want := `f1 agent: turn-start
f1 user: text "hello"
f1 agent: tool-call-start c1: run agent: look
f1 subagent: start look
f1 agent: tool-call-end c1: started
f1 agent: text "it looks"
f1 agent: turn-end completed
` + rest + `f1 subagent: text "found it"
f1 subagent: stop
a4 agent: turn-start
a4 agent: text "there"
a4 agent: turn-end completed
`; showAll(all) != want {
		t.Errorf("got\n%swant\n%s", showAll(all), want)
	}
	later := read(t, path, Options{Since: start.Add(15 * time.Minute)})
	for i, e := range later {
		if want := all[len(all)-len(later)+i]; e.ID != want.ID {
			t.Errorf("read from the middle: got %s, want %s", shown(e), shown(want))
		}
	}
	if len(later) != 9 {
		t.Errorf("read from the middle: got\n%s", showAll(later))
	}

	write(t, filepath.Join(folder, "agent-x.jsonl"), at(30, kept("assistant", "s2", "end_turn", "more of it")))
	write(t, path, notified(31, "2"))
	again := read(t, path, Options{})
	check(t, again)
	if got, want := showAll(again[len(all):]), ""; len(again) != len(all)+1 {
		t.Errorf("got\n%swant one more text of the subagent%s", got, want)
	}
}
