package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/view"
)

// policies are the values of --policy, the default first.
var policies = api.Policies()

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

// paneTimeout is how long a message to a pane may wait, where nobody says.
const paneTimeout = 30 * time.Second

// noteHeld notes why a message waits, whenever that changes, until stop is called.
func (a *app) noteHeld(ctx context.Context, delivery string) (stop func()) {
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return func() {} // who waits for the outcome says it
	}
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
			m, err := panes.Message(ctx, delivery)
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
func (a *app) askPane(ctx context.Context, to *bridge.Target, body string, o askOptions) error {
	until := time.Now().Add(o.timeout)
	o.sendOptions.timeout = o.timeout
	sent, err := a.deliver(ctx, to, o.message(body), o.sendOptions)
	if err != nil {
		return err
	}
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return err
	}
	p := to.Panes[0]
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
		return api.Decide(api.CodeTimeout, "the message stays sent; the answer will be in: teambridge history --team "+shell.Quote(p.Team),
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

// notifyNote says what is missing for the sender to be told.
func (a *app) notifyNote(ctx context.Context, to *bridge.Target) {
	root, err := a.root()
	if err != nil || to.Way() != api.WayPane || a.service(root) != nil {
		return
	}
	if seen, err := to.Panes[0].Ref.Look(ctx); err != nil || !stophook.Installed(root.Path(), seen.Path) {
		a.note("no service runs, and the Stop hook is not installed there: the end of the task is not reported until one of them is; see teambridge hook install --help")
	}
}
