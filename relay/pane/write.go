package pane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/delivery"
	"teambridge/relay/peer"
	"teambridge/relay/process"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// session is the common part of the ways into sessions.
//
// A living session records a written message as queued in its transcript within a second. If it does not, it asks
// its person first, or has dropped the message, and it mostly reports that. A message is written again only if it is
// in no transcript: a session that has ended writes no more, and a living one first gets the time in which it would
// have reported something.
type session struct {
	*carrier
	of     Pane
	now    transcript.Process // zero if no process has it
	record *proof
	most   int // how often a message is given to a process that shows nothing of it
}

// socket is the way by the socket of a session of Claude Code.
type socket struct{ *session }

func (w socket) look(ctx context.Context, a *attempt) (facts, error) { return w.seen(ctx, a, hold{}) }

func (w socket) give(ctx context.Context, a *attempt) (facts, error) {
	m := peer.Message{ID: a.message.UUID, From: a.message.From, Text: string(a.message.Raw), Try: max(a.message.Tries, a.tries) + 1}
	return w.write(ctx, a, func() error { return w.incoming.mailbox.Send(ctx, w.of.Root, w.now, m) })
}

// seen is look. busy, if it is not zero, is why the agent cannot be given a message now, or why it may have a message
// that its transcript does not show yet.
func (s *session) seen(ctx context.Context, a *attempt, busy hold) (f facts, err error) {
	if a.frame == "" {
		f.hold, err = s.held(ctx, a.message, busy)
		return f, err
	}
	if f = s.proof(ctx, a); decide(f) != give {
		return f, nil
	}
	// The time counts from when the session was last seen without a question: a message that its person has just
	// allowed is not in the transcript at once.
	quiet := notYet(a.tries)
	switch f.hold = busy; {
	case busy.why != "":
	case s.slept(a.message):
		f.hold = hold{why: tmux.TooSoon, detail: unseen(a.message)}
	case a.message.Held != string(quiet) || time.Since(a.message.HeldSince) < s.timing.repeat:
		f.hold = hold{why: quiet, detail: unseen(a.message)}
	}
	f.last, f.doubt = a.tries >= s.most, fmt.Sprintf("the session was sent it %d times and shows nothing of it", a.tries)
	return f, nil
}

// suspended is why nothing is written to a session whose process was stopped.
const suspended = "the session is suspended, as by Ctrl-Z; it takes messages again once it is continued with fg"

// slept reports whether a message is looked at much later than it was due, or the clock was set back: the machine was
// suspended, or no process of ours ran. The session may have had no time to show the message, so the wait restarts.
func (s *session) slept(m ledger.PaneMessage) bool {
	return !m.NextTry.IsZero() && time.Since(m.NextTry) > s.timing.lag || time.Now().Before(m.HeldSince)
}

// proof returns the facts of a written message from the transcript, the process and the reports of the session.
func (s *session) proof(ctx context.Context, a *attempt) facts {
	// The process comes first: the transcript then has all that a process wrote before it was seen to have ended.
	queued := a.message.Policy == string(ByQueue)
	gone := s.now.PID == 0 || a.session != sessionAt(s.now) && !queued // another process may be about to take it out of the queue
	ending := gone && s.sessions.ending(a.session, s.now)
	f := s.record.shown(ctx)
	switch {
	case f.shown:
		return f
	case s.opts.Homes.foreign(s.of) != "": // its transcript is in the other directory
		return facts{hold: hold{why: tmux.Gone, detail: s.opts.Homes.foreign(s.of)}}
	case gone && queued:
		return facts{hold: hold{why: tmux.Gone, detail: "the session has ended; what is in Codex's queue comes when it is resumed"}}
	case ending:
		return facts{hold: hold{why: tmux.Unknown, detail: "the session is ending, and does not show it yet"}}
	case gone:
		return facts{absent: "the session ended before it had the message"}
	}
	if f, told, _ := s.said(a); told {
		return f
	}
	switch {
	case process.Stopped(s.now.PID) && !queued: // it reads its socket once it is continued
		f.hold = hold{why: tmux.Busy, detail: suspended}
	case s.reach(s.now) == Outdated: // an older teambridge has written it
		f.hold = hold{why: tmux.Outdated, detail: Refuses(s.now)}
	case s.now.Status == transcript.ProcessWaiting:
		f.hold = hold{why: tmux.Dialog, detail: "the session does not show it, and asks its person something: perhaps whether it may come"}
	}
	return f
}

// held says why a message is not given now.
func (s *session) held(ctx context.Context, m ledger.PaneMessage, busy hold) (hold, error) {
	closed, why := s.sessions.closed(s.now)
	switch {
	case s.now.PID == 0 && stoppedJob(s.of, s.opts.State) != "": // the message starts it
		return hold{}, nil
	case s.now.PID == 0:
		return hold{why: tmux.Gone, detail: s.sessions.over(s.of)}, nil
	case closed != "" && !queues(s.now, m):
		return hold{why: closed, detail: why}, nil
	case process.Stopped(s.now.PID) && m.Policy != string(ByQueue):
		return hold{why: tmux.Busy, detail: suspended}, nil
	case m.Policy == string(tmux.WhenIdle) && s.now.Status != transcript.ProcessIdle:
		return hold{why: tmux.Busy, detail: cmp.Or(whyBusy(s.now), "the agent works")}, nil
	case busy.why != "":
		return busy, nil
	}
	open, err := s.opts.Ledger.PaneMessages.List(ctx, m.InboxKey)
	queued := 0
	for _, o := range open {
		if o.Task == ledger.TaskSent {
			queued++
		}
	}
	if queued >= peer.Queue {
		return hold{why: tmux.HasQueue, detail: fmt.Sprintf("%d messages wait in the session", queued)}, err
	}
	if err != nil || s.of.Profile == Codex {
		return hold{}, err // Codex has no limit
	}
	// The rate limit of the session, as far as our own messages have used it.
	sent, err := s.opts.Ledger.PaneMessages.SentSince(ctx, m.InboxKey, time.Now().Add(-peer.Burst*s.timing.refill))
	if s.tokens(sent) < 1 {
		return hold{why: tmux.TooSoon, detail: "the session takes one message in two seconds now"}, err
	}
	return hold{}, err
}

// tokens returns how many messages a session takes at once now, given when our messages were sent to it. Times in the
// future are from before the clock was set back. They count from when this process first saw them, by its monotonic
// clock, so that no message waits until the clock is as late again.
func (s *shared) tokens(sent []time.Time) float64 {
	now := time.Now()
	s.mu.Lock()
	for i, at := range sent {
		if _, seen := s.future[at]; !seen && at.After(now) {
			s.future[at] = now
		}
		if first, seen := s.future[at]; seen {
			sent[i] = first
		}
	}
	s.mu.Unlock()
	bucket := peer.NewBucket(s.timing.refill)
	for _, at := range slices.SortedFunc(slices.Values(sent), time.Time.Compare) {
		bucket.ReserveN(at, 1)
	}
	return bucket.TokensAt(now)
}

// write commits an attempt, makes it, and waits a while until the transcript or the session reports the message.
func (s *session) write(ctx context.Context, a *attempt, send func() error) (facts, error) {
	if s.now.PID == 0 { // it was stopped in the background
		job, why := stoppedJob(s.of, s.opts.State), hold{why: tmux.Busy, detail: "the session was stopped in the background, and is being started again"}
		if err := s.respawn(ctx, s.of.Root, job); err != nil {
			why = hold{why: tmux.Gone, detail: fmt.Sprintf("claude respawn %s: %v", job, err)}
		}
		return facts{hold: why}, nil
	}
	if err := s.commit(ctx, a, string(a.message.Raw), sessionAt(s.now)); err != nil {
		return facts{pending: true}, ignoreMoved(err, a.uuids...)
	}
	failed := send()
	if unsent, ok := errors.AsType[*delivery.UnsentError](failed); ok && a.tries == 0 {
		why := unsent.Err.Error()
		return facts{absent: why, hold: hold{why: tmux.Unknown, detail: why}}, nil
	}
	end := time.NewTimer(s.timing.settle)
	defer end.Stop()
	tick := time.NewTicker(s.timing.record / 2)
	defer tick.Stop()
	for {
		if f := s.record.shown(ctx); f.shown {
			return f, failed
		}
		f, told, next := s.said(a)
		if told {
			return f, failed
		}
		select {
		case <-ctx.Done():
			return facts{pending: true}, failed
		case <-end.C:
			return facts{hold: hold{why: notYet(a.tries + 1), detail: unseen(a.message)}}, failed
		case <-next:
		case <-tick.C:
		}
	}
}

// said returns the facts that the session reported of a message, if any, and a channel closed at the next report.
func (s *session) said(a *attempt) (f facts, told bool, next <-chan struct{}) {
	n, _, next := s.incoming.mailbox.Notice(s.name(a))
	switch n.Status {
	case peer.Returned:
		f.absent = cmp.Or(n.Reason, "the session does not have it any more")
		f.hold = hold{tmux.Unknown, f.absent, time.Now().Add(s.timing.look)}
	case peer.Dropped:
		rest := 2 * s.timing.refill
		if n.Repeated {
			rest = s.timing.repeat
		}
		f.absent = "the session dropped it: " + n.Reason
		f.hold = hold{tmux.HasQueue, f.absent, time.Now().Add(rest)}
	case peer.Denied:
		f.refused = "its person did not allow it"
	case peer.Expired:
		f.refused = "its person did not answer whether it may come"
	case peer.Refused:
		f.refused = "its settings refuse messages of others"
	case peer.Held:
		f.hold = hold{why: tmux.Dialog, detail: "held until its person allows it: the session bypasses permissions, or its settings hold messages"}
		if s.of.Profile == Qwen {
			f.hold.detail = "held until its person allows it: with /peers, and then /peers accept, in the session"
		}
	}
	return f, decide(f) != give, next
}

// name returns the id under which a session reports on a message. A session of Qwen Code repeats its last report on
// an id even if the message was never in its queue. So each frame has an id of its own.
func (s *session) name(a *attempt) string {
	if s.of.Profile == Qwen {
		return a.frame
	}
	return a.message.UUID
}

// notYet returns why a message is held that was written that many times and that the session does not show. The
// reason changes with each try, so that the wait starts again.
func notYet(tries int) tmux.Reason {
	if tries < 2 || tries%2 == 1 {
		return tmux.Unknown
	}
	return tmux.NotProven
}

// sessionAt names a session in a process.
func sessionAt(s transcript.Process) string { return strconv.Itoa(s.PID) + "@" + s.ProcStart }
