package claude_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
)

// TestTrackerOnCapturedDialogues follows real dialogues: what each frame went through, in order.
func TestTrackerOnCapturedDialogues(t *testing.T) {
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
			var tracker claude.Tracker
			for _, d := range dialogue(t, test.file) {
				switch d.Dir {
				case "stdin":
					var l struct {
						Type string `json:"type"`
					}
					if err := json.Unmarshal(d.Line, &l); err != nil {
						t.Fatal(err)
					}
					if l.Type == "control_request" {
						if strings.Contains(string(d.Line), `"interrupt"`) {
							tracker.Interrupted(tracker.InFlight()[0])
						}
						continue
					}
					f, err := claude.ParseFrame(d.Line)
					if err != nil {
						t.Fatal(err)
					}
					if got[f.UUID[:8]] != "" {
						got[f.UUID[:8]] += ";"
					}
					tracker.Sent(f)
				case "stdout":
					p, err := claude.Parse(d.Line)
					if err != nil {
						t.Fatal(err)
					}
					for _, progress := range tracker.Observe(p) {
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
			if left := tracker.InFlight(); len(left) > 0 {
				t.Errorf("in flight at the end: got %v, want none", left)
			}
		})
	}
}

type said struct {
	Dir  string          `json:"dir"`
	Line json.RawMessage `json:"line"`
}

func dialogue(t testing.TB, file string) []said {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []said
	for line := range strings.Lines(string(data)) {
		var d said
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// Steps of a script for the tracker: frames a and b are sent under their names.
var (
	idA, idB = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000"
	initOne  = claude.Init{Version: "2.1.329"}
	initOwn  = claude.Init{} // of another program
	success  = claude.Result{Subtype: "success"}
)

func echo(uuid string, stamped bool) claude.Payload { return claude.Echo{UUID: uuid, Stamped: stamped} }
func life(uuid, state string) claude.Payload        { return claude.Lifecycle{UUID: uuid, State: state} }

type sent string
type interrupted string

func TestTracker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		steps []any
		want  string
	}{
		{"set_model prints an echo of its own",
			[]any{sent(idA), echo("cccccccc-0000-4000-8000-000000000000", true), success}, ""},
		{"a result before the echo is another turn's, no lifecycle",
			[]any{initOne, sent(idA), initOne, success}, ""},
		{"the first result behind the echo ends it, no lifecycle",
			[]any{initOne, sent(idA), initOne, success, initOne, echo(idA, true), success}, "a accepted, a done"},
		{"a result does not end what has a lifecycle, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"), initOne, echo(idA, true), success}, "a accepted"},
		{"a result that names other frames ends nothing",
			[]any{sent(idA), echo(idA, true), claude.Result{Subtype: "success", UUIDs: []string{idB}}}, "a accepted"},
		{"lifecycle started is enough, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"), life(idA, "completed")}, "a accepted, a done"},
		{"known after a resume: no init, no timestamp",
			[]any{sent(idA), echo(idA, false), life(idA, "completed")}, "a known"},
		{"known though another turn began meanwhile, of a program that gives timestamps",
			[]any{sent(idB), initOwn, echo(idB, true), success, sent(idA), initOwn, echo(idA, false), success},
			"b accepted, b done, a known"},
		{"taken, from a program that gives no timestamps at all",
			[]any{sent(idA), claude.Init{}, echo(idA, false), success}, "a accepted, a done"},
		{"known by the word completed alone",
			[]any{sent(idA), life(idA, "completed")}, "a known"},
		{"a command is not ended by a result alone",
			[]any{initOne, sent("/" + idA), initOne, success}, ""},
		{"a program that begins turns and acknowledges nothing",
			[]any{initOwn, sent(idA), initOwn, success}, "a unproven"},
		{"a program that acknowledges nothing",
			[]any{sent(idA), success, sent(idB), success}, "a unproven, b unproven"},
		{"one result ends one frame of those that acknowledge nothing",
			[]any{sent(idA), sent(idB), success}, "a unproven"},
		{"a program that acknowledges nothing and fails",
			[]any{sent(idA), claude.Result{Subtype: "success", IsError: true}, sent(idB), claude.Result{Subtype: "error_during_execution"}},
			"a failed, b failed"},
		{"the program could not resume the session, and exits",
			[]any{sent(idA), claude.Result{Subtype: "error_during_execution", IsError: true, Errors: []string{"No conversation found with session ID: x"}}}, ""},
		{"Claude Code acknowledges, so a result alone says nothing",
			[]any{initOne, sent(idA), success}, ""},
		{"interrupted, no lifecycle",
			[]any{sent(idA), initOwn, interrupted(idA), echo(idA, true), claude.Result{Subtype: "error_during_execution"}},
			"a accepted, a cancelled"},
		{"an error in a turn nobody interrupted, no lifecycle",
			[]any{sent(idA), initOwn, echo(idA, true), claude.Result{Subtype: "error_during_execution"}}, "a accepted, a failed"},
		{"the model API failed, no lifecycle",
			[]any{sent(idA), initOwn, echo(idA, true), claude.Result{Subtype: "success", IsError: true}}, "a accepted, a failed"},
		{"the model API failed: cancelled is not what it means, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"), echo(idA, true),
				claude.Result{Subtype: "success", IsError: true, Reason: "api_error", UUIDs: []string{idA}}, life(idA, "cancelled")},
			"a accepted, a failed"},
		{"interrupted, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"), echo(idA, true),
				claude.Result{Subtype: "error_during_execution", IsError: true, Reason: "aborted_streaming", UUIDs: []string{idA}}, life(idA, "cancelled")},
			"a accepted, a cancelled"},
		{"taken out of the queue, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "cancelled")}, "a cancelled"},
		{"too many turns, lifecycle",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"),
				claude.Result{Subtype: "error_max_turns", IsError: true, UUIDs: []string{idA}}, life(idA, "completed")},
			"a accepted, a failed"},
		{"sent again while in flight stays as it is",
			[]any{sent(idA), life(idA, "queued"), life(idA, "started"), sent(idA), echo(idA, false), echo(idA, true), success, life(idA, "completed")},
			"a accepted, a done"},
		{"what nobody sent is nobody's",
			[]any{echo(idA, true), life(idA, "completed"), success}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var tracker claude.Tracker
			var got []string
			for _, step := range test.steps {
				switch step := step.(type) {
				case sent:
					tracker.Sent(named(t, string(step)))
				case interrupted:
					tracker.Interrupted(string(step))
				case claude.Payload:
					for _, p := range tracker.Observe(step) {
						got = append(got, p.UUID[:1]+" "+p.State.String())
						if p.State != tracker.State(p.UUID) {
							t.Errorf("state of %s: got %v, want %v as was told", p.UUID, tracker.State(p.UUID), p.State)
						}
					}
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// named is a frame under a given uuid; one with "/" in front is a command.
func named(t testing.TB, uuid string) agent.Frame {
	t.Helper()
	text := "hello"
	if rest, ok := strings.CutPrefix(uuid, "/"); ok {
		uuid, text = rest, "/compact"
	}
	f, err := claude.NewFrame(uuid, text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTrackerForgetsWhatHasEnded(t *testing.T) {
	t.Parallel()
	var tracker claude.Tracker
	id := func(i int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i) }
	for i := range 3000 {
		tracker.Sent(named(t, id(i)))
		tracker.Observe(echo(id(i), true))
		tracker.Observe(success)
	}
	if got := tracker.State(id(0)); got != 0 {
		t.Errorf("the first of 3000: got %v, want it forgotten", got)
	}
	if got := tracker.State(id(2500)); got != agent.Done {
		t.Errorf("one of the last 1024: got %v, want done", got)
	}
}

// TestTrackerTellsEveryFrameApart makes dialogues of a child that is sent some frames, one at a time, some of which it
// knows, with whatever else it may print in between, and wants the truth about each.
func TestTrackerTellsEveryFrameApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cycles := rapid.Bool().Draw(t, "lifecycle")
		var tracker claude.Tracker
		var last agent.State
		say := func(p claude.Payload) {
			for _, progress := range tracker.Observe(p) {
				last = progress.State
			}
		}
		noise := func() {
			for range rapid.IntRange(0, 3).Draw(t, "noise") {
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					say(echo("cccccccc-0000-4000-8000-000000000000", true)) // set_model
				case 1:
					say(life("cccccccc-0000-4000-8000-000000000000", "completed"))
				case 2:
					say(claude.Other{Type: "system", Subtype: "task_started"})
				case 3:
					say(claude.Assistant{})
				case 4:
					say(claude.Gap{Events: 1})
				case 5:
					say(claude.ControlResponse{ID: "x"})
				}
			}
		}
		background := func() { // a turn that was not asked for
			if rapid.Bool().Draw(t, "background") {
				say(claude.Init{Version: "x"})
				noise()
				say(claude.Result{Subtype: "success", UUIDs: nil})
			}
		}
		say(claude.Init{Version: "x"})
		say(echo("dddddddd-0000-4000-8000-000000000000", true)) // this process gives timestamps
		for i := range rapid.IntRange(1, 6).Draw(t, "frames") {
			id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
			f, err := claude.NewFrame(id, "hello")
			if err != nil {
				t.Fatal(err)
			}
			last = 0
			tracker.Sent(f)
			want := agent.Done
			noise()
			switch {
			case rapid.Bool().Draw(t, "known"):
				want = agent.Known
				background()
				say(echo(id, false))
				if cycles && rapid.Bool().Draw(t, "resumed") {
					say(life(id, "completed"))
				}
			case cycles:
				say(life(id, "queued"))
				background()
				noise()
				say(life(id, "started"))
				say(claude.Init{Version: "x"})
				noise()
				say(echo(id, true))
				noise()
				say(claude.Result{Subtype: "success", UUIDs: []string{id}})
				noise()
				if last.InFlight() != true {
					t.Fatalf("before its lifecycle ended: got %v", last)
				}
				say(life(id, "completed"))
			default:
				background()
				say(claude.Init{Version: "x"})
				noise()
				say(echo(id, true))
				noise()
				say(claude.Result{Subtype: "success"})
			}
			if last != want || tracker.State(id) != want {
				t.Fatalf("frame %d: was told %v, state %v, want %v", i, last, tracker.State(id), want)
			}
			noise()
			background()
			if tracker.State(id) != want {
				t.Fatalf("frame %d later: got %v, want %v", i, tracker.State(id), want)
			}
		}
		if left := tracker.InFlight(); len(left) > 0 {
			t.Fatalf("in flight: got %v, want none", left)
		}
	})
}

// FuzzTracker feeds anything to Parse and what comes of it to a tracker, whose two answers about a frame must agree.
func FuzzTracker(f *testing.F) {
	for _, file := range []string{"claude-2.1.329/stream.jsonl", "claude-2.1.329/stream-resume.jsonl"} {
		var output []string
		for _, d := range dialogue(f, file) {
			if d.Dir == "stdout" && len(d.Line) < 600 { // long seeds take all the time to be made shorter
				output = append(output, string(d.Line))
			}
		}
		f.Add(strings.Join(output[:min(8, len(output))], "\n"))
	}
	f.Add(`{"type":"result","user_message_uuids":null}` + "\n" + `{"type":1}` + "\n" + `[]`)
	id := "b5a29fd1-a33c-4963-a0eb-6b609ae0bdb7"
	f.Fuzz(func(t *testing.T, output string) {
		var tracker claude.Tracker
		tracker.Sent(named(t, id))
		tracker.Sent(named(t, "/"+idB))
		for line := range strings.Lines(output) {
			p, err := claude.Parse([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				continue
			}
			for _, progress := range tracker.Observe(p) {
				if tracker.State(progress.UUID) != progress.State {
					t.Fatalf("told %v, is %v", progress.State, tracker.State(progress.UUID))
				}
			}
			for _, u := range []string{id, idB} {
				if in := slices.Contains(tracker.InFlight(), u); in != tracker.State(u).InFlight() {
					t.Fatalf("%s: state %v, among those in flight: %t", u, tracker.State(u), in)
				}
			}
		}
	})
}

// A turn that failed says why: the errors of its result, or else what kind of end it was.
func TestFailure(t *testing.T) {
	t.Parallel()
	for want, result := range map[string]claude.Result{
		"error_max_turns": {Subtype: "error_max_turns"},
		"a; b":            {Subtype: "error_during_execution", Errors: []string{"a", "b"}},
	} {
		f, err := claude.NewFrame("11111111-1111-4111-8111-111111111111", "hello")
		if err != nil {
			t.Fatal(err)
		}
		var tracker claude.Tracker
		tracker.Sent(f)
		tracker.Observe(claude.Echo{UUID: f.UUID, Stamped: true})
		got := tracker.Observe(result)
		if len(got) != 1 || got[0].State != agent.Failed || got[0].Result.Failure != want {
			t.Errorf("got %+v, want failed because of %q", got, want)
		}
	}
}
