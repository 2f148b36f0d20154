package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams/lockedfile"
)

// waitsLong is how long a message may wait for a connected machine before that is reported.
const waitsLong = time.Minute

// links reports what keeps messages to and from other machines from arriving. Without links, it reports nothing.
func (x *examination) links(ctx context.Context) error {
	if x.State == "" {
		return nil // reported
	}
	l, err := x.Ledger(ctx)
	if err != nil || l == nil {
		return ctx.Err() // an error of the ledger is reported elsewhere
	}
	self, found, err := l.Links.Link(ctx)
	if err != nil || !found {
		return err
	}
	machines, err := l.Links.Machines(ctx, x.Root.Path())
	if err != nil || len(machines) == 0 && self.Hub == "" {
		return err
	}
	key := filepath.Join(x.State, nats.KeyFile)
	if _, err := nats.ReadKey(key); err != nil {
		advice := "chmod 600 " + shell.Quote(key) + "; if another user may have read it: teambridge link card --new-key, and give the new card to the hub and the other machines"
		if errors.Is(err, fs.ErrNotExist) {
			advice = "restore it from a backup; or create another one, and give its card to the hub and the other machines: teambridge link card --name " + self.Name
		}
		x.add(api.LevelProblem, "link_key", "", key, view.Describe(err), advice)
	}
	waiting := 0
	for _, m := range machines {
		waiting += m.Queued + m.Stored
	}
	x.hub(ctx, self, waiting)
	for _, m := range machines {
		x.machine(m)
	}
	return x.unknown(ctx, l)
}

// hub reports the state of the connection with the hub.
func (x *examination) hub(ctx context.Context, self ledger.Link, waiting int) {
	if self.Hub == "" {
		x.add(api.LevelProblem, "no_hub", "", "", "there are links with other machines, but no hub was chosen", "choose one, such as: teambridge link hub ssh://box")
		return
	}
	c, err := client.Find(x.State, x.Root.Path())
	if err != nil {
		if held, herr := lockedfile.Held(filepath.Join(x.State, "locks"), link.Lock); herr == nil && held {
			x.add(api.LevelOK, "hub", "", self.Hub, "another process carries messages to and from other machines", "")
			return
		}
		level, waits := api.LevelNote, ""
		if waiting > 0 {
			level, waits = api.LevelProblem, "; "+plain.Plural(waiting, "message")+" waiting here"
		}
		x.add(level, "no_link", "", self.Hub, "nothing carries messages to and from other machines"+waits, "start a service: teambridge serve; or, without one: teambridge link run")
		return
	}
	defer c.Close()
	asking, done := context.WithTimeout(ctx, 2*cmp.Or(x.Wait, time.Second))
	defer done()
	k, err := c.Links(asking)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, client.ErrUnreachable) {
			x.add(api.LevelProblem, "hub", "", self.Hub, "the state of the connection with the hub is unknown: "+view.Describe(err), "")
		}
		return // a service that does not answer is reported
	}
	for _, m := range k.Machines {
		if m.Refused > 0 {
			x.add(api.LevelNote, "machine_refused", "", "", fmt.Sprintf("from %s, %s since the service was started, the last because: %s", m.Machine, refusedTimes(m.Refused), m.RefusedWhy),
				"its person can tell whether it is a mistake; teambridge link remove "+m.Machine+" ends the link")
		}
	}
	since := ""
	if k.Since != nil {
		since = " since " + view.Clock(*k.Since)
	}
	switch {
	case k.State == api.LinkConnected && k.Reason == "":
		x.add(api.LevelOK, "hub", "", self.Hub, "this machine, "+self.Name+", is connected with the hub"+since, "")
	case k.State == api.LinkConnected:
		x.add(api.LevelProblem, "hub", "", self.Hub, "this machine, "+self.Name+", is connected with the hub"+since+", and: "+k.Reason, "")
	default:
		x.add(api.LevelProblem, "hub", "", self.Hub, "there is no connection with the hub"+since+": "+k.Reason, hubAdvice(self, k.Card))
	}
}

func refusedTimes(n int) string {
	if n == 1 {
		return "1 thing was refused"
	}
	return fmt.Sprintf("%d things were refused", n)
}

// hubAdvice returns what to check if a hub cannot be reached.
func hubAdvice(self ledger.Link, card string) string {
	admit := "check that the hub has admitted this machine: teambridge-hub add " + shell.Quote(card)
	if strings.HasPrefix(self.Hub, "ssh://") {
		return "check that this works without a question: ssh " + shell.Quote(self.Hub) + " teambridge-hub list; and " + admit
	}
	return "check that the hub runs and can be reached; and " + admit
}

// machine reports messages that wait for a machine.
func (x *examination) machine(m ledger.Machine) {
	if p, ok := link.PresenceOf(m); ok && p.Version > link.Version {
		x.add(api.LevelProblem, "machine_newer", "", "", fmt.Sprintf("%s has a later teambridge, with version %d of links; this one knows %d, and its messages wait there", m.Name, p.Version, link.Version),
			"install a later teambridge here, and restart the service")
	}
	n := m.Queued + m.Stored
	if n == 0 {
		return
	}
	where := view.Whereabouts(m)
	if where == "" {
		if time.Since(m.Oldest) < waitsLong {
			return
		}
		where = m.Name + " is there"
	}
	x.add(api.LevelNote, "machine_waits", "", "", fmt.Sprintf("%s, and has not confirmed %s, the oldest since %s", where, plain.Plural(n, "message"), view.Clock(m.Oldest)),
		"they wait for 8 days; see: teambridge link list")
}

// failed returns the messages that could not be delivered, and the messages to other machines that may or may not have
// arrived, both the newest first.
func (x *examination) failed(ctx context.Context, l *ledger.Ledger) (failed []ledger.Delivery, unknown []ledger.Outgoing, err error) {
	all, err := l.Deliveries.List(ctx, ledger.DeliveryQuery{Root: x.Root.Path(), States: []ledger.DeliveryState{ledger.Failed}})
	for _, d := range all {
		var o ledger.Outgoing
		if cause, _ := ledger.SplitReason(d.Reason); err == nil && cause == ledger.CauseUnknown {
			o, _, err = l.Outbox.Outgoing(ctx, d.UUID)
		}
		if o.Stage == ledger.StageUnknown {
			unknown = append(unknown, o)
		} else {
			failed = append(failed, d)
		}
	}
	return failed, unknown, err
}

// unknown reports messages to other machines that may not have arrived.
func (x *examination) unknown(ctx context.Context, l *ledger.Ledger) error {
	_, list, err := x.failed(ctx, l)
	if err == nil && len(list) > 0 {
		last := list[0]
		_, why := ledger.SplitReason(last.Reason)
		x.add(api.LevelNote, "machine_unknown", "", "", fmt.Sprintf("of %s to other machines, it is unknown whether they arrived, the last to %s@%s@%s: %s",
			plain.Plural(len(list), "message"), last.There, last.At, last.Machine, why),
			"ask there; to send one again, which may make a second copy: teambridge relay retry ID; to give one up: teambridge relay drop ID")
	}
	return err
}
