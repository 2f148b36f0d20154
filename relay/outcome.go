package relay

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
)

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
