package pane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// simagent simulates Claude Code in a pane: it works on the typed texts, one turn after the
// other, and keeps a transcript if record is set.
type simagent struct {
	t      testing.TB
	ref    tmux.Ref
	dir    string
	record string // path of its transcript; "" for none

	mu       sync.Mutex
	draft    string // a person's
	dialog   string // open
	working  bool   // on a turn
	lags     bool   // it writes the last records of a turn when the hook has been called
	mute     bool
	late     []object // the records that it writes then
	claims   bool     // it reports that it works, although it does not
	turn     []string // nonces of the messages in the turn
	queue    []string // messages that it keeps until the turn has ended
	garbles  bool     // it takes each byte for a character
	lines    []string // the lines that it got, in order
	gone     bool
	shell    bool
	refuses  tmux.Reason // the guard of the paste
	loses    bool        // it loses pasted texts without a sign
	due      string      // nonce of the message for which Enter was due last
	dieAt    string      // the step at which the process of the sender dies
	escapes  int
	maxSends int // the most sends that ran at the same time
	sends    int
}

var errKilled = errors.New("killed")

var must = errtest.Must

func (a *simagent) actions() actions {
	return actions{
		resolve: func(context.Context, string, string) (tmux.Pane, error) { return a.look(a.t.Context(), a.ref) },
		look:    a.look,
		composer: func(context.Context, tmux.Ref, tmux.Profile) (tmux.Composer, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.composer(), a.there()
		},
		held: func(_ context.Context, _ tmux.Ref, _ tmux.Profile, policy tmux.Policy) (tmux.Reason, string, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.holds(policy), "", nil
		},
		send: a.send, resume: a.resume,
		parent: func(pid int) int { return map[int]int{a.ref.PID: 1, a.ref.PID + 1: a.ref.PID}[pid] },
	}
}

func (a *simagent) there() error {
	if a.gone {
		return tmux.ErrGone
	}
	return nil
}

func (a *simagent) look(context.Context, tmux.Ref) (tmux.Pane, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	command := "claude"
	if a.shell {
		command = "bash"
	}
	return tmux.Pane{Ref: a.ref, Session: "s", Command: command, Path: a.dir}, a.there()
}

func (a *simagent) composer() tmux.Composer {
	return tmux.Composer{Found: !a.shell, Dialog: a.dialog, Draft: a.draft, Busy: a.working || a.claims, Queued: len(a.queue)}
}

func (a *simagent) holds(policy tmux.Policy) tmux.Reason {
	switch c := a.composer(); {
	case a.gone:
		return tmux.Gone
	case a.shell:
		return tmux.NotAgent
	case c.Dialog != "":
		return tmux.Dialog
	case c.Draft != "":
		return tmux.Draft
	case c.Busy && policy == tmux.WhenIdle:
		return tmux.Busy
	}
	return ""
}

func (a *simagent) die(step string) {
	if a.dieAt == step {
		a.dieAt = ""
		panic(errKilled)
	}
}

// send is tmux.Deliver.
func (a *simagent) send(ctx context.Context, _ tmux.Ref, _ tmux.Profile, m tmux.Input, s tmux.Steps) (tmux.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sends++; a.sends > a.maxSends {
		a.maxSends = a.sends
	}
	defer func() { a.sends-- }()
	if why := a.holds(m.Policy); why != "" {
		return tmux.Outcome{State: tmux.NotSent, Reason: why, Detail: "it is held: " + string(why)}, nil
	}
	if m.Policy == tmux.Urgent && a.working {
		a.escapes++
		a.endTurn(false)
		a.working = false // kept messages are given later
	}
	out := tmux.Outcome{State: tmux.NotSent, Busy: a.working}
	if err := a.step(ctx, s.Pasting); err != nil {
		return out, err
	}
	a.die("pasting")
	if a.refuses != "" {
		out.Reason, a.refuses = a.refuses, ""
		return out, nil
	}
	a.draft = m.Line()
	out.State, out.Pasted = tmux.Unconfirmed, true
	a.die("pasted")
	return a.submit(ctx, m, s, out)
}

// step runs a step without the lock.
func (a *simagent) step(ctx context.Context, step func(context.Context) error) error {
	a.mu.Unlock()
	defer a.mu.Lock()
	return step(ctx)
}

func (a *simagent) submit(ctx context.Context, m tmux.Input, s tmux.Steps, out tmux.Outcome) (tmux.Outcome, error) {
	if err := a.step(ctx, s.Entered); err != nil {
		return out, err
	}
	a.due = m.Nonce
	a.die("entering")
	out.Enters++
	if a.loses {
		out.Reason, out.Detail, a.draft = tmux.NotProven, "nothing shows what became of it", ""
		return out, nil
	}
	a.enter()
	a.die("entered")
	proven := false
	if err := a.step(ctx, func(ctx context.Context) (err error) {
		proven, err = s.Submitted(ctx)
		return err
	}); err != nil {
		return out, err
	}
	out.State = tmux.Confirmed
	if proven {
		out.Shown = true
	}
	return out, nil
}

// resume is tmux.Continue.
func (a *simagent) resume(ctx context.Context, _ tmux.Ref, _ tmux.Profile, m tmux.Input, entered bool, s tmux.Steps) (tmux.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if entered != (a.due == m.Nonce) {
		a.t.Errorf("the delivery is continued as if it were %v that Enter was due", entered)
	}
	out := tmux.Outcome{State: tmux.Unconfirmed, Pasted: true}
	var proven bool
	if err := a.step(ctx, func(ctx context.Context) (err error) {
		proven, err = s.Submitted(ctx)
		return err
	}); err != nil {
		return out, err
	}
	switch {
	case proven:
		out.State, out.Shown = tmux.Confirmed, true
		return out, nil
	case a.draft != m.Line():
		out.Reason, out.Detail = tmux.NotShown, "the prompt does not hold it"
		return out, nil
	}
	return a.submit(ctx, m, s, out)
}

// enter submits the text at the prompt.
func (a *simagent) enter() {
	line := a.draft
	a.draft = ""
	a.lines = append(a.lines, line)
	if a.garbles {
		var runes []rune
		for _, b := range []byte(line) {
			runes = append(runes, rune(b))
		}
		line = string(runes)
	}
	for _, nonce := range append(nonces(line), "")[:1] {
		if a.working {
			a.queue = append(a.queue, line)
			a.write(object{"type": "queue-operation", "operation": "enqueue", "content": line})
			return
		}
		a.begin(line, nonce)
	}
}

func (a *simagent) begin(line string, list ...string) {
	a.working, a.turn = true, list
	a.write(object{"type": "user", "uuid": fmt.Sprint("u", len(a.lines)), "message": object{"role": "user", "content": line}})
}

type object map[string]any

func (a *simagent) write(o object) {
	if a.record == "" || a.mute {
		return
	}
	o["timestamp"] = time.Now().UTC()
	line, err := json.Marshal(o)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(a.record), 0o700)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(a.record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		a.t.Error(err)
	}
}

// endTurn ends the turn. The agent begins another with the first message that it has kept.
func (a *simagent) endTurn(recorded bool) {
	if recorded {
		a.write(object{"type": "assistant", "message": object{"id": fmt.Sprint("a", len(a.lines)), "stop_reason": "end_turn", "content": []object{{"type": "text", "text": "Done: " + strings.Join(a.turn, ",")}}}})
	}
	a.working, a.turn = false, nil
}

// stop ends the turn as the agent does: it calls the hook, if any, and then begins the
// messages that it has kept.
func (a *simagent) stop(hook func()) {
	a.mu.Lock()
	var writing sync.WaitGroup
	if a.lags { // the last records of the turn
		a.mute = true
		end := object{"type": "assistant", "message": object{"id": fmt.Sprint("a", len(a.lines)), "stop_reason": "end_turn", "content": "Done"}}
		writing.Go(func() {
			time.Sleep(100 * time.Millisecond)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.mute = false
			for _, o := range append(a.late, end) {
				a.write(o)
			}
			a.late = nil
		})
	}
	a.endTurn(true)
	a.working = true // until the hook has ended
	a.mu.Unlock()
	if hook != nil {
		hook()
	}
	writing.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.working = false; len(a.queue) > 0 {
		next := a.queue[0]
		a.queue = a.queue[1:]
		a.begin(next, nonces(next)...)
	}
}

// work lets the agent do a task of a person.
func (a *simagent) work() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin("a task of a person")
}

func (a *simagent) set(change func(*simagent)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// given returns the texts that the agent got, in order.
func (a *simagent) given() (texts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines {
		_, text, _ := strings.Cut(line, "] ")
		texts = append(texts, text)
	}
	return texts
}

// bench is a Claude root with one pane in it.
type bench struct {
	*Panes
	*teamstest.Fixture
	t     testing.TB
	agent *simagent
	pane  Pane
	state string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	f := teamstest.New(t)
	state := teamstest.StateDir(t)
	l, err := ledger.Open(context.Background(), filepath.Join(state, "ledger.db"))
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &simagent{t: t, ref: tmux.Ref{Socket: "/tmp/s", Server: 7, ID: "%1", PID: 4000}, dir: t.TempDir()}
	b := &bench{Fixture: f, t: t, agent: a, state: state}
	b.Panes = b.another(l)
	if b.pane, _, err = b.Registry.Add(t.Context(), Registration{Name: "worker", Target: "%1"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// another returns the panes as another process has them.
func (b *bench) another(l *ledger.Ledger) *Panes {
	p := New(Options{
		Root: b.Root, Ledger: l, State: b.state, Locker: lockedfile.New(lockedfile.Options{Hold: time.Minute}),
		Warn: func(err error) { b.t.Errorf("warning: %v", err) },
	})
	p.tmux = b.agent.actions()
	p.timing.every = time.Second // each step costs time, and some tests run for an hour
	return p
}

// records lets the agent keep a transcript.
func (b *bench) records() {
	b.t.Helper()
	b.agent.record = filepath.Join(b.Root.Path(), "projects", transcript.Slug(b.agent.dir), sessionID+".jsonl")
	b.says("")
}

const sessionID = "5e55104e-0000-4000-8000-000000000001"

// says sets the state that the process of the agent reports.
func (b *bench) says(status string) { b.t.Helper(); b.is("", status) }

// is sets the version, unless that is empty, and the state that the process of the agent reports.
func (b *bench) is(version, status string) {
	b.t.Helper()
	data, err := json.Marshal(object{"pid": b.agent.ref.PID + 1, "sessionId": sessionID, "startedAt": 1, "version": version, "status": status, "statusUpdatedAt": 1})
	if err == nil {
		err = os.MkdirAll(filepath.Join(b.Root.Path(), "sessions"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(b.Root.Path(), "sessions", "4001.json"), data, 0o600)
	}
	must(b.t, err)
}

func (b *bench) put(text string, change ...func(*Message)) ledger.PaneMessage {
	b.t.Helper()
	m := Message{Text: text, From: "tester"}
	for _, c := range change {
		c(&m)
	}
	got, again, err := b.Queue.Put(b.t.Context(), b.pane, m)
	if err != nil || again {
		b.t.Fatalf("put %q: again %t, %v", text, again, err)
	}
	return got
}

func policy(p tmux.Policy) func(*Message) { return func(m *Message) { m.Policy = p } }

func notify(m *Message) { m.Notify = true }

// do runs one step for the pane.
func (b *bench) do() {
	b.t.Helper()
	if _, err := b.Queue.work(b.t.Context(), b.pane.InboxKey, false); err != nil {
		b.t.Fatal(err)
	}
}

// want checks that a message is in a state now.
func (b *bench) want(m ledger.PaneMessage, state ledger.DeliveryState, task ledger.Task) ledger.PaneMessage {
	b.t.Helper()
	got, err := b.Queue.Message(b.t.Context(), m.UUID)
	must(b.t, err)
	if got.State != state || got.Task != task {
		b.t.Errorf("%q is %s (%s), its task %q; want %s, %q", got.Raw, got.State, got.Reason, got.Task, state, task)
	}
	return got
}

func (b *bench) wantGiven(texts ...string) {
	b.t.Helper()
	if got := b.agent.given(); !slices.Equal(got, texts) {
		b.t.Errorf("the agent was given %q, want %q", got, texts)
	}
}

// hook is the Stop hook of the agent, which may take long on a busy machine.
func (b *bench) hook() { b.t.Helper(); b.hookWithin(time.Minute) }

func (b *bench) hookWithin(limit time.Duration) {
	b.t.Helper()
	s := Stop{Transcript: b.agent.record, Socket: b.agent.ref.Socket, Server: b.agent.ref.Server, PaneID: b.agent.ref.ID}
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	if err := b.Tasks.Stopped(ctx, s); err != nil {
		b.t.Error(err)
	}
}

func (b *bench) notices(want ...ledger.PaneMessage) {
	b.t.Helper()
	list, err := b.Tasks.Notices(b.t.Context())
	var got, ids []string
	for _, n := range list {
		got = append(got, n.ID)
	}
	for _, m := range want {
		ids = append(ids, m.UUID)
	}
	if err != nil || !slices.Equal(got, ids) {
		b.t.Errorf("notices %v, %v, want %v", got, err, ids)
	}
}

func causeOf(m ledger.PaneMessage) ledger.Cause {
	c, _ := ledger.SplitReason(m.Reason)
	return c
}
