package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/relay/mode"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/view"
	"teambridge/teams"
)

// waits are the values of --wait: words of the page, and stored for messages to other machines. The API's names
// for these states also work.
var waits = []string{"sent", api.Received, api.Seen, api.Stored}

type sendOptions struct {
	from    string
	summary string
	id      string
	force   bool

	protocol bool // the text may be an object of Claude Code's protocol
	dryRun   bool
	wait     string
	chosen   bool // --wait was given
	timeout  time.Duration
	mode     string // JSON; like isolated, it needs a relay of the service
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
		Short: "Send a message to an agent",
		Long: `Send a message to an agent: a session, a member of a team, or one in a pane.

TEXT is "-" for standard input. MEMBER is a name, the beginning of a name if no
other name begins the same way, "lead" for the lead, or NAME@TEAM. The message
comes from --from, else from the name under which you joined the team, else from
"user".

"sent" means that the message was read back from the inbox. With --wait
received, the command waits until the agent has taken it, and fails if another
program overwrote it or if its state is unknown, as when the inbox is deleted,
or emptied while the agent does not run. With --json, states are codes, such as
"verified" for "sent". Nothing is sent again automatically, because an agent
that gets a message twice works twice. To send it again, repeat the command
under the same --id with --force.

` + rest + `With --wait seen, the command waits until the message is in the transcript of
its agent, which means that the model has received it. For a headless agent, its
relay knows. If it is not certain, because the transcript cannot be found or an
equal message is also on its way, the command waits until --timeout.

With --id, a second send of the same message sends nothing, even if the agent
has already taken the message. The same id with another text is refused.

If the ledger cannot be opened, nothing is sent, since the history would not
have the message. With --force it is sent, and "recorded" is false in the JSON.

If a service runs ("teambridge serve"), the message goes through it, and the
service records its states even after this command has ended. If the service
does not answer, the message is sent without it, and still only once.

A headless agent that the service runs ("teambridge relay add") gets the message
as your own prompt. Then --mode sets the agent's mode from this message on
(permissionMode, model, fallbackModel, customSystemPrompt, appendSystemPrompt,
allowedTools, disallowedTools; null is the default), and --isolated keeps the
message from being joined with others. For other members, both are refused.

If MEMBER is a pane ("teambridge pane add"), or with --via pane, the message is
typed into the pane: whole, after a look at its prompt, and never a second time
if the result is unknown. "received" means that the agent has taken it. It is
held while a person types there, or the agent asks a question; the output says
why. By default it may be typed while the agent works, and the agent takes it
next (--policy queued); important goes before others, when-idle waits until the
agent is done, and urgent interrupts it with ESC. Without a service, a message
that is not typed within --timeout is given up.

If MEMBER is a session in no team ("teambridge sessions"), the message is
written to the session's own socket. "received" means that its transcript has
the message; with --wait seen, the command waits until its model has received
it. The message is held while its person has to allow it, and until an ended
session is resumed. With a service, it waits for 24 hours. --via session does
the same for a member of a team that has a process of its own.

A session of Codex outside of the shared server, as with "codex --no-daemon",
takes no messages. --via queue puts the message into Codex's own queue. The
model treats messages there as its user's words; the text says who wrote it. The
message may wait there until the turn is over, or until the session is resumed.
Only a person can use the queue.

A member on another machine is MEMBER@TEAM@MACHINE ("teambridge link"). The
message is queued here, stored at the hub, and received by the machine; from
sent on, the states mean the same as here. Without --wait, the command waits 3
seconds for sent, and then says where the message is: the message continues by
itself.

An object of Claude Code's own protocol, such as {"type":"shutdown_request"}, is
refused unless --protocol is given: agents obey some of these without asking a
model. In an agent's name, such an object is always refused.

Exit status: 0 sent, received or seen, or sent before under this --id; 2 the
message, a name or a flag is invalid; 3 no such team, member or pane, or it is
gone; 4 not taken or seen within --timeout (the message stays sent), or held
that long; 5 the id belongs to another message, the text is refused, or no agent
is in the pane; 6 the inbox is corrupt or could not be locked; 7 the message is
lost, or its state is unknown.`,
		Example: `  teambridge send worker "please review task 12"
  git diff | teambridge send lead@session-2de3961d - --summary "the diff"
  teambridge send lead "plan the release" --mode '{"model": "opus"}'`,
		Args:              exactly(2),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.chosen = cmd.Flags().Changed("wait")
			return a.send(cmd.Context(), args[0], args[1], o)
		},
	}
	sendFlags(cmd, &o)
	o.paneOptions.flags(cmd, true)
	viaFlag(cmd, &o.via)
	cmd.Flags().StringVar(&o.id, "id", "", "id of the message; a second send with it sends nothing")
	forceFlag(cmd, &o.force, "create an inbox for an unknown member; send even if this id may have been sent before, or nothing can be recorded")
	cmd.Flags().StringVar(&o.wait, "wait", waits[0], "state to wait for: "+strings.Join(waits, ", "))
	timeoutFlag(cmd, &o.timeout, 30*time.Second, "how long to wait until it is received or seen")
	must(cmd.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions(waits, cobra.ShellCompDirectiveNoFileComp)))
	modeFlag(cmd, &o.mode, "the agent's mode from this message on")
	cmd.Flags().BoolVar(&o.isolated, "isolated", false, "do not join the message with others; for agents that the service runs")
	dryRunFlag(cmd, &o.dryRun, "check everything, but send nothing")
	often(cmd, "from", "summary", "id", "wait", "timeout", "via")
	return cmd
}

// viaFlag adds --via, for send and ask.
func viaFlag(cmd *cobra.Command, via *string) {
	cmd.Flags().StringVar(via, "via", "", "pane: type it into the tmux pane that config.json has for the member; session: write it to the session of its process; queue: have Codex take it for your own words, in a session that takes no messages")
	complete(cmd, "via", api.ViaPane, api.ViaSession, api.ViaQueue)
}

// sendFlags adds the flags that send and broadcast share.
func sendFlags(cmd *cobra.Command, o *sendOptions) {
	cmd.Flags().StringVar(&o.from, "from", "", "the sender's name")
	cmd.Flags().StringVar(&o.summary, "summary", "", "one line shown next to the sender")
	cmd.Flags().BoolVar(&o.protocol, "protocol", false, "allow a text that is an object of Claude Code's own protocol")
}

func (a *app) send(ctx context.Context, address, text string, o sendOptions) error {
	if err := oneOfThese("wait", o.wait, waits...); err != nil && o.wait != api.Verified && o.wait != api.Consumed {
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
	if err := oneWay(o.via); err != nil {
		return err
	}
	if o.wait == "sent" {
		o.wait = api.Verified
	}
	m := o.message(body)
	if m.Scope = new(a.scope()); o.via != "" {
		m.Tmux, _ = a.socket("") // from the environment, without an error
	}
	ctx = bridge.WithPerson(ctx)
	return a.sendTo(ctx, m, o, func(b api.Bridge, id string) (api.Sent, error) {
		return b.Send(ctx, api.AnyTeam, address, id, m)
	})
}

// oneWay refuses an unknown --via.
func oneWay(via string) error {
	if via == "" {
		return nil
	}
	return oneOfThese("via", via, api.ViaPane, api.ViaSession, api.ViaQueue)
}

// sendTo calls send with an id, and prints the result.
func (a *app) sendTo(ctx context.Context, m api.NewMessage, o sendOptions, send func(b api.Bridge, id string) (api.Sent, error)) error {
	a.leaveOpen = true
	sent, err := a.deliver(ctx, m, o, send)
	a.chosen = cmp.Or(sent.Team, a.chosen)
	if err != nil && !sent.Typed() {
		if sent.ID != "" && o.id == "" && !o.dryRun && !nothingSent(err) {
			a.note("the id of the message was %s", sent.ID)
		}
		return err
	}
	perr := a.printSent(sent)
	switch {
	case perr != nil && !o.dryRun:
		return fmt.Errorf("the message %s to %s is %s, but the output failed: %w", sent.ID, sent.Member, view.State(sent.State), perr)
	case err != nil || perr != nil:
		return cmp.Or(err, perr)
	case o.notify && !o.dryRun:
		a.notifyNote(ctx, sent)
	}
	a.answerNote(sent)
	a.versionNote(sent)
	return nil
}

// nothingSent reports whether an error means that the message was certainly not sent, so that its id is useless.
func nothingSent(err error) bool {
	switch view.Explain(err).Code {
	case api.CodeNotFound, api.CodeInvalid, api.CodeUsage, api.CodeAmbiguousTeam:
		return true
	}
	return false
}

func (o *sendOptions) message(text string) api.NewMessage {
	m := api.NewMessage{
		Text: text, Summary: o.summary, From: o.from, Protocol: o.protocol, Mode: json.RawMessage(o.mode), Isolated: o.isolated, Force: o.force, DryRun: o.dryRun,
		PaneOptions: api.PaneOptions{Via: o.via, Policy: o.policy, SaveDraft: o.saveDraft, NotifyOnStop: o.notify, RequireAgent: true},
	}
	if o.wait != api.Verified {
		m.Wait = o.wait
	}
	return m
}

// printSent prints the result of sending a message.
func (c *console) printSent(s api.Sent) error {
	if c.json {
		return c.printJSON(s)
	}
	colour := green
	switch s.State {
	case api.Waiting, api.Unconfirmed, api.NotSent, api.Queued, api.Stored:
		colour = yellow
	}
	state := c.paint(colour, view.State(s.State))
	if s.Deduplicated {
		state += ", was sent before"
	}
	err := c.printf("%s  %s@%s  %s  %s\n", state, escape(s.Member, false), escape(s.Team, false), c.paint(dim, dash(escape(s.ID, false))), c.paint(dim, fmt.Sprintf("%d ms", s.WaitedMs)))
	if s.State == api.Queued || s.State == api.Stored {
		c.note("it is on its way: %s", cmp.Or(s.Reason, "the other machine has not answered yet"))
	}
	c.reachNote(s)
	return err
}

// reachNote warns if the message will probably not be read.
func (c *console) reachNote(s api.Sent) {
	if s.ReachWhy == "" {
		return
	}
	say, why := c.note, s.ReachWhy
	switch teams.Deliverability(s.Reach) {
	case teams.LeadGone, teams.AgentGone, teams.Outdated:
		say = c.warn
	case teams.NoRelay:
		why += "; see teambridge run"
	case teams.NoTeammate:
		why += "; --via session reaches it, if its session takes messages"
	case teams.AtTerminal:
		why += "; see teambridge switch"
	}
	say("%s %s", s.Member, why)
}

// answerNote gives advice if one of the recipients cannot answer.
func (c *console) answerNote(sent ...api.Sent) {
	if slices.ContainsFunc(sent, func(s api.Sent) bool { return s.NoAnswer }) {
		c.note("agents of this team cannot answer \"user\"; \"teambridge join\" gives you a name that they can")
	}
}

// text returns the message: the argument, or standard input, which can be interrupted.
func (c *console) text(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	var b []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		b, err = io.ReadAll(io.LimitReader(c.stdin, inbox.MaxText+int64(len("\r\n"))+1))
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
