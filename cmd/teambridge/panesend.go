package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay/stophook"
	"teambridge/status/api"
)

// policies are the values of --policy, the default first.
var policies = api.Policies()

// paneOptions are the flags of messages to panes.
type paneOptions struct {
	policy    string
	saveDraft bool
	notify    bool
}

// flags adds those flags. notify adds the flag for a notification, for commands that do not wait themselves.
func (o *paneOptions) flags(cmd *cobra.Command, notify bool) {
	f := cmd.Flags()
	policyFlag(cmd, &o.policy)
	f.BoolVar(&o.saveDraft, "save-draft", false, "save a person's draft in the pane, and restore it after the message")
	if notify {
		f.BoolVar(&o.notify, "notify-on-stop", false, "notify the sender when the agent in the pane is done with the message")
	}
}

// paneTimeout is the default wait for a message to a pane.
const paneTimeout = 30 * time.Second

// noteHeld notes the reason why a queued message waits, and each new reason, until stop is called.
func (a *access) noteHeld(ctx context.Context, id string) (stop func()) {
	b := a.bridge(ctx)
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
			all, _ := b.Deliveries(ctx, api.DeliveryQuery{State: string(ledger.Claimed)}) // an error shows in the command's own wait
			for _, d := range all {
				if d.ID == id && d.Reason != said && d.Reason != "" {
					a.note("the message to %s waits: %s", d.Member, d.Reason)
					said = d.Reason
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// notifyNote notes if nothing can report the end of the task: there is no service, and no Stop hook in the pane.
func (a *access) notifyNote(ctx context.Context, sent api.Sent) {
	root, err := a.root()
	if err != nil || a.bridge(ctx).service != nil {
		return
	}
	if p, err := a.bridge(ctx).Pane(ctx, sent.Member+"@"+sent.Team); err == nil && (p.Look == nil || !stophook.Installed(root.Path(), p.Look.Cwd)) {
		a.note("no service runs, and the Stop hook is not installed there: the end of the task is not reported until one of them is; see teambridge setup hooks --help")
	}
}
