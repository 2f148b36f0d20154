package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// loop is a running relay. One goroutine owns all of its fields.
type loop struct {
	*Relay

	session Life // its mode is that of the last frame
	agentProcess
	idler

	queue     *queue    // claimed deliveries
	recorder  *recorder // of the agent's output; nil without a journal and a listener
	frame     *flight   // nil if none is in flight
	probation bool      // the last agent died with this frame, having printed nothing

	intake
	ledgerWriter

	deaths  int           // of the agent in a row, without progress
	backoff time.Duration // delay of the next start
	retry   <-chan time.Time

	poll *time.Ticker
	soon bool // it polls after [Timing.Poll], and otherwise after pollSweep

	lastTurn bool // Finish was called
}

// errFinished ends the loop after [Relay.Finish], once the running turn is over.
var errFinished = errors.New("finished")

func (l *loop) run(ctx context.Context) error {
	l.poll, l.soon = time.NewTicker(l.opts.Timing.Poll), true
	defer l.poll.Stop()
	err := l.restore(ctx)
	for err == nil {
		if err = l.step(ctx); err != nil {
			break
		}
		err = l.next(ctx)
	}
	if ctx.Err() != nil || errors.Is(err, errFinished) {
		err = nil // a consequence of the end of ctx
	}
	return errors.Join(err, l.end(ctx, err))
}

// pollSweep is how often the ledger is checked without a signal of [Options.Poked].
const pollSweep = 30 * time.Second

// next waits until the loop may have work.
func (l *loop) next(ctx context.Context) error {
	finishing := l.finishing
	if l.lastTurn {
		finishing = nil
	}
	for {
		select {
		case <-finishing:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
			l.dirty = true
			return nil
		case <-l.retry:
			l.retry, l.dirty = nil, true
			return nil
		case <-l.idle:
			l.idle = nil
			return l.close(ctx)
		case <-l.late:
			l.terminate()
		case e, ok := <-l.events:
			switch {
			case ok:
				return l.event(ctx, e)
			case l.closing:
				return l.closed(ctx)
			}
			return l.agentExited(ctx)
		case <-l.opts.Poked:
			if !l.soon {
				l.soon = true
				l.poll.Reset(l.opts.Timing.Poll)
			}
		case <-l.poll.C:
			if l.frame != nil {
				continue
			}
			if l.opts.Poked != nil && l.soon {
				l.soon = false
				l.poll.Reset(pollSweep)
			}
			// The watcher does not report a team that was gone before it first looked.
			if err := l.opts.Team.Exists(); errors.Is(err, teams.ErrTeamGone) {
				return err
			}
			open, err := l.ledger.OpenCount(ctx, l.post)
			released := false
			if err == nil {
				released, err = l.released(ctx)
			}
			if released {
				l.dirty, l.seen = true, nil
			}
			if err != nil || open > 0 || released {
				return l.postpone(ctx, err)
			}
		}
	}
}

// step claims rows, makes a frame and writes it. A temporary failure is reported once, and tried again after
// the next change or after [Timing.Retry].
func (l *loop) step(ctx context.Context) error {
	defer l.opts.Recorded()
	select {
	case <-l.finishing: // next may have returned for another event
		l.lastTurn = true
	default:
	}
	if l.lastTurn {
		if l.frame != nil && l.frame.sent || l.proc != nil && l.turn {
			return nil
		}
		return errFinished
	}
	claimErr := l.claim(ctx)
	if claimErr == nil {
		l.claimErr, l.claimLocked = "", false
	} else if err := l.claimFailed(ctx, claimErr); err != nil {
		return err
	}
	err := l.proceed(ctx)
	if err == nil {
		if claimErr == nil {
			l.ledgerErr = ""
		}
		return nil
	}
	if err = l.postpone(ctx, err); err == nil {
		l.set(func(s *Status) { s.Reason = l.ledgerErr })
	}
	return err
}

// postpone schedules another try if the ledger is temporarily unusable, and returns any other error.
func (l *loop) postpone(ctx context.Context, err error) error {
	if !temporary(err) || ctx.Err() != nil {
		return err
	}
	l.ledgerFails(err)
	l.later()
	return nil
}

// claimFailed returns an error of claim that must end the relay. After any other it schedules another try.
func (l *loop) claimFailed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, teams.ErrTeamGone), ctx.Err() != nil, fatal(err):
		return err
	case errors.Is(err, inbox.ErrBusy):
		// The file is being written.
	case temporary(err):
		l.ledgerFails(err)
	default:
		// The file is locked for long or corrupt, or the disk is full.
		// The text about a lock varies: it says how long the relay waited, and for which of the two locks.
		locked := errors.Is(err, lockedfile.ErrLocked)
		again := err.Error() == l.claimErr || locked && l.claimLocked
		if l.claimErr, l.claimLocked = err.Error(), locked; !again {
			l.opts.Warn(err)
		}
	}
	l.later()
	return nil
}

// later schedules another full pass of the loop.
func (l *loop) later() {
	l.at(stuck)
	l.dirty, l.seen = true, nil
	if l.retry == nil {
		l.retry = time.After(l.opts.Timing.Retry)
	}
}

// proceed makes a frame of the claimed deliveries, and writes it.
func (l *loop) proceed(ctx context.Context) error {
	if l.closing || l.asleep {
		if wakes, err := l.wakes(ctx); !wakes || err != nil {
			return err
		}
	}
	if l.proc == nil {
		if l.retry != nil {
			return nil
		}
		if err := l.start(ctx, l.session.Kept); err != nil {
			return err
		}
	}
	for made := true; made && l.frame == nil; {
		var err error
		if made, err = l.makeFrame(ctx); err != nil {
			return err
		}
	}
	open, err := l.ledger.OpenCount(ctx, l.post)
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
	if l.frame == nil || l.frame.sent {
		return nil
	}
	if rest := l.opts.Timing.Startup - time.Since(l.started); l.probation && rest > 0 {
		l.retry = time.After(rest)
		return nil
	}
	return l.write(ctx)
}

// event handles an event of the agent.
func (l *loop) event(ctx context.Context, e agent.Event) error {
	l.idler.event(e)
	if e.Start != nil {
		if err := l.turnStarts(ctx, *e.Start); err != nil {
			return err
		}
	}
	if err := l.recordRecipients(ctx, e.Recipients); err != nil {
		return err
	}
	if err := l.reports(ctx, e.PermissionMode); err != nil {
		return err
	}
	if known, ok := l.mode.PermissionMode.Value(); ok && e.PermissionMode != "" && known != e.PermissionMode {
		// A person let the agent leave plan mode, or it began to plan. The next frame changes the mode back.
		l.mode.PermissionMode = mode.Set(e.PermissionMode)
	}
	for _, p := range e.Progress {
		if l.frame == nil || p.UUID != l.frame.UUID {
			continue
		}
		if _, err := l.resolve(ctx, facts{news: acknowledged, progress: p}); err != nil {
			return err
		}
		l.opts.Recorded()
	}
	if e.Lost != "" {
		if err := l.writesLost(ctx, e.Lost); err != nil {
			return err
		}
	}
	l.recorder.observe(l.session.ID, e)
	l.opts.Events(e)
	return nil
}

// writesLost records what the agent could not write. If its turn has begun, the frame fails: the transcript may lack
// the turn, so the next agent would run it again.
func (l *loop) writesLost(ctx context.Context, what string) error {
	l.lost, l.session.Lost = true, what
	l.opts.Warn(fmt.Errorf("relay: %s: %s", l.opts.Member, what))
	if l.frame == nil || !l.began {
		return nil
	}
	return l.finish(ctx, failed("its turn began, and whether it ended is not known; teambridge relay retry sends it again: "+what))
}

func (l *loop) turnStarts(ctx context.Context, s agent.Start) error {
	l.spoke = true
	l.setTurnRuns(l.frame != nil && l.frame.sent)
	if s.ClaudeCode != l.version { // fails only once: it ends the relay, and maybe the turn
		l.version = s.ClaudeCode
		v, _ := teams.ParseVersion(s.ClaudeCode)
		if err := v.Check(l.opts.Member); err != nil {
			return fmt.Errorf("relay: %w", err)
		}
	}
	if err := l.session.Follow(ctx, ledger.RelayRunning, s.Session); err != nil {
		return err
	}
	return l.reports(ctx, s.Mode)
}

// reports records the permission mode that the agent reports, for people to see. An empty mode changes nothing.
func (l *loop) reports(ctx context.Context, mode string) error {
	if len(mode) > 64 { // programs other than Claude Code may report any text
		mode = strings.ToValidUTF8(mode[:64], "")
	}
	if mode == "" || mode == l.session.PermissionMode {
		return nil
	}
	l.session.PermissionMode = mode
	return l.session.Keep(ctx, ledger.RelayRunning, "")
}
