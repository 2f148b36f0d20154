package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/fleet"
	"teambridge/relay/handoff"
	"teambridge/relay/reply"
	"teambridge/relay/runtimes"
	"teambridge/relay/terminal"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/status/view"
	"teambridge/teams"
)

// localRun is a run whose session moves between the terminal and the relay; see package handoff.
type localRun struct {
	*agentRun
	hot     terminal.HotKey
	in, out *os.File
	screen  *screen
	goesOn  bool // the next run continues the session, so its team is kept
}

// checkLocal refuses options that contradict --local, and chooses the team.
func checkLocal(a *app, o *runOptions) error {
	switch {
	case !o.local:
		return nil
	case o.Runtime != runtimes.Claude:
		return usage("", "--local is for Claude Code")
	case o.Plain:
		return usage("", "--local adds flags to the command, which --plain forbids")
	case o.input != inLines || o.output != outText || o.exitOnEOF:
		return usage("", "--local gives the terminal to the agent, so it takes no --input, --output or --exit-on-eof")
	case o.Profile != "":
		return usage("give it to the command as --agent NAME", "--profile is for headless agents")
	case a.json:
		return usage("", "--local gives the terminal to the agent, so it takes no --json")
	}
	command, session, err := claude.TakeSession(o.Command)
	switch {
	case err != nil:
		return usage("", "%s", view.Describe(err))
	case session != "" && o.session != "" && session != o.session:
		return usage("", "--session and the command name different sessions")
	case session != "":
		o.Command, o.session = command, session
	}
	name, err := a.namedTeam("")
	if err != nil {
		return err
	}
	if a.teamName = name; name == "" {
		dir, err := a.cwd()
		if err != nil {
			return err
		}
		a.teamName, o.OwnTeam = localTeam(dir), true
	}
	return nil
}

// localTeam returns the name of the team for the local sessions of a directory.
func localTeam(dir string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}
		return '-'
	}, filepath.Base(dir)), "-_")
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%.40s-%s", cmp.Or(name, "session"), hex.EncodeToString(sum[:2]))
}

// prepareLocal checks that stdin and stdout can be a terminal, and reads the switch key.
func (r *agentRun) prepareLocal() (*localRun, error) {
	l := &localRun{agentRun: r, hot: terminal.DefaultHotKey}
	var err error
	if key, _ := r.app.lookup("TEAMBRIDGE_SWITCH_KEY"); key != "" {
		if l.hot, err = terminal.ParseHotKey(key); err != nil {
			return nil, usage("set it to a key such as ^], which is the default", "$TEAMBRIDGE_SWITCH_KEY: %v", err)
		}
	}
	var isFile, alsoFile bool
	l.in, isFile = r.app.stdin.(*os.File)
	l.out, alsoFile = r.app.out.W.(*os.File)
	if !isFile || !alsoFile {
		return nil, noTerminal(terminal.ErrNoTerminal)
	}
	return l, nil
}

func noTerminal(err error) error {
	return refuse("run it in a terminal, without a pipe; without --local the agent is headless", "--local needs a terminal: %v", err)
}

// serveLocal runs the session, at the terminal or at the relay in turn, until it ends.
func (l *localRun) serveLocal(ctx context.Context, opts relay.Options) (err error) {
	a := l.app
	held, err := relay.Hold(ctx, opts.State, opts.Team, opts.Member, opts.Timing.Handover)
	if errors.Is(err, relay.ErrBusy) {
		return refuse("see which with: teambridge relay list --relays", "%s", view.Describe(err))
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	opts.Held = held
	if s, _, err := l.ledger.Sessions.Session(ctx, l.key); err != nil {
		return err
	} else if s.ID != "" && l.opts.session != "" && s.ID != l.opts.session {
		return usage("leave it out, or choose another --team", "session %s is asked for, and %s goes on with session %s", l.opts.session, opts.Member, s.ID)
	}

	c, err := terminal.Open(l.in, l.out, l.hot)
	if errors.Is(err, terminal.ErrNoTerminal) || errors.Is(err, errors.ErrUnsupported) {
		return noTerminal(err)
	} else if err != nil {
		return err
	}
	// While the program draws, messages on stderr wait.
	stderr := a.stderr
	l.screen = &screen{console: c}
	a.stderr = l.screen
	defer func() {
		err = errors.Join(err, c.Close())
		a.stderr = stderr
		_, werr := stderr.Write(l.screen.rest())
		err = errors.Join(err, werr)
	}()

	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		stop(context.Cause(ctx)) // the signal came before this channel existed
	}
	go func() {
		select {
		case s := <-signals:
			stop(fmt.Errorf("signal %s", s))
		case <-running.Done():
		}
	}()
	err = handoff.Run(running, handoff.Options{
		Ledger: handoff.StoreOf(l.ledger), Key: l.key, Terminal: localTerminal{c}, Agent: &localAgent{localRun: l, root: opts.Team.Root()},
		Remote: func(ctx context.Context) (handoff.Remote, error) {
			v := &remoteView{localRun: l, ctx: ctx, calls: map[string]string{}}
			return v, v.open(ctx, opts)
		},
		Runtime: opts.Runtime, Switch: l.hot.String(), Warn: opts.Warn,
	})
	if killed := errors.Is(err, handoff.ErrKilled); killed || running.Err() != nil {
		h, _, lerr := l.ledger.Sessions.Handoff(context.WithoutCancel(ctx), l.key)
		l.goesOn = killed || lerr != nil || h.Draft != ""
		if killed {
			err = fmt.Errorf("%s; run again to go on with this session", view.Describe(err))
		}
		return errors.Join(err, lerr)
	}
	if exit, ok := errors.AsType[*handoff.ExitError](err); ok {
		return exitStatus(exit.Status)
	}
	return err
}

// localTerminal adapts a console to package handoff.
type localTerminal struct{ *terminal.Console }

func (t localTerminal) Start(cmd *exec.Cmd) (handoff.Program, error) {
	p, err := t.Console.Start(cmd)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// localAgent starts Claude Code at the terminal for package handoff, and examines its sessions.
type localAgent struct {
	*localRun
	root *teams.Root
}

func (g *localAgent) Launch(s handoff.Start) (handoff.Launch, error) {
	o := interactive.Options{
		Command: g.opts.Command, Root: g.root.Path(), Dir: g.opts.Dir, State: g.app.state,
		Session: cmp.Or(s.Session, g.opts.session), Prefill: s.Prefill, Mode: s.Mode, Env: g.environment(),
	}
	if o.Session != "" {
		var err error
		o.Session, _, _ = teams.Moved(g.root.Path(), o.Session) // no other process runs it: handoff has checked
		t := claude.Transcript{Root: o.Root, Dir: o.Dir, Session: o.Session}
		if o.Resume, err = t.Resumable(); errors.Is(err, agent.ErrUnusable) {
			o.Session = ""
		} else if err != nil {
			return nil, err
		}
	}
	l, err := interactive.New(o)
	if errors.Is(err, interactive.ErrInvalid) {
		return nil, usage("", "%s", view.Describe(err))
	} else if err != nil {
		return nil, err
	}
	return l, nil
}

// environment returns the environment of this process. It sets CLAUDE_CONFIG_DIR only if the person has chosen a
// directory, since Claude Code places some files differently when the variable is set.
func (g *localAgent) environment() []string {
	env := os.Environ()
	if _, named := g.app.lookup("CLAUDE_CONFIG_DIR"); named || g.app.claudeDir != "" {
		env = append(env, "CLAUDE_CONFIG_DIR="+g.root.Path())
	}
	return env
}

func (g *localAgent) Unrun(session string, since time.Time) ([]string, error) {
	return interactive.Unrun(g.root.Path(), g.opts.Dir, session, since)
}

func (g *localAgent) Entered(session string, since time.Time) (bool, error) {
	return interactive.Entered(g.root.Path(), session, since)
}

func (g *localAgent) Elsewhere(session string, ours agent.Process) int {
	return interactive.Elsewhere(g.root.Path(), session, ours)
}

func (g *localAgent) Obstacle(ctx context.Context, session string, earlier ...string) (string, error) {
	return interactive.Obstacle(ctx, g.root, g.key.Team, session, earlier...)
}

func (g *localAgent) PermissionMode(session string) (string, error) {
	return interactive.PermissionMode(g.root.Path(), g.opts.Dir, session)
}

// screen writes to the terminal. While a program uses the terminal, it buffers.
type screen struct {
	console interface{ Print(string) error }

	mu   sync.Mutex
	kept bytes.Buffer
}

// maxKept limits the buffer of a screen.
const maxKept = 64 << 10

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept.Len() < maxKept {
		s.kept.Write(b)
	}
	err := s.console.Print(s.kept.String())
	switch {
	case err == nil:
		s.kept.Reset()
	case errors.Is(err, terminal.ErrRunning):
		err = nil
	}
	return len(b), err
}

// rest returns the buffered text.
func (s *screen) rest() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept.Bytes())
}

// remoteView prints what the session does while it is at the relay.
type remoteView struct {
	*localRun
	ctx   context.Context
	relay *reply.Relay
	shown string            // the last frame whose messages were printed
	calls map[string]string // titles of the open tool calls, by id
	line  []rune            // the answer that the person is typing
}

// open creates the relay for one stay of the session there.
func (v *remoteView) open(ctx context.Context, opts relay.Options) (err error) {
	opts.Events, opts.Report = v.event, v.report
	v.relay, err = reply.New(ctx, opts)
	v.mu.Lock()
	v.agentRun.open = nil
	v.mu.Unlock()
	return err
}

func (v *remoteView) Run(ctx context.Context) error       { return v.relay.Run(ctx) }
func (v *remoteView) Finish()                             { v.relay.Finish() }
func (v *remoteView) Working() bool                       { return v.relay.Status().InFlight != "" }
func (v *remoteView) Interrupt(ctx context.Context) error { return v.relay.Interrupt(ctx) }
func (v *remoteView) print(style, text string)            { v.show(v.app.paint(style, text)) }
func (v *remoteView) show(text string)                    { _, _ = v.screen.Write([]byte(text + "\n")) }

// report prints the messages of each frame that the agent gets.
func (v *remoteView) report(s relay.Status) {
	if s.State == relay.Waiting || s.State == relay.BackOff {
		v.print(dim, escape(s.Reason, false))
	}
	if s.InFlight == "" || s.InFlight == v.shown {
		return
	}
	v.shown = s.InFlight
	ds, err := v.ledger.Deliveries.List(v.ctx, ledger.DeliveryQuery{
		Root: v.key.Root, Team: v.key.Team, CreatedAt: v.key.CreatedAt, Inbox: v.key.Inbox,
		States: []ledger.DeliveryState{ledger.FrameWritten, ledger.Accepted, ledger.Cut},
	})
	if err != nil {
		v.app.warn("%s", view.Describe(err))
	}
	slices.Reverse(ds)
	for _, d := range ds {
		if d.Frame == s.InFlight {
			from := "you"
			if !d.Person || d.From != "" {
				from = d.From
			}
			v.print(bold, "▸ "+escape(from, false)+": "+escape(relay.TextOf(d), true))
		}
	}
}

// event prints the agent's texts and tool calls.
func (v *remoteView) event(e agent.Event) {
	for _, envelope := range e.Envelopes {
		if envelope.Role != wire.RoleAgent || envelope.Subagent != nil {
			continue
		}
		switch said := envelope.Event.(type) {
		case *wire.Text:
			if said.Thinking == nil || !*said.Thinking {
				v.show(escape(said.Text, true))
			}
		case *wire.ToolCallStart:
			v.calls[said.Call] = cmp.Or(said.Title, "use "+said.Name)
			v.print(dim, "· "+escape(toolcall.Say(v.calls[said.Call], toolcall.Running), false))
		case *wire.ToolCallEnd:
			if title, open := v.calls[said.Call]; open && said.Outcome != wire.OutcomeDone {
				v.print(dim, "· "+escape(toolcall.Say(title, said.Outcome), false))
			}
			delete(v.calls, said.Call)
		case *wire.Service:
			v.print(dim, escape(said.Text, true))
		}
	}
	if e.Result != nil && e.Result.Failure != "" && e.Result.Failure != "success" {
		v.print(red, "the turn failed: "+escape(e.Result.Failure, false))
	}
}

// askedLocal prints a question of the agent.
func (l *localRun) askedLocal(q fleet.Question, open bool) {
	if line := l.changeOpen(q, open); line != nil {
		_, _ = l.screen.Write(line)
	}
}

// Key handles a key of the person's answer to the open question. Enter sends the answer.
func (v *remoteView) Key(k terminal.Key) {
	v.mu.Lock()
	asks := len(v.agentRun.open) > 0
	v.mu.Unlock()
	r, _ := utf8.DecodeRuneInString(k.Text)
	switch {
	case !asks:
		v.line = nil
	case r == '\r' || r == '\n':
		v.echo("\n")
		if err := v.permit(string(v.line)); err != nil {
			v.app.warn("%s", view.Describe(err))
		}
		v.line = nil
	case (r == 0x7f || r == '\b') && len(v.line) > 0:
		v.line = v.line[:len(v.line)-1]
		v.echo("\b \b")
	case unicode.IsPrint(r) && len(v.line) < maxAnswer:
		v.line = append(v.line, r)
		v.echo(string(r))
	}
}

// maxAnswer limits the characters of an answer.
const maxAnswer = 1 << 10

func (v *remoteView) echo(text string) { _, _ = v.screen.Write([]byte(text)) }

// permit answers the open question.
func (v *remoteView) permit(line string) error {
	a, ok := v.keyboardAnswer(line)
	if !ok {
		return fmt.Errorf("%q is no answer; y, n or n REASON is, and Enter", line)
	}
	return v.prompter.Answer(a)
}
