package links

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/status/api"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Options configure a [Carrier].
type Options struct {
	Root     *teams.Root
	Ledger   *ledger.Ledger
	Journal  *journal.Journal // for reading
	Locker   *lockedfile.Locker
	ReadOnly bool   // carry nothing
	Version  string // of this program
	// DialHub connects to a hub at an ssh:// address; nil: such hubs are not supported.
	DialHub func(ctx context.Context, address string) (net.Conn, error)

	News    func() (news <-chan struct{}, done func()) // signals when the journal has more
	Changed func()                                     // called after a change of the ledger or of the links' state
	Log     *slog.Logger
}

// Here carries out requests of other machines, with the rights of an agent.
type Here interface {
	// Team returns the team of a member, or nil for the team of the sessions. Close it.
	Team(ctx context.Context, team, member string) (t *teams.Team, done func() error, err error)
	Send(ctx context.Context, team, member, id string, m api.NewMessage) (api.Sent, error)
	Ask(ctx context.Context, team, member, id string, q api.NewQuestion) (api.Answered, error)
	Members(ctx context.Context, team string) ([]api.Member, error)
	Status(ctx context.Context, team string, members ...string) ([]api.Status, error)
}

// Carrier exchanges messages with other machines while a service runs.
type Carrier struct {
	*Machines

	// Tests set these before Run: the intervals of [link.Options], and the point of failure.
	Every, Late time.Duration
	Fault       func(step string) error

	opts Options
	here Here

	changed chan struct{} // the link or its machines have changed
	asked   chan struct{} // a question came from another machine
	looked  chan struct{} // the journal has more

	claimed atomic.Bool // what agents wrote to stand-ins is in the outbox

	mu   chan struct{} // a lock for the fields below; full while it is held
	wire *nats.Wire    // nil: no link runs
	link *link.Link
	err  error // why no link runs
}

// NewCarrier returns a Carrier, and gives it to the machines. It starts nothing.
func NewCarrier(m *Machines, here Here, opts Options) *Carrier {
	m.carrier = &Carrier{
		Machines: m, opts: opts, here: here, changed: make(chan struct{}, 1), looked: make(chan struct{}, 1), asked: make(chan struct{}, 1), mu: make(chan struct{}, 1),
	}
	return m.carrier
}

func (r *Carrier) set(w *nats.Wire, l *link.Link, failed error) {
	r.mu <- struct{}{}
	r.wire, r.link, r.err = w, l, failed
	<-r.mu
}

func (r *Carrier) get() (*nats.Wire, *link.Link, error) {
	r.mu <- struct{}{}
	defer func() { <-r.mu }()
	return r.wire, r.link, r.err
}

// Poke reports that there may be something to send, or that the links have changed.
func (r *Carrier) Poke() {
	signals.Send(r.changed)
	if _, l, _ := r.get(); l != nil {
		l.Poke()
	}
}

// state returns the state of the connection with the hub, and sets since when.
func (r *Carrier) state(shown *api.Links) (state, reason string) {
	w, carrier, why := r.get()
	if r.opts.ReadOnly {
		return api.LinkOff, "the service is read-only"
	}
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

// refused returns the number of refused messages of a machine, and the last reason.
func (r *Carrier) refused(machine string) (count int, why string) {
	if _, l, _ := r.get(); l != nil {
		refused := l.Refused(machine)
		return refused.Count, refused.Why
	}
	return 0, ""
}

// Failed returns the reason why nothing can be carried until another process ends: that process runs the links,
// or has this machine's identity. It also reports whether the hub is connected, and everything to carry is in the
// outbox.
func (r *Carrier) Failed() (ready bool, why error) {
	w, _, why := r.get()
	if w == nil {
		return false, why
	}
	state := w.State()
	if strings.Contains(state.Err, link.ErrTwin.Error()) {
		why = link.ErrTwin
	}
	return state.Connected && r.claimed.Load(), why
}

// Run runs the links while there are any. Without links, it waits for a signal that there are.
func (r *Carrier) Run(ctx context.Context) error {
	for {
		self, found, err := r.opts.Ledger.Links.Link(ctx)
		if err == nil && found && self.Hub != "" {
			err = r.serve(ctx, self)
		}
		if err != nil && ctx.Err() == nil {
			r.opts.Log.Warn("links", "err", err)
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

// serve runs the links until the settings of this machine change.
func (r *Carrier) serve(ctx context.Context, self ledger.Link) error {
	release, err := lockedfile.HoldWithin(ctx, 5*time.Second, filepath.Join(r.Opts.State, "locks"), link.Lock)
	if err != nil {
		return fmt.Errorf("another process runs the links: %w", err)
	}
	defer release()
	key, err := nats.ReadKey(filepath.Join(r.Opts.State, nats.KeyFile))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	o := nats.Options{
		Name: self.Name, Key: key, Hub: self.Hub, Unpin: true,
		Card: func(peer string) (nats.Card, bool) {
			m, err := r.Machine(running, peer)
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
		Root: r.opts.Root.Path(), Self: self, Ledger: r.opts.Ledger, Wire: wire, Program: r.opts.Version, Every: r.Every, Late: r.Late,
		Deliver: r.deliver, States: r.statesOf, Teams: r.offers,
		Changed: func() {
			r.opts.Changed()
			signals.Send(r.asked)
		},
		Warn: func(err error) { r.opts.Log.Warn("links", "err", view.Describe(err)) },
	})
	r.claimed.Store(false)
	r.set(wire, engine, nil)
	defer r.set(nil, nil, nil)
	done := make(chan error, 1)
	go func() { done <- engine.Run(running) }()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { _ = r.claimStandIns(running) })
	parts.Go(func() { _ = r.answer(running) })
	news, over := r.opts.News()
	defer over()
	for {
		select {
		case err := <-done:
			return err
		case <-news:
			engine.Poke()
			engine.Announce()
			signals.Send(r.looked)
		case <-r.changed:
			now, found, err := r.opts.Ledger.Links.Link(ctx)
			now.Queue, self.Queue = "", ""
			same, kerr := nats.ReadKey(filepath.Join(r.Opts.State, nats.KeyFile))
			if err == nil && kerr == nil && found && now == self && same.Card("") == key.Card("") {
				engine.Announce()
				signals.Send(r.looked)
				continue
			}
			signals.Send(r.changed) // serve again with the new settings
			stop()
			return cmp.Or(err, <-done)
		case <-ctx.Done():
			return <-done
		}
	}
}
