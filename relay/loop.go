package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/pipe"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// loop is a relay at work. One goroutine owns all of it.
type loop struct {
	*Relay
	ctx context.Context

	session ledger.Session
	kept    pipe.Mode // what the agent is to work with: that of the last frame, as the ledger has it
	mode    pipe.Mode // what the agent that runs works with; another only while a frame is made

	// The agent that runs, if one does.
	proc    *claude.Process
	events  chan claude.Event
	reading sync.WaitGroup
	started time.Time
	spoke   bool          // it has printed something of a turn
	version teams.Version // of Claude Code, once it has said so
	reads   bool          // it reads its inbox itself

	frame   *ledger.Frame // in flight; nil if none is
	sent    bool          // it was written to this agent
	silent  bool          // an older agent does not acknowledge it by its uuid
	acked   bool          // this agent did
	doubt   *doubt        // a turn has ended that was perhaps its own
	careful bool          // the last agent died with it, and had said nothing

	// What the claiming of rows goes by.
	dirty     bool            // the inbox may have changed since it was looked at
	more      bool            // rows wait in it for which there was no room
	seen      *look           // when nothing in it waited; nil if that is not known
	unwritten map[string]bool // deliveries that were claimed here and whose rows were certainly not marked
	named     map[string]bool // deliveries that its rows name, and that were looked up
	trouble   string          // why claiming fails; empty if it does not

	holds      []ledger.Hold // senders whose rows are left in it, see guard
	heldReason string        // that, for people; empty if there are none

	ledgerErr string          // why the ledger cannot be used now; empty if it can
	ended     <-chan struct{} // closed when the relay is to end

	idler

	deaths  int           // in a row, without getting anywhere
	backoff time.Duration // how long the next start is put off
	retry   <-chan time.Time
}

// grace is the default of Relay.grace.
var grace = claude.Grace{EOF: 30 * time.Second, Term: 5 * time.Second}

func (l *loop) run() error {
	look := time.NewTicker(l.opts.Timing.Look)
	defer look.Stop()
	err := l.begin()
	for err == nil {
		if err = l.step(); err != nil {
			break
		}
		err = l.next(look.C)
	}
	if l.ctx.Err() != nil {
		err = nil // whatever failed, failed because of that
	}
	return errors.Join(err, l.end(err))
}

// keep records the session, and what state the relay is in.
func (l *loop) keep(state ledger.RelayState, reason string) error {
	l.session.State, l.session.Reason, l.session.Relay = state, reason, os.Getpid()
	if err := l.insist(func(ctx context.Context) error { return l.ledger.SetSession(ctx, l.session) }); err != nil {
		return err
	}
	l.opts.Recorded()
	return nil
}

// next waits until there may be something to do.
func (l *loop) next(look <-chan time.Time) error {
	for {
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-l.wake:
			l.dirty = true
			return nil
		case <-l.retry:
			l.retry, l.dirty = nil, true
			if l.doubt != nil && l.frame != nil {
				return l.believe()
			}
			return nil
		case <-l.idle:
			l.idle = nil
			return l.close()
		case <-l.late:
			l.terminate()
		case e, ok := <-l.events:
			switch {
			case ok:
				return l.event(e)
			case l.closing:
				return l.closed()
			}
			return l.gone()
		case <-look:
			if l.frame != nil {
				continue
			}
			// The watcher does not tell of a team that was gone before it looked first.
			if err := l.opts.Team.Exists(); errors.Is(err, teams.ErrTeamGone) {
				return err
			}
			open, err := l.ledger.OpenCount(l.ctx, l.post)
			released := false
			if err == nil {
				released, err = l.released()
			}
			if passing(err) && l.ctx.Err() == nil {
				l.ledgerFails(err)
				l.later()
				return nil
			}
			if released {
				l.dirty, l.seen = true, nil
			}
			if err != nil || open > 0 || released {
				return err
			}
		}
	}
}

// begin finds out where an earlier relay stopped.
func (l *loop) begin() error {
	err := l.insist(func(ctx context.Context) (err error) {
		l.session, _, err = l.ledger.Session(ctx, l.post)
		return err
	})
	if err != nil {
		return err
	}
	if err := l.restoreMode(); err != nil {
		return err
	}
	l.session.Post = l.post
	if l.session.ID == "" {
		l.session.ID = uuid.NewString()
		if l.opts.Child.Session != "" {
			l.session.ID = l.opts.Child.Session
		}
	}
	if err := l.predecessor(); err != nil {
		return err
	}
	var f ledger.Frame
	var found bool
	err = l.insist(func(ctx context.Context) (err error) {
		f, found, err = l.ledger.InFlight(ctx, l.post)
		return err
	})
	if err != nil {
		return err
	}
	if found {
		// A power cut may have taken back that it was written.
		f.Tries = max(f.Tries, 1)
		l.frame = &f
	}
	l.dirty = true
	return l.start(l.kept)
}

// restoreMode finds out what mode the agent is to work with. How it was told to
// begin counts for a session that is new, and what a message changed for ever
// after: what is in flight must not be run with more permissions than it was sent
// with, nor what follows it. Only what the flags of another command say, which a
// person has given since, is as they say.
func (l *loop) restoreMode() error {
	switch {
	case l.session.ID == "":
		l.kept = l.opts.Mode
	case l.session.Mode != nil:
		var err error
		if l.kept, err = pipe.ParseMode(l.session.Mode); err != nil {
			return fmt.Errorf("relay: the mode of the session in the ledger: %w", err)
		}
	default:
		// An earlier version left it.
		l.kept = l.opts.Mode
		var modes [][]byte
		err := l.insist(func(ctx context.Context) (err error) {
			modes, err = l.ledger.Modes(ctx, l.post)
			return err
		})
		if err != nil {
			return err
		}
		for _, m := range modes {
			change, err := pipe.ParseMode(m)
			if err != nil {
				return fmt.Errorf("relay: a mode in the ledger: %w", err)
			}
			l.kept = l.kept.Merge(change)
		}
	}
	if l.session.ID != "" && l.session.Command != l.command() {
		l.kept = l.opts.Child.Unnamed(l.kept)
	}
	var err error
	l.session.Mode, err = l.kept.MarshalJSON()
	return err
}

func (l *loop) command() string { return strings.Join(l.opts.Child.Command, " ") }

// predecessor makes sure that no agent of an earlier relay works on: resuming
// its session beside it would run a message twice.
func (l *loop) predecessor() error {
	if l.session.PID == 0 {
		return nil
	}
	old := claude.Predecessor{PID: l.session.PID, Group: l.session.Group, Start: l.session.Start}
	alive, err := old.Alive()
	if err != nil {
		return fmt.Errorf("relay: the agent of an earlier relay: %w", err)
	}
	if !alive {
		return nil
	}
	reason := fmt.Sprintf("the agent of an earlier relay (process %d) is still at work", old.PID)
	if err := l.keep(ledger.RelayWaiting, reason); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Reason = Waiting, reason })
	wait, cancel := context.WithTimeout(l.ctx, l.opts.Predecessor)
	err = old.Wait(wait)
	cancel()
	if l.ctx.Err() != nil {
		return l.ctx.Err()
	}
	if err == nil {
		return nil
	}
	if err := old.End(l.ctx, l.grace.Term); err != nil {
		return fmt.Errorf("relay: end the agent of an earlier relay (process %d): %w", old.PID, err)
	}
	return nil
}

// start starts the agent, on the session it had, in that mode.
func (l *loop) start(mode pipe.Mode) error {
	opts := l.opts.Child
	opts.Session, opts.Mode = l.session.ID, mode
	var err error
	if opts.Resume, err = l.transcript().Exists(); err != nil {
		return fmt.Errorf("relay: look for the session of the agent: %w", err)
	}
	l.session.PID, l.session.Group, l.session.Start, l.session.Dead = 0, 0, "", ""
	l.session.Command, l.session.At = l.command(), time.Now()
	// The id before the process: one that nobody knows could not be resumed.
	if err := l.keep(ledger.RelayStarting, ""); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Session, s.Reason = Starting, l.session.ID, "" })
	// Not with our context: the agent may finish its turn when that ends.
	proc, err := claude.Start(context.WithoutCancel(l.ctx), opts)
	if err != nil {
		return fmt.Errorf("relay: start the agent: %w", err)
	}
	p := proc.Predecessor()
	l.session.PID, l.session.Group, l.session.Start = p.PID, p.Group, p.Start
	// The process before its first frame: only so can the next relay wait for it.
	if err := l.keep(ledger.RelayRunning, ""); err != nil {
		return errors.Join(err, proc.Kill())
	}
	l.proc, l.sent, l.spoke, l.started = proc, false, false, time.Now()
	l.mode = opts.Begins()
	l.idler = idler{active: l.started}
	l.events = make(chan claude.Event, 256)
	events := l.events
	l.reading.Go(func() {
		defer close(events)
		for e, err := range proc.Events(context.Background()) {
			if err != nil {
				return
			}
			events <- e
		}
	})
	l.move(func() { l.child = proc })
	l.set(func(s *Status) { s.PID = p.PID })
	return nil
}

func (l *loop) transcript() claude.Transcript {
	return claude.Transcript{Root: l.post.Root, Dir: l.opts.Child.Dir, Session: l.session.ID}
}

// step does what can be done now: claim rows, make a frame, write it. What cannot
// be done for a while is said once, and tried again with the next change or after
// [Timing.Retry].
func (l *loop) step() error {
	defer l.opts.Recorded()
	err := l.claim()
	works := err == nil // the ledger does
	switch {
	case err == nil:
		l.trouble = ""
	case errors.Is(err, teams.ErrTeamGone), l.ctx.Err() != nil, fatal(err):
		return err
	case errors.Is(err, inbox.ErrBusy):
		l.later() // it is being written, which is no trouble
	case passing(err):
		l.ledgerFails(err)
		l.later()
	default:
		// Locked by somebody who does not let go, corrupt, on a full disk …
		again := err.Error() == l.trouble
		if locked, ok := errors.AsType[*lockedfile.LockedError](err); ok {
			// It says for how long.
			again = strings.Contains(l.trouble, locked.Path)
		}
		if l.trouble = err.Error(); !again {
			l.opts.Warn(err)
		}
		l.later()
	}
	err = l.proceed()
	switch {
	case err == nil:
		if works {
			l.ledgerErr = ""
		}
	case l.ctx.Err() != nil || !passing(err):
		return err
	default:
		l.ledgerFails(err)
		l.set(func(s *Status) { s.Reason = l.ledgerErr })
		l.later()
	}
	return nil
}

// later makes the loop look at everything again in a while.
func (l *loop) later() {
	l.at(stuck)
	l.dirty, l.seen = true, nil
	if l.retry == nil {
		l.retry = time.After(l.opts.Timing.Retry)
	}
}

// proceed makes a frame of what was claimed, and writes it.
func (l *loop) proceed() error {
	if l.closing || l.asleep {
		if wakes, err := l.wakes(); !wakes || err != nil {
			return err
		}
	}
	if l.proc == nil {
		if l.retry != nil {
			return nil
		}
		if err := l.start(l.kept); err != nil {
			return err
		}
	}
	for l.frame == nil {
		made, err := l.make()
		if err != nil {
			return err
		}
		if !made {
			break
		}
	}
	open, err := l.ledger.OpenCount(l.ctx, l.post)
	if err != nil {
		return err
	}
	l.set(func(s *Status) {
		s.Queue, s.InFlight, s.State, s.Reason = open, "", Idle, l.why(l.needed)
		if l.frame != nil {
			s.InFlight, s.State = l.frame.UUID, Working
		}
	})
	l.setIdle(open == 0)
	if l.frame == nil || l.sent {
		return nil
	}
	if rest := l.opts.Timing.Startup - time.Since(l.started); l.careful && rest > 0 {
		l.retry = time.After(rest)
		return nil
	}
	return l.write()
}

// self reports whether the agent may read its inbox by itself. A headless lead up to
// 2.1.177 does so in the team that its own process made. It delivers a row before it
// marks it, so that no claim can be sure of coming first: its inbox is left to it.
//
// One that was started with the flags of a member never does, on any version from
// 2.1.62 on that was measured, nor does one that resumes the session that made the
// team. So only a program that gets no flags, such as one that hands its lines on to
// a lead that runs already, can have such an inbox.
func (l *loop) self(c *teams.Config) bool {
	lead, _ := c.Lead()
	self := l.opts.Child.Plain && c.LeadProcess == nil && lead.Name == l.opts.Member && c.LeadSessionID == l.session.ID &&
		l.version.Has(teams.HeadlessDeaf) != teams.Yes
	if self && !l.reads {
		l.opts.Warn(fmt.Errorf("relay: %s leads a team that its own session made, and reads its inbox itself: no message of the inbox is relayed to it", l.opts.Member))
	}
	l.reads = self
	return self
}

// make makes a frame of what waits. It returns false if nothing does.
func (l *loop) make() (bool, error) {
	waiting, err := l.ledger.Waiting(l.ctx, l.post)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	l.at(looked)
	config, err := l.config()
	if err != nil {
		return false, err
	}
	q, err := pipe.NewQueue(pipe.Options[ledger.Delivery]{
		MaxBatch: MaxRows, MaxBytes: MaxBytes,
		Size: func(d ledger.Delivery) int { return len(text(config, d)) },
	})
	if err != nil {
		return false, err
	}
	mode := l.kept
	for _, d := range waiting {
		if len(d.Mode) > 0 {
			change, err := pipe.ParseMode(d.Mode)
			if err != nil {
				return false, err
			}
			mode = mode.Merge(change)
		}
		// A person's words are a frame of their own, and so is what died in company.
		if d.Person || d.Isolated {
			err = q.PushIsolated(d, mode)
		} else {
			err = q.Push(d, mode)
		}
		if err != nil {
			return false, err
		}
	}
	batch, err := q.Next(l.ctx)
	if err != nil {
		return false, err
	}
	// Before the agent is changed for it: what cannot be said changes nothing.
	frame, n, err := l.encode(config, batch.Items)
	var ids []string
	kind := ledger.FrameMessage
	for _, d := range batch.Items[:n] {
		ids = append(ids, d.UUID)
		if d.Person && d.Isolated {
			kind = ledger.FrameCommand
		}
	}
	if err != nil {
		return true, l.giveUp(ids[0], err, fmt.Errorf("relay: a message to %s cannot be said: %w", l.opts.Member, err))
	}
	if batch.Mode != l.mode {
		if made, err := l.changed(batch.Mode, ids[0]); !made || err != nil {
			return made, err
		}
		if batch.Mode != l.mode {
			return true, nil // it was refused, and what asked for it has failed
		}
	}
	f := ledger.Frame{
		UUID: frame.UUID(), Post: l.post, Kind: kind, Bytes: frame.Bytes(), Session: l.session.ID, State: ledger.FrameWritten, At: time.Now(),
	}
	if d := batch.Items[0]; d.Isolated && !d.Person {
		f.Deaths = 1
	}
	if f.Mode, err = l.mode.MarshalJSON(); err != nil {
		return false, err
	}
	if err := l.ledger.Commit(l.ctx, f, ids...); err != nil {
		// Without what is not to be said any more, from the start: the rest may fit
		// together in another way.
		err = passed(err, ids...)
		return err == nil, err
	}
	l.kept, l.session.Mode = l.mode, f.Mode
	l.frame, l.sent = &f, false
	l.at(committed)
	return true, nil
}

// giveUp ends a delivery that cannot be said, and tells of it.
func (l *loop) giveUp(delivery string, why, warning error) error {
	err := l.ledger.Settle(l.ctx, ledger.Failed, why.Error(), delivery)
	if err == nil {
		l.opts.Warn(warning)
	}
	return passed(err, delivery)
}

// passed leaves out the error of a step with deliveries that another process took
// out of the queue since they were looked at ("relay drop", and "gc" after it): the
// ledger changed nothing, and what it is now is what counts.
func passed(err error, deliveries ...string) error {
	if errors.Is(err, ledger.ErrUnknown) {
		return nil
	}
	if state, ok := errors.AsType[*ledger.StateError](err); ok && slices.Contains(deliveries, state.UUID) {
		return nil
	}
	return err
}

// encode makes a frame of as many of the items, from the first, as fit into one,
// and returns how many that are. With an error it is the first alone, which can
// never be said.
func (l *loop) encode(config *teams.Config, items []ledger.Delivery) (claude.Frame, int, error) {
	limit := l.opts.Child.FrameLimit
	if limit == 0 {
		limit = claude.DefaultFrameLimit
	}
	for n := len(items); ; n /= 2 {
		var parts []string
		for _, d := range items[:n] {
			parts = append(parts, text(config, d))
		}
		frame, err := claude.NewFrame(claude.Message{UUID: uuid.NewString(), Text: strings.Join(parts, "\n")})
		if size := len(frame.Bytes()); err == nil && size > limit {
			err = &claude.SizeError{UUID: frame.UUID(), Size: size, Limit: limit}
		}
		if err == nil || n == 1 {
			return frame, n, err
		}
	}
}

// text is what the agent is told of a delivery.
func text(config *teams.Config, d ledger.Delivery) string {
	if d.Person {
		return string(d.Raw)
	}
	rows, err := inbox.Parse([]byte("[" + string(d.Raw) + "]"))
	if err != nil || len(rows) != 1 {
		// It was a row when it was claimed.
		return Wrap(&inbox.Row{From: d.From, Text: string(d.Raw)}, false)
	}
	_, member := config.Member(rows[0].From)
	return Wrap(&rows[0], member)
}

// changed is change, with what becomes of a delivery whose mode cannot be had. It
// returns false if nothing can be said before the agent was started again.
func (l *loop) changed(to pipe.Mode, delivery string) (bool, error) {
	err := l.change(to)
	if err == nil {
		return true, nil
	}
	if l.ctx.Err() != nil || l.proc == nil {
		return false, err
	}
	if _, ok := errors.AsType[*claude.ControlError](err); ok {
		// The first of the batch is what asked for the mode: with what is before it
		// the agent had another. What was changed on the way to it is changed back for
		// the next.
		return true, l.giveUp(delivery, err, err)
	}
	l.opts.Warn(fmt.Errorf("%w; the agent is started again", err))
	return false, ignoreExit(l.proc.Kill())
}

// change brings the agent to another mode: in the running process if that is
// possible, else by another process on the same session.
func (l *loop) change(to pipe.Mode) error {
	if l.opts.Child.NeedsRestart(l.mode, to) {
		if err := l.stop(); err != nil {
			return err
		}
		if err := l.start(to); err != nil {
			return err
		}
	}
	if model, ok := to.Model.Value(); ok && to.Model != l.mode.Model {
		if _, err := l.proc.SetModel(l.ctx, model); err != nil {
			return fmt.Errorf("relay: change the model: %w", err)
		}
		l.mode.Model = to.Model
	}
	if mode, ok := to.PermissionMode.Value(); ok && to.PermissionMode != l.mode.PermissionMode {
		if err := l.proc.SetPermissionMode(l.ctx, mode); err != nil {
			return fmt.Errorf("relay: change the permission mode: %w", err)
		}
	}
	l.mode = to
	return nil
}

// write gives the frame to the agent. What goes wrong is the agent's end, which
// follows.
func (l *loop) write() error {
	frame, err := claude.ParseFrame(l.frame.Bytes)
	if err != nil {
		return fmt.Errorf("relay: frame %s in the ledger: %w", l.frame.UUID, err)
	}
	if l.frame.Tries > 0 && !frame.IsSlash() {
		// An older agent would not say that it knows a teammate's message. A newer
		// one, killed before it echoed a frame, runs it again although it is in
		// the conversation: there twice then, and what its turn had done is done again.
		turn, err := l.transcript().Turn(l.ctx, l.frame.UUID)
		if err != nil {
			return fmt.Errorf("relay: what became of frame %s: %w", l.frame.UUID, err)
		}
		if turn.Stored {
			l.poke() // for the frame that comes after it
			return l.known()
		}
	}
	if l.mode != l.kept {
		// A program that is not told by flags.
		if err := l.change(l.kept); err != nil {
			if l.ctx.Err() != nil || l.proc == nil {
				return err
			}
			l.opts.Warn(err)
			if _, ok := errors.AsType[*claude.ControlError](err); ok {
				l.poke() // for the frame that comes after it
				return l.finish(ledger.Failed, err.Error())
			}
			return ignoreExit(l.proc.Kill())
		}
	}
	if err := l.ledger.Tried(l.ctx, l.frame.UUID, l.session.ID); err != nil {
		return err
	}
	l.frame.Tries++
	l.sent, l.acked, l.doubt = true, false, nil
	l.silent = frame.IsSilent() && !frame.IsSlash()
	l.begun(false)
	if err := l.proc.Send(l.ctx, frame); err != nil {
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		l.opts.Warn(fmt.Errorf("relay: %s: %w; the agent is started again", l.opts.Member, err))
		return ignoreExit(l.proc.Kill())
	}
	return nil
}

// event is something that the agent printed.
func (l *loop) event(e claude.Event) error {
	l.idler.event(e)
	if i, ok := e.Payload.(claude.Init); ok {
		l.spoke = true
		if l.doubt != nil {
			l.doubt.other = true
		}
		l.begun(l.frame != nil && l.sent)
		if v, err := teams.ParseVersion(i.Version); err == nil && v != l.version {
			l.version, l.dirty = v, true
		}
		if i.Session != "" && i.Session != l.session.ID {
			l.session.ID = i.Session
			if err := l.keep(ledger.RelayRunning, ""); err != nil {
				return err
			}
		}
	}
	if _, ok := e.Payload.(claude.Assistant); ok {
		if err := l.recordRecipients(e.Line); err != nil {
			return err
		}
	}
	if s, ok := e.Payload.(claude.Status); ok {
		if known, ok := l.mode.PermissionMode.Value(); ok && known != s.PermissionMode {
			// A person let it leave plan mode, or it has begun to plan. The next frame
			// changes it back.
			l.mode.PermissionMode = pipe.Set(s.PermissionMode)
		}
	}
	for _, p := range e.Progress {
		if l.frame == nil || p.UUID != l.frame.UUID {
			continue
		}
		if err := l.progress(p); err != nil {
			return err
		}
		l.opts.Recorded()
	}
	if r, ok := e.Payload.(claude.Result); ok && l.doubt != nil && l.doubt.other {
		l.doubt = &doubt{progress: l.doubt.progress, since: time.Now()}
		l.doubt.progress.Result = &r
		if err := l.believe(); err != nil {
			return err
		}
	}
	l.opts.Events(e)
	return nil
}

// begun notes whether the turn of the frame in flight runs.
func (l *loop) begun(yes bool) {
	l.move(func() { l.began = yes })
}

// doubt is a turn that ended, of an agent that does not say whose it was: the
// tracker takes the first that began after the frame was written for ours, but a
// background task, or a message that the agent took itself, can come between.
type doubt struct {
	progress claude.Progress
	since    time.Time
	other    bool // another turn has begun since
}

// How long a doubt lasts: a 2.1.80 has the record of a turn in its transcript
// some 100 ms after it printed the result. If no other turn begins for long, the
// one that ended was ours.
const (
	doubtStep = 50 * time.Millisecond
	doubtful  = 10 * time.Second
)

// believe looks in the transcript whether the turn that ended was that of the
// frame.
func (l *loop) believe() error {
	turn, err := l.transcript().Turn(l.ctx, l.frame.UUID)
	if err != nil {
		return fmt.Errorf("relay: what became of frame %s: %w", l.frame.UUID, err)
	}
	d := l.doubt
	ended := turn.Finished || turn.Interrupted || turn.Failed || turn.Stop != "" && turn.Stop != "tool_use"
	switch {
	case ended, !d.other && time.Since(d.since) > doubtful:
		l.doubt = nil
		return l.finished(d.progress)
	case !d.other:
		l.retry = time.After(doubtStep)
	}
	return nil
}

func (l *loop) progress(p claude.Progress) error {
	if l.silent && !l.acked && (p.State == claude.Done || p.State == claude.Failed || p.State == claude.Cancelled) {
		l.doubt = &doubt{progress: p, since: time.Now()}
		return l.believe()
	}
	return l.finished(p)
}

// finished does what an acknowledgement of the frame means.
func (l *loop) finished(p claude.Progress) error {
	switch p.State {
	case claude.Accepted:
		l.acked = true
		l.deaths, l.backoff, l.careful = 0, 0, false
		l.begun(true)
		return l.advance(p.UUID, ledger.Accepted, "")
	case claude.Done:
		return l.answered("", said(p.Result))
	case claude.Unproven:
		l.set(func(s *Status) { s.AtLeastOnce = true })
		return l.answered("the program acknowledges nothing; it may have been said twice", said(p.Result))
	case claude.Failed:
		return l.finish(ledger.Failed, failure(p.Result))
	case claude.Cancelled:
		return l.finish(ledger.Cancelled, "interrupted")
	case claude.Known:
		return l.known()
	}
	return nil
}

// said is what the agent said last in a turn, empty if that is not known.
func said(r *claude.Result) string {
	if r == nil {
		return ""
	}
	return r.Text
}

func failure(r *claude.Result) string {
	if r == nil {
		return "its turn failed"
	}
	if len(r.Errors) > 0 {
		return strings.Join(r.Errors, "; ")
	}
	return r.Subtype
}

// advance records what has become of a frame.
func (l *loop) advance(frame string, state ledger.DeliveryState, reason string) error {
	return l.insist(func(ctx context.Context) error { return l.ledger.Advance(ctx, frame, state, reason) })
}

// recorded is a frame as the ledger has it.
func (l *loop) recorded(frame string) (f ledger.Frame, found bool, err error) {
	err = l.insist(func(ctx context.Context) (err error) {
		f, found, err = l.ledger.Frame(ctx, frame)
		return err
	})
	return f, found, err
}

// known is the answer of an agent that took the frame before it, or we, died.
func (l *loop) known() error {
	turn, err := l.transcript().Turn(l.ctx, l.frame.UUID)
	if err != nil {
		return fmt.Errorf("relay: what became of frame %s: %w", l.frame.UUID, err)
	}
	switch {
	case turn.Finished:
		return l.answered("", turn.Text)
	case turn.Interrupted:
		return l.finish(ledger.Cancelled, "interrupted")
	case turn.Failed:
		return l.finish(ledger.Failed, "its turn failed")
	}
	return l.cut()
}

// cut is a frame that was taken and whose turn was left in the middle. It stands
// in the conversation: saying it again would do the work twice.
func (l *loop) cut() error {
	about := *l.frame
	if about.Kind == ledger.FrameNudge {
		parent, ok, err := l.recorded(about.Parent)
		if err != nil {
			return err
		}
		if ok {
			about = parent
		}
	} else if again, ok, err := l.recorded(about.UUID); err != nil {
		return err
	} else if ok {
		about = again
	}
	if l.opts.OnCut == ReportCut || about.Kind == ledger.FrameCommand {
		return l.finish(ledger.Failed, "its turn was cut by a crash")
	}
	if about.Nudges >= MaxNudges {
		return l.finish(ledger.Failed, fmt.Sprintf("its turn was cut %d times", about.Nudges+1))
	}
	if l.frame.Kind == ledger.FrameNudge {
		if err := l.advance(l.frame.UUID, ledger.Failed, "cut by a crash"); err != nil {
			return err
		}
	}
	id := uuid.NewSHA1(namespace, []byte(about.UUID+"\nnudge\n"+strconv.Itoa(about.Nudges+1))).String()
	frame, err := claude.NewFrame(claude.Message{UUID: id, Text: Nudge})
	if err != nil {
		return err
	}
	f := ledger.Frame{
		UUID: id, Post: l.post, Kind: ledger.FrameNudge, Parent: about.UUID, Bytes: frame.Bytes(),
		Session: l.session.ID, State: ledger.FrameWritten, At: time.Now(),
	}
	if err := l.insist(func(ctx context.Context) error { return l.ledger.Commit(ctx, f) }); err != nil {
		return err
	}
	l.frame, l.sent = &f, false
	return nil
}

// finish ends the frame that is in flight, and what it is about.
func (l *loop) finish(state ledger.DeliveryState, reason string) error {
	return l.finishWith(state, reason, "")
}

// answered ends the frame that is in flight as done, and records what the agent said.
func (l *loop) answered(reason, answer string) error {
	return l.finishWith(ledger.Done, reason, answer)
}

// finishWith is finish with the agent's answer, which is empty if it has none.
func (l *loop) finishWith(state ledger.DeliveryState, reason, answer string) error {
	f := l.frame
	err := l.insist(func(ctx context.Context) error { return l.ledger.Finish(ctx, f.UUID, state, reason, answer) })
	if err != nil {
		return err
	}
	if f.Kind == ledger.FrameNudge && state != ledger.Done {
		if err := l.advance(f.Parent, state, reason); err != nil {
			return err
		}
	}
	l.frame, l.sent, l.careful, l.doubt = nil, false, false, nil
	l.begun(false)
	l.set(func(s *Status) { s.LastDone = time.Now() })
	l.deaths, l.backoff = 0, 0
	return nil
}

// gone is the end of the agent, which nobody asked for.
func (l *loop) gone() error {
	sent := l.sent
	why := l.forget()
	l.set(func(s *Status) { s.PID, s.Deaths = 0, s.Deaths+1 })
	l.session.PID, l.session.Group, l.session.Start = 0, 0, ""
	// What comes of it is decided below.
	if err := l.keep(ledger.RelayStarting, ""); err != nil {
		return err
	}
	l.careful = l.frame != nil && (sent && !l.spoke || l.careful)
	widened, tooMuch := errors.AsType[*claude.WidenedError](why)
	switch {
	case l.frame != nil && sent && tooMuch:
		// Again with the same permissions it would do the same again.
		l.opts.Warn(fmt.Errorf("relay: %s was stopped, and its message is given up: %w", l.opts.Member, why))
		if err := l.finish(ledger.Failed, "stopped: "+widened.Error()); err != nil {
			return err
		}
	case l.frame != nil && sent:
		var f ledger.Frame
		err := l.insist(func(ctx context.Context) (err error) {
			f, err = l.ledger.Died(ctx, l.frame.UUID)
			return err
		})
		if err != nil {
			return err
		}
		split, err := l.split(f)
		if err != nil {
			return err
		}
		if split {
			l.opts.Warn(fmt.Errorf("relay: %s died %d times with several messages, and took none: they are said one by one: %w", l.opts.Member, f.Deaths, why))
		} else if f.Deaths >= MaxDeaths {
			l.opts.Warn(fmt.Errorf("relay: %s died %d times with one message: it is given up: %w", l.opts.Member, f.Deaths, why))
			// It got nowhere all the same: what dies of everything is given up, too.
			deaths, backoff := l.deaths, l.backoff
			if err := l.finish(ledger.Failed, "agent died"); err != nil {
				return err
			}
			l.deaths, l.backoff = deaths, backoff
		}
	}
	if !l.spoke || time.Since(l.started) < deadWithin {
		l.deaths++
	}
	if l.deaths >= MaxStarts {
		reason := fmt.Sprintf("it ended %d times in a row without getting anywhere: %v", l.deaths, why)
		l.session.Dead = reason
		if err := l.keep(ledger.RelayDead, reason); err != nil {
			return err
		}
		l.set(func(s *Status) { s.State, s.Reason = Dead, reason })
		return fmt.Errorf("relay: %s: %w: %w", l.opts.Member, ErrDead, why)
	}
	l.sent = false
	l.backoff = min(max(2*l.backoff, l.opts.Timing.Backoff), 60*l.opts.Timing.Backoff)
	l.retry = time.After(l.backoff)
	if err := l.keep(ledger.RelayBackOff, why.Error()); err != nil {
		return err
	}
	l.set(func(s *Status) { s.State, s.Reason = BackOff, why.Error() })
	l.opts.Warn(fmt.Errorf("relay: %s ended (%w) and is started again in %s", l.opts.Member, why, l.backoff))
	return nil
}

// split takes back a frame of several messages with which the agent has died
// again, if it never took it: one of them kills it, and the others need not fail
// with that. What is in the conversation is not said again, nor what the agent
// acknowledged and had not written down; both go on as one frame.
func (l *loop) split(f ledger.Frame) (bool, error) {
	if f.Deaths < MaxDeaths-1 || f.State != ledger.FrameWritten || f.Kind != ledger.FrameMessage {
		return false, nil
	}
	if l.opts.Child.Plain {
		// Its transcripts may be elsewhere, and prove nothing.
		if there, err := l.transcript().Exists(); err != nil || !there {
			return false, err
		}
	}
	turn, err := l.transcript().Turn(l.ctx, f.UUID)
	if err != nil {
		return false, fmt.Errorf("relay: what became of frame %s: %w", f.UUID, err)
	}
	if turn.Stored {
		return false, nil
	}
	var split bool
	err = l.insist(func(ctx context.Context) (err error) {
		split, err = l.ledger.Split(ctx, f.UUID, "the agent died with it and others")
		return err
	})
	if err != nil || !split {
		return false, err
	}
	l.frame, l.sent, l.doubt = nil, false, nil
	l.begun(false)
	l.dirty = true
	return true, nil
}

// forget lets go of an agent that has ended, and returns how it did.
func (l *loop) forget() error {
	err := l.proc.Wait(context.Background())
	l.reading.Wait()
	l.move(func() { l.child, l.began = nil, false })
	l.proc, l.events, l.sent, l.doubt = nil, nil, false, nil
	if err == nil {
		err = errors.New("it exited with status 0")
	}
	return err
}

// stop ends the agent, between two frames.
func (l *loop) stop() error {
	if l.proc == nil {
		return nil
	}
	proc, events := l.proc, l.events
	done := make(chan error, 1)
	go func() { done <- proc.End(context.WithoutCancel(l.ctx), l.grace) }()
	for e := range events {
		l.opts.Events(e)
	}
	err := ignoreExit(<-done)
	_ = l.forget() // its end was asked for
	return err
}

// end lets the agent finish its turn, records that, and ends it. why is the error
// that ended the relay, nil if it was told to.
func (l *loop) end(why error) error {
	// Our context has ended; what the agent still says is recorded anyway.
	ctx := context.WithoutCancel(l.ctx)
	l.ctx = ctx
	ended := make(chan struct{})
	close(ended)
	l.ended = ended
	var errs []error
	if l.proc != nil {
		proc, events := l.proc, l.events
		done := make(chan error, 1)
		go func() { done <- proc.End(ctx, l.grace) }()
		for e := range events {
			if len(errs) > 0 {
				l.opts.Events(e) // the ledger knows no more; the next relay finds out
			} else if err := l.event(e); err != nil {
				errs = append(errs, err)
			}
		}
		errs = append(errs, ignoreExit(<-done))
		_ = l.forget() // its end was asked for
		l.session.PID, l.session.Group, l.session.Start = 0, 0, ""
	}
	if l.session.ID == "" || l.session.Dead != "" {
		return errors.Join(errs...) // it never began, or has said how it ended
	}
	reason := ""
	if why != nil {
		reason = why.Error()
	}
	return errors.Join(append(errs, l.keep(ledger.RelayEnded, reason))...)
}

// ignoreExit leaves out how a process ended that was told to.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*claude.ExitError](err); ok {
		return nil
	}
	return err
}
