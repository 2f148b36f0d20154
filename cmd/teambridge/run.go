package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"teambridge/cmd/stdio"
	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/fleet"
	"teambridge/relay/reply"
	"teambridge/relay/runtimes"
	"teambridge/relay/shell"
	"teambridge/relay/wire"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

type runOptions struct {
	ledger.Relay // settings
	session      string
	input        string
	output       string
	modes        string // --permission-mode-map
	exitOnEOF    bool
	local        bool
}

// The values of --input.
const (
	inLines = "lines"
	inWire  = "wire"
)

// The values of --output.
const (
	outText      = "text"
	outEvents    = "events"
	outEnvelopes = "envelopes"
	outRaw       = "raw"
)

var outputForms = []string{outText, outEvents, outEnvelopes, outRaw}

func newRun(a *app) *cobra.Command {
	o := runOptions{Relay: ledger.Relay{Member: "team-lead"}, input: inLines, output: outText}
	cmd := &cobra.Command{
		Use:   "run [--as NAME] [-- COMMAND [ARGS...]]",
		Short: "Run a headless agent and relay its inbox to it",
		Long: `Run a headless agent as a member of a team, and relay its inbox to it.

The agent is Claude Code or, with --runtime opencode, OpenCode (1.18 or newer):
a server of its own, or with --url one that runs. OpenCode needs no command.
With --runtime acp it is any program that speaks the Agent Client Protocol.
--runtime codex, gemini or qwen is that with the command codex-acp,
gemini --acp or qwen --acp.

Each message of the inbox reaches the agent exactly once, even if this process,
the agent or both are killed at any moment. Running again with the same --as
resumes the session. The flags that stream-json needs are added to the command.

Messages from the inbox reach the agent as a teammate's messages. Each line of
standard input is your own prompt, and goes ahead of waiting messages.

A note on standard error says that the agent runs, and how to write to it.

Tools that the agent's own rules do not allow are denied; --permissions ask lets
you decide, with y or n.

With --local the agent runs in this terminal, as if you had started it yourself.
It moves to the relay for messages of people; Ctrl-] moves it there and back.

` + rest + `A line of standard input is a text, or a JSON object {"text": "…", "mode":
{"model": "…"}, "isolated": true}, and is recorded before the next is read. A
line that begins with "/" is a command of the agent. A line that is longer than
1 MiB or invalid is refused with a warning.

A "mode" (permissionMode, model, fallbackModel, customSystemPrompt,
appendSystemPrompt, allowedTools, disallowedTools) stays in effect, even for the
next run, until another line or a changed flag after -- replaces it; null means
the setting of the command. No message from an inbox changes it. Without a
permissionMode in it, and without flags of the command for it, the permission
mode is "default"; permissions.defaultMode in the settings is ignored. In plan
mode the agent runs without --dangerously-skip-permissions, cannot leave plan
mode by itself, and must ask before every action that can change something,
whatever rules and subagents the settings have. If an agent gets wider
permissions than its message was sent with, it is stopped, and the message
fails.

--permissions decides about tools that the agent's own rules do not allow.
allow=TOOL,TOOL does not cover requests that only a person can allow: any tool
in plan mode, ExitPlanMode and AskUserQuestion. With ask, each question is
printed with an id and a digest; answer with {"permit": "ID", "digest": "…",
"allow": true}, or with "allow": false and a "reason". "session" also allows a
rule that the question offers until the agent is restarted, and "answers"
{"QUESTION": "ANSWER"} answers AskUserQuestion. If standard input is a terminal,
y or n answers. After the end of standard input everything is denied.

With --input wire, standard input is payloads of the session protocol, one per
line: {"role": "user", …} or {"role": "session", …} with a text of the user. The
"meta" of a payload is its mode; its id or localKey makes it run only once.
Permission modes that are not Claude Code's own are refused, unless
--permission-mode-map translates them. Of the two forms, {"role": "session"} is
dropped, or, if $ENABLE_SESSION_PROTOCOL_SEND is 1, true or yes, the other one.
Questions are answered as above.

With --profile, the agent has the prompt, the tools and the model of a profile,
such as .claude/agents/NAME.md; see "teambridge profile list". The profile is
read again at each start. Without it, the agent does not start.

With --idle-exit 30m, an agent that was idle for 30 minutes is ended, and
resumed for the next message. An agent with a background task or scheduled work
is not ended, and neither is a lead with teammates (--plain): these would end
with it.

A report that only says that another agent is idle starts no turn.
--idle-reports result also skips reports that only name the recipient of a
message; all skips none.

Messages are relayed even if the output is not read. 32 MiB of output are kept;
a warning counts the rest, or without --output text a line {"leftOut": {"lines":
…, "bytes": …}}. At the end, run waits until its output is read; after a signal,
for 3 s. A question that does not fit is denied.

--create-team takes the team over from a killed run, and removes it at the end
if it has no other members and no waiting messages.

In a team that --create-team or "relay add --create-team" created, an agent
under a new name becomes a member, and leaves at the end if nothing waits for
it. An OpenCode agent becomes a member of any team. Its answers are sent to the
senders of the messages, and when the lead asks it to shut down, run ends.

With --local, the session moves to the relay when a person sends the agent a
message and the agent is idle. The terminal then shows the agent's messages,
texts and actions, and the switch key (Ctrl-]) brings the session back after the
turn; pressed twice, it interrupts the turn. The key also moves an idle agent to
the relay; $TEAMBRIDGE_SWITCH_KEY names another key, such as ^G. Messages in the
inbox wait while the session is at the terminal. A draft at the prompt is kept,
and put back. A dialog, a turn or a shell command holds the switch, and the
title says so; then the key ends them. An agent whose teammates would end with
it stays. Running again after a crash continues the session. Without --team, the
session has a team of its own, named after the directory.

Interrupt (^C) stops the agent's turn, once it has begun; without a turn, or a
second time, it ends the agent. On SIGTERM, and when the terminal is closed
(SIGHUP), the agent may finish its turn, for 30 s.

Exit status: 0 ended on request; 1 the agent does not stay alive, or the ledger
cannot be used; 2 flags contradict each other; 3 no such team or member; 5
Claude Code is too old, the team has a living lead of its own, another process
relays this inbox, or --local has no terminal. With --local, it is the agent's
status if the person ended it, and 1 if it was killed.`,
		Example: `  teambridge run --create-team --team myteam -- claude --model sonnet
  teambridge run --as worker --team myteam -- claude
  teambridge run --runtime opencode --as reviewer --team myteam
  teambridge run --runtime gemini --as gemini --team myteam
  teambridge run --local -- claude
  echo "say hi to worker" | teambridge run --team myteam --exit-on-eof -- claude`,
		Args: func(cmd *cobra.Command, args []string) error {
			if kind, ok := runtimes.Find(o.Runtime); !ok || kind.Name != runtimes.Claude && !kind.NeedsCommand {
				return nil
			}
			if len(args) == 0 {
				return usage("such as: teambridge run --team myteam -- claude", "run needs the command of the agent after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Command = args
			return runAgent(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	asFlag(cmd, &o.Member, o.Member, "the agent's name in the team")
	sessionFlag(cmd, &o.session, "id of the agent's first session, a UUID")
	f.StringVar(&o.input, "input", o.input, "lines (text, or JSON objects) or wire (payloads of the session protocol)")
	modeMapFlag(cmd, &o.modes)
	f.StringVar(&o.output, "output", o.output, "text (the agent's texts), events (states of messages, as NDJSON), envelopes (the agent's texts and actions, as session-protocol envelopes) or raw (what the agent prints)")
	agentFlags(cmd, &o.Relay)
	f.BoolVar(&o.local, "local", false, "give the agent this terminal, except while it works on messages of people; see above")
	f.BoolVar(&o.exitOnEOF, "exit-on-eof", false, "end when standard input has ended and nothing waits")
	complete(cmd, "input", inLines, inWire)
	complete(cmd, "output", outputForms...)
	must(cmd.RegisterFlagCompletionFunc("as", completer{a}.completeMembers(-1)))
	often(cmd, "as", "create-team", "local", "permissions", "profile", "runtime", "idle-exit")
	return cmd
}

// agentFlags adds the flags that run and relay add share.
func agentFlags(cmd *cobra.Command, r *ledger.Relay) {
	f := cmd.Flags()
	runtimeFlag(cmd, &r.Runtime, runtimes.Claude, runtimes.Names()...)
	f.StringVar(&r.URL, "url", "", "use the OpenCode server that runs there; $OPENCODE_SERVER_USERNAME and $OPENCODE_SERVER_PASSWORD are for it")
	profileFlag(cmd, &r.Profile)
	f.BoolVar(&r.OwnTeam, "create-team", false, "create the team, with the agent as its lead, whenever it does not exist")
	durationFlag(cmd, &r.IdleExit, "idle-exit", 0, "end an agent that was idle for this long, until the next message (default never)")
	f.StringVar(&r.IdleReports, "idle-reports", string(relay.IdleReportsWithContent), "which reports that others are idle the agent gets: all, summary (that say more), or result (a result or a failure)")
	f.StringVar(&r.Permissions, "permissions", "deny", "for tools that the agent's own rules do not allow: deny, allow=TOOL,TOOL or ask (a person)")
	f.BoolVar(&r.Plain, "plain", false, "add no flags to the command; for other programs that speak stream-json")
	complete(cmd, "idle-reports", string(relay.AllIdleReports), string(relay.IdleReportsWithContent), string(relay.IdleReportsOfResult))
	must(cmd.RegisterFlagCompletionFunc("permissions", cobra.FixedCompletions([]string{"deny", "allow=", "ask"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)))
}

type agentRun struct {
	app      *app
	opts     runOptions
	payloads relay.Payloads
	relay    *reply.Relay
	key      inbox.InboxKey
	ledger   *ledger.Ledger
	prompter *fleet.PermissionPrompter
	output   *stdio.Queue // stdout
	errors   *stdio.Queue // stderr

	mu      sync.Mutex
	failed  error // of the output
	status  relay.Status
	eof     bool
	dropped int  // payloads of standard input
	told    bool // announceRunning was called

	open []fleet.Question // questions at the terminal; only the first is shown, so that y and n are unambiguous
	stop context.CancelFunc
}

func runAgent(ctx context.Context, a *app, o runOptions) (err error) {
	if err := cmp.Or(oneOfThese("output", o.output, outputForms...), oneOfThese("input", o.input, inLines, inWire)); err != nil {
		return err
	}
	switch {
	case o.modes != "" && o.input != inWire:
		return usage("add --input wire", "--permission-mode-map is for payloads of the session protocol")
	case o.OwnTeam && a.teamName == "":
		return usage("", "--create-team needs --team")
	}
	payloads, err := payloads(a, o.modes)
	if err != nil {
		return err
	}
	if err := checkLocal(a, &o); err != nil {
		return err
	}
	if o.Dir, err = a.cwd(); err != nil {
		return err
	}
	if o.Profile != "" {
		root, err := a.root()
		if err != nil {
			return err
		}
		o.Root = root.Path()
	}
	if err := fleet.Check(&o.Relay); err != nil {
		return err
	}
	if o.session != "" {
		if _, err := uuid.Parse(o.session); err != nil {
			return usage("", "--session %q is not a UUID", o.session)
		}
	}
	run := &agentRun{app: a, opts: o, payloads: payloads}
	var local *localRun
	if o.local {
		if local, err = run.prepareLocal(); err != nil {
			return err
		}
	} else {
		// Only the end of the command waits for a reader.
		run.errors = a.queueErrors()
		var drain func(context.Context)
		run.output, drain = a.queueOutput(run.missingOutput, run.fail)
		defer func() {
			drain(ctx)
			run.mu.Lock()
			defer run.mu.Unlock()
			err = errors.Join(err, run.failed)
		}()
	}
	// Check this before making the team: a failed run removes it, with the messages that wait in it.
	root, err := a.root()
	if err != nil {
		return err
	}
	if err := programFault(o.Runtime, runtimes.CheckProgram(ctx, o.Relay, append(os.Environ(), "CLAUDE_CONFIG_DIR="+root.Path()))); err != nil {
		return err
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return fmt.Errorf("nothing is relayed without the ledger: %w", err)
	}
	keep := false
	if o.OwnTeam {
		remove, err := ownTeam(ctx, a, l, o)
		if err != nil {
			return err
		}
		defer func() {
			if !keep {
				err = errors.Join(err, remove())
			}
		}()
	}
	t, err := a.team(ctx, "")
	if missing, ok := errors.AsType[*teams.NotFoundError](err); ok && missing.Kind == "team" && missing.Query != "" {
		return notFound("make it with --create-team; or list the teams with: teambridge teams", "%s", view.Describe(err))
	}
	if err != nil {
		return err
	}
	owner := owner(a, t.Root(), l)
	o.Team = t.Name()
	enlisted, err := owner.Enlist(ctx, o.Relay)
	defer func() {
		if enlisted && !keep {
			err = errors.Join(err, owner.Dismiss(context.WithoutCancel(ctx), t.Name(), t.Root().MemberName(ctx, t.Name(), o.Member)))
		}
	}()
	defer t.Close() // closed before it may be removed
	if err != nil {
		return err
	}
	run.ledger = l
	asked := run.asked
	if o.local {
		asked = local.askedLocal
	}
	run.prompter = fleet.NewPermissionPrompter(asked)
	opts := relay.Options{
		Team: t, Locker: a.locks(), Ledger: l, State: a.state, Session: o.session,
		Envelope: run.envelope, Events: run.event, Report: run.report, Warn: func(err error) { a.warn("%s", view.Describe(err)) },
	}
	err = fleet.Prepare(ctx, &opts, runtimes.Launch{Settings: o.Relay, Checked: true, Stderr: a.stderr}, run.prompter)
	if err = programFault(o.Runtime, err); err != nil {
		return err
	}
	if rec, err := a.local().Keep(ctx, t.Name()); err != nil {
		a.warn("%s; messages are not recorded", view.Describe(err))
	} else {
		opts.Journal, opts.Recorded = rec.Journal(), rec.Poke
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	profileNote(a, o.Relay)
	warnNeverAsked(a, root.Path(), o.Relay)
	if run.key, err = fleet.Key(ctx, t, opts.Member); err != nil {
		return err
	}
	if o.local {
		err = local.serveLocal(ctx, opts)
	} else if run.relay, err = reply.New(ctx, opts); err != nil {
		return err
	} else {
		err = run.serve(ctx)
	}
	run.noteDropped()
	shutDown := errors.Is(err, reply.ErrShutDown)
	if shutDown {
		a.note("%s", view.Describe(err))
		err = nil
	}
	// Waiting messages would be lost with the team.
	waits, more := waiting(context.WithoutCancel(ctx), t, opts.Member, a.locks(), l, run.key)
	if waits > 0 && o.OwnTeam {
		a.note("team %s is kept: it has %d waiting or failed messages; run again to deliver them", t.Name(), waits)
	} else if waits > 0 && enlisted && !shutDown {
		a.note("%s stays in the team: it has %d waiting or failed messages; run again to deliver them", opts.Member, waits)
	}
	keep = waits > 0 && !shutDown || more != nil || local != nil && local.goesOn
	return errors.Join(err, more)
}

// warnNeverAsked warns if --permissions has no effect, since the agent's settings deny instead of asking.
func warnNeverAsked(a *app, root string, r ledger.Relay) {
	kind, _ := runtimes.Find(r.Runtime)
	if r.Permissions == "" || r.Permissions == "deny" || kind.Name != runtimes.Claude {
		return
	}
	if where := claude.NobodyAsked(root, r.Dir, r.Command); where != "" {
		a.warn("--permissions %s has no effect, and nobody is asked: %s has permissions.denyInsteadOfPrompting, so Claude Code denies what its rules leave open", r.Permissions, escape(where, false))
	}
}

// programFault explains a *[runtimes.ProgramError].
func programFault(runtime string, err error) error {
	program, ok := errors.AsType[*runtimes.ProgramError](err)
	if !ok {
		return err
	}
	hint := "give the command of Claude Code after --, or use --plain for another program"
	if runtime == runtimes.OpenCode {
		hint = "install OpenCode with: npm install -g opencode-ai; or give its command after --"
	} else if kind, _ := runtimes.Find(runtime); kind.Name == runtimes.ACP {
		hint = "install the agent, or give its path after --"
	}
	return notFound(hint, "%s", program.Error())
}

// waiting counts the messages that the agent did not get: unread rows, and deliveries that are under way or failed.
func waiting(ctx context.Context, t *teams.Team, member string, locker *lockedfile.Locker, l *ledger.Ledger, p inbox.InboxKey) (int, error) {
	open, err := l.Deliveries.List(ctx, ledger.DeliveryQuery{
		Root: p.Root, Team: p.Team, CreatedAt: p.CreatedAt, Inbox: p.Inbox,
		States: []ledger.DeliveryState{ledger.Claimed, ledger.FrameWritten, ledger.Accepted, ledger.Cut, ledger.Failed},
	})
	if err != nil {
		return 0, err
	}
	box, err := inbox.Open(t, member, locker)
	if err != nil {
		return 0, err
	}
	rows, err := box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) && !errors.Is(err, teams.ErrTeamGone) {
		return 0, err
	}
	n := len(open)
	for _, row := range rows {
		if !row.Read {
			n++
		}
	}
	return n, nil
}

// serve runs the relay until a signal, the end of the input, or a failed output ends it.
func (r *agentRun) serve(ctx context.Context) error {
	// An interrupt stops the agent's turn, so it must not end this context.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.mu.Lock()
	r.stop = stop
	if r.failed != nil {
		stop() // the output has failed already
	}
	r.mu.Unlock()
	signals := make(chan os.Signal, 4)
	notifyHangUp(signals)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		stop() // the signal came before this channel existed
	}
	go r.signals(running, signals)
	go r.input(running)
	err := r.relay.Run(running)
	if errors.Is(err, relay.ErrBusy) {
		return refuse("see which with: teambridge relay list --relays", "%s", view.Describe(err))
	}
	return err
}

func (r *agentRun) signals(ctx context.Context, signals <-chan os.Signal) {
	const interruptSlow = 300 * time.Millisecond // after this, a note explains the delay
	interrupted := ""                            // the frame that was interrupted
	done := make(chan error, 1)
	var slow <-chan time.Time // fires if an interrupt waits for the turn to begin
	for {
		select {
		case <-ctx.Done():
			return
		case <-slow:
			slow = nil
			r.app.note("the agent has not started the message yet, and is interrupted when it does; interrupt again to end the agent")
		case err := <-done:
			slow = nil
			switch {
			case err == nil:
				r.app.note("turn interrupted; interrupt again to end the agent")
			case errors.Is(err, relay.ErrNotBegun):
				r.app.note("nothing was interrupted, since the agent has not started the message; interrupt again to end the agent")
			case errors.Is(err, agent.ErrNotInFlight):
				r.app.note("the turn has ended; interrupt again to end the agent")
			case ctx.Err() == nil:
				r.app.warn("%s", view.Describe(err))
			}
		case s := <-signals:
			r.mu.Lock()
			frame := r.status.InFlight
			r.mu.Unlock()
			if s != os.Interrupt || frame == "" || frame == interrupted {
				r.stop()
				return
			}
			interrupted = frame
			slow = time.After(interruptSlow)
			go func() {
				select {
				case done <- r.relay.Interrupt(ctx):
				case <-ctx.Done():
				}
			}()
		}
	}
}

// over ends the run if --exit-on-eof is set, standard input has ended, and nothing waits.
func (r *agentRun) over() {
	r.mu.Lock()
	s, eof := r.status, r.eof
	r.mu.Unlock()
	if s.State != relay.Idle && s.State != relay.Asleep || s.Queue != 0 || !r.opts.exitOnEOF || !eof {
		return
	}
	// The ledger may already have a line that the status does not count.
	if open, err := r.ledger.Deliveries.OpenCount(context.Background(), r.relay.Key()); err != nil || open == 0 {
		r.stop()
	}
}

// asked prints a question of the agent, or that it is no longer open. If the output has no reader, it denies
// the question, since the agent would wait forever.
func (r *agentRun) asked(q fleet.Question, open bool) {
	// Print it even with --json, since a person must answer.
	line := stderrLine("question", fmt.Sprintf(`the agent wants to use %s %s; answer with {"permit": %q, "digest": %q, "allow": true}, or false`, q.Tool, q.Input, q.ID, q.Digest))
	to := r.errors
	if r.atKeyboard() {
		if line = r.changeOpen(q, open); line == nil {
			return
		}
	} else if r.opts.output == outEvents {
		var err error
		if line, err = jsonLine(map[string]any{"permission": q, "open": open}); err != nil {
			r.fail(err)
			return
		}
		to = r.output
	} else if !open {
		return
	}
	if !to.Offer(line) && open {
		if err := r.prompter.Answer(fleet.Answer{Question: q.ID, Digest: q.Digest, Reason: "The person who could allow this does not read the questions."}); err == nil {
			r.app.warn("denied a tool, since the output is not read: %s", q.Tool)
		}
	}
}

// missingOutput reports output that was dropped because it was not read.
func (r *agentRun) missingOutput(m stdio.Missing) []byte {
	if r.opts.output == outText {
		r.app.warn("%s of output were dropped, since they were not read", m)
		return nil
	}
	line, err := jsonLine(map[string]stdio.Missing{"leftOut": m})
	r.fail(err)
	return line
}

// event prints an event of the agent.
func (r *agentRun) event(e agent.Event) {
	switch r.opts.output {
	case outRaw:
		if e.Line != nil {
			r.print(slices.Concat(e.Line, []byte("\n")))
		}
	case outText:
		if e.Result != nil && e.Result.Text != "" {
			r.print([]byte(escape(e.Result.Text, true) + "\n"))
		}
	case outEvents:
		for _, p := range e.Progress {
			r.printJSON(map[string]string{"frame": p.UUID, "state": p.State.String()})
		}
		if e.Result != nil {
			r.printJSON(map[string]string{"result": cmp.Or(e.Result.Failure, "success"), "text": e.Result.Text})
		}
	}
}

// envelope prints an envelope of what the agent says and does.
func (r *agentRun) envelope(e wire.Envelope) {
	if r.opts.output == outEnvelopes {
		r.printJSON(e)
	}
}

func (r *agentRun) print(b []byte)  { r.fail(r.app.print(b)) }
func (r *agentRun) printJSON(v any) { r.fail(r.app.printJSON(v)) }

// fail ends the run if err, of the output, is not nil: the agent's texts cannot be seen any more.
func (r *agentRun) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	if r.failed == nil {
		r.failed = err
	}
	stop := r.stop
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// report prints a change of the relay's status, and ends the run if it is over.
func (r *agentRun) report(s relay.Status) {
	r.mu.Lock()
	r.status = s
	tell := !r.told && (s.State == relay.Idle || s.State == relay.Working)
	r.told = r.told || tell
	r.mu.Unlock()
	if tell {
		r.announceRunning()
	}
	if r.opts.output == outEvents {
		r.printJSON(map[string]any{"status": s.State, "queue": s.Queue, "inFlight": s.InFlight, "pid": s.PID, "session": s.Session, "reason": s.Reason})
	}
	if s.State == relay.Waiting {
		r.app.note("waiting: %s", s.Reason)
	}
	r.over()
}

// announceRunning notes that the agent runs, and how to write to it, since nothing else is printed before its first
// answer. Programs, which use other forms of output or --exit-on-eof, do not need the note.
func (r *agentRun) announceRunning() {
	if r.opts.output != outText || r.opts.exitOnEOF {
		return
	}
	member, how := r.key.Inbox+"@"+r.key.Team, "with"
	if r.app.keyboard && r.opts.input == inLines {
		how = "here, or with"
	}
	r.app.note("%s runs; write to it %s: teambridge send %s \"…\"", member, how, shell.Quote(member))
}

// ownTeam creates the team of --team with the agent as its lead, or takes it over from a killed run. remove
// removes the team, unless it has other members or another owner.
func ownTeam(ctx context.Context, a *app, l *ledger.Ledger, o runOptions) (remove func() error, err error) {
	if err := errors.Join(teams.CheckName("team", a.teamName), teams.CheckName("member", o.Member)); err != nil {
		return nil, err
	}
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	owner := owner(a, root, l)
	f, ours, err := owner.Acquire(ctx, a.teamName, teams.LeadName(o.Member), o.session, o.Dir)
	if err != nil || !ours {
		return func() error { return nil }, err
	}
	return func() error {
		_, err := owner.Discard(context.WithoutCancel(ctx), f) // or after the other agents of the service have left
		if _, occupied := errors.AsType[*teams.OccupiedError](err); occupied {
			return nil // the other agents continue
		}
		return err
	}, nil
}
