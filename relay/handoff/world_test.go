package handoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/terminal"
)

// world is a person, a session, the ledger, and the programs that the session runs in. It outlives the machine.
type world struct {
	reading func() // called when the session's place is read from the ledger; may be nil

	t *testing.T

	mu      sync.Mutex
	session ledger.Session
	handoff ledger.Handoff
	prompts []*prompt
	writes  int          // of the ledger
	write   func(n int)  // is called around each of them, with its number; odd: before it
	said    []string     // the conversation
	entered []entry      // the person's history
	printed []string     // on the terminal
	starts  []Start      // of the person's program
	left    string       // permission mode at the terminal
	notices []string     // in front of the title, each once
	program *fakeProgram // that runs; nil: none
	remotes int          // that run
	keys    chan terminal.Key
	killed  chan struct{} // closed when the launcher is killed

	obstacle  string
	cleared   string   // the session after /clear; empty: it is not used
	asked     []string // the sessions that Obstacle was last asked about
	elsewhere int
	noDraft   bool // the program does not hand over its draft
	lag       time.Duration
	turn      time.Duration // how long a turn takes
	stubborn  bool          // it does not end on SIGTERM
	exit      map[int]error
}

type prompt struct {
	seq  int64
	text string
	done bool
}

type entry struct {
	text string
	at   time.Time
}

var key = inbox.InboxKey{Root: "/r", Team: "t", CreatedAt: 1, Inbox: "team-lead"}

// play runs a test in a bubble of its own.
func play(t *testing.T, test func(w *world)) {
	exits := map[int]error{}
	for _, status := range []int{1, 143} {
		exits[status] = exec.Command("/bin/sh", "-c", fmt.Sprint("exit ", status)).Run()
	}
	synctest.Test(t, func(t *testing.T) {
		test(&world{t: t, keys: make(chan terminal.Key, 8), killed: make(chan struct{}), lag: 50 * time.Millisecond, turn: time.Second, exit: exits})
	})
}

// play2 is play in a subtest that runs at once.
func play2(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("", func(t *testing.T) { play(t, func(w *world) { test(w.t, w) }) })
}

func (w *world) options() Options {
	return Options{
		Ledger: w, Key: key, Terminal: w, Agent: fakeAgent{w}, Runtime: claude.Runtime{Options: claude.Options{Command: []string{"claude"}}}, Switch: "Ctrl-]",
		Remote: func(context.Context) (Remote, error) {
			return &fakeRemote{world: w, finish: make(chan struct{}), stop: make(chan struct{}, 1)}, nil
		},
		Warn: func(err error) { w.t.Errorf("warning: %v", err) },
	}
}

// run runs the machine until the test, or stop, ends it.
func (w *world) run() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.options()) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

// errLauncherKilled is thrown where the launcher is killed.
var errLauncherKilled = errors.New("killed")

// kill does to the rest what a kill of the launcher does: the program is hung up, and the relay is gone.
func (w *world) kill() {
	w.mu.Lock()
	p := w.program
	close(w.killed)
	w.killed = make(chan struct{})
	w.mu.Unlock()
	if p != nil {
		p.exit(w.exit[143])
	}
	synctest.Wait()
}

// until lets time pass until a condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 2000 {
		w.mu.Lock()
		ok := holds()
		w.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Fatalf("never: %s; handoff %+v, said %q, printed %q, notices %q", what, w.handoff, w.said, w.printed, w.notices)
}

func (w *world) atTerminal() bool { return w.program != nil && w.program.status() == interactive.Idle }
func (w *world) atRelay() bool    { return w.remotes == 1 && w.program == nil }

// prompt is a person's message to the agent.
func (w *world) prompt(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prompts = append(w.prompts, &prompt{seq: int64(len(w.prompts) + 1), text: text})
}

func (w *world) wish(at ledger.Place, force bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handoff.Wanted, w.handoff.Force = at, force
	w.handoff.Wish++
}

func (w *world) press() { w.keys <- terminal.Key{Hot: true} }

// The ledger.

func (w *world) Session(context.Context, inbox.InboxKey) (ledger.Session, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session, w.session.ID != "", nil
}

func (w *world) around(change func()) {
	w.mu.Lock()
	w.writes += 2
	n, write := w.writes, w.write
	w.mu.Unlock()
	if write != nil {
		write(n - 1)
	}
	w.mu.Lock()
	change()
	w.mu.Unlock()
	if write != nil {
		write(n)
	}
}

func (w *world) SetSession(_ context.Context, s ledger.Session) error {
	w.around(func() { w.session = s })
	return nil
}

func (w *world) Handoff(ctx context.Context, _ inbox.InboxKey) (ledger.Handoff, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reading != nil {
		w.reading()
	}
	if ctx.Err() != nil {
		return ledger.Handoff{}, false, ctx.Err()
	}
	return w.handoff, w.handoff.At != "", nil
}

func (w *world) SetHandoff(_ context.Context, h ledger.Handoff) error {
	w.around(func() {
		wanted, force, wish, answered, refused := w.handoff.Wanted, w.handoff.Force, w.handoff.Wish, w.handoff.Answered, w.handoff.Refused
		if h.Wanted == "" && h.Wish >= wish && answered < wish {
			wanted, force, answered, refused = "", false, h.Wish, h.Refused
		}
		w.handoff = h
		w.handoff.Wanted, w.handoff.Force, w.handoff.Wish, w.handoff.Answered, w.handoff.Refused = wanted, force, wish, answered, refused
	})
	return nil
}

func (w *world) OpenCount(ctx context.Context, k inbox.InboxKey) (int, error) {
	n, _, err := w.OpenPrompts(ctx, k, 0)
	return n, err
}

func (w *world) OpenPrompts(_ context.Context, _ inbox.InboxKey, after int64) (n int, newest int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	newest = after
	for _, p := range w.prompts {
		if !p.done && p.seq > after {
			n, newest = n+1, p.seq
		}
	}
	return n, newest, nil
}

// The terminal.

func (w *world) Keys() <-chan terminal.Key { return w.keys }

func (w *world) SetNotice(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.notices); n == 0 || w.notices[n-1] != text {
		w.notices = append(w.notices, text)
	}
}

func (w *world) Print(lines string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.program != nil {
		return terminal.ErrRunning
	}
	w.printed = append(w.printed, lines)
	return nil
}

func (w *world) Start(cmd *exec.Cmd) (Program, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &fakeProgram{world: w, done: make(chan struct{}), typed: time.Now(), composer: cmd.Args[1]}
	if w.program != nil || w.remotes > 0 {
		w.t.Error("two programs have the session")
	}
	if w.session.ID == "" {
		w.t.Error("the program is started before the ledger has its session")
	}
	w.program = p
	return p, nil
}

// fakeProgram is the person's program.
type fakeProgram struct {
	*world
	done     chan struct{}
	err      error
	typed    time.Time
	composer string
	busy     time.Time // until when a turn runs
	dialog   bool
	blocked  bool
	kept     []byte
	escs     int
}

func (p *fakeProgram) status() interactive.Status {
	switch {
	case p.dialog:
		return interactive.Waiting
	case time.Now().Before(p.busy):
		return interactive.Busy
	}
	return interactive.Idle
}

// types is the person at the keyboard. Enter is "\r".
func (w *world) types(keys string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.program
	p.typed = time.Now()
	if p.blocked {
		p.kept = append(p.kept, keys...)
		return
	}
	p.read(keys)
}

func (p *fakeProgram) read(keys string) {
	for _, r := range keys {
		if r != '\r' {
			p.composer += string(r)
			continue
		}
		text := p.composer
		p.composer = ""
		p.entered = append(p.entered, entry{text, time.Now()})
		go func() {
			select {
			case <-time.After(p.lag):
				p.mu.Lock()
				defer p.mu.Unlock()
				p.said = append(p.said, text)
				p.busy = time.Now().Add(p.turn)
			case <-p.done:
			}
		}()
	}
}

func (p *fakeProgram) exit(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == p {
		p.program, p.err = nil, err
		close(p.done)
	}
}

func (p *fakeProgram) ID() agent.Process     { return agent.Process{} }
func (p *fakeProgram) Pastes() bool          { return true }
func (p *fakeProgram) Done() <-chan struct{} { return p.done }
func (p *fakeProgram) Wait() error           { <-p.done; return p.err }
func (p *fakeProgram) Kill() error           { p.exit(p.world.exit[1]); return nil }

func (p *fakeProgram) Quiet() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.typed)
}

func (p *fakeProgram) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = true
}

func (p *fakeProgram) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = false
	p.read(string(p.kept))
	p.kept = nil
}

func (p *fakeProgram) Take() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.kept
	p.kept = nil
	return kept
}

func (p *fakeProgram) Write(keys []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch string(keys) {
	case "\x07":
	case "\x1b":
		p.escs++
		p.busy, p.dialog = time.Time{}, false
	default:
		p.read(string(keys))
	}
	return nil
}

func (p *fakeProgram) Signal(s os.Signal) error {
	if s == syscall.SIGTERM && !p.stubborn {
		p.exit(p.world.exit[143])
	}
	return nil
}

// fakeAgent knows the world.
type fakeAgent struct{ *world }

func (a fakeAgent) Launch(s Start) (Launch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts = append(a.starts, s)
	if s.Session == "" {
		s.Session = "one"
	}
	return &fakeLaunch{a.world, s}, nil
}

func (a fakeAgent) Unrun(_ string, since time.Time) (texts []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.entered {
		if !e.at.Before(since) && !slices.Contains(a.said, e.text) {
			texts = append(texts, e.text)
		}
	}
	return texts, nil
}

func (a fakeAgent) Entered(_ string, since time.Time) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.entered, func(e entry) bool { return !e.at.Before(since) }), nil
}

func (a fakeAgent) Elsewhere(string, agent.Process) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.elsewhere
}

func (a fakeAgent) Obstacle(_ context.Context, session string, earlier ...string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append([]string{session}, earlier...)
	return a.obstacle, nil
}

func (a fakeAgent) PermissionMode(string) (string, error) { return a.left, nil }

type fakeLaunch struct {
	*world
	start Start
}

func (l *fakeLaunch) Cmd() *exec.Cmd  { return exec.Command("claude", l.start.Prefill) }
func (l *fakeLaunch) Session() string { return l.start.Session }
func (l *fakeLaunch) Paste() string   { return "" }
func (l *fakeLaunch) Close() error    { return nil }

func (l *fakeLaunch) Look(int) (interactive.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.program == nil {
		return interactive.State{}, nil
	}
	return interactive.State{Status: l.program.status(), Session: cmp.Or(l.cleared, l.session.ID)}, nil
}

func (l *fakeLaunch) TakeDraft(ctx context.Context, press func() error) (string, bool, error) {
	if err := press(); err != nil {
		return "", false, err
	}
	l.mu.Lock()
	p, mute := l.program, l.noDraft
	l.mu.Unlock()
	if p == nil || mute {
		<-ctx.Done()
		return "", false, nil
	}
	time.Sleep(10 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.composer, true, nil
}

// fakeRemote works on the prompts, one in a turn.
type fakeRemote struct {
	*world
	once   sync.Once
	finish chan struct{}
	stop   chan struct{} // a turn
	keyed  []terminal.Key
}

func (r *fakeRemote) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.program != nil || r.remotes > 0 {
		r.t.Error("two programs have the session")
	}
	r.remotes++
	r.session.State, r.session.PID = ledger.RelayRunning, 0
	if r.session.ID == "" {
		r.session.ID = "one"
	}
	killed := r.killed
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.remotes--
		select {
		case <-killed:
		default:
			r.session.State = ledger.RelayEnded
		}
	}()
	for {
		select {
		case <-r.finish:
			return nil
		case <-ctx.Done():
			return nil
		case <-killed:
			return errLauncherKilled
		case <-time.After(20 * time.Millisecond):
		}
		r.mu.Lock()
		i := slices.IndexFunc(r.prompts, func(p *prompt) bool { return !p.done })
		r.mu.Unlock()
		if i < 0 {
			continue
		}
		select {
		case <-time.After(r.turn):
		case <-r.stop:
		case <-killed:
			return errLauncherKilled
		}
		r.mu.Lock()
		r.prompts[i].done = true
		r.said = append(r.said, r.prompts[i].text)
		r.mu.Unlock()
	}
}

func (r *fakeRemote) Working() bool      { return false }
func (r *fakeRemote) Finish()            { r.once.Do(func() { close(r.finish) }) }
func (r *fakeRemote) Key(k terminal.Key) { r.keyed = append(r.keyed, k) }

func (r *fakeRemote) Interrupt(context.Context) error {
	select {
	case r.stop <- struct{}{}:
		return nil
	default:
		return agent.ErrNotInFlight
	}
}

func (w *world) times(text string) int { return strings.Count(strings.Join(w.said, "\n"), text) }
