package link

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
)

// Options are the options of [New]. Root, Ledger, Wire and Deliver are needed.
type Options struct {
	Root   string // of the outbox
	Self   ledger.Link
	Ledger *ledger.Ledger
	Wire   Wire

	// Deliver puts a message where it belongs, once under its N: it is called again for a
	// message if it failed, or if nobody recorded that it did not. It returns the message with its
	// Stage, which is at least [ledger.StageVerified], and where it was put; an error if it is to
	// be tried again later.
	Deliver func(context.Context, Message) (ledger.Incoming, error)
	// Look returns how far a message has come that was delivered. nil: nobody knows.
	Look func(context.Context, ledger.Incoming) (ledger.Incoming, error)
	// Teams returns what a machine may write to; nil: nothing.
	Teams func(ctx context.Context, machine string) ([]Team, error)

	Program string // our version
	Changed func() // is called when something was recorded
	Warn    func(error)

	Every time.Duration // between two presences; 0: 15 s
	Late  time.Duration // what is stored for so long and is not at the hub any more is sent again; 0: 5 s
	Retry time.Duration // the pause after a failure; 0: 250 ms
}

// Link carries the messages of one ledger to and from other machines while it runs.
type Link struct {
	opts     Options
	instance string

	mu      sync.Mutex
	peers   map[string]*peer
	refused map[string][]ledger.Receipt // to be sent
	queries map[string][]string         // to be sent
	working map[recipient]bool
	waiting map[recipient]time.Time // until when nothing is delivered to it

	arrived, outcomes, present chan struct{}
}

type peer struct {
	wake  chan struct{} // there may be something to write
	retry chan struct{} // what could not be written may be now
	stop  context.CancelFunc
}

type recipient struct{ team, member string }

// Expiry is how long a message waits for its machine. The hub keeps it for less, and ids are kept for longer.
const Expiry = 8 * 24 * time.Hour

// remembered is how long ids of messages that came are kept.
const remembered = 30 * 24 * time.Hour

// Lock is the key of the lock that whoever runs the links of a state directory holds.
const Lock = "running links"

// New returns a Link. It starts nothing.
func New(opts Options) *Link {
	opts.Every, opts.Late, opts.Retry = cmp.Or(opts.Every, 15*time.Second), cmp.Or(opts.Late, 5*time.Second), cmp.Or(opts.Retry, 250*time.Millisecond)
	if opts.Changed == nil {
		opts.Changed = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Link{
		opts: opts, instance: uuid.NewString(), peers: map[string]*peer{}, refused: map[string][]ledger.Receipt{}, queries: map[string][]string{},
		working: map[recipient]bool{}, waiting: map[recipient]time.Time{},
		arrived: make(chan struct{}, 1), outcomes: make(chan struct{}, 1), present: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Poke says that the ledger may have something new: messages, machines, or what became of messages
// that came.
func (l *Link) Poke() {
	signal(l.arrived)
	signal(l.outcomes)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		signal(p.wake)
	}
}

// Announce has presence told soon: what members do has changed.
func (l *Link) Announce() { signal(l.present) }

func (l *Link) wake(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.peers[machine]; p != nil {
		signal(p.wake)
	}
}

// Run carries messages until ctx ends. The error is that of a ledger that cannot be used any more.
func (l *Link) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	part := func(run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	part(l.read)
	part(func(ctx context.Context) error { return l.deliver(ctx, &parts) })
	part(l.look)
	part(l.announce)
	part(l.expire)
	err := l.attend(ctx, &parts)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// attend runs a writer for each machine that there is a link with.
func (l *Link) attend(ctx context.Context, parts *sync.WaitGroup) error {
	for {
		list, err := l.opts.Ledger.Machines(ctx, l.opts.Root)
		if err != nil && l.failed(ctx, "the links are not known", err) {
			return err
		}
		if err == nil {
			l.mu.Lock()
			there := map[string]bool{}
			for _, m := range list {
				there[m.Name] = true
				if l.peers[m.Name] == nil {
					writing, stop := context.WithCancel(ctx)
					p := &peer{make(chan struct{}, 1), make(chan struct{}, 1), stop}
					l.peers[m.Name] = p
					parts.Go(func() { l.write(writing, m.Name, p) })
				}
			}
			for name, p := range l.peers {
				if !there[name] {
					p.stop()
					delete(l.peers, name)
				}
			}
			l.mu.Unlock()
		}
		if !pause(ctx, 2*time.Second) {
			return nil
		}
	}
}

// failed warns of an error, unless ctx has ended, and reports whether the ledger cannot be used any more.
func (l *Link) failed(ctx context.Context, what string, err error) (over bool) {
	if ctx.Err() != nil {
		return false
	}
	l.opts.Warn(fmt.Errorf("%s: %w", what, err))
	return errors.Is(err, ledger.ErrMoved)
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration, wake ...<-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	var woken <-chan struct{}
	if len(wake) > 0 {
		woken = wake[0]
	}
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
		return false
	}
	return true
}

// write empties the outbox for a machine, in order, one frame at a time.
func (l *Link) write(ctx context.Context, machine string, p *peer) {
	said := ""
	for {
		sent, err := l.writeFrame(ctx, machine, p.retry)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if text := err.Error(); text != said {
				said = text
				l.failed(ctx, "messages to "+machine+" wait", err)
			}
			if !pause(ctx, l.opts.Retry+rand.N(l.opts.Retry), p.retry) {
				return
			}
		case sent:
			said = ""
			l.opts.Changed()
		default:
			select {
			case <-p.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// writeFrame publishes one frame, if there is something to say.
func (l *Link) writeFrame(ctx context.Context, machine string, retry <-chan struct{}) (sent bool, err error) {
	lg := l.opts.Ledger
	if !l.opts.Wire.State().Connected {
		return false, nil // all are woken when it is
	}
	list, err := lg.NextOutgoing(ctx, machine, maxMessages, maxBytes)
	if err != nil {
		return false, err
	}
	untold, err := lg.Untold(ctx, machine, maxReceipts)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	refused, query := l.refused[machine], l.queries[machine]
	delete(l.refused, machine)
	if delete(l.queries, machine); len(query) > maxReceipts { // what is lost here is asked again some time
		query, l.queries[machine] = query[:maxReceipts], query[maxReceipts:]
	}
	l.mu.Unlock()
	defer func() {
		if !sent && len(refused) > 0 {
			l.mu.Lock()
			l.refused[machine] = append(refused, l.refused[machine]...)
			l.mu.Unlock()
		}
	}()
	if len(list)+len(untold)+len(refused)+len(query) == 0 {
		return false, nil
	}
	f := frame{Version: Version, Ledger: l.opts.Self.Incarnation, Receipts: refused, Query: query}
	if f.For, err = lg.Incarnation(ctx, machine); err != nil {
		return false, err
	}
	ids := make([]string, 0, len(list))
	for _, o := range list {
		m, err := messageOf(o)
		if err != nil {
			return false, fmt.Errorf("message %s: %w", o.UUID, err)
		}
		f.Messages, ids = append(f.Messages, m), append(ids, o.UUID)
	}
	for _, m := range untold {
		f.Receipts = append(f.Receipts, m.Receipt())
	}
	body, err := json.Marshal(f)
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		if err := lg.Sending(ctx, ids...); err != nil {
			return false, err
		}
	}
	id, said := uuid.NewString(), ""
	for { // the same frame until it is known to be stored
		err := l.opts.Wire.Publish(ctx, machine, id, body)
		if err == nil {
			break
		}
		if errors.Is(err, ErrPeer) || ctx.Err() != nil {
			return false, err
		}
		if text := err.Error(); text != said {
			said = text
			l.failed(ctx, "messages to "+machine+" wait", err)
		}
		if !pause(ctx, l.opts.Retry+rand.N(l.opts.Retry), retry) {
			return false, context.Cause(ctx)
		}
	}
	keep := context.WithoutCancel(ctx) // it is at the hub
	if len(ids) > 0 {
		if err := lg.Stored(keep, ids...); err != nil {
			return true, err
		}
	}
	if len(untold) > 0 {
		err = lg.Told(keep, untold...)
	}
	return true, err
}

// read takes what the wire has for this machine.
func (l *Link) read(ctx context.Context) error {
	signal(l.present)
	for {
		a, err := l.opts.Wire.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for {
			switch {
			case a.Frame != nil:
				err = l.take(ctx, a)
			case a.Told != nil:
				err = l.heard(ctx, a.From, a.Told)
			default:
				err = l.changed(ctx)
			}
			if err == nil || ctx.Err() != nil {
				break
			}
			if l.failed(ctx, "what "+cmp.Or(a.From, "the hub")+" sent is not recorded", err) {
				return err
			}
			// Not acknowledged: a full disk, or a ledger that another process uses.
			if a.Frame == nil || !pause(ctx, l.opts.Retry) {
				break
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// take records a frame, and acknowledges it then.
func (l *Link) take(ctx context.Context, a Arrival) error {
	var f frame
	if err := json.Unmarshal(a.Frame, &f); err != nil || f.Version < 1 {
		l.opts.Warn(fmt.Errorf("%s sent a frame that is none; it is left out: %w", a.From, cmp.Or(err, errors.New("it has no version"))))
		return l.ack(ctx, a)
	}
	if f.Version > Version {
		// Its presence tells the sender that we are older. What is not acknowledged would hold up all others.
		l.opts.Warn(fmt.Errorf("%s uses version %d of links, and this program knows %d: its messages wait until this one is upgraded", a.From, f.Version, Version))
		return l.ack(ctx, a)
	}
	lg := l.opts.Ledger
	known, err := lg.Incarnation(ctx, a.From)
	if errors.Is(err, ledger.ErrNoMachine) {
		return l.ack(ctx, a) // its link was removed a moment ago
	}
	if err == nil && known == "" {
		known = f.Ledger
		_, err = lg.HeardFrom(ctx, a.From, known, nil)
	}
	if err != nil {
		return err
	}
	if known != f.Ledger { // its presence will tell which one there is now
		f.Receipts = slices.DeleteFunc(f.Receipts, func(r ledger.Receipt) bool { return r.Stage == ledger.StageReset })
	}
	if len(f.Receipts) > 0 {
		if err := lg.Confirm(ctx, a.From, f.Receipts...); err != nil {
			return err
		}
	}
	if len(f.Query) > 0 {
		if err := lg.Tell(ctx, a.From, f.Query...); err != nil {
			return err
		}
	}
	var list []ledger.Incoming
	var refused []ledger.Receipt
	for _, m := range f.Messages {
		if f.For != "" && f.For != l.opts.Self.Incarnation {
			// Meant for a ledger that this one has replaced, which may have had them. Ours in the
			// answer tells the sender so.
			refused = append(refused, ledger.Receipt{ID: m.ID, Stage: ledger.StageReset})
			continue
		}
		in, err := incoming(m)
		if err != nil {
			refused = append(refused, ledger.Receipt{ID: m.ID, Stage: ledger.StageRefused, Reason: err.Error()})
			continue
		}
		list = append(list, in)
	}
	if len(list) > 0 {
		more, err := lg.Receive(ctx, a.From, list...)
		if errors.Is(err, ledger.ErrNoMachine) {
			return l.ack(ctx, a)
		}
		if err != nil {
			return err
		}
		refused = append(refused, more...)
	}
	if len(refused) > 0 {
		l.mu.Lock()
		l.refused[a.From] = append(l.refused[a.From], refused...)
		l.mu.Unlock()
	}
	err = l.ack(ctx, a)
	time.AfterFunc(soon, func() { l.wake(a.From) })
	signal(l.arrived)
	l.opts.Changed()
	return err
}

// soon is how long the receipt that messages were received waits for a better one: what is
// delivered at once then has one receipt, not two.
const soon = 20 * time.Millisecond

// ack acknowledges a frame. If that fails, the frame comes again, and is known.
func (l *Link) ack(ctx context.Context, a Arrival) error {
	if err := a.Ack(ctx); err != nil && ctx.Err() == nil {
		l.opts.Warn(fmt.Errorf("a frame of %s was not acknowledged, and comes again: %w", a.From, err))
	}
	return nil
}

// content is what the ledger keeps of a message until it is delivered.
type content struct {
	Name, Text, Summary string
}

func incoming(m message) (in ledger.Incoming, err error) {
	for _, field := range []struct{ what, text string }{{"id", m.ID}, {"team", m.Team}, {"recipient", m.Member}, {"sender", m.From}, {"text", m.Text}} {
		if field.text == "" {
			return in, fmt.Errorf("it has no %s", field.what)
		}
		if field.what != "text" && len(field.text) > maxName {
			return in, fmt.Errorf("its %s has %d bytes, over %d", field.what, len(field.text), maxName)
		}
	}
	raw, err := json.Marshal(content{m.Name, m.Text, m.About})
	return ledger.Incoming{ID: m.ID, Team: m.Team, Member: m.Member, From: m.From, Digest: m.digest(), Raw: raw, Asks: m.Ask, Sent: m.Sent}, err
}

// maxName is the size of the longest name of anything, in bytes.
const maxName = 1024

// changed does what is due when the wire was connected, or lost.
func (l *Link) changed(ctx context.Context) error {
	s := l.opts.Wire.State()
	defer l.opts.Changed()
	if !s.Connected {
		return nil
	}
	if s.Queue != "" {
		again, err := l.opts.Ledger.SetQueue(ctx, s.Queue)
		if err != nil {
			return err
		}
		if again > 0 {
			l.opts.Warn(fmt.Errorf("the hub has lost what it had stored; %d messages are sent again", again))
		}
	}
	l.mu.Lock()
	for _, p := range l.peers {
		signal(p.retry)
	}
	l.mu.Unlock()
	signal(l.present)
	return l.query(ctx)
}

// query asks all machines what became of messages that nothing final is known of.
func (l *Link) query(ctx context.Context) error {
	list, err := l.opts.Ledger.Machines(ctx, l.opts.Root) // its writer need not run yet
	if err != nil {
		return err
	}
	for _, m := range list {
		var ids []string
		for after, more := int64(0), true; more; {
			open, err := l.opts.Ledger.OpenOutgoing(ctx, m.Name, after, maxReceipts)
			if err != nil {
				return err
			}
			for _, o := range open {
				ids, after = append(ids, o.UUID), o.Seq
			}
			more = len(open) == maxReceipts
		}
		l.mu.Lock()
		l.queries[m.Name] = ids
		l.mu.Unlock()
		l.wake(m.Name)
	}
	return nil
}

// heard records what a machine says of itself. It decides nothing but what is sent again.
func (l *Link) heard(ctx context.Context, machine string, text []byte) error {
	var p Presence
	if err := json.Unmarshal(text, &p); err != nil || machine == l.opts.Self.Name {
		return nil // it comes again
	}
	if lost, err := l.opts.Ledger.HeardFrom(ctx, machine, p.Ledger, text); err != nil {
		return err
	} else if lost > 0 {
		l.opts.Warn(fmt.Errorf("the ledger of %s is another one than before; of %d messages it is not known whether they arrived", machine, lost))
	}
	// A receipt may also wait for this machine.
	if p.Empty && p.Version >= Version && l.opts.Wire.State().Waiting == 0 {
		again, err := l.opts.Ledger.Again(ctx, machine, time.Now().Add(-l.opts.Late))
		if err != nil {
			return err
		}
		if again > 0 {
			l.wake(machine)
		}
	}
	l.opts.Changed()
	return nil
}

// announce says what this machine is, every so often and on a change.
func (l *Link) announce(ctx context.Context) error {
	asked := time.Now()
	for {
		if !pause(ctx, l.opts.Every, l.present) {
			return nil
		}
		if time.Since(asked) > queryEvery {
			asked = time.Now()
			if err := l.query(ctx); err != nil && l.failed(ctx, "what became of messages is not asked for", err) {
				return err
			}
		}
		s := l.opts.Wire.State()
		if !s.Connected {
			continue
		}
		l.mu.Lock()
		names := []string{l.opts.Self.Name}
		for name := range l.peers {
			names = append(names, name)
		}
		l.mu.Unlock()
		for _, name := range names {
			var err error
			p := Presence{Version: Version, Instance: l.instance, Ledger: l.opts.Self.Incarnation, Program: l.opts.Program}
			if p.Empty, err = l.empty(ctx, name, s); err != nil && l.failed(ctx, "what "+name+" was not told is not known", err) {
				return err
			}
			if name != l.opts.Self.Name && l.opts.Teams != nil {
				teams, err := l.opts.Teams(ctx, name)
				if err != nil && ctx.Err() == nil {
					l.failed(ctx, "what "+name+" may write to is not known", err)
				}
				p.Teams = teams
			}
			text, err := json.Marshal(p)
			if err != nil {
				return err
			}
			if err := l.opts.Wire.Tell(ctx, name, text); err != nil && ctx.Err() == nil {
				break // it is lost, and comes again
			}
		}
	}
}

// empty reports whether nothing is stored for this machine, and a machine was told of all that came
// from it. Then whatever it has no receipt for is lost.
func (l *Link) empty(ctx context.Context, machine string, s State) (bool, error) {
	if s.Waiting != 0 {
		return false, nil
	}
	untold, err := l.opts.Ledger.Untold(ctx, machine, 1)
	return err == nil && len(untold) == 0, err
}

// queryEvery is how often machines are asked what became of messages.
const queryEvery = 10 * time.Minute

// expire gives up what has waited for too long, and forgets old ids.
func (l *Link) expire(ctx context.Context) error {
	for {
		n, err := l.opts.Ledger.ExpireOutgoing(ctx, time.Now().Add(-Expiry), "its machine did not take it for 8 days")
		if err == nil {
			err = l.opts.Ledger.PruneIncoming(ctx, time.Now().Add(-remembered))
		}
		if err != nil && l.failed(ctx, "old messages stay", err) {
			return err
		}
		if n > 0 {
			l.opts.Changed()
		}
		if !pause(ctx, time.Hour) {
			return nil
		}
	}
}
