package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/ssh"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Links returns the links of this machine; see [api.Bridge].
func (l *Local) Links(ctx context.Context) (shown api.Links, err error) {
	shown = api.Links{State: api.LinkOff, Machines: []api.Machine{}}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return shown, err
	}
	self, found, err := lg.Link(ctx)
	if err != nil || !found {
		return shown, err
	}
	shown.Machine, shown.Hub, shown.Trust = self.Name, self.Hub, self.Trust
	key, err := nats.ReadKey(filepath.Join(l.Opts.State, nats.KeyFile))
	if err != nil {
		return shown, err
	}
	shown.Card = key.Card(self.Name).String()
	switch s := l.service; {
	case self.Hub == "":
		shown.Reason = "no hub was chosen"
	case s == nil:
		shown.Reason = "no service runs"
	case s.fleet == nil:
		shown.Reason = "the service is read-only"
	default:
		shown.State, shown.Reason = s.links.state(&shown)
	}
	list, err := l.machines(ctx)
	var carrier *link.Link
	if s := l.service; s != nil && s.links != nil {
		_, carrier, _ = s.links.get()
	}
	for _, m := range list {
		one := view.Machine(m)
		if carrier != nil {
			r := carrier.Refused(m.Name)
			one.Refused, one.RefusedWhy = r.Count, r.Why
		}
		shown.Machines = append(shown.Machines, one)
	}
	return shown, err
}

// machines returns the machines that there are links with: none if there is no ledger.
func (l *Local) machines(ctx context.Context) ([]ledger.Machine, error) {
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return nil, err
	}
	root, err := l.Opts.Root()
	switch {
	case errors.Is(err, fs.ErrNotExist): // without a Claude directory, nothing is shared
		return lg.Machines(ctx, "")
	case err != nil:
		return nil, err
	}
	return lg.Machines(ctx, root.Path())
}

// SetLink says what this machine is for others; see [api.Bridge].
func (l *Local) SetLink(ctx context.Context, n api.NewLink) (api.Links, error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Links{}, err
	}
	self, found, err := lg.Link(ctx)
	if err != nil {
		return api.Links{}, err
	}
	switch name := cmp.Or(n.Machine, self.Name); {
	case name == "":
		return api.Links{}, api.Decide(api.CodeUsage, "such as: teambridge link card --name laptop", "this machine has no name yet")
	case nats.CheckName(name) != nil:
		return api.Links{}, api.Decide(api.CodeInvalid, "", "%v", nats.CheckName(name))
	case found && name != self.Name:
		if list, err := l.machines(ctx); err != nil || len(list) > 0 {
			return api.Links{}, cmp.Or(err, api.Decide(api.CodeConflict, "remove its links first: teambridge link remove", "this machine is %s for %s, which know it by no other name", self.Name, list[0].Name))
		}
	}
	self.Name = cmp.Or(n.Machine, self.Name)
	if n.Hub != "" {
		self.Hub, self.Trust = n.Hub, n.Trust
		if err := checkHub(&self); err != nil {
			return api.Links{}, err
		}
	}
	if err := l.haveKey(n.NewKey); err != nil {
		return api.Links{}, err
	}
	if err := lg.SetLink(ctx, self); err != nil {
		return api.Links{}, err
	}
	l.linksChanged()
	return l.Links(ctx)
}

// haveKey makes the key of this machine if there is none or, with anew, in place of the one that there
// is, which is kept beside it.
func (l *Local) haveKey(anew bool) error {
	path := filepath.Join(l.Opts.State, nats.KeyFile)
	switch _, err := nats.ReadKey(path); {
	case err == nil && !anew:
		return nil
	case err == nil:
		if err := os.Rename(path, path+".old"); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	key, err := nats.NewKey()
	if err == nil {
		err = nats.WriteKey(path, key)
	}
	if errors.Is(err, fs.ErrExist) { // another process has made it
		err = nil
	}
	return err
}

// checkHub returns an error unless there can be a hub at the address, trusted so.
func checkHub(self *ledger.Link) error {
	o := nats.Options{Hub: self.Hub}.Trusting(self.Trust)
	if o.CA != "" { // whoever runs the links is elsewhere
		path, err := filepath.Abs(o.CA)
		if err != nil {
			return err
		}
		self.Trust, o.CA = path, path
	}
	err := o.Check()
	if err == nil && strings.HasPrefix(self.Hub, "ssh:") {
		_, err = ssh.Parse(self.Hub)
	}
	if err != nil {
		return api.Decide(api.CodeInvalid, "", "%v", err)
	}
	return nil
}

// AddMachine makes a link with a machine; see [api.Bridge].
func (l *Local) AddMachine(ctx context.Context, n api.NewMachine) (api.Machine, error) {
	card, err := nats.ParseCard(n.Card)
	if err != nil {
		return api.Machine{}, api.Decide(api.CodeInvalid, "print it there with: teambridge link card", "%v", err)
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Machine{}, err
	}
	self, found, err := lg.Link(ctx)
	switch {
	case err != nil:
		return api.Machine{}, err
	case !found:
		return api.Machine{}, api.Decide(api.CodeUsage, "name it with: teambridge link card --name NAME", "this machine has no name yet")
	case card.Name == self.Name:
		return api.Machine{}, api.Decide(api.CodeInvalid, "give the card of the other machine", "%s is the name of this machine", card.Name)
	}
	for _, team := range n.Teams {
		if err := l.checkShare(team, false); err != nil {
			return api.Machine{}, err
		}
	}
	if err := lg.AddMachine(ctx, card.Name, card.String(), n.Replace); errors.Is(err, ledger.ErrConflict) {
		return api.Machine{}, api.Decide(api.CodeConflict, "if it was installed anew, and its person told you the new card: --replace", "%s is linked with another card", card.Name)
	} else if err != nil {
		return api.Machine{}, err
	}
	return l.share(ctx, card.Name, false, n.Teams...)
}

// checkShare returns an error for what cannot be shared.
func (l *Local) checkShare(team string, stop bool) error {
	if err := teams.CheckName("team", team); err != nil {
		return api.Decide(api.CodeInvalid, "", "%v", err)
	}
	if stop {
		return nil
	}
	if panes, err := l.reserved(team, pane.Team); err != nil || !panes {
		return err
	}
	return api.Decide(api.CodeInvalid, "share the sessions in them: teambridge link share MACHINE "+pane.SessionTeam,
		"registered panes are not shared: what is typed there counts as your words, and no other machine speaks for you")
}

// ShareTeam lets a machine write to a team, or lets it no longer; see [api.Bridge]. Then the entries of
// its members leave the team: with one, a member there could still write to it.
func (l *Local) ShareTeam(ctx context.Context, machine string, n api.NewShare) (api.Machine, error) {
	if err := l.checkShare(n.Team, n.Stop); err != nil {
		return api.Machine{}, err
	}
	m, err := l.share(ctx, machine, n.Stop, n.Team)
	if err != nil || !n.Stop {
		return m, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err == nil {
		err = l.endAccess(ctx, lg, machine, n.Team)
	}
	if err != nil {
		err = fmt.Errorf("%s is shared with %s no longer, but the entries of its members are still in it: %w", n.Team, machine, err)
	}
	return m, err
}

func (l *Local) share(ctx context.Context, machine string, stop bool, shared ...string) (api.Machine, error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Machine{}, err
	}
	for _, team := range shared {
		root, err := l.Opts.Root()
		if err != nil {
			return api.Machine{}, err
		}
		if err := lg.Share(ctx, machine, root.Path(), team, !stop); errors.Is(err, ledger.ErrUnknown) {
			return api.Machine{}, noMachine(machine)
		} else if err != nil {
			return api.Machine{}, err
		}
	}
	l.linksChanged()
	m, err := l.machine(ctx, machine)
	return view.Machine(m), err
}

// machine returns the machine with a name that there is a link with.
func (l *Local) machine(ctx context.Context, name string) (ledger.Machine, error) {
	list, err := l.machines(ctx)
	if err != nil {
		return ledger.Machine{}, err
	}
	i := slices.IndexFunc(list, func(m ledger.Machine) bool { return m.Name == name })
	if i < 0 {
		return ledger.Machine{}, noMachine(name)
	}
	return list[i], nil
}

func noMachine(name string) error {
	return api.Decide(api.CodeNotFound, "see the links with: teambridge link list; make one with: teambridge link add CARD", "there is no link with a machine called %q", name)
}

// RemoveMachine ends the link with a machine; see [api.Bridge].
func (l *Local) RemoveMachine(ctx context.Context, machine string) (api.Machine, error) {
	m, err := l.machine(ctx, machine)
	if err != nil {
		return api.Machine{}, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err == nil {
		_, err = lg.RemoveMachine(ctx, machine, "the link with "+machine+" was removed")
	}
	if err != nil {
		return api.Machine{}, err
	}
	if err = l.endAccess(ctx, lg, machine, ""); err != nil {
		err = fmt.Errorf("there is no link with %s any more, but the entries of its members are still in teams, until a service removes them: %w", machine, err)
	}
	l.linksChanged()
	return view.Machine(m), err
}

// linksChanged tells what runs the links that they have changed.
func (l *Local) linksChanged() {
	if s := l.service; s != nil && s.links != nil {
		s.links.poke()
		s.replicator.Poke()
		signal(s.dirty)
	}
}

// links runs the links of a service.
type links struct {
	*Service
	changed chan struct{}           // link or machines
	asked   chan struct{}           // a question came from another machine
	looked  chan struct{}           // the journal has more
	fault   func(step string) error // of tests; nil: none

	every, late time.Duration // see [link.Options]

	mu   chan struct{} // guards what follows; it is full while somebody holds it
	wire *nats.Wire    // nil: none runs
	link *link.Link
	err  error // why none does
}

func newLinks(s *Service) *links {
	return &links{Service: s, changed: make(chan struct{}, 1), looked: make(chan struct{}, 1), asked: make(chan struct{}, 1), mu: make(chan struct{}, 1)}
}

func (r *links) set(w *nats.Wire, l *link.Link, failed error) {
	r.mu <- struct{}{}
	r.wire, r.link, r.err = w, l, failed
	<-r.mu
}

func (r *links) get() (*nats.Wire, *link.Link, error) {
	r.mu <- struct{}{}
	defer func() { <-r.mu }()
	return r.wire, r.link, r.err
}

// poke says that there may be something to send, or that the links have changed.
func (r *links) poke() {
	signal(r.changed)
	if _, l, _ := r.get(); l != nil {
		l.Poke()
	}
}

// state says how the connection with the hub is, and since when.
func (r *links) state(shown *api.Links) (state, reason string) {
	w, carrier, why := r.get()
	if w == nil {
		reason = "the service is just starting"
		if why != nil {
			reason = why.Error()
		}
		return api.LinkOff, reason
	}
	s := w.State()
	if !s.Since.IsZero() {
		shown.Since = new(s.Since.UTC())
	}
	if s.Connected {
		return api.LinkConnected, cmp.Or(carrier.Stuck(), s.Err)
	}
	return api.LinkDisconnected, cmp.Or(s.Err, "it is just connecting")
}

// run runs the links as long as there are some. Without any it only waits until it is told that
// there are.
func (r *links) run(ctx context.Context) error {
	for {
		self, found, err := r.ledger.Link(ctx)
		if err == nil && found && self.Hub != "" {
			err = r.serve(ctx, self)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("links", "err", err)
			r.set(nil, nil, err)
		}
		retry := make(<-chan time.Time)
		if err != nil {
			retry = time.After(10 * time.Second)
		}
		select {
		case <-r.changed:
		case <-retry:
		case <-ctx.Done():
			return nil
		}
	}
}

// Drain waits until the hub has all messages to other machines, or ctx ends; with a timeout of 0
// only that. The error is [api.CodeTimeout] if messages still wait then, and [api.CodeRefused] if
// another process has the identity of this machine, or runs its links.
func (s *Service) Drain(running, ctx context.Context, timeout time.Duration) error {
	over := make(<-chan time.Time)
	if timeout > 0 {
		over = time.After(timeout)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-running.Done():
			return context.Cause(running)
		case <-ctx.Done():
			return nil
		case <-over:
			links, err := s.Links(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			n := 0
			for _, m := range links.Machines {
				n += m.Queued
			}
			return api.Decide(api.CodeTimeout, "they stay in the outbox", "still in the outbox after %s: %s; the hub is %s: %s", timeout, plain.Plural(n, "message"), links.State, links.Reason)
		case <-tick.C:
		}
		w, _, why := s.links.get()
		if w != nil && strings.Contains(w.State().Err, link.ErrTwin.Error()) {
			why = link.ErrTwin
		}
		if errors.Is(why, lockedfile.ErrLocked) || errors.Is(why, link.ErrTwin) {
			return api.Decide(api.CodeRefused, "end it first", "%v", why)
		}
		list, err := s.machines(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if timeout > 0 && w != nil && w.State().Connected && !slices.ContainsFunc(list, func(m ledger.Machine) bool { return m.Queued > 0 }) {
			return nil
		}
	}
}

// serve runs the links until what this machine is changes.
func (r *links) serve(ctx context.Context, self ledger.Link) error {
	release, err := lockedfile.HoldWithin(ctx, 5*time.Second, filepath.Join(r.opts.State, "locks"), link.Lock)
	if err != nil {
		return fmt.Errorf("another process runs the links: %w", err)
	}
	defer release()
	key, err := nats.ReadKey(filepath.Join(r.opts.State, nats.KeyFile))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	o := nats.Options{
		Name: self.Name, Key: key, Hub: self.Hub, Unpin: true,
		Card: func(peer string) (nats.Card, bool) {
			m, err := r.machine(running, peer)
			if err != nil {
				return nats.Card{}, false
			}
			card, err := nats.ParseCard(m.Card)
			return card, err == nil
		},
	}
	if r.opts.DialHub != nil {
		o.Dial = func(ctx context.Context) (net.Conn, error) { return r.opts.DialHub(ctx, self.Hub) }
	}
	o = o.Trusting(self.Trust)
	wire, err := nats.Dial(running, o)
	if err != nil {
		return err
	}
	defer wire.Close()
	engine := link.New(link.Options{
		Root: r.opts.Root.Path(), Self: self, Ledger: r.ledger, Wire: wire, Program: r.opts.Version, Every: r.every, Late: r.late,
		Deliver: r.deliver, Look: r.lookAt, Teams: r.offers,
		Changed: func() {
			r.replicator.Poke()
			signal(r.dirty)
			signal(r.asked)
		},
		Warn: r.warn("links"),
	})
	r.set(wire, engine, nil)
	defer r.set(nil, nil, nil)
	done := make(chan error, 1)
	go func() { done <- engine.Run(running) }()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { _ = r.claimStandIns(running) })
	parts.Go(func() { _ = r.answer(running) })
	news, over := r.news.subscribe()
	defer over()
	for {
		select {
		case err := <-done:
			return err
		case <-news:
			engine.Poke()
			engine.Announce()
			signal(r.looked)
		case <-r.changed:
			now, found, err := r.ledger.Link(ctx)
			now.Queue, self.Queue = "", ""
			same, kerr := nats.ReadKey(filepath.Join(r.opts.State, nats.KeyFile))
			if err == nil && kerr == nil && found && now == self && same.Card("") == key.Card("") {
				engine.Announce()
				signal(r.looked)
				continue
			}
			signal(r.changed) // begin anew
			stop()
			return cmp.Or(err, <-done)
		case <-ctx.Done():
			return <-done
		}
	}
}
