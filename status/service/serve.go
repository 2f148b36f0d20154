// Package service is the long-running process of "teambridge serve", without its HTTP API. A [Service] is a
// [bridge.Local] that also records inboxes all the time, tracks sent messages, runs headless agents, types into
// panes, exchanges messages with other machines, and sends alerts about items that need the person.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/relay/wire"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/bridge"
	"teambridge/status/history"
	"teambridge/status/links"
	"teambridge/status/local"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Options configures a [Service]. Root, State, Log and KeepWork are needed.
type Options struct {
	Root     *teams.Root
	State    string             // the directory of journal, ledger and locks
	Lock     lockedfile.Options // all but Dir
	ReadOnly bool               // run no agents, type into no panes, and join no team again
	Env      []string           // of the agents, as "NAME=value"; nil: the environment of this process
	Tmux     string             // as in [local.Options]
	As       string             // as in [pane.Options]
	Log      *slog.Logger

	KeepTranscripts []string      // the teams whose transcripts of interactive agents are recorded
	KeepWork        time.Duration // how long the events of agents at work are kept

	Alerts Alerts // about items that need the person

	Version    string // of this program, for other machines
	LinksAlone bool   // carry messages to and from other machines, and nothing else
	// DialHub connects to a hub at an ssh:// address; nil: such hubs are not supported.
	DialHub func(ctx context.Context, address string) (net.Conn, error)

	Timing relay.Timing  // of the relays
	Tick   time.Duration // between two checks for changes without an event; 0: 2 s
	Gather time.Duration // between two snapshots, at least; 0: 200 ms
	Behind int64         // as in [attention.Options]
}

// Service is a [bridge.Local] for one Claude directory that also works on its own: while [Service.Run] runs, it
// records the inboxes, tracks sent messages, runs relays, and types into panes. A person's messages to the
// agents that it runs become prompts.
type Service struct {
	*bridge.Local
	*shared

	panes    *pane.Panes
	shown    signals.Subscribers // to changes of the snapshot
	paneNews chan struct{}       // signals that something was recorded about messages to panes

	states     *attention.Cache
	watch      *attention.Watch
	replicator *journal.Replicator
	fleet      *fleet.Fleet // nil if the service is read-only
	follower   *follower
	rejoiner   *rejoiner
	links      *links.Carrier
	tasks      *taskRecorder
}

// shared is the common part of all parts of a service, so that no part depends on the service itself.
type shared struct {
	opts   Options
	log    *slog.Logger
	locker *lockedfile.Locker

	ledger  *ledger.Ledger
	journal *journal.Journal // written by the tap, and for receipts so that the two do not collide
	reader  *journal.Journal // the same file, so that a long search does not delay the tap

	news  signals.Subscribers // to new entries of the journal
	files signals.Subscribers // to changes in the state directory
	dirty chan struct{}       // signals a possible change of the snapshot that is not in the journal
}

// Open opens the files of a service, and makes its parts. It starts nothing. Close it.
func Open(ctx context.Context, opts Options) (_ *Service, err error) {
	opts.Tick, opts.Gather = cmp.Or(opts.Tick, 2*time.Second), cmp.Or(opts.Gather, history.Gather)
	opts.Lock.Dir = filepath.Join(opts.State, "locks")
	s := &Service{
		shared:   &shared{opts: opts, log: opts.Log, locker: lockedfile.New(opts.Lock), dirty: make(chan struct{}, 1)},
		paneNews: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.ledger, err = ledger.Open(ctx, filepath.Join(opts.State, "ledger.db")); err != nil {
		return nil, err
	}
	path := filepath.Join(opts.State, "journal.db")
	if s.journal, err = journal.Open(ctx, path); err != nil {
		return nil, err
	}
	if s.reader, err = journal.Open(ctx, path); err != nil {
		return nil, err
	}
	s.follower = &follower{shared: s.shared, added: make(chan struct{}, 1), most: maxFollowed}
	s.rejoiner = &rejoiner{shared: s.shared, dirty: make(chan struct{}, 1), seen: map[joinKey]os.FileInfo{}}
	s.tasks = &taskRecorder{shared: s.shared, changed: func(list string) { s.states.TasksChanged(list) }, partial: map[string]bool{}}
	s.replicator = journal.NewReplicator(journal.ReplicatorOptions{Ledger: s.ledger, Journal: s.reader, Notified: true, Copied: s.news.Tell, Warn: s.warn("recording")})
	if !opts.ReadOnly {
		s.fleet = fleet.New(fleet.Options{
			Root: opts.Root, Ledger: s.ledger, Locker: s.locker, State: opts.State, Env: opts.Env, Every: opts.Tick, Poked: true, Timing: opts.Timing,
			Journal: s.journal, Envelope: func(wire.Envelope) { s.news.Tell() }, Recorded: s.replicator.Poke, Report: s.relayed, Warn: s.warn("relaying"),
		})
	}
	s.panes = pane.New(pane.Options{
		Root: opts.Root, Ledger: s.ledger, State: opts.State, Homes: pane.HomesOf(s.lookupEnv), Locker: s.locker, As: opts.As, Notified: true, Recorded: s.replicator.Poke, Warn: s.warn("typing into panes"),
		Changed: func(inbox.InboxKey) {
			signals.Send(s.paneNews)
			signals.Send(s.dirty)
		},
	})
	s.watch = attention.NewWatch(s.panes, s.ledger, func() { signals.Send(s.paneNews) })
	s.states = attention.New(attention.Options{
		Root: opts.Root, State: opts.State, Source: status.Source{Journal: s.reader, Ledger: s.ledger}, Panes: s.panes,
		Fleet: s.fleet, Idle: attention.ReadOnly, Watch: s.watch, Behind: opts.Behind, TasksNotified: true, Changed: s.shown.Tell,
	})
	s.Local = bridge.ForService(local.Options{
		Root:    func() (*teams.Root, error) { return opts.Root, nil },
		Ledger:  func(context.Context) (*ledger.Ledger, error) { return s.ledger, nil },
		Journal: func(context.Context) (*journal.Journal, error) { return s.journal, nil },
		State:   opts.State, Locker: s.locker, Tmux: opts.Tmux, LookupEnv: s.lookupEnv,
		Env: opts.Env, Panes: s.panes, Seen: s.states.Seen,
		Warn:  s.warn("sending"),
		Debug: func(format string, values ...any) { s.log.Debug(fmt.Sprintf(format, values...)) },
	}, &history.Recording{
		Journal: s.reader, States: s.states, Gather: opts.Gather, News: s.news.Subscribe, Shown: s.watchStates, LookAtTasks: s.tasks.look,
	}, &bridge.Carrying{
		Fleet: s.fleet, Conversations: &s.follower.conversations, Sent: s.replicator.Poke, Queued: s.panes.Poke, Moved: s.changed, News: s.news.Subscribe,
		Record: s.record, Follow: s.follower.follow,
	})
	s.links = links.NewCarrier(s.Machines, here{s.Local}, links.Options{
		Root: opts.Root, Ledger: s.ledger, Journal: s.reader, Locker: s.locker, ReadOnly: opts.ReadOnly, Version: opts.Version, DialHub: opts.DialHub, News: s.news.Subscribe, Log: s.log,
		Changed: func() {
			s.replicator.Poke()
			signals.Send(s.dirty)
		},
	})
	return s, nil
}

// here sends messages of other machines, with the rights of an agent.
type here struct{ *bridge.Local }

func (h here) Team(ctx context.Context, team, member string) (*teams.Team, func() error, error) {
	to, err := h.In(bridge.WithMachine(ctx), team, member)
	return to.Team, to.Close, err
}

func (h here) Members(ctx context.Context, team string) ([]api.Member, error) {
	return h.Local.Members(bridge.WithMachine(ctx), team)
}

func (h here) Status(ctx context.Context, team string, members ...string) ([]api.Status, error) {
	return h.Local.Status(bridge.WithMachine(ctx), team, members...)
}

func (h here) Send(ctx context.Context, team, member, id string, m api.NewMessage) (api.Sent, error) {
	return h.Local.Send(bridge.WithMachine(bridge.WithAgent(ctx)), team, member, id, m)
}

func (h here) Ask(ctx context.Context, team, member, id string, q api.NewQuestion) (api.Answered, error) {
	return h.Local.Ask(bridge.WithMachine(bridge.WithAgent(ctx)), team, member, id, q)
}

// Close closes the files.
func (s *Service) Close() (err error) {
	if s.follower != nil {
		s.follower.close()
	}
	for _, j := range []*journal.Journal{s.reader, s.journal} {
		if j != nil {
			err = errors.Join(err, j.Close())
		}
	}
	if s.ledger != nil {
		err = errors.Join(err, s.ledger.Close())
	}
	return err
}

// warn returns a function that logs errors.
func (s *shared) warn(what string) func(error) {
	return func(err error) { s.log.Warn(what, "err", view.Describe(err)) }
}

// lookupEnv looks up a variable of the environment of the agents.
func (s *Service) lookupEnv(name string) (value string, found bool) {
	if s.opts.Env == nil {
		return os.LookupEnv(name)
	}
	for _, v := range s.opts.Env {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value, found = text, true // the last one counts
		}
	}
	return value, found
}

// A Part starts run in a goroutine, as a part of the service. If run fails before running ends, the service ends with
// that error.
type Part func(name string, run func(running context.Context) error)

// Run runs the parts of the service. Once the present content of the inboxes is recorded, it calls serve, which may
// start parts of its own, and returns when ctx or running ends. After that, the agents may finish their turns; then
// running ends, and Run waits for all parts. Run can be called once.
func (s *Service) Run(ctx context.Context, serve func(running context.Context, part Part) error) error {
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	part := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(running); err != nil && running.Err() == nil {
				stop(fmt.Errorf("server: %s: %w", name, err))
			}
		})
	}
	look := make(chan struct{}, 1)
	tap := journal.NewTap(journal.TapOptions{
		Root: s.opts.Root, Journal: s.journal,
		Report: func() {
			signals.Send(look)
			// Files that are not in the journal may have changed too, such as config.json.
			signals.Send(s.dirty)
			signals.Send(s.rejoiner.dirty)
		},
		Warn: s.warn("recording"),
	})
	part("watching files", func(ctx context.Context) error { return s.watchFiles(ctx, s.reportFiles) })
	part("recording", tap.Run)
	select {
	case <-tap.Ready():
	case <-running.Done():
		return context.Cause(running)
	case <-ctx.Done():
		return nil
	}
	signals.Send(look)
	part("news", func(ctx context.Context) error { return s.pump(ctx, look) })
	if !s.opts.ReadOnly {
		if err := s.follower.adopt(running, false); err != nil {
			s.log.Warn("earlier messages are not followed", "err", view.Describe(err))
		}
	}
	part("following", s.follower.run)
	if len(s.opts.KeepTranscripts) > 0 {
		part("keeping transcripts", (&keeper{shared: s.shared, panes: s.panes}).run)
	}
	part("replicating", s.replicator.Run)
	if s.opts.LinksAlone {
		part("links", s.links.Run)
		return serve(running, part)
	}
	for _, to := range s.opts.Alerts.To {
		part("alerts", func(ctx context.Context) error { s.alert(ctx, to); return nil })
	}
	if err := s.tasks.begin(running); err != nil && running.Err() == nil {
		s.warn("recording tasks")(err) // the history begins with the next service
	}
	part("recording tasks", s.tasks.run)
	part("states", s.refreshStates)
	part("looking at panes", s.lookAtPanes)
	if !s.opts.ReadOnly {
		part("pruning", s.prune)
		part("joining", s.rejoiner.run)
		part("links", s.links.Run)
		defer s.runRelays(ctx, running, part)()
	}
	return serve(running, part)
}

// runRelays runs the relays and the queues of panes until ctx or running ends. end stops them, and waits for the
// current turns of their agents and for deliveries to panes that have begun.
func (s *Service) runRelays(ctx, running context.Context, part Part) (end func()) {
	on, stop := context.WithCancel(running)
	// As soon as ctx ends, not after the last request: agents take longer.
	forget := context.AfterFunc(ctx, stop)
	var all sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{"relays": s.fleet.Run, "panes": s.panes.Run} {
		all.Add(1)
		part(name, func(context.Context) error {
			defer all.Done()
			return run(on)
		})
	}
	return func() {
		forget()
		stop()
		all.Wait()
	}
}

// pump signals the parts of the service when the journal or the ledger has new entries, also of other processes. It
// returns an error, which ends the service, once one of the two files was moved away or replaced: whatever the
// service recorded from then on would be lost, and the ids of sent messages would be forgotten.
func (s *Service) pump(ctx context.Context, look <-chan struct{}) (moved error) {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	failed := func(err error) bool {
		if errors.Is(err, ledger.ErrMoved) {
			moved = err
			stop()
		}
		return err != nil
	}
	files, done := s.FilesChanged() // other processes record too
	defer done()
	var last int64
	var recorded, version string
	var checked time.Time
	journalVersion, ledgerVersion := s.reader.Poll(), s.ledger.Poll()
	never := func() bool { return false }
	err := signals.LoopWhile(looking, files, look, s.opts.Tick, never, func() {
		now, err := journalVersion(ctx)
		if err == nil && now != recorded {
			var seq int64
			if seq, err = s.reader.Last(ctx); err == nil {
				recorded = now
			}
			if err == nil && seq != last {
				last = seq
				s.news.Tell()
			}
		}
		if failed(err) && moved == nil && ctx.Err() == nil {
			s.log.Warn("the journal cannot be read", "err", view.Describe(err))
		}
		if time.Since(checked) < filesGather/2 { // not at every signal
			return
		}
		checked = time.Now()
		if now, err := ledgerVersion(ctx); !failed(err) && now != version {
			version = now
			// Wake the parts that read the ledger.
			s.replicator.Poke()
			signals.Send(s.rejoiner.dirty)
			signals.Send(s.paneNews)
			s.links.Poke()
			if s.fleet != nil {
				s.fleet.Poke()
				s.panes.Poke()
			}
		}
	})
	return cmp.Or(moved, err)
}

// relayed logs the state of a relay.
func (s *Service) relayed(r fleet.Status) {
	log := s.log.Info
	switch r.Now.State {
	case relay.Idle, relay.Working, relay.Starting:
		log = s.log.Debug // they change with each message
	case relay.Dead:
		log = s.log.Warn
	}
	log("a relay", "relay", r.ID, "team", r.Team, "member", r.Member, "state", r.Now.State, "reason", r.Now.Reason, "pid", r.Now.PID)
	s.changed(r.Team)
}

// changed signals that the shown state of a team's relays has changed.
func (s *Service) changed(team string) {
	s.states.Relayed(team)
	signals.Send(s.dirty)
}

// watchStates returns a channel that signals each change of the snapshot. Call done at the end.
func (s *Service) watchStates() (shown <-chan struct{}, done func()) {
	shown, done = s.shown.Subscribe()
	signals.Send(s.dirty) // refreshStates does nothing until somebody watches
	return shown, done
}

// refreshStates keeps the states of all teams up to date while somebody watches them.
func (s *Service) refreshStates(ctx context.Context) error {
	news, done := s.news.Subscribe()
	defer done()
	watched := func() bool { return s.shown.Size() > 0 }
	return signals.LoopWhile(ctx, news, s.dirty, s.opts.Tick, watched, func() {
		if !watched() {
			return
		}
		if err := s.states.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the teams cannot be listed", "err", view.Describe(err))
		}
		// Changes in quick succession become one.
		select {
		case <-ctx.Done():
		case <-time.After(s.opts.Gather):
		}
	})
}

// lookAtPanes examines the registered panes and the sessions when a file of a session or the ledger has changed, or a
// session has ended, and every few seconds while that does not suffice, so that no request has to.
func (s *Service) lookAtPanes(ctx context.Context) error {
	signals.Send(s.paneNews)
	defer s.watch.Close()
	warned := false
	return signals.LoopWhile(ctx, nil, s.paneNews, s.opts.Tick, s.watch.Regularly, func() {
		changed, err := s.watch.Look(ctx)
		if err != nil && !warned && ctx.Err() == nil {
			s.log.Warn("the panes cannot be listed for now", "err", view.Describe(err))
		}
		if warned = err != nil; changed {
			signals.Send(s.dirty)
		}
		// Sessions that work write their files often.
		select {
		case <-ctx.Done():
		case <-time.After(min(history.Recheck, s.opts.Tick/2)):
		}
	})
}

// pruneEvery is how often old work is deleted.
const pruneEvery = time.Hour

// prune deletes old work of agents, and brings the search index up to date, so that a search has little left to do, until ctx
// ends.
func (s *Service) prune(ctx context.Context) error {
	now := make(chan struct{}, 1)
	signals.Send(now)
	return signals.Loop(ctx, nil, now, pruneEvery, func() {
		if _, err := s.reader.PruneEnvelopes(ctx, time.Now().Add(-s.opts.KeepWork)); err != nil && ctx.Err() == nil {
			s.log.Warn("old work of agents was not deleted", "err", view.Describe(err))
		}
		if err := s.reader.Index(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the search index is not up to date", "err", view.Describe(err))
		}
	})
}

// record records a sent message, which the tap can miss, and then its receipt. It also records them if the client has gone
// away, since a receipt without its message would be useless.
func (s *Service) record(ctx context.Context, sender *mail.Sender, d mail.Delivered) {
	ctx, key := context.WithoutCancel(ctx), sender.Key(d)
	var ahead []string
	if d.Tracked != nil {
		ahead = d.Tracked.Ahead
	}
	var err error
	if d.Seen != nil {
		// Ignore whether the journal needs another look: the follower looks next anyway.
		_, err = s.journal.Messages.Observe(ctx, journal.SnapshotOf(key, d.Seen))
	}
	if err == nil {
		_, err = s.journal.Receipts.Verified(ctx, key, time.Now(), ahead...)
	}
	if err != nil {
		s.log.Warn("a sent message was not recorded", "id", d.ID, "err", view.Describe(err))
	}
	s.news.Tell()
}
