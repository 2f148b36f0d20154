package claude_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/wire"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{})
	p := start(t, o)
	f, next := frame(t, "SLEEP:60 long"), frame(t, "next")
	if err := p.Interrupt(within(t), f.UUID); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("before it was sent: got %v, want ErrNotInFlight", err)
	}
	send(t, p, f)
	until(t, p, "init", func(e agent.Event) bool { _, ok := e.Payload.(claude.Init); return ok })
	if err := p.Interrupt(within(t), next.UUID); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("of another: got %v, want ErrNotInFlight", err)
	}
	must(t, p.Interrupt(within(t), f.UUID))
	reaches(t, p, f, agent.Cancelled)
	if err := p.Interrupt(within(t), f.UUID); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("when it was over: got %v, want ErrNotInFlight", err)
	}
	send(t, p, next)
	reaches(t, p, next, agent.Done)
	worked(t, state, map[string]int{"SLEEP:60 long": 0, "next": 1})
	turn, err := claude.Transcript{Root: state, Dir: o.Dir, Session: p.Session()}.Turn(within(t), f.UUID)
	if err != nil || !turn.Interrupted {
		t.Errorf("transcript: got %+v, %v, want interrupted", turn, err)
	}
}

// TestConversation: a process takes one message after another, also after a failed turn.
func TestConversation(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{})
	p := start(t, o)
	var answers []string
	for _, text := range []string{"one", "two", "FAIL", "SLEEP:0.05 three"} {
		f := frame(t, text)
		send(t, p, f)
		until(t, p, "result", func(e agent.Event) bool {
			if r, ok := e.Payload.(claude.Result); ok {
				answers = append(answers, r.Text)
			}
			return slices.ContainsFunc(e.Progress, func(p agent.Progress) bool { return !p.State.InFlight() })
		})
	}
	want := []string{"ACK: one", "ACK: two", "API Error: 400 simulated", "ACK: SLEEP:0.05 three"}
	if !slices.Equal(answers, want) {
		t.Errorf("got %q, want %q", answers, want)
	}
	worked(t, state, map[string]int{"one": 1, "two": 1, "SLEEP:0.05 three": 1})
}

// TestNothingToSay: a process can be ended before its first message.
func TestNothingToSay(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{})
	p := start(t, o)
	p.CloseInput()
	if all := rest(t, p); len(all) > 0 || p.Wait(within(t)) != nil {
		t.Errorf("got %s, %v, want nothing", lines(all), p.Wait(within(t)))
	}
}

func TestFailureOfTheModel(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{})
	p := start(t, o)
	f := frame(t, "FAIL now")
	send(t, p, f)
	reaches(t, p, f, agent.Failed)
	turn, err := claude.Transcript{Root: state, Dir: o.Dir, Session: p.Session()}.Turn(within(t), f.UUID)
	if err != nil || !turn.Failed || turn.Finished {
		t.Errorf("transcript: got %+v, %v, want failed", turn, err)
	}
	var exit *claude.ExitError
	if err := end(t, p, agent.Grace{EOF: patience}); !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("end after a failure: got %v, want exit code 1", err)
	}
}

func TestSettingsOfARunningProcess(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{})
	p := start(t, o)
	if _, err := p.SetModel(within(t), "haiku"); err != nil {
		t.Fatal(err)
	}
	must(t, p.SetPermissionMode(within(t), "plan"))
	f := frame(t, "hello")
	send(t, p, f)
	reaches := until(t, p, "init", func(e agent.Event) bool { _, ok := e.Payload.(claude.Init); return ok })
	if got := payloads[claude.Init](reaches)[0]; got.Model != "haiku" || got.PermissionMode != "plan" {
		t.Errorf("init: got %+v, want haiku and plan", got)
	}
	if _, err := p.SetModel(within(t), ""); !errors.Is(err, claude.ErrInvalid) {
		t.Errorf("no model: got %v, want ErrInvalid", err)
	}
}

func TestUnansweredControlRequest(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}})
	o.AnswerTimeout = time.Second
	p := start(t, o)
	if _, err := p.SetModel(within(t), "haiku"); !errors.Is(err, claude.ErrNoAnswer) {
		t.Errorf("got %v, want ErrNoAnswer", err)
	}
	if err := end(t, p, agent.Grace{}); err == nil {
		t.Error("kill: got no error, want the signal")
	}
	if _, err := p.SetModel(within(t), "haiku"); !errors.Is(err, claude.ErrEnded) {
		t.Errorf("of a dead process: got %v, want ErrEnded", err)
	}
	if err := p.Send(within(t), frame(t, "hello").Line); !errors.Is(err, claude.ErrEnded) {
		t.Errorf("send to a dead process: got %v, want ErrEnded", err)
	}
}

// TestProcessThatDoesNotRead: once a frame went into the full pipe only in part, the process is unusable.
func TestProcessThatDoesNotRead(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}})
	o.WriteTimeout = 3 * time.Second // a write that begins later than that is not torn
	p := start(t, o)
	var torn *claude.WriteError
	var err error
	for range 10 {
		f := frame(t, strings.Repeat("x", 60<<10))
		if err = p.Send(within(t), f.Line); errors.As(err, &torn) {
			if torn.UUID != f.UUID || torn.Size != len(f.Line)+1 {
				t.Errorf("got %+v, want the frame and its size", torn)
			}
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !torn.Torn() || torn.Written >= torn.Size || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %+v, want a torn line after the deadline", torn)
	}
	if err := p.Send(within(t), frame(t, "x").Line); !errors.Is(err, claude.ErrUnusable) {
		t.Errorf("next frame: got %v, want ErrUnusable", err)
	}
	if err := p.SetPermissionMode(within(t), "plan"); !errors.Is(err, claude.ErrUnusable) {
		t.Errorf("control request: got %v, want ErrUnusable", err)
	}
}

// TestClosedOutput: a process that closes its output and lives on is ended, so that its frame is sent again.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	p := start(t, claude.Options{Command: []string{"/bin/sh", "-c", "exec sleep 600 >&-"}, Plain: true, AnswerTimeout: time.Millisecond})
	var exit *claude.ExitError
	if err := p.Wait(within(t)); !errors.As(err, &exit) || !errors.Is(err, claude.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// TestLineThatDoesNotFitAtAll: the process stays usable if nothing of a line went into the pipe.
func TestLineThatDoesNotFitAtAll(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the size of a pipe is Linux's")
	}
	o, state := sim(t, simchild.Script{})
	o.WriteTimeout = 3 * time.Second
	// A shell that waits for a file before it runs the child: the pipe is full until then.
	gate := t.TempDir() + "/open"
	o.Command = append([]string{"/bin/sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done; exec "$@"`, gate}, o.Command...)
	p := start(t, o)
	// 64 KiB in small lines, whole pages of them: a line under 4 KiB goes in whole or not at all.
	var sent []agent.Frame
	var refused *claude.WriteError
	for range 100 {
		f := frame(t, strings.Repeat("y", 2000))
		err := p.Send(within(t), f.Line)
		if errors.As(err, &refused) {
			if refused.Torn() {
				t.Fatalf("a line under 4 KiB: got %v, want nothing of it written", err)
			}
			if got := p.State(f.UUID); got != 0 {
				t.Errorf("state of what was not written: got %v, want none", got)
			}
			break
		} else if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, f)
	}
	if refused == nil {
		t.Fatal("the pipe never was full")
	}
	must(t, os.WriteFile(gate, nil, 0o600))
	last := frame(t, "last")
	reaches(t, p, sent[len(sent)-1], agent.Done)
	send(t, p, last)
	reaches(t, p, last, agent.Done)
	worked(t, state, map[string]int{"last": 1})
}

func TestCancelledSendIsNotWritten(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}})
	p := start(t, o)
	// The writer is kept busy by a line that does not fit.
	long := frame(t, strings.Repeat("x", 120<<10))
	var writing sync.WaitGroup
	writing.Go(func() { _ = p.Send(t.Context(), long.Line) })
	defer writing.Wait()
	defer p.Kill()
	eventually(t, "the long line is being written", func() bool { return p.State(long.UUID) == agent.Written })
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	f := frame(t, "late")
	if err := p.Send(ctx, f.Line); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	if got := p.State(f.UUID); got != 0 {
		t.Errorf("state: got %v, want none", got)
	}
}

// TestSendThatIsLeftTooLate: a send that is cancelled too late returns the result of the write, not the cancellation.
func TestSendThatIsLeftTooLate(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}})
	o.WriteTimeout = 3 * time.Second
	p := start(t, o)
	long := frame(t, strings.Repeat("x", 120<<10))
	ctx, leave := context.WithCancel(within(t))
	defer leave()
	sent := make(chan error, 1)
	go func() { sent <- p.Send(ctx, long.Line) }()
	eventually(t, "the line is being written", func() bool { return p.State(long.UUID) == agent.Written })
	leave()
	var torn *claude.WriteError
	if err := <-sent; !errors.As(err, &torn) || !torn.Torn() {
		t.Errorf("got %v, want the torn line", err)
	}
}

func TestTooLargeFrameIsRefused(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{})
	p := start(t, o)
	if err := p.Send(within(t), frame(t, strings.Repeat("x", 300_000)).Line); !errors.Is(err, claude.ErrInvalid) || !strings.Contains(err.Error(), "limit of 131072") {
		t.Errorf("300 KB: got %v, want a refusal at 128 KiB", err)
	}
	if err := p.Send(within(t), nil); !errors.Is(err, claude.ErrInvalid) {
		t.Errorf("no frame: got %v, want ErrInvalid", err)
	}
	f := frame(t, "small")
	send(t, p, f)
	reaches(t, p, f, agent.Done)
	worked(t, state, map[string]int{"small": 1})
}

func TestQuestionsOfTheProcess(t *testing.T) {
	t.Parallel()
	asked := make(chan agent.Use, 1)
	o, _ := sim(t, simchild.Script{})
	o.Permission = &agent.Permission{
		Allow: []string{"Read"}, Reason: "never",
		Ask: func(ctx context.Context, u agent.Use) agent.Decision {
			asked <- u
			switch u.Tool {
			case "Bash":
				return agent.Decision{Allow: true}
			case "Wait":
				<-ctx.Done()
			}
			return agent.Decision{}
		},
	}
	p := start(t, o)
	for _, test := range []struct{ tool, want string }{{"Read", "allowed"}, {"Bash", "allowed"}, {"Write", "denied: never"}} {
		f := frame(t, "ASK:"+test.tool)
		send(t, p, f)
		if got := reaches(t, p, f, agent.Done); got.Result.Text != test.want {
			t.Errorf("%s: got %q, want %q", test.tool, got.Result.Text, test.want)
		}
		if test.tool != "Read" {
			if u := <-asked; u.Tool != test.tool || string(u.Input) != `{"command":"echo hi"}` {
				t.Errorf("asked about %+v, want %s", u, test.tool)
			}
		}
	}
	// An endless question delays neither output nor control requests, and ends with the process.
	send(t, p, frame(t, "ASK:Wait"))
	<-asked
	if err := p.SetPermissionMode(within(t), "plan"); err != nil {
		t.Errorf("while a question waits: %v", err)
	}
	_ = p.Kill()
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{})
	p := start(t, o)
	f := frame(t, "ASK:Bash")
	send(t, p, f)
	if got := reaches(t, p, f, agent.Done); !strings.HasPrefix(got.Result.Text, "denied: ") {
		t.Errorf("got %q, want a refusal", got.Result.Text)
	}
}

// TestOutputThatIsNoEvent: reading goes on after lines that are no JSON or longer than the limit.
func TestOutputThatIsNoEvent(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Echoed, Do: simchild.Noise, Size: 200_000}}})
	o.LineLimit = 100_000
	p := start(t, o)
	f := frame(t, "hello")
	send(t, p, f)
	reaches(t, p, f, agent.Accepted)
	var skipped []claude.Skipped
	until(t, p, "the end", func(e agent.Event) bool {
		if s, ok := e.Payload.(claude.Skipped); ok {
			skipped = append(skipped, s)
		}
		return len(e.Progress) > 0 && e.Progress[0].State == agent.Done
	})
	if len(skipped) != 3 || skipped[0].Head != "this is no JSON" || skipped[2].Size < 200_000 || len(skipped[2].Head) > 200 || !strings.Contains(skipped[2].Reason, "limit") {
		t.Errorf("skipped: got %+v, want three lines", skipped)
	}
}

// TestConsumerThatDoesNotRead: if nobody reads events, only bulky ones are lost, and the child is not delayed.
func TestConsumerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Echoed, Do: simchild.Flood, Size: 3 << 20}}})
	o.Buffer = 1 << 20
	p := start(t, o)
	f := frame(t, "hello")
	send(t, p, f)
	p.CloseInput()
	if err := p.Wait(within(t)); err != nil {
		t.Fatalf("nobody reads events: got %v, want exit code 0", err)
	}
	if got := p.State(f.UUID); got != agent.Done {
		t.Errorf("state: got %v, want done", got)
	}
	all := rest(t, p)
	gaps := payloads[claude.Gap](all)
	if len(gaps) == 0 || gaps[0].Events < 1000 || gaps[0].Bytes < 1<<20 {
		t.Errorf("gaps: got %+v, want one of 2 MiB", gaps)
	}
	var progress []agent.State
	for _, e := range all {
		for _, p := range e.Progress {
			progress = append(progress, p.State)
		}
	}
	if len(progress) != 2 || progress[1] != agent.Done || len(payloads[claude.Result](all)) != 1 {
		t.Errorf("progress: got %v, want accepted and done, with the result", progress)
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	taken := uuid.NewString()
	for _, test := range []struct {
		name   string
		change func(*claude.Options, *simchild.Script)
		want   error
		text   string
	}{
		{"at the start", func(_ *claude.Options, s *simchild.Script) {
			s.Faults = []simchild.Fault{{At: simchild.Start, Do: simchild.Exit}}
		}, nil, "told to exit"},
		{"unknown session", func(o *claude.Options, _ *simchild.Script) { o.Session, o.Resume = uuid.NewString(), true }, claude.ErrSessionUnknown, "No conversation"},
		{"session in use", func(o *claude.Options, _ *simchild.Script) { o.Session = taken }, claude.ErrSessionTaken, "already in use"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := simchild.Script{State: t.TempDir()}
			o, _ := sim(t, s)
			test.change(&o, &s)
			o.Env = append(os.Environ(), s.Env(), noRaceSleep)
			if test.want == claude.ErrSessionTaken {
				p := start(t, o)
				f := frame(t, "hello")
				send(t, p, f)
				reaches(t, p, f, agent.Done)
				_ = p.Kill()
			}
			var passed lockedBuffer
			o.Stderr = &passed
			p := start(t, o)
			err := p.Wait(within(t))
			var exit *claude.ExitError
			if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(exit.Stderr, test.text) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want exit code 1 and %q", err, test.text)
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if !strings.Contains(passed.String(), test.text) {
				t.Errorf("stderr passed on: got %q, want %q in it", passed.String(), test.text)
			}
		})
	}
	if _, err := claude.Start(t.Context(), claude.Options{Command: []string{"/nonexistent/claude"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: got %v, want ErrNotExist", err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestTornOutput(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Finished, Do: simchild.Torn}}})
	p := start(t, o)
	send(t, p, frame(t, "hello"))
	all := rest(t, p)
	last, ok := all[len(all)-2].Payload.(claude.Skipped)
	if !ok || !strings.Contains(last.Reason, "cut off") || !strings.HasPrefix(last.Head, `{"type":"result"`) {
		t.Errorf("last line: got %+v, want the torn one", all[len(all)-2].Payload)
	}
	ends := all[len(all)-1].Envelopes
	if end, ok := ends[len(ends)-1].Event.(*wire.TurnEnd); !ok || end.Status != wire.TurnFailed {
		t.Errorf("last event: got %+v, want the end of the turn", ends)
	}
}

func TestProgramThatAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	o, state := sim(t, simchild.Script{Mute: true})
	p := start(t, o)
	for _, text := range []string{"one", "two"} {
		f := frame(t, text)
		send(t, p, f)
		reaches(t, p, f, agent.Unproven)
	}
	worked(t, state, map[string]int{"one": 1, "two": 1})
}

func TestEndBySteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script simchild.Script
		grace  agent.Grace
		signal string
	}{
		{"end of stdin", simchild.Script{}, agent.Grace{EOF: patience}, ""},
		{"SIGTERM", simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}},
			agent.Grace{EOF: 10 * time.Millisecond, Term: patience}, "terminated"},
		{"SIGKILL", simchild.Script{IgnoreTerm: true, Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}},
			agent.Grace{EOF: 10 * time.Millisecond, Term: 50 * time.Millisecond}, "killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o, state := sim(t, test.script)
			p := start(t, o)
			waitStarted(t, state)
			err := end(t, p, test.grace)
			var exit *claude.ExitError
			switch errors.As(err, &exit); {
			case test.signal == "" && err != nil:
				t.Errorf("got %v, want exit code 0", err)
			case test.signal != "" && (exit == nil || exit.Signal != test.signal):
				t.Errorf("got %v, want signal %s", err, test.signal)
			}
			if alive, err := process.Predecessor(p.ID()).Alive(); alive || err != nil {
				t.Errorf("alive afterwards: %t, %v", alive, err)
			}
		})
	}
}

// waitStarted waits until the simulated child has set itself up.
func waitStarted(t testing.TB, state string) {
	t.Helper()
	eventually(t, "the child has started", func() bool {
		all, err := simchild.Log(state)
		must(t, err)
		return len(all) > 0
	})
}

// eventually polls for a condition without an event.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it never came that %s", what)
		}
	}
}

func TestContextOfStartKills(t *testing.T) {
	t.Parallel()
	o, _ := sim(t, simchild.Script{IgnoreTerm: true})
	ctx, cancel := context.WithCancel(t.Context())
	p, err := claude.Start(ctx, o)
	must(t, err)
	cancel()
	if err := p.Wait(within(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if _, err := claude.Start(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("start with a context that has ended: got %v", err)
	}
}

// TestEndlessOutput: events that decide the fate of a frame are kept while there is room; then the process is ended.
func TestEndlessOutput(t *testing.T) {
	t.Parallel()
	p := start(t, claude.Options{
		Command: []string{"/bin/sh", "-c", `while :; do echo '{"type":"result","subtype":"success"}'; done`},
		Plain:   true, Buffer: 20_000,
	})
	if err := p.Wait(within(t)); !errors.Is(err, claude.ErrOverrun) {
		t.Errorf("got %v, want ErrOverrun", err)
	}
	if n := len(rest(t, p)); n > 500 {
		t.Errorf("kept %d events, want as many as the limit holds", n)
	}
}

// TestProcessThatAsksAndDoesNotListen: a process that asks and does not read answers is killed.
func TestProcessThatAsksAndDoesNotListen(t *testing.T) {
	t.Parallel()
	p := start(t, claude.Options{
		Command: []string{"/bin/sh", "-c", `while :; do echo '{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}'; done`},
		Plain:   true, WriteTimeout: time.Minute,
	})
	if err := p.Wait(within(t)); !errors.Is(err, claude.ErrOverrun) {
		t.Errorf("got %v, want ErrOverrun", err)
	}
}

// TestQuestionThatIsRepeated: a question that is asked again while a person decides gets the person's answer, and no other.
func TestQuestionThatIsRepeated(t *testing.T) {
	t.Parallel()
	file, read := filepath.Join(t.TempDir(), "input"), make(chan struct{})
	p := start(t, claude.Options{
		Command: []string{"/bin/sh", "-c", `printf '%s\n' "$1" "$1" "$2"; cat >"$0"; true`, file,
			`{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}`,
			`{"type":"result","subtype":"success"}`},
		Plain: true, Permission: &agent.Permission{Ask: func(context.Context, agent.Use) agent.Decision {
			<-read
			return agent.Decision{Allow: true}
		}},
	})
	until(t, p, "both questions", func(e agent.Event) bool { return e.Result != nil })
	close(read)
	eventually(t, "it is answered", func() bool {
		data, _ := os.ReadFile(file)
		return bytes.Contains(data, []byte("allow"))
	})
	must(t, end(t, p, agent.Grace{EOF: patience}))
	data, err := os.ReadFile(file)
	must(t, err)
	if bytes.Count(data, []byte(`"control_response"`)) != 1 {
		t.Errorf("the answers are %s, want one", data)
	}
}

// TestEveryLineOfInputIsJSON: no text, setting or answer can break a line of a process's input.
func TestEveryLineOfInputIsJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "input")
	o := claude.Options{
		Command: []string{"/bin/sh", "-c", `printf '%s\n' "$1" "$2"; cat >"$0"; true`, file,
			`{"type":"control_request","request_id":"a\nb\u0000","request":{"subtype":"no\r\nsuch"}}`,
			`{"type":"control_request","request_id":"c","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"a\nb"}}}`},
		Plain: true, AnswerTimeout: time.Second, Permission: &agent.Permission{Reason: "no\r\n\u2028\xff"},
	}
	p := start(t, o)
	for _, text := range []string{"one\ntwo", "\r\n{}", "a\u2028b", "</teammate-message>\n\n", strings.Repeat("\n", 1000) + "x"} {
		send(t, p, frame(t, text))
	}
	// Nobody answers.
	for _, word := range []string{"hai\nku", "a\r\nb", `"}` + "\n"} {
		if _, err := p.SetModel(within(t), word); !errors.Is(err, claude.ErrNoAnswer) {
			t.Errorf("set model: got %v, want ErrNoAnswer", err)
		}
	}
	eventually(t, "its questions are answered", func() bool {
		data, _ := os.ReadFile(file)
		return bytes.Count(data, []byte(`"control_response"`)) == 2
	})
	must(t, end(t, p, agent.Grace{EOF: patience}))
	data, err := os.ReadFile(file)
	must(t, err)
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil || object["type"] == nil || strings.ContainsRune(line, '\r') {
			t.Errorf("line %d is no JSON object: %q: %v", n, line, err)
		}
	}
	if n != 5+3+2 {
		t.Errorf("got %d lines, want 5 frames, 3 requests and 2 answers: %s", n, data)
	}
}

// TestFrameWaitsForTheAnswer: a frame waits until a setting is confirmed, so that the setting surely applies to it.
func TestFrameWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "input")
	p := start(t, claude.Options{
		Command: []string{"/bin/sh", "-c", `cat >"$0"; true`, file}, Plain: true, AnswerTimeout: time.Minute,
	})
	settings, answered := context.WithCancel(within(t))
	var setting sync.WaitGroup
	setting.Go(func() { _, _ = p.SetModel(settings, "haiku") })
	defer setting.Wait()
	defer answered()
	eventually(t, "the request is there", func() bool {
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), "set_model")
	})
	f := frame(t, "hello")
	hurried, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	if err := p.Send(hurried, f.Line); !errors.Is(err, context.DeadlineExceeded) || p.State(f.UUID) != 0 {
		t.Errorf("while the request has no answer: got %v, state %v, want it unwritten", err, p.State(f.UUID))
	}
	answered()
	send(t, p, f)
}
