package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/mode"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// waits are the values of --wait.
var waits = []string{api.Verified, api.Consumed, api.Seen}

type sendOptions struct {
	from    string
	summary string
	id      string
	color   string
	force   bool

	protocol bool // the text may be an object of Claude Code's own protocol
	dryRun   bool
	served   bool // send through a service, if one runs
	wait     string
	timeout  time.Duration
	mode     string // JSON; this and isolated need a relay of the service
	isolated bool

	paneOptions
	via string
}

// needsRelay reports whether the message needs a relay of the service.
func (o *sendOptions) needsRelay() bool { return o.mode != "" || o.isolated }

func newSend(a *app) *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send MEMBER[@TEAM] TEXT|-",
		Short: "Put a message into a member's inbox",
		Long: `Put a message into a member's inbox.

TEXT is "-" for standard input. MEMBER is a member's name, "lead" for the lead,
or NAME@TEAM. The message comes from --from, else from the name under which you
joined the team, else from "user".

"verified" means that the message was read back from the inbox. With --wait
consumed, the command waits until the agent has taken it, and fails if another
program overwrote it or if nothing tells what became of it, as when the inbox is
deleted, or emptied while the agent does not run. Nothing is sent again
automatically, because an agent works twice on a message that comes twice. To
send it again, repeat the command under the same --id with --force.

` + rest + `With --wait seen, the command waits until the message is in the transcript of
its agent, which means that the model was given it. A relay tells that of a
headless agent. If it is not certain, as when the transcript cannot be found or
an equal message may not have been given, the command waits until --timeout.

With --id, sending twice is sending once, even if the agent has already taken
the message. The same id with another text is refused.

If the ledger cannot be opened, nothing is sent: no history would have the
message. With --force it is sent, and "recorded" is false in the JSON.

If a service runs ("teambridge serve"), the message goes through it, and what
becomes of it is recorded even after this command has ended. If the service
does not answer, the message is sent without it, and still only once.

A headless agent that the service runs ("teambridge relay add") gets the
message as your own prompt. Then --mode sets how it works from this message on
(permissionMode, model, fallbackModel, customSystemPrompt, appendSystemPrompt,
allowedTools, disallowedTools; null is the default), and --isolated keeps the
message from being joined with others. For other members both are refused.

If MEMBER is a pane ("teambridge pane add"), or with --via pane, the message is
typed into the pane: after a look at its prompt, whole, and never again if that
is not known to have worked. "confirmed" means that the agent has taken it. It
is held while a person types there, or the agent asks something; the output says
why. By default it may be typed while the agent works, which then takes it next
(--policy queued); important goes before others, when-idle waits until the agent
is done, and urgent interrupts it with ESC. Without a service, a message that is
not typed within --timeout is given up.

An object of Claude Code's own protocol, such as {"type":"shutdown_request"},
is refused unless --protocol is given: agents obey some of these without asking
a model. In the name of an agent it is always refused.

Exit status: 0 verified (or consumed, seen, confirmed), or sent before under
this --id; 2 the message, a name or a flag is invalid; 3 no such team, member or
pane, or it is gone; 4 not taken or seen within --timeout (the message stays
sent), or held that long; 5 the id belongs to another message, the text is
refused, or no agent is in the pane; 6 the inbox is corrupt or could not be
locked; 7 the message is lost, or what became of it is unknown (unconfirmed).`,
		Example: `  teambridge send worker "please review task 12"
  git diff | teambridge send lead@session-2de3961d - --summary "the diff"
  teambridge send lead "plan the release" --mode '{"model": "opus"}'`,
		Args:              exactly(2),
		ValidArgsFunction: a.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.send(cmd.Context(), args[0], args[1], o) },
	}
	sendFlags(cmd, &o)
	o.paneOptions.flags(cmd, true)
	cmd.Flags().StringVar(&o.via, "via", "", "pane: type it into the tmux pane that config.json has for the member")
	complete(cmd, "via", api.ViaPane)
	cmd.Flags().StringVar(&o.id, "id", "", "id under which sending twice is sending once")
	cmd.Flags().BoolVar(&o.force, "force", false, "create an inbox for an unknown member; send even if this id may have been sent before, or nothing can be recorded")
	cmd.Flags().StringVar(&o.wait, "wait", api.Verified, "state to wait for: "+strings.Join(waits, ", "))
	durationFlag(cmd, &o.timeout, "timeout", 30*time.Second, "how long to wait for consumed, seen or confirmed; 0 is forever")
	must(cmd.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions(waits, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().StringVar(&o.mode, "mode", "", `how the agent works from this message on, as JSON such as {"model": "opus"}`)
	cmd.Flags().BoolVar(&o.isolated, "isolated", false, "do not join the message with others; for agents that the service runs")
	must(cmd.RegisterFlagCompletionFunc("mode", cobra.NoFileCompletions))
	cmd.Flags().BoolVarP(&o.dryRun, "dry-run", "n", false, "check everything, but send nothing")
	often(cmd, "from", "summary", "id", "wait", "timeout", "via")
	return cmd
}

// sendFlags are those that send and broadcast share.
func sendFlags(cmd *cobra.Command, o *sendOptions) {
	cmd.Flags().StringVar(&o.from, "from", "", "the sender's name")
	cmd.Flags().StringVar(&o.summary, "summary", "", "one line shown next to the sender")
	cmd.Flags().StringVar(&o.color, "color", "", "the sender's colour")
	must(cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(inbox.Colors(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().BoolVar(&o.protocol, "protocol", false, "allow a text that is an object of Claude Code's own protocol")
}

func (a *app) send(ctx context.Context, address, text string, o sendOptions) error {
	if err := oneOfThese("wait", o.wait, waits...); err != nil {
		return err
	}
	if o.mode != "" {
		if _, err := mode.Parse([]byte(o.mode)); err != nil {
			return usage("", "--mode: %v", err)
		}
	}
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	if o.via != "" {
		if err := oneOfThese("via", o.via, api.ViaPane); err != nil {
			return err
		}
	}
	panes, p, found, err := a.paneNamed(ctx, address)
	if err != nil {
		return err
	}
	if !found {
		t, name, err := a.teamWith(ctx, address)
		if err != nil {
			return err
		}
		if o.via == "" {
			if err := o.suitsInbox(); err != nil {
				return err
			}
			return a.sendTo(ctx, t, name, body, o)
		}
		if panes, p, err = a.paneOfMember(ctx, t, name); err != nil {
			return err
		}
	}
	if err := o.suitsPane(); err != nil {
		return err
	}
	a.leaveOpen = true
	return a.sendToPane(ctx, panes, p, body, o)
}

// sendTo sends a text to a member of t, and prints what became of it.
func (a *app) sendTo(ctx context.Context, t *teams.Team, name, body string, o sendOptions) error {
	o.served, a.leaveOpen = true, true
	s, err := a.sender(ctx, t, o)
	if err != nil {
		return err
	}
	if err := s.Validate(o.message(body)); err != nil {
		return err
	}
	member, err := s.resolve(name)
	if err != nil {
		return err
	}
	answer, err := s.send(ctx, member, o.message(body))
	if err != nil {
		if answer.ID != "" && o.id == "" && !o.dryRun {
			a.note("the id of the message was %s", answer.ID)
		}
		return err
	}
	if a.json {
		err = a.printJSON(view.Sent(answer))
	} else {
		err = a.printf("%s\n", a.sentLine(answer))
		a.reachNote(answer)
		s.answerNote(ctx, member)
	}
	if err != nil && !o.dryRun {
		return fmt.Errorf("the message %s is in the inbox of %s, but the output failed: %w", answer.ID, answer.Member, err)
	}
	return err
}

// resolve returns the member that a name means.
func (s *sender) resolve(name string) (string, error) {
	member, err := s.Resolve(name, s.opts.force)
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "member" {
		return "", &api.Decided{Err: err, Code: api.CodeNotFound,
			Hint: "list the members with: teambridge members; --force makes an inbox that nobody is known to read"}
	}
	return member, err
}

func (o *sendOptions) message(text string) mail.Message {
	return mail.Message{ID: o.id, Text: text, Summary: o.summary, Color: o.color, Protocol: o.protocol}
}

func (a *app) sentLine(s mail.Delivered) string {
	state := a.paint(green, s.State)
	if s.Deduplicated {
		state += ", was sent before"
	}
	return fmt.Sprintf("%s  %s@%s  %s  %s", state, escape(s.Member, false), escape(s.Team, false), a.paint(dim, dash(escape(s.ID, false))), a.paint(dim, fmt.Sprintf("%d ms", s.Waited.Milliseconds())))
}

// reachNote warns if nobody is likely to read a message.
func (a *app) reachNote(s mail.Delivered) {
	switch s.Reach {
	case teams.NotMember:
		a.note("%s is not a member of %s: perhaps nobody reads this", s.Member, s.Team)
	case teams.LeadGone:
		a.warn("the lead of %s is not running: nobody reads this until its session is resumed", s.Team)
	case teams.NoRelay:
		a.note("%s is headless and has no running relay: it gets this when \"teambridge run\" runs it again", s.Member)
	case teams.NoTeammate:
		a.note("%s has no teammate from this session: it may not read its inbox until it spawns one", s.Member)
	case teams.AtTerminal:
		a.note("the session of %s is at a person's terminal: this waits in the inbox until it moves; see teambridge switch", s.Member)
	case teams.Unread:
		a.note("older messages to %s have not been read for minutes", s.Member)
	}
}

// text returns the message: the argument, or standard input, which can be interrupted.
func (a *app) text(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	var b []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		b, err = io.ReadAll(io.LimitReader(a.stdin, inbox.MaxText+int64(len("\r\n"))+1))
	}()
	select {
	case <-read:
	case <-ctx.Done():
		return "", fmt.Errorf("nothing was sent: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", fmt.Errorf("read the message from standard input: %w", err)
	}
	// Drop the line end that echo or an editor adds.
	s, ended := strings.CutSuffix(string(b), "\n")
	if ended {
		s = strings.TrimSuffix(s, "\r")
	}
	if len(s) > inbox.MaxText { // checked first, since the text may be cut within a character
		return "", &inbox.InvalidError{Field: "text", Reason: fmt.Sprintf("on standard input has more than the %d bytes that are allowed", inbox.MaxText)}
	}
	return s, nil
}

// sender sends to the members of one team, and prints what the person should know.
type sender struct {
	*mail.Sender
	app     *app
	ledger  *ledger.Ledger // nil: it could not be opened, or the service has it
	service *client.Client // nil: write to the inboxes
	opts    sendOptions

	ledgerErr error // why the ledger could not be opened; then only what is forced is sent

	journal *journal.Journal // for messages that are followed; nil: not open, or the recorder has it
	warned  bool             // that these are not recorded
}

// answerNote notes what to do if one of the recipients cannot answer.
func (s *sender) answerNote(ctx context.Context, members ...string) {
	if !s.app.json && s.unanswerable(ctx, members) {
		s.app.note("agents of this team cannot answer \"user\"; \"teambridge join\" gives you a name that they can")
	}
}

func (a *app) sender(ctx context.Context, t *teams.Team, o sendOptions) (*sender, error) {
	o.wait = cmp.Or(o.wait, api.Verified) // commands without the flag
	s := &sender{app: a, opts: o}
	config, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	// Opening the ledger may write, which --dry-run must not. Its checks do not need the
	// name under which we joined.
	if o.served && !o.dryRun {
		s.service = a.service(t.Root())
	}
	if s.service == nil && !o.dryRun {
		if err := s.remember(ctx); err != nil {
			return nil, err
		}
	}
	s.Sender, err = mail.New(ctx, s.options(ctx, t, config))
	return s, err
}

// remember opens the ledger, which makes sending under an id idempotent, and from which the
// history gets every message.
func (s *sender) remember(ctx context.Context) (err error) {
	if s.ledger, err = s.app.ledger(ctx); err == nil {
		return nil
	}
	if !s.opts.force {
		return fmt.Errorf("%w: %w", inbox.ErrNoMemory, err)
	}
	s.ledgerErr = err
	return nil
}

func (s *sender) options(ctx context.Context, t *teams.Team, config *teams.Config) mail.Options {
	return mail.Options{
		Team: t, Config: config, Locker: s.app.locks(), Ledger: s.ledger, From: s.opts.from,
		Facts:   func(member string) teams.Facts { return s.app.facts(ctx, s.ledger, t, config, member) },
		Journal: s.history, RecordWithin: cmp.Or(s.app.wait, journalWait), Unrecorded: s.unrecorded,
	}
}

// history returns the journal of the command's recorder, or else opens it.
func (s *sender) history(ctx context.Context) (_ *journal.Journal, err error) {
	if s.app.recording != nil {
		return s.app.recording.journal, nil
	}
	if s.journal == nil {
		if s.journal, err = s.app.journal(ctx); err != nil {
			s.unrecorded(err)
			return nil, err
		}
	}
	return s.journal, err
}

// unrecorded warns once that the journal cannot be used. The message is sent anyway.
func (s *sender) unrecorded(err error) {
	if !s.warned {
		s.app.warn("%s; the history may lack this message", view.Describe(err))
		s.warned = true
	}
}

// put puts a message into the inbox of member, and records it with track. It returns what
// is known even if there is an error.
func (s *sender) put(ctx context.Context, member string, m mail.Message, track bool) (mail.Delivered, error) {
	d, err := s.Put(ctx, member, m, inbox.AppendOptions{Force: s.opts.force, Track: track})
	switch {
	case err == nil && s.ledgerErr != nil:
		s.app.warn("the message is in the inbox, but will not be in the history: %v", s.ledgerErr)
	case d.Unrecorded != nil:
		s.app.warn("the message is in the inbox, but that was not recorded: %v", d.Unrecorded)
	}
	if err == nil && d.Seen != nil {
		s.Record(ctx, journal.SnapshotOf(s.Key(d), d.Seen))
	}
	d.Seen = nil
	return d, err
}

// toInbox puts a message into the inbox of member, and waits if asked to. It returns what
// is known even if there is an error.
func (s *sender) toInbox(ctx context.Context, member string, m mail.Message) (mail.Delivered, error) {
	if s.opts.dryRun {
		d, err := s.Check(ctx, member, m)
		if err == nil {
			d.State = api.DryRun
		}
		return d, err
	}
	follow := s.opts.wait != api.Verified
	d, err := s.put(ctx, member, m, follow)
	if err != nil {
		return d, err
	}
	if !follow {
		if d.Reachable() && s.Waiting(ctx, d) {
			d.Reach = teams.Unread
		}
		return d, nil
	}
	wait, cancel := within(ctx, s.opts.timeout, "")
	defer cancel()
	defer s.app.working("waiting until %s has taken the message", d.Member)()
	taken := false
	if s.opts.wait == api.Seen {
		taken, err = s.AwaitSeen(wait, d)
	} else {
		err = s.Await(wait, d)
	}
	d.Waited = time.Since(d.Start)
	switch {
	case err == nil:
		d.State = s.opts.wait
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case wait.Err() != nil && taken:
		err = s.notSeen(d)
	case wait.Err() != nil:
		err = s.notTaken(wait, d)
	}
	return d, err
}

// notTaken is the error for a message that was not taken before ctx ended.
func (s *sender) notTaken(ctx context.Context, d mail.Delivered) error {
	what := "nothing shows that " + d.Member + " has taken the message"
	if box, err := s.app.inbox(s.Team(), d.Member); err == nil {
		rows, err := box.Read(ctx)
		if t := inbox.Track(rows, d.ID); err == nil && t != nil && t.Look(&inbox.Seen{Rows: rows}, teams.Unsure) == inbox.Unconsumed {
			what = d.Member + " has not taken the message, which stays in its inbox"
		}
	}
	return api.Decide(api.CodeTimeout, "", "timed out after %s: %s", s.opts.timeout, what)
}

// notSeen is the error for a message that was taken, but is not known to have been seen.
func (s *sender) notSeen(d mail.Delivered) error {
	hint := ""
	if _, found := s.Conversation(d).Read(); !found {
		hint = "no transcript of " + d.Member + " was found"
	}
	return api.Decide(api.CodeTimeout, hint, "timed out after %s: %s has taken the message, but nothing shows that its model was given it", s.opts.timeout, d.Member)
}
