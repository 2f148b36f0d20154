package claude

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/claude/session"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/process"
	"teambridge/relay/wire"
)

// Process is a running child. Make it with [Start]; end it with [Process.End] or [Process.Kill], or by the
// context of Start. It is safe for concurrent use.
type Process struct {
	options Options
	launch  launch
	child   *process.Child
	in      *stdin
	stderr  process.Tail
	log     backlog
	signals signals // used only by the reader of stdout

	// settings is held while the model or permission mode changes: no frame may be written before the
	// answer.
	settings chan struct{}

	mu          sync.Mutex
	permissions permissions
	pending     map[string]chan ControlResponse
	asked       map[string]context.CancelFunc // requests that wait for Permission.Ask
	number      int                           // of the last control request
	errors      []string                      // of the last result
	cause       error                         // why it was killed by this package

	// folding guards fold. It is separate from mu, since large lines take a while.
	folding sync.Mutex
	fold    *session.Fold

	asking sync.WaitGroup
	life   context.Context // ends with the process
	over   context.CancelFunc
	done   chan struct{} // closed when everything has ended and err is set
	err    error
}

// Start starts a process. The end of ctx kills its group at once. The process prints nothing before its first
// frame.
func Start(ctx context.Context, options Options) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("claude: start: %w", err)
	}
	l, err := options.launch()
	if err != nil {
		return nil, err
	}
	options = options.withDefaults()
	p := &Process{
		options: options, launch: l,
		stderr: process.Tail{Limit: keptStderr}, log: backlog{limit: options.Buffer},
		settings: make(chan struct{}, 1),
		pending:  map[string]chan ControlResponse{}, asked: map[string]context.CancelFunc{},
		done: make(chan struct{}), fold: session.New(),
		signals:     signals{root: options.Root},
		permissions: permissions{mode: l.mode, limit: l.mode, setting: map[string]string{}},
	}
	cmd := exec.Command(l.argv[0], l.argv[1:]...)
	cmd.Dir, cmd.Env = options.Dir, l.env
	process.OwnGroup(cmd)
	if p.child, err = process.Start(cmd, true); err != nil {
		return nil, fmt.Errorf("claude: %w", err)
	}
	p.life, p.over = context.WithCancel(context.Background())
	p.in = &stdin{
		file: p.child.Stdin, timeout: options.WriteTimeout, kill: func() { p.fail(os.ErrDeadlineExceeded) }, lines: pipe.NewStream[*line](waiting),
	}
	go p.run(ctx)
	return p, nil
}

// run does all background work, and returns when the work has ended.
func (p *Process) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(p.in.run)
	all.Go(func() { p.read(p.child.Stdout) })
	all.Go(func() { _, _ = io.Copy(p.stderr.Tee(p.options.Stderr), p.child.Stderr) })
	stop := context.AfterFunc(ctx, func() { p.fail(context.Cause(ctx)) })

	err := p.child.Wait()
	stop()
	p.over()
	p.in.abandon()
	p.child.Drain(drain, &all)
	p.asking.Wait()

	p.mu.Lock()
	p.err = p.exit(err)
	p.mu.Unlock()
	if last := p.last(); len(last.Envelopes) > 0 {
		p.log.last(last)
	}
	p.log.end()
	close(p.done)
}

// exit converts the error of the child's Wait.
func (p *Process) exit(err error) error {
	var exited *exec.ExitError
	if err == nil && p.cause == nil {
		return nil
	}
	e := &ExitError{Err: p.cause, Errors: p.errors, Stderr: p.stderr.String()}
	if errors.As(err, &exited) {
		e.Code, e.Signal = exited.ExitCode(), process.SignalName(exited.ProcessState)
	} else if err != nil {
		e.Code, e.Err = -1, errors.Join(p.cause, err)
	}
	if e.Err == nil {
		e.Err = because(append(p.errors, e.Stderr)...)
	}
	return e
}

// last returns an event with the envelopes that the process did not print before it ended: of a cut turn, or
// of an end that only the transcript has.
func (p *Process) last() agent.Event {
	p.folding.Lock()
	defer p.folding.Unlock()
	e := agent.Event{At: time.Now().UTC()}
	var kept iter.Seq2[wire.Envelope, error]
	if session, since, open := p.fold.Open(); open && p.options.Root != "" {
		kept = Transcript{Root: p.options.Root, Dir: p.options.Dir, Session: session}.Envelopes(context.Background(), since, true)
	}
	// A transcript that cannot be read now is read when the conversation is resumed.
	e.Envelopes, _ = p.fold.End(e.At, kept)
	return e
}

// fail kills the process; Wait then returns cause.
func (p *Process) fail(cause error) {
	p.mu.Lock()
	if p.cause == nil {
		p.cause = cause
	}
	p.mu.Unlock()
	p.child.Signal(process.KillGroup)
}

// Session returns the id of the conversation that the process was started with; empty for a Plain process
// without one.
func (p *Process) Session() string { return p.launch.session }

// ID identifies this process to later processes of the bridge. Record it before the first frame is sent. A
// process whose bridge was killed finishes its turn: wait for it or end it before another resumes its
// conversation ([process.Predecessor]), or the message may run twice.
func (p *Process) ID() agent.Process { return agent.Process(p.child.Predecessor) }

// Mode returns the mode that the process was started in. A Plain process starts with neither a model nor a
// permission mode; [Process.SetMode] can set both.
func (p *Process) Mode() mode.Mode {
	m := p.options.Mode
	if p.options.Plain {
		m.Model, m.PermissionMode = mode.Setting[string]{}, mode.Setting[string]{}
	}
	return m
}

// Send writes the line of a frame, after all earlier lines and the answers to [Process.SetMode]. Nil means
// that the whole line is in the pipe; [agent.Event.Progress] reports what happens to it. Only after a
// [*WriteError] may part of it have been written; other errors are [ErrInvalid], [ErrEnded], [ErrUnusable]
// and ctx's.
func (p *Process) Send(ctx context.Context, data []byte) error {
	f, err := ParseFrame(data)
	if err != nil {
		return err
	}
	if err := p.options.fits(f); err != nil {
		return err
	}
	if err := p.settle(ctx, "send"); err != nil {
		return err
	}
	defer func() { <-p.settings }()
	return p.in.send(ctx, &line{
		uuid: f.UUID, data: f.Line,
		before: func() error {
			p.folding.Lock()
			defer p.folding.Unlock()
			p.fold.Sent(f)
			return nil
		},
		unwritten: func() {
			p.folding.Lock()
			defer p.folding.Unlock()
			p.fold.Unsent(f.UUID)
		},
	})
}

// State returns the state of a frame that was sent to this process. It may be ahead of the events that were
// read so far.
func (p *Process) State(uuid string) agent.State {
	p.folding.Lock()
	defer p.folding.Unlock()
	return p.fold.State(uuid)
}

// Events yields the output of the process, in order, continuing where the last loop over it stopped. It ends
// with ctx's error, or when the process has ended; [Process.Wait] then returns its exit error. Only one loop
// may run at a time.
func (p *Process) Events(ctx context.Context) iter.Seq2[agent.Event, error] { return p.log.all(ctx) }

// read reads lines from stdout until its end.
func (p *Process) read(stdout io.Reader) {
	all := process.NewLines(stdout, p.options.LineLimit)
	for {
		line, size, err := all.Next()
		if len(bytes.TrimSpace(line)) > 0 {
			p.take(line, size, err != nil)
		}
		if err != nil {
			break
		}
	}
	if !p.child.Within(context.Background(), 3*p.options.AnswerTimeout) {
		p.fail(ErrClosed) // without its output, the end of its turn would never be known
	}
}

// headOfSkipped is the number of bytes shown of an unusable line.
const headOfSkipped = 200

func (p *Process) take(line []byte, size int64, last bool) {
	e := agent.Event{At: time.Now().UTC()}
	skip := func(reason string) {
		head := bytes.ToValidUTF8(line[:min(len(line), headOfSkipped)], []byte("\uFFFD"))
		e.Missed = true
		e.Payload = Skipped{Size: size, Head: string(head), Reason: reason}
	}
	if size > int64(len(line)) {
		skip(fmt.Sprintf("longer than the limit of %d bytes", p.options.LineLimit))
	} else if payload, decoded, err := parse(line); err != nil {
		reason := err.Error()
		if last {
			reason = "cut off by the end of the process: " + reason
		}
		skip(reason)
	} else {
		e.Line, e.Payload = bytes.Clone(line), payload
		p.signals.add(&e, decoded)
		e.Progress, e.Envelopes = p.observe(payload, decoded, e.At)
	}
	if err := p.log.add(e); err != nil {
		p.fail(err)
	}
}

func (p *Process) observe(payload Payload, line *session.Line, at time.Time) ([]agent.Progress, []wire.Envelope) {
	p.mu.Lock()
	widened := cmp.Or(p.permissions.report(payload), profiled(p.launch.profile, payload))
	switch m := payload.(type) {
	case Result:
		p.errors = m.Errors
	case ControlResponse:
		if answer := p.pending[m.ID]; answer != nil {
			delete(p.pending, m.ID)
			answer <- m // has room for it
		}
	}
	p.mu.Unlock()
	if widened != nil {
		p.fail(widened)
	}
	switch m := payload.(type) {
	case ControlRequest:
		p.answer(m)
	case Other:
		if m.Type == "control_cancel_request" {
			p.withdraw(line.RequestID)
		}
	}
	p.folding.Lock()
	defer p.folding.Unlock()
	return p.fold.Line(line, at)
}

// Wait waits until the process has ended and all its output is read. It returns nil for exit code 0, ctx's
// error if ctx ends first, and otherwise an [*ExitError].
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("claude: process %d still runs: %w", p.child.PID, context.Cause(ctx))
	}
}

// CloseInput closes stdin after all queued lines. Claude Code then finishes its work and exits.
func (p *Process) CloseInput() { p.in.close() }

// End closes stdin, then sends SIGTERM to the group, then SIGKILL, waiting in between as g says. It returns
// nil when the process has ended; [Process.Wait] returns its exit error. The end of ctx skips the waiting. On
// Windows the SIGTERM step kills.
func (p *Process) End(ctx context.Context, g agent.Grace) error {
	p.in.close()
	if !p.child.Within(ctx, g.EOF) {
		p.child.Signal(process.TermGroup)
		if !p.child.Within(ctx, g.Term) {
			p.child.Signal(process.KillGroup)
		}
	}
	<-p.done
	return nil
}

// Kill ends the group at once, like kill -9, and returns nil when the process has ended.
func (p *Process) Kill() error {
	p.child.Signal(process.KillGroup)
	<-p.done
	return nil
}
