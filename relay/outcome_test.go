package relay

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	exit := errors.New("exit status 1")
	said := &agent.Result{Text: "done"}
	message := ledger.Frame{Kind: ledger.FrameMessage, State: ledger.FrameWritten, Tries: 1}
	with := func(f ledger.Frame, change func(*ledger.Frame)) ledger.Frame {
		change(&f)
		return f
	}
	deaths := func(n int) ledger.Frame { return with(message, func(f *ledger.Frame) { f.Deaths = n }) }
	nudged := func(n int) *ledger.Frame {
		f := with(message, func(f *ledger.Frame) { f.Nudges = n })
		return &f
	}
	command := with(message, func(f *ledger.Frame) { f.Kind = ledger.FrameCommand })
	progress := func(s agent.State, r *agent.Result) agent.Progress { return agent.Progress{State: s, Result: r} }
	cut := &agent.Turn{Stored: true, Stop: "tool_use"}
	finished := &agent.Turn{Stored: true, Finished: true, Stop: "end_turn", Text: "done"}
	never := &agent.Turn{}

	for _, test := range []struct {
		name  string
		facts facts
		want  outcome
	}{
		// By the progress that the agent reports.
		{"written", facts{progress: progress(agent.Written, nil)}, outcome{do: wait}},
		{"accepted", facts{progress: progress(agent.Accepted, nil)}, outcome{do: accept}},
		{"done", facts{progress: progress(agent.Done, said)}, outcome{do: finish, state: ledger.Done, answer: "done"}},
		{"done without a result", facts{progress: progress(agent.Done, nil)}, outcome{do: finish, state: ledger.Done}},
		{"failed", facts{progress: progress(agent.Failed, &agent.Result{Failure: "error_max_turns"})},
			outcome{do: finish, state: ledger.Failed, reason: "error_max_turns"}},
		{"failed without a result", facts{progress: progress(agent.Failed, nil)},
			outcome{do: finish, state: ledger.Failed, reason: "its turn failed"}},
		{"cancelled", facts{progress: progress(agent.Cancelled, nil)},
			outcome{do: finish, state: ledger.Cancelled, reason: "interrupted"}},
		{"a program that acknowledges nothing", facts{progress: progress(agent.Unproven, said)},
			outcome{do: finish, state: ledger.Done, reason: "the program acknowledges nothing; it may have been said twice", answer: "done"}},

		// A frame that the agent knew.
		{"known", facts{progress: progress(agent.Known, nil)}, outcome{do: readTurn}},
		{"known and finished", facts{progress: progress(agent.Known, nil), turn: finished},
			outcome{do: finish, state: ledger.Done, answer: "done"}},
		{"known and interrupted", facts{progress: progress(agent.Known, nil), turn: &agent.Turn{Stored: true, Interrupted: true}},
			outcome{do: finish, state: ledger.Cancelled, reason: "interrupted"}},
		{"known and failed", facts{progress: progress(agent.Known, nil), turn: &agent.Turn{Stored: true, Failed: true}},
			outcome{do: finish, state: ledger.Failed, reason: "its turn failed"}},
		{"known and cut", facts{progress: progress(agent.Known, nil), turn: cut}, outcome{do: readSubject}},
		{"known, not in the transcript", facts{progress: progress(agent.Known, nil), turn: never}, outcome{do: readSubject}},
		{"cut for the first time", facts{progress: progress(agent.Known, nil), turn: cut, subject: nudged(0)}, outcome{do: nudge}},
		{"cut, the last nudge", facts{progress: progress(agent.Known, nil), turn: cut, subject: nudged(MaxNudges - 1)}, outcome{do: nudge}},
		{"cut after the last nudge", facts{progress: progress(agent.Known, nil), turn: cut, subject: nudged(MaxNudges)},
			outcome{do: finish, state: ledger.Failed, reason: "its turn was cut 4 times"}},
		{"cut, to be reported", facts{progress: progress(agent.Known, nil), turn: cut, subject: nudged(0), onCut: ReportCut},
			outcome{do: finish, state: ledger.Failed, reason: "its turn was cut by a crash"}},
		{"a command that was cut", facts{progress: progress(agent.Known, nil), turn: cut, subject: &command},
			outcome{do: finish, state: ledger.Failed, reason: "its turn was cut by a crash"}},

		// Before it is written.
		{"the first time", facts{news: rewrite, frame: with(message, func(f *ledger.Frame) { f.Tries = 0 })}, outcome{do: resend}},
		{"again", facts{news: rewrite, frame: message}, outcome{do: readTurn}},
		{"a slash command again", facts{news: rewrite, frame: command, command: true}, outcome{do: resend}},
		{"again, never taken", facts{news: rewrite, frame: message, turn: never}, outcome{do: resend}},
		{"again, finished", facts{news: rewrite, frame: message, turn: finished}, outcome{do: finish, state: ledger.Done, answer: "done"}},
		{"again, cut", facts{news: rewrite, frame: message, turn: cut, subject: nudged(1)}, outcome{do: nudge}},

		// The agent has died with it.
		{"a death", facts{news: died, exit: exit, frame: message}, outcome{do: countDeath}},
		{"the first death", facts{news: died, exit: exit, counted: true, frame: deaths(1)}, outcome{do: resend}},
		{"the second death", facts{news: died, exit: exit, counted: true, frame: deaths(2)}, outcome{do: readTurn}},
		{"the second death, never taken", facts{news: died, exit: exit, counted: true, frame: deaths(2), turn: never},
			outcome{do: split, warn: "died 2 times with several messages, and took none: they are said one by one"}},
		{"the second death, taken", facts{news: died, exit: exit, counted: true, frame: deaths(2), turn: cut}, outcome{do: resend}},
		{"the second death with one message", facts{news: died, exit: exit, counted: true, frame: deaths(2), turn: never, single: true}, outcome{do: resend}},
		{"the second death, acknowledged", facts{news: died, exit: exit, counted: true,
			frame: with(deaths(2), func(f *ledger.Frame) { f.State = ledger.Accepted })}, outcome{do: resend}},
		{"the second death with a nudge", facts{news: died, exit: exit, counted: true,
			frame: with(deaths(2), func(f *ledger.Frame) { f.Kind = ledger.FrameNudge })}, outcome{do: resend}},
		{"the second death of a program with other transcripts", facts{news: died, exit: exit, counted: true, frame: deaths(2), turn: &agent.Turn{Unknown: true}},
			outcome{do: resend}},
		{"the last death", facts{news: died, exit: exit, counted: true, frame: deaths(MaxDeaths), turn: cut},
			outcome{do: finish, state: ledger.Failed, reason: "agent died", warn: "died 3 times with one message: it is given up", agentDied: true}},
		{"wider permissions", facts{news: died, exit: &agent.WidenedError{Given: "plan", Got: "default"}, frame: message},
			outcome{do: finish, state: ledger.Failed, reason: `stopped: the agent works in permission mode "default", wider than "plan", which it was given`,
				warn: "was stopped, and its message is given up"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, decide(test.facts), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A message in the conversation is neither written again nor split, whatever else is
// known about it: the agent would do its work twice.
func TestStoredIsNeverSaidAgain(t *testing.T) {
	t.Parallel()
	var turns []agent.Turn
	for _, stop := range []string{"", "tool_use", "end_turn"} {
		for _, t := range []agent.Turn{{}, {Finished: true}, {Interrupted: true}, {Failed: true}} {
			t.Stored, t.Stop = true, stop
			turns = append(turns, t)
		}
	}
	n := 0
	for _, turn := range turns {
		for _, kind := range []ledger.FrameKind{ledger.FrameMessage, ledger.FrameNudge, ledger.FrameCommand} {
			for tries := range 4 {
				for deaths := range MaxDeaths + 1 {
					f := ledger.Frame{Kind: kind, State: ledger.FrameWritten, Tries: tries, Deaths: deaths}
					for nudges := range MaxNudges + 1 {
						subject := ledger.Frame{Kind: ledger.FrameMessage, Nudges: nudges}
						known := facts{news: rewrite, frame: f, turn: &turn, subject: &subject}
						if o := decide(known); tries > 0 && o.do != finish && o.do != nudge {
							t.Errorf("to be written: %+v becomes %+v", known, o)
						}
						n++
					}
					dead := facts{news: died, exit: errors.New("exit status 1"), counted: true, frame: f, turn: &turn}
					if o := decide(dead); o.do == split {
						t.Errorf("after a death: %+v becomes %+v", dead, o)
					}
				}
			}
		}
	}
	t.Logf("%d cases", n)
}

// Only a program whose transcript may be elsewhere may have taken a message that no transcript shows.
func TestTurnWithoutTranscript(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		r := claude.Runtime{Options: claude.Options{Root: t.TempDir(), Dir: t.TempDir(), Plain: plain}}
		turn, err := r.Turn(t.Context(), uuid.NewString(), uuid.NewString())
		if err != nil || turn != (agent.Turn{Unknown: plain}) {
			t.Errorf("plain %t: got %+v, %v", plain, turn, err)
		}
	}
}
