package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/stophook"
	"teambridge/relay/terminal"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// policies are the values of --policy, the default first.
var policies = []string{api.PolicyQueued, api.PolicyImportant, api.PolicyWhenIdle, api.PolicyUrgent}

// paneOptions are the flags for messages to panes.
type paneOptions struct {
	policy    string
	saveDraft bool
	notify    bool
}

// flags adds those flags; that for a notification only if the command does not wait itself.
func (o *paneOptions) flags(cmd *cobra.Command, notify bool) {
	f := cmd.Flags()
	f.StringVar(&o.policy, "policy", "", "when to type it into a pane: "+strings.Join(policies, ", ")+" (default queued)")
	f.BoolVar(&o.saveDraft, "save-draft", false, "put aside what a person has typed in the pane, and back after the message")
	if notify {
		f.BoolVar(&o.notify, "notify-on-stop", false, "tell the sender when the agent in the pane is done with the message")
	}
	complete(cmd, "policy", policies...)
}

// suitsPane returns an error if a flag is given that a message to a pane cannot have.
func (o *sendOptions) suitsPane() error {
	for _, f := range []struct {
		given     bool
		flag, why string
	}{
		{o.color != "", "color", "a pane shows text alone"},
		{o.protocol, "protocol", "an agent in a pane knows no protocol messages"},
		{o.mode != "", "mode", "the service does not run the agent in a pane"},
		{o.isolated, "isolated", "messages to a pane are never joined"},
		{o.force, "force", "to send a message again that has failed: teambridge relay retry"},
		{o.wait != "" && o.wait != api.Verified, "wait " + o.wait, "send waits until the agent in the pane has taken the message"},
	} {
		if f.given {
			return usage("omit it: "+f.why, "--%s is not for panes", f.flag)
		}
	}
	return nil
}

// suitsInbox returns an error if a flag is given that a message to an inbox cannot have.
func (o *sendOptions) suitsInbox() error {
	flag := ""
	switch {
	case o.policy != "":
		flag = "policy"
	case o.saveDraft:
		flag = "save-draft"
	case o.notify:
		flag = "notify-on-stop"
	default:
		return nil
	}
	return usage("register a pane with: teambridge pane add; or, for a member whose agent runs in tmux, add --via pane",
		"--%s is for panes, and this message goes to an inbox", flag)
}

// paneNamed returns the registered pane that MEMBER[@TEAM] means; ok is false if it means a
// member of another team.
func (a *app) paneNamed(ctx context.Context, address string) (panes *pane.Panes, p pane.Pane, ok bool, err error) {
	member, team := teams.Split(address)
	named, err := a.namedTeam(team)
	if err != nil || named != "" && named != pane.Team {
		return nil, p, false, err
	}
	panes, list, err := a.panesIfAny(ctx)
	if err != nil {
		if named == "" { // without the registry, there are the inboxes
			a.debug("panes are not known: %v", err)
			err = nil
		}
		return nil, p, false, err
	}
	i := slices.IndexFunc(list, func(p pane.Pane) bool { return p.Inbox == member })
	if i < 0 {
		if named == "" {
			return nil, p, false, nil
		}
		root, rerr := a.root()
		if rerr != nil {
			return nil, p, false, rerr
		}
		if t, terr := root.Team(pane.Team); terr == nil { // which doctor reports
			return nil, p, false, t.Close()
		}
		return nil, p, false, &pane.NotFoundError{Name: member, Panes: list}
	}
	if named == "" {
		root, err := a.root()
		if err != nil {
			return nil, p, false, err
		}
		if also, err := root.Living(ctx, member); err != nil || len(also) > 0 {
			if err == nil {
				err = api.Decide(api.CodeAmbiguousTeam, fmt.Sprintf("say which: %s@%s, or %s@%s", member, pane.Team, member, strings.Join(also, ", "+member+"@")),
					"%s is a pane, and a member of %s", member, strings.Join(also, " and of "))
			}
			return nil, p, false, err
		}
	}
	return panes, list[i], true, nil
}

// paneTimeout is how long a message to a pane may wait, where nobody says.
const paneTimeout = 30 * time.Second

// isPanes reports whether the team that is named is that of the panes, and not a real one.
func (a *app) isPanes(ctx context.Context) (bool, error) {
	named, err := a.namedTeam("")
	if err != nil || named != pane.Team {
		return false, err
	}
	if _, list, err := a.panesIfAny(ctx); err != nil || len(list) > 0 {
		return err == nil, err
	}
	root, err := a.root()
	if err != nil {
		return false, err
	}
	t, err := root.Team(pane.Team)
	if err == nil {
		return false, t.Close() // which doctor reports
	}
	return true, nil
}

// paneOfMember returns the pane that config.json has for a member of a team.
func (a *app) paneOfMember(ctx context.Context, t *teams.Team, member string) (*pane.Panes, pane.Pane, error) {
	panes, err := a.panes(ctx)
	if err != nil {
		return nil, pane.Pane{}, err
	}
	socket, err := a.socket("")
	if err != nil {
		return nil, pane.Pane{}, err
	}
	p, err := panes.OfMember(ctx, t, member, socket)
	return panes, p, paneHint(err)
}

// paneMessage returns the message of the flags.
func paneMessage(ctx context.Context, panes *pane.Panes, to pane.Pane, body string, o sendOptions) (m pane.Message, err error) {
	m = pane.Message{
		ID: o.id, Text: body, Summary: o.summary, Policy: terminal.Policy(o.policy), SaveDraft: o.saveDraft, Notify: o.notify,
	}
	m.From, m.NotifyTo, err = panes.Sender(ctx, to, o.from)
	return m, err
}

// paneClosed says why nothing can be typed into a pane now, whatever is at its prompt.
func paneClosed(ctx context.Context, p pane.Pane) (held terminal.Reason, why string, err error) {
	held, why, err = p.Ref.Closed(ctx, p.Profile)
	if errors.Is(err, terminal.ErrGone) {
		held, why, err = terminal.Gone, "the pane is gone", nil
	}
	return held, why, err
}

// notTyped is the error for a message that was not typed, by the reason that held it.
func notTyped(p pane.Pane, held terminal.Reason, why, hint string) error {
	switch {
	case held == terminal.Gone, held == terminal.Dead:
		return api.Decide(api.CodeGone, "give it another pane with: teambridge pane add "+shellQuote(p.Inbox)+" --pane TARGET --replace", "%s@%s: %s", p.Inbox, p.Team, why)
	case noAgent(held):
		return refuse("start the agent there, and send again", "%s@%s: %s", p.Inbox, p.Team, why)
	}
	return api.Decide(api.CodeTimeout, hint, "the message to %s@%s was not sent: %s", p.Inbox, p.Team, why)
}

// sendToPane sends a text to a pane, and prints what became of it.
func (a *app) sendToPane(ctx context.Context, panes *pane.Panes, p pane.Pane, body string, o sendOptions) error {
	sent, err := a.typeInto(ctx, panes, p, body, o)
	if sent.State == "" {
		return err
	}
	if perr := a.printTyped(sent); perr != nil && !o.dryRun {
		return fmt.Errorf("the message %s to %s is %s, but the output failed: %w", sent.ID, sent.Member, sent.State, perr)
	}
	if err == nil && o.notify && !o.dryRun {
		a.notifyNote(ctx, p)
	}
	return err
}

// printTyped prints what became of a message to a pane.
func (a *app) printTyped(s api.Sent) error {
	if a.json {
		return a.printJSON(s)
	}
	colour := green
	if s.State != api.Confirmed && s.State != api.DryRun {
		colour = yellow
	}
	state := a.paint(colour, s.State)
	if s.Deduplicated {
		state += ", was sent before"
	}
	return a.printf("%s  %s@%s  %s  %s\n", state, escape(s.Member, false), escape(s.Team, false), a.paint(dim, dash(escape(s.ID, false))), a.paint(dim, fmt.Sprintf("%d ms", s.WaitedMs)))
}

// typeInto puts a message into the queue of a pane, and waits for its outcome. The state of
// what it returns is empty if nothing was put there.
func (a *app) typeInto(ctx context.Context, panes *pane.Panes, p pane.Pane, body string, o sendOptions) (api.Sent, error) {
	start := time.Now()
	if o.policy != "" {
		if err := oneOfThese("policy", o.policy, policies...); err != nil {
			return api.Sent{}, err
		}
	}
	m, err := paneMessage(ctx, panes, p, body, o)
	if err != nil {
		return api.Sent{}, err
	}
	held, why, err := paneClosed(ctx, p)
	if err == nil && held == "" && o.dryRun {
		held, why, err = p.Ref.Held(ctx, p.Profile, m.Policy)
	}
	if err != nil {
		return api.Sent{}, err
	}
	if o.dryRun {
		sent := api.Sent{Team: p.Team, Member: p.Inbox, ID: o.id, State: api.DryRun, Reachable: held == "", Reason: why, WaitedMs: time.Since(start).Milliseconds()}
		if err := (terminal.Message{Nonce: "0123456789ab", From: m.From, Text: body, Policy: m.Policy}).Check(); err != nil {
			return api.Sent{}, api.Decide(api.CodeInvalid, "nothing was sent", "%s", view.Describe(err))
		}
		if held != "" {
			a.note("it would wait now: %s", why)
		}
		return sent, nil
	}
	if lasting(held) {
		return api.Sent{}, notTyped(p, held, why, "")
	}
	record, again, served, err := a.putToPane(ctx, panes, p, m)
	switch {
	case errors.Is(err, ledger.ErrConflict), errors.As(err, new(*api.Problem)):
		return api.Sent{}, err
	case err != nil:
		return api.Sent{}, api.Decide(api.CodeInvalid, "nothing was sent", "%w", err)
	}
	wait, cancel := within(ctx, o.timeout, "")
	defer cancel()
	done := a.working("waiting until %s has taken the message", p.Inbox)
	noted := a.noteHeld(wait, panes, record.UUID)
	if served {
		record, err = panes.Await(wait, record.UUID)
	} else {
		record, err = panes.Deliver(wait, record.UUID)
	}
	noted()
	done()
	sent := view.PaneSent(record, again)
	sent.WaitedMs = time.Since(start).Milliseconds()
	switch {
	case ctx.Err() != nil:
		return sent, context.Cause(ctx)
	case err != nil && wait.Err() == nil:
		return sent, err
	}
	return sent, a.typedError(p, record, sent, served)
}

// noteHeld notes why a message waits, whenever that changes, until stop is called.
func (a *app) noteHeld(ctx context.Context, panes *pane.Panes, uuid string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for said := ""; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			m, err := panes.Message(ctx, uuid)
			if err != nil {
				continue // who waits for the outcome says it
			}
			if why := m.Detail; m.State == ledger.Claimed && why != said && why != "" {
				a.note("the message to %s waits: %s", m.Inbox, why)
				said = why
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// askPane types a question into a pane, and prints the answer.
func (a *app) askPane(ctx context.Context, panes *pane.Panes, p pane.Pane, body string, o askOptions) error {
	until := time.Now().Add(o.timeout)
	o.sendOptions.timeout = o.timeout
	sent, err := a.typeInto(ctx, panes, p, body, o.sendOptions)
	if err != nil {
		return err
	}
	wait, cancel := ctx, context.CancelFunc(func() {})
	if o.timeout > 0 {
		wait, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	a.debug("waiting for an answer to %s", sent.ID)
	done := a.working("waiting for an answer from %s", p.Inbox)
	m, err := panes.AwaitAnswer(wait, sent.Delivery)
	done()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Err() != nil && m.Task != ledger.TaskEnded:
		return api.Decide(api.CodeTimeout, "the message stays sent; the answer will be in: teambridge history --team "+shellQuote(p.Team),
			"timed out after %s: no answer from %s", o.timeout, p.Inbox)
	case err != nil:
		return err
	case m.Lost != "":
		return api.Decide(api.CodeNoAnswer, "the message stays sent", "%s has taken the message, but there is no answer: %s", p.Inbox, m.Lost)
	case len(m.Answer) == 0:
		return api.Decide(api.CodeNoAnswer, "the message stays sent; look at the pane", "%s has ended its turn with the message, and what it said is not known", p.Inbox)
	}
	rows, err := inbox.Parse(slices.Concat([]byte("["), m.Answer, []byte("]")))
	if err != nil || len(rows) != 1 {
		return fmt.Errorf("read the answer of %s: %w", p.Inbox, cmp.Or(err, errors.New("it is no object")))
	}
	row := rows[0]
	if a.json {
		reply := view.Message(p.Team, inbox.Entry{Row: row, Inbox: p.Inbox})
		reply.Kind = journal.KindAnswer
		return a.printJSON(answered{sent, reply, row.Text, viaResult, true})
	}
	return a.printf("%s\n", escape(row.Text, true))
}

// broadcastToPanes types a text into all panes, at the same time.
func (a *app) broadcastToPanes(ctx context.Context, body string, o broadcastOptions) error {
	panes, list, err := a.registered(ctx, nil)
	if err != nil {
		return err
	}
	if list, err = pane.Audience(list, o.from, o.except); err != nil {
		return err
	}
	if len(list) == 0 {
		return notFound("register one with: teambridge pane add NAME --pane TARGET", "there is no pane to send to")
	}
	done := a.working("waiting until the agents have taken the message")
	type result struct {
		sent api.Sent
		err  error
	}
	results := make([]chan result, len(list))
	for i, p := range list {
		results[i] = make(chan result, 1)
		go func() {
			sent, err := a.typeInto(ctx, panes, p, body, o.sendOptions)
			results[i] <- result{sent, err}
		}()
	}
	all := make([]api.Sent, len(list))
	var worst api.Error
	failed := 0
	for i, p := range list {
		r := <-results[i]
		all[i] = r.sent
		if all[i].State == "" {
			all[i] = api.Sent{Team: p.Team, Member: p.Inbox, State: api.NotSent}
		}
		if r.err != nil {
			fault, _ := explain(ctx, r.err)
			all[i].Error = &fault
			if failed++; fault.Code.Exit() > worst.Code.Exit() || worst.Code == "" {
				worst = fault
			}
		}
	}
	done()
	if a.json {
		err = a.printJSON(all)
	}
	for _, s := range all {
		if a.json || err != nil {
			break
		}
		if err = a.printTyped(s); s.Error != nil {
			a.warn("%s@%s: %s", s.Member, s.Team, s.Error.Message)
			if s.Error.Hint != "" {
				a.say("hint", s.Error.Hint)
			}
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%d of %s sent, but the output failed: %w", len(list)-failed, plural(len(list), "message"), err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed > 0:
		return api.Decide(worst.Code, "the output says which, and why", "%d of %s could not be sent", failed, plural(len(list), "message"))
	}
	return nil
}

// typedError is the error for what became of a message to a pane; nil if it is confirmed.
func (a *app) typedError(p pane.Pane, record ledger.PaneMessage, sent api.Sent, served bool) error {
	switch sent.State {
	case api.Confirmed:
		return nil
	case api.Unconfirmed:
		return api.Decide(api.CodeUnknown, "look at the pane; to send it again, which may make a second copy: teambridge relay retry "+shortID(record.UUID),
			"it is not known whether %s@%s has taken the message: %s", p.Inbox, p.Team, sent.Reason)
	case api.Waiting:
		return api.Decide(api.CodeTimeout, "the service goes on for 15 minutes; to give it up: teambridge relay drop "+shortID(record.UUID),
			"the message to %s@%s still waits: %s", p.Inbox, p.Team, dash(sent.Reason))
	}
	return notTyped(p, terminal.Reason(record.Held), dash(sent.Reason), "it will not be sent later; with a service (teambridge serve), messages wait for 15 minutes")
}

// putToPane puts a message into the queue of a pane: through the service, if one runs, which
// then types it. Else this command has to.
func (a *app) putToPane(ctx context.Context, panes *pane.Panes, p pane.Pane, m pane.Message) (record ledger.PaneMessage, again, served bool, err error) {
	var c *client.Client
	if p.Team == pane.Team { // the service may not know the tmux server of others
		root, err := a.root()
		if err != nil {
			return record, false, false, err
		}
		c = a.service(root)
	}
	if c != nil {
		defer c.Close()
		m.ID = cmp.Or(m.ID, uuid.NewString())
		asking, done := a.present(ctx, c)
		sent, err := c.Send(asking, p.Team, p.Inbox, m.ID, api.NewMessage{Text: m.Text, Summary: m.Summary, From: m.From, PaneOptions: api.PaneOptions{
			Policy: string(m.Policy), SaveDraft: m.SaveDraft, NotifyOnStop: m.Notify,
		}})
		done()
		if err == nil {
			record, err = panes.Message(ctx, sent.Delivery)
			return record, sent.Deduplicated, true, err
		}
		failure, ok := errors.AsType[*serviceError](refusal(err))
		if !ok {
			return record, false, false, err
		}
		a.debug("going on without the service: %v", failure)
	}
	record, again, err = panes.Put(ctx, p, m)
	return record, again, false, err
}

// notifyNote says what is missing for the sender to be told.
func (a *app) notifyNote(ctx context.Context, p pane.Pane) {
	root, err := a.root()
	if err != nil || a.service(root) != nil {
		return
	}
	if seen, err := p.Ref.Look(ctx); err != nil || !stophook.Installed(root.Path(), seen.Path) {
		a.note("no service runs, and the Stop hook is not installed there: the end of the task is not reported until one of them is; see teambridge hook install --help")
	}
}
