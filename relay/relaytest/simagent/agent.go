package simagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Options has the identity and the behaviour of an agent.
type Options struct {
	Dir   string // the team's directory, which holds config.json and inboxes
	Name  string // [Lead] makes it the lead
	Color string // is in the rows it sends; "" for none, as the lead's

	// Marks makes it mark the rows that it took as read, and keep them, as old versions do. They
	// write in place, and deliver rows before they mark them under the lock: while another process
	// holds that, they deliver them again at every poll.
	Marks bool

	Handle Handler // answers rows; nil: it takes rows and sends nothing
	Prompt string  // handled as the first turn if there is a Handle

	Poll time.Duration // 0: the interval of the real one
	// Rest is how long an inbox must be unchanged before the agent takes its rows, so that others
	// see them on a busy machine, too; otherwise an agent could take them at once.
	Rest time.Duration
	// GiveUp is how long an agent with Marks waits for the lock. 0: 0.6 s, as the real one, in 11
	// tries.
	GiveUp time.Duration
	Now    func() time.Time // nil: time.Now

	// Report is called with each failure while the agent runs, and the agent goes on,
	// as the real one does. nil: the first failure ends Run and is returned. It may be
	// called from two goroutines at a time.
	Report func(error)
}

// Agent is one simulated member. Its methods may be used from any goroutine,
// before, during and after Run.
type Agent struct {
	opts   Options
	ways   ways
	log    *log
	config *config

	// turning holds a token while a turn runs, and while the agent takes. A mutex
	// would stop the clock of testing/synctest.
	turning chan struct{}

	// Only Run uses these. They outlive it, so that a second Run can continue.
	handled  int // of the rows of the log; changed while turning is held
	prompted bool
}

// New returns an agent for a team directory. It starts nothing and touches no
// file.
func New(opts Options) (*Agent, error) {
	return newAgent(opts, newConfig(opts.Dir, clock(opts.Now)))
}

func newAgent(opts Options, config *config) (*Agent, error) {
	if err := checkName(opts.Name); err != nil {
		return nil, fmt.Errorf("simagent: %w", err)
	}
	if opts.Poll < 0 {
		return nil, fmt.Errorf("simagent: %s: poll interval %v: must not be negative", opts.Name, opts.Poll)
	}
	if opts.Poll == 0 {
		opts.Poll = interval(opts.Name)
	}
	opts.Now = clock(opts.Now)
	return &Agent{opts: opts, ways: ways{opts.Marks}, log: newLog(), config: config, turning: make(chan struct{}, 1)}, nil
}

func clock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// Inbox returns the path of the agent's inbox, which need not exist.
func (a *Agent) Inbox() string { return inboxPath(a.opts.Dir, a.opts.Name) }

// Run polls the inbox and runs turns until ctx ends or the agent has approved a
// shutdown; both return nil. Without [Options.Report] the first failure ends it.
// One Run at a time; a later one continues where the last stopped.
func (a *Agent) Run(ctx context.Context) error {
	select {
	case <-a.log.ended:
		return nil
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var once sync.Once
	var failure error
	report := func(err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		if a.opts.Report != nil {
			a.opts.Report(err)
			return
		}
		once.Do(func() { failure = err })
		cancel()
	}

	var poller sync.WaitGroup
	poller.Go(func() { a.poll(ctx, report) })
	a.work(ctx, report)
	cancel()
	poller.Wait()
	return failure
}

// poll is separate from work, which waits for the rows that poll takes. An agent
// takes nothing during a turn.
func (a *Agent) poll(ctx context.Context, report func(error)) {
	ticker := time.NewTicker(a.opts.Poll)
	defer ticker.Stop()
	for {
		select {
		case a.turning <- struct{}{}:
			if !a.about() {
				_, err := a.take(ctx)
				report(err)
			}
			<-a.turning
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// about reports whether a turn is about to begin, with rows that were taken already.
func (a *Agent) about() bool {
	rows, _ := a.log.after(a.handled)
	return a.opts.Handle != nil && len(rows) > 0
}

// take reads the inbox once, and returns how many rows it took. It reads without
// the lock first, because an agent locks an inbox only to change it.
func (a *Agent) take(ctx context.Context) (n int, err error) {
	path := a.Inbox()
	if a.opts.Rest > 0 {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < a.opts.Rest {
			return 0, nil
		}
	}
	rows, err := readRows(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // it has no messages yet
	}
	if err != nil {
		return 0, err
	}
	taken, _, changed, err := a.ways.take(rows)
	if err != nil || !changed {
		return 0, err
	}
	if a.opts.Marks {
		// Delivered rows are delivered again at the next poll, unless they can be
		// taken from the file until then.
		a.deliver(taken)
		waiting, cancel := context.WithTimeout(ctx, cmp.Or(a.opts.GiveUp, giveUp))
		defer cancel()
		err := locked(waiting, path, a.opts.Now, func() error {
			rows, err := readRows(path)
			if err != nil {
				return err
			}
			kept, err := without(rows, taken)
			if err != nil {
				return err
			}
			return a.ways.write(path, kept)
		})
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = nil // without a report
		}
		return len(taken), err
	}
	err = locked(ctx, path, a.opts.Now, func() error {
		rows, err := readRows(path)
		if err != nil {
			return err
		}
		taken, kept, changed, err := a.ways.take(rows)
		if err != nil || !changed {
			return err
		}
		if err := a.ways.write(path, kept); err != nil {
			return err
		}
		a.deliver(taken)
		n = len(taken)
		return nil
	})
	return n, err
}

// deliver puts rows into the log.
func (a *Agent) deliver(rows []Taken) {
	at := a.opts.Now().UTC()
	for i := range rows {
		rows[i].At = at
	}
	a.log.add(rows)
}

// work runs turns over the rows of the log, which is its queue.
func (a *Agent) work(ctx context.Context, report func(error)) {
	if a.opts.Prompt != "" && !a.prompted {
		a.prompted = true
		a.turning <- struct{}{}
		a.turn(ctx, Turn{Prompt: a.opts.Prompt}, report)
		<-a.turning
	}
	for {
		rows, err := a.log.wait(ctx, a.handled)
		if err != nil || a.step(ctx, rows, report) {
			return
		}
	}
}

// step runs the next turn with the taken rows, and reports whether the agent
// has ended.
func (a *Agent) step(ctx context.Context, rows []Taken, report func(error)) (ended bool) {
	a.turning <- struct{}{}
	defer func() { <-a.turning }()
	rows, shutdown := a.next(rows)
	a.handled += len(rows)
	if shutdown != nil {
		if err := a.approveShutdown(ctx, shutdown); err != nil {
			report(err)
			return false
		}
		close(a.log.ended)
		return true
	}
	if a.opts.Name == Lead {
		a.dismiss(ctx, rows, report)
	}
	a.turn(ctx, Turn{Rows: rows}, report)
	return false
}

// next takes the rows of the next turn from the waiting ones. A shutdown_request
// is alone in its turn, and its object is returned.
func (a *Agent) next(rows []Taken) (turn []Taken, shutdown object) {
	for i, r := range rows {
		if r.Kind() == "shutdown_request" && a.opts.Name != Lead {
			if i > 0 {
				return rows[:i], nil
			}
			return rows[:1], structured(r.Text)
		}
	}
	return rows, nil
}

// dismiss removes the members whose shutdown_approved the lead has taken.
func (a *Agent) dismiss(ctx context.Context, rows []Taken, report func(error)) {
	for _, r := range rows {
		if r.Kind() == "shutdown_approved" {
			report(a.config.remove(ctx, r.From))
		}
	}
}

// turn runs a turn. The caller holds a.turning.
func (a *Agent) turn(ctx context.Context, turn Turn, report func(error)) {
	if a.opts.Handle == nil {
		return
	}
	reply := a.opts.Handle(ctx, turn)
	if sleep(ctx, reply.Lasts) != nil {
		return // ended during the turn: nothing is sent
	}
	var sent []Message
	for _, m := range reply.Messages {
		if _, err := a.Send(ctx, m); err != nil {
			report(err)
			continue
		}
		sent = append(sent, m)
	}
	// Waiting rows are taken at once, and not at the next poll: before the report, and again
	// right after it.
	taken, err := a.take(ctx)
	report(err)
	if a.opts.Name != Lead {
		report(a.notifyIdle(ctx, sent, reply.Text, taken > 0))
	}
	if taken == 0 {
		_, err := a.take(ctx)
		report(err)
	}
}
