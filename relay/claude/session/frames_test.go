package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// TestFramesOfCapturedDialogues: in real dialogues, each frame goes through the right states, in order.
func TestFramesOfCapturedDialogues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file string
		want map[string]string // the beginning of a uuid, and its states
	}{
		{"claude-2.1.329/stream.jsonl", map[string]string{
			"b5a29fd1": "accepted done; known", // sent twice
			"22224b7b": "accepted done",        // a long turn
			"423dfc36": "accepted done",        // joined with the next: its echo has no timestamp
			"c3aeb961": "accepted done",
			"408ca5ad": "accepted cancelled", // interrupted
			"2804eda4": "accepted done",      // with a tool
		}},
		{"claude-2.1.329/stream-resume.jsonl", map[string]string{"b5a29fd1": "known; known"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			fold := New()
			for _, d := range dialogue(t, test.file) {
				switch d.Dir {
				case "stdin":
					l := parsed(t, d.Line)
					if l.Type == "control_request" {
						if strings.Contains(string(d.Line), `"interrupt"`) {
							fold.Interrupted(fold.InFlight()[0])
						}
						continue
					}
					if got[l.UUID[:8]] != "" {
						got[l.UUID[:8]] += ";"
					}
					fold.Sent(agent.Frame{UUID: l.UUID, Line: d.Line})
				case "stdout":
					changes, _ := fold.Line(parsed(t, d.Line), start)
					for _, progress := range changes {
						got[progress.UUID[:8]] = strings.TrimSpace(got[progress.UUID[:8]] + " " + progress.State.String())
						if (progress.State == agent.Done || progress.State == agent.Cancelled) != (progress.Result != nil) {
							t.Errorf("%s %v: got result %v", progress.UUID, progress.State, progress.Result)
						}
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if left := fold.InFlight(); len(left) > 0 {
				t.Errorf("in flight at the end: got %v, want none", left)
			}
		})
	}
}

type dialogueLine struct {
	Dir  string          `json:"dir"`
	Line json.RawMessage `json:"line"`
}

func dialogue(t testing.TB, file string) []dialogueLine {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, file))
	must(t, err)
	var all []dialogueLine
	for line := range strings.Lines(string(data)) {
		var d dialogueLine
		must(t, json.Unmarshal([]byte(line), &d))
		all = append(all, d)
	}
	return all
}

func parsed(t testing.TB, line []byte) *Line {
	t.Helper()
	l, err := Parse(line)
	must(t, err)
	return l
}

// Steps of a script for a fold; any other step is a line of output. Frames a and b are sent under their names.
type (
	sent        string
	unsent      string
	interrupted string
)

// Lines that a process prints in a script.
const (
	initOne     = `{'type':'system','subtype':'init','claude_code_version':'2.1.329'}`
	success     = `{'type':'result','subtype':'success'}`
	failure     = `{'type':'result','subtype':'error_during_execution'}`
	apiFailed   = `{'type':'result','subtype':'success','is_error':true}`
	cannotBegin = `{'type':'result','subtype':'error_during_execution','is_error':true,'errors':['No conversation found with session ID: x']}`
	stopped     = `{'type':'user','uuid':'i1','message':{'content':[{'type':'text','text':'[Request interrupted by user]'}]}}`
)

// bare is an echo without a timestamp.
func bare(uuid, text string) string {
	return `{'type':'user','uuid':'` + uuid + `','isReplay':true,'message':{'role':'user','content':'` + text + `'}}`
}

// TestFrames: the output of a process decides the states of frames and turns, at once and in the same way.
func TestFrames(t *testing.T) {
	t.Parallel()
	type steps []any
	for _, test := range []struct {
		name   string
		steps  steps
		frames string
		turns  string
	}{
		// A frame that waits.
		{"what nobody sent is no frame", steps{echo("a", "x"), lifecycle("a", "completed"), success}, "", "a completed"},
		{"of what was not written after all, nothing is told", steps{sent("a"), unsent("a"), sent("b"), success}, "b unproven", "b completed"},
		{"taken out of the queue, lifecycle", steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "cancelled")}, "a cancelled", ""},
		{"taken out of the queue, and another program's turn", steps{sent("a"), lifecycle("a", "cancelled"), isInit, says("s", "{'type':'text','text':'x'}"), success}, "a cancelled", "s completed"},
		{"sent again while in flight stays as it is",
			steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), sent("a"), bare("a", "x"), initOne, echo("a", "x"), success, lifecycle("a", "completed")},
			"a accepted, a done", "a completed"},

		// A program that acknowledges.
		{"set_model prints an echo of its own", steps{sent("a"), echo("c", "<local-command-stdout>Set model"), success}, "", ""},
		{"a result before the echo is another turn's, no lifecycle", steps{initOne, sent("a"), initOne, success}, "", ""},
		{"Claude Code acknowledges, so a result alone says nothing", steps{initOne, sent("a"), success}, "", ""},
		{"and neither does a text", steps{initOne, sent("a"), says("s", "{'type':'text','text':'x'}"), success}, "", "s completed"},
		{"who has echoed set_model acknowledges", steps{echo("c", "<local-command-stdout>Set model"), sent("a"), isInit, says("s", "{'type':'text','text':'x'}"), success}, "", "s completed"},

		{"a hook refuses it", steps{sent("a"), lifecycle("a", "started"), initOne,
			`{'type':'result','subtype':'success','num_turns':0,'result':'UserPromptSubmit operation blocked by hook:\n[x]: no\n\n\nOriginal prompt: x'}`, lifecycle("a", "completed")}, "a accepted, a failed", "a failed"},
		{"an agent that says what a hook says", steps{sent("a"), lifecycle("a", "started"), initOne,
			`{'type':'result','subtype':'success','num_turns':1,'result':'UserPromptSubmit operation blocked by hook:\n[x]: no\n\n\nOriginal prompt: x'}`, lifecycle("a", "completed")}, "a accepted, a done", "a completed"},

		// Timestamps.
		{"known after a resume: no init, no timestamp", steps{sent("a"), bare("a", "x"), lifecycle("a", "completed")}, "a known", ""},
		{"known by the word completed alone", steps{sent("a"), lifecycle("a", "completed")}, "a known", ""},
		{"known though another turn began meanwhile, of a program that gives timestamps",
			steps{sent("b"), isInit, echo("b", "x"), success, sent("a"), isInit, bare("a", "x"), success},
			"b accepted, b done, a known", "b completed"},
		{"the echo of set_model has a timestamp, too", steps{echo("c", "<local-command-stdout>Set model"), sent("a"), isInit, bare("a", "x"), success}, "a known", ""},
		{"taken, from a program that gives no timestamps at all", steps{sent("a"), isInit, bare("a", "x"), success}, "a accepted, a done", "a completed"},
		{"no timestamps at all, and the turn that began meanwhile is over",
			steps{sent("b"), isInit, bare("b", "x"), success, sent("a"), isInit, success, bare("a", "x")}, "b accepted, b done, a known", "b completed"},
		{"no timestamps at all, and the turn is one that began before the frame was sent",
			steps{sent("b"), isInit, bare("b", "x"), sent("a"), bare("a", "x"), success}, "b accepted, a known, b done", "b completed"},

		// The echo.
		{"the first result behind the echo ends it, no lifecycle",
			steps{initOne, sent("a"), initOne, success, initOne, echo("a", "x"), success}, "a accepted, a done", "a completed"},
		{"joined with the next", steps{sent("a"), sent("b"), lifecycle("a", "queued"), lifecycle("b", "queued"), bare("a", "x"), lifecycle("a", "started"), lifecycle("b", "started"),
			initOne, echo("b", "x y"), success, lifecycle("a", "completed"), lifecycle("b", "completed")}, "a accepted, b accepted, a done, b done", "b completed"},
		{"given in the middle of a turn", steps{sent("a"), sent("b"), initOne, echo("a", "x"), echo("b", "y"), success}, "a accepted, b accepted, a done, b done", "a completed"},
		{"a prompt with the words of an interrupt", steps{sent("a"), initOne, echo("a", "[Request interrupted by user]"), success}, "a accepted, a done", "a completed"},

		// The end of a turn.
		{"a result does not end what has a lifecycle, lifecycle",
			steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), isInit, echo("a", "x"), success}, "a accepted", "a completed"},
		{"a result that names other frames ends nothing of ours",
			steps{sent("a"), echo("a", "x"), `{'type':'result','subtype':'success','user_message_uuids':['b']}`}, "a accepted", "a completed"},
		{"lifecycle started is enough, lifecycle", steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), lifecycle("a", "completed")}, "a accepted, a done", ""},
		{"interrupted, and no reason, no lifecycle", steps{sent("a"), isInit, interrupted("a"), echo("a", "x"), failure}, "a accepted, a cancelled", "a cancelled"},
		{"interrupted, and no reason, lifecycle",
			steps{sent("a"), lifecycle("a", "started"), isInit, echo("a", "x"), interrupted("a"), failure, lifecycle("a", "cancelled")}, "a accepted, a cancelled", "a cancelled"},
		{"interrupted, and no reason, of a program that acknowledges nothing", steps{sent("a"), isInit, interrupted("a"), failure}, "a cancelled", "a cancelled"},
		{"one of two that one turn has is interrupted", steps{sent("a"), sent("b"), isInit, echo("a", "x"), echo("b", "y"), interrupted("b"), failure},
			"a accepted, b accepted, a cancelled, b cancelled", "a cancelled"},
		{"interrupted, and it failed for another reason",
			steps{sent("a"), isInit, echo("a", "x"), interrupted("a"), `{'type':'result','subtype':'error_during_execution','terminal_reason':'api_error'}`}, "a accepted, a failed", "a failed"},
		{"interrupted, and it was done before", steps{sent("a"), isInit, echo("a", "x"), interrupted("a"), success}, "a accepted, a done", "a completed"},
		{"the process says that it was interrupted, and no more", steps{sent("a"), isInit, echo("a", "x"), stopped, success}, "a accepted, a cancelled", "a cancelled"},
		{"an error in a turn nobody interrupted, no lifecycle", steps{sent("a"), isInit, echo("a", "x"), failure}, "a accepted, a failed", "a failed"},
		{"the model API failed, no lifecycle", steps{sent("a"), isInit, echo("a", "x"), apiFailed}, "a accepted, a failed", "a failed"},
		{"the model API failed: cancelled is not what it means, lifecycle",
			steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), isInit, echo("a", "x"),
				`{'type':'result','subtype':'success','is_error':true,'terminal_reason':'api_error','user_message_uuids':['a']}`, lifecycle("a", "cancelled")},
			"a accepted, a failed", "a failed"},
		{"interrupted, lifecycle",
			steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), isInit, echo("a", "x"),
				`{'type':'result','subtype':'error_during_execution','is_error':true,'terminal_reason':'aborted_streaming','user_message_uuids':['a']}`, lifecycle("a", "cancelled")},
			"a accepted, a cancelled", "a cancelled"},
		{"too many turns, lifecycle",
			steps{sent("a"), lifecycle("a", "queued"), lifecycle("a", "started"), isInit, `{'type':'result','subtype':'error_max_turns','is_error':true,'user_message_uuids':['a']}`, lifecycle("a", "completed")},
			"a accepted, a failed", "a failed"},
		{"a command is not ended by a result alone", steps{initOne, sent("a"), initOne, success}, "", ""},
		{"the end was not printed, since the disk is full",
			steps{sent("a"), lifecycle("a", "started"), isInit, echo("a", "x"), success, `{'type':'system','subtype':'session_writes_lost'}`}, "a accepted, a done", "a completed"},

		// A program that is mute.
		{"a program that begins turns and acknowledges nothing", steps{isInit, sent("a"), isInit, success}, "a unproven", "a completed"},
		{"a program that acknowledges nothing", steps{sent("a"), success, sent("b"), success}, "a unproven, b unproven", "a completed, b completed"},
		{"one result ends one frame of those that acknowledge nothing", steps{sent("a"), sent("b"), success}, "a unproven", "a completed"},
		{"a program that acknowledges nothing and fails", steps{sent("a"), apiFailed, sent("b"), failure}, "a failed, b failed", "a failed, b failed"},
		{"the program could not resume the session, and exits", steps{sent("a"), cannotBegin}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fold := New()
			var frames, turns []string
			for _, step := range test.steps {
				switch step := step.(type) {
				case sent:
					fold.Sent(named(string(step)))
				case unsent:
					fold.Unsent(string(step))
				case interrupted:
					fold.Interrupted(string(step))
				case string:
					changes, envelopes := fold.Line(parsed(t, quoted(step)), start)
					for _, p := range changes {
						frames = append(frames, p.UUID+" "+p.State.String())
						if p.State != fold.State(p.UUID) {
							t.Errorf("state of %s: got %v, want %v as was told", p.UUID, fold.State(p.UUID), p.State)
						}
					}
					for _, e := range envelopes {
						if end, ok := e.Event.(*wire.TurnEnd); ok {
							turns = append(turns, *e.Turn+" "+string(end.Status))
						}
					}
				}
			}
			if diff := cmp.Diff(test.frames, strings.Join(frames, ", ")); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.turns, strings.Join(turns, ", ")); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
}

// named is a frame under a given uuid.
func named(uuid string) agent.Frame {
	return agent.Frame{UUID: uuid, Line: quoted(frame(uuid, "hello"))}
}

func TestFramesThatEndedAreForgotten(t *testing.T) {
	t.Parallel()
	fold := New()
	for i := range 3000 {
		id := fmt.Sprint(i)
		fold.Sent(named(id))
		fold.Line(parsed(t, quoted(echo(id, "x"))), start)
		fold.Line(parsed(t, quoted(success)), start)
	}
	if got := fold.State("0"); got != 0 {
		t.Errorf("the first of 3000: got %v, want it forgotten", got)
	}
	if got := fold.State("2750"); got != agent.Done {
		t.Errorf("one of the last 256: got %v, want done", got)
	}
	for id, f := range fold.all {
		if f.result != nil {
			t.Fatalf("frame %s, which has ended: its result is kept", id)
		}
	}
}

// Prompts to a program that never acknowledges any are not kept forever.
func TestPromptsThatWait(t *testing.T) {
	t.Parallel()
	fold := New()
	for i := range 1000 {
		fold.Sent(named(fmt.Sprint(i)))
	}
	kept := 0
	for sent := range maps.Values(fold.frames.all) {
		if sent.content != nil {
			kept++
		}
	}
	if kept != maxWaiting {
		t.Errorf("got %d of 1000 prompts, want %d", kept, maxWaiting)
	}
}

// TestFoldTellsEveryFrameApart: in random dialogues with a child that gets frames one at a time, some of which it
// knows, and prints other lines in between, the state of each frame is right.
func TestFoldTellsEveryFrameApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cycles := rapid.Bool().Draw(t, "lifecycle")
		fold := New()
		var last agent.State
		say := func(line string) {
			l, err := Parse(quoted(line))
			must(t, err)
			changes, _ := fold.Line(l, start)
			for _, progress := range changes {
				last = progress.State
			}
		}
		noise := func() {
			for range rapid.IntRange(0, 3).Draw(t, "noise") {
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					say(echo("c", "<local-command-stdout>Set model")) // set_model
				case 1:
					say(lifecycle("c", "completed"))
				case 2:
					say(`{'type':'system','subtype':'task_started'}`)
				case 3:
					say(says("s", ""))
				case 4:
					say(`{'type':'user','uuid':'r','message':{'content':[{'type':'tool_result','tool_use_id':'x'}]}}`)
				case 5:
					say(`{'type':'control_response','response':{'subtype':'success','request_id':'x'}}`)
				}
			}
		}
		background := func() { // a turn without a prompt
			if rapid.Bool().Draw(t, "background") {
				say(initOne)
				noise()
				say(success)
			}
		}
		say(initOne)
		say(echo("d", "x")) // this process gives timestamps
		say(success)
		for i := range rapid.IntRange(1, 6).Draw(t, "frames") {
			id := fmt.Sprint("f", i)
			last = 0
			fold.Sent(named(id))
			want := agent.Done
			noise()
			switch {
			case rapid.Bool().Draw(t, "known"):
				want = agent.Known
				background()
				say(bare(id, "x"))
				if cycles && rapid.Bool().Draw(t, "resumed") {
					say(lifecycle(id, "completed"))
				}
			case cycles:
				say(lifecycle(id, "queued"))
				background()
				noise()
				say(lifecycle(id, "started"))
				say(initOne)
				noise()
				say(echo(id, "x"))
				noise()
				say(`{'type':'result','subtype':'success','user_message_uuids':['` + id + `']}`)
				noise()
				if last.InFlight() != true {
					t.Fatalf("before its lifecycle ended: got %v", last)
				}
				say(lifecycle(id, "completed"))
			default:
				background()
				say(initOne)
				noise()
				say(echo(id, "x"))
				noise()
				say(success)
			}
			if last != want || fold.State(id) != want {
				t.Fatalf("frame %d: was told %v, state %v, want %v", i, last, fold.State(id), want)
			}
			noise()
			background()
			if fold.State(id) != want {
				t.Fatalf("frame %d later: got %v, want %v", i, fold.State(id), want)
			}
		}
		if left := fold.InFlight(); len(left) > 0 {
			t.Fatalf("in flight: got %v, want none", left)
		}
	})
}

// FuzzFrames checks that a fold's two answers about a frame agree, for any input.
func FuzzFrames(f *testing.F) {
	for _, file := range []string{"claude-2.1.329/stream.jsonl", "claude-2.1.329/stream-resume.jsonl"} {
		var output []string
		for _, d := range dialogue(f, file) {
			if d.Dir == "stdout" && len(d.Line) < 600 { // shortening long seeds takes all the time
				output = append(output, string(d.Line))
			}
		}
		f.Add(strings.Join(output[:min(8, len(output))], "\n"))
	}
	f.Add(`{"type":"result","user_message_uuids":null}` + "\n" + `{"type":1}` + "\n" + `[]`)
	ids := []string{"b5a29fd1-a33c-4963-a0eb-6b609ae0bdb7", "bbbbbbbb-0000-4000-8000-000000000000"}
	f.Fuzz(func(t *testing.T, output string) {
		fold := New()
		for _, id := range ids {
			fold.Sent(named(id))
		}
		for line := range strings.Lines(output) {
			l, err := Parse([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				continue
			}
			changes, _ := fold.Line(l, start)
			for _, progress := range changes {
				if fold.State(progress.UUID) != progress.State {
					t.Fatalf("told %v, is %v", progress.State, fold.State(progress.UUID))
				}
			}
			for _, id := range ids {
				if in := slices.Contains(fold.InFlight(), id); in != fold.State(id).InFlight() {
					t.Fatalf("%s: state %v, among those in flight: %t", id, fold.State(id), in)
				}
			}
		}
	})
}

// Only a failed turn has a reason for the failure.
func TestOutcomeOfAResult(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{'type':'result','subtype':'success','result':'text','terminal_reason':'completed'}`:                    "",
		`{'type':'result','subtype':'success','result':'text','is_error':true,'terminal_reason':'api_error'}`:    "api_error",
		`{'type':'result','subtype':'success','result':'text','is_error':true}`:                                  "the model API failed",
		`{'type':'result','subtype':'error_max_turns','result':'text','is_error':true}`:                          "error_max_turns",
		`{'type':'result','subtype':'error_during_execution','result':'text','errors':['no such tool','again']}`: "no such tool; again",
	} {
		if o := parsed(t, quoted(line)).Outcome(); o.Failure != want || o.Text != "text" {
			t.Errorf("%s: %+v; want the failure %q", line, o, want)
		}
		fold := New()
		fold.Sent(named("a"))
		fold.Line(parsed(t, quoted(echo("a", "x"))), start)
		got, _ := fold.Line(parsed(t, quoted(line)), start)
		if len(got) != 1 || got[0].Result == nil || got[0].Result.Failure != want {
			t.Errorf("%s: got %+v, want the failure %q", line, got, want)
		}
	}
}
