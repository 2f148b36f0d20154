package tmux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Policy says when a message may be typed.
type Policy string

const (
	Queued    Policy = "queued"    // also while the agent is busy; the agent takes it next
	Important Policy = "important" // like Queued; callers send it before others
	WhenIdle  Policy = "when-idle" // only while the agent is idle
	Urgent    Policy = "urgent"    // interrupts a busy agent with ESC first
)

// Input is a message to type, in the form `[teambridge NONCE from FROM] TEXT`.
type Input struct {
	Nonce  string // 8 to 64 letters, digits and hyphens; identifies the message in the transcript and on the screen
	From   string // optional
	Text   string
	Policy Policy // default: Queued
	// SaveDraft allows [Deliver] to put a person's draft aside. Claude Code does that on Ctrl-S, and restores
	// the draft after the next prompt, which is the message.
	SaveDraft bool
}

// Steps are functions that [Deliver] calls on its way. Each may be nil. An error of Pasting or Entered stops
// the delivery before that step; the outcome says how far the delivery came.
type Steps struct {
	// Pasting commits that the text is about to be pasted. If the process dies after this, only [Continue]
	// may be called for the message. If Deliver then returns NotSent, nothing was pasted.
	Pasting func(context.Context) error
	// Entered commits that Enter is about to be pressed. It is called once.
	Entered func(context.Context) error
	// Submitted reports whether the agent's transcript has the nonce. It is called several times a second.
	Submitted func(context.Context) (bool, error)
}

// Deliver types one message into a pane and presses Enter, or returns why it did not. It takes half a second
// to a minute. The caller must hold a lock on the pane across all processes.
//
// Errors come from bad input ([Input.Check]), ctx, a step or tmux. The outcome is valid even with an error.
func Deliver(ctx context.Context, r Ref, p Profile, m Input, s Steps) (Outcome, error) {
	d := delivery{ref: r, profile: p, message: m, steps: s, timing: usual}
	return d.deliver(ctx)
}

// Continue finishes a delivery whose process was killed after [Steps.Pasting], or that ended without Enter.
// It never pastes. It presses Enter if the composer holds exactly the message, or the mark that it showed for
// the message before; otherwise it only finds out the state of the message. entered means that
// [Steps.Entered] was called before. The program may then still have an Enter to read. So Continue does not
// press Enter while the program keeps a draft: the first Enter would restore the draft, and the second would
// submit it.
func Continue(ctx context.Context, r Ref, p Profile, m Input, entered bool, s Steps) (Outcome, error) {
	d := delivery{ref: r, profile: p, message: m, steps: s, timing: usual, entered: entered}
	return d.resume(ctx)
}

// Held returns why a message with that policy would not be typed now, with a sentence for a person; or "". It
// sends nothing.
func (r Ref) Held(ctx context.Context, p Profile, policy Policy) (Reason, string, error) {
	d := delivery{ref: r, profile: p, message: Input{Policy: policy}, timing: usual}
	_, h, err := d.look(ctx)
	return h.reason, h.detail, err
}

// Closed is like Held, but does not read the composer, which takes time. It returns why nothing can be typed
// now, whatever the policy.
func (r Ref) Closed(ctx context.Context, p Profile) (Reason, string, error) {
	d := delivery{ref: r, profile: p, timing: usual}
	_, h, err := d.glance(ctx)
	return h.reason, h.detail, err
}

// timing has the waits and limits of a delivery.
type timing struct {
	poll  time.Duration // between two checks of the input queue
	zeros int           // how often in a row the queue must be empty
	// drained is the wait after the queue is empty, and settle the wait before Enter. With 80 ms in all, 120
	// of 120 programs whose event loop was blocked at random had read text and Enter apart; with a fixed 300
	// ms and no check of the queue, 110 of 120.
	drained, settle time.Duration

	drain, drainBusy time.Duration // limits for the program to read the text
	show             time.Duration // limit for the program to show the text
	look             time.Duration // between two reads of the screen
	again            time.Duration // when to press Enter again if the text is still at the prompt
	confirm          time.Duration // limit for a confirmation, from the first Enter
	proof            time.Duration // how long the transcript may lag behind the composer
	interrupt        time.Duration // limit from ESC to an empty composer
	restore          time.Duration // how long a stopped agent may take to put the prompt back
	escapes          time.Duration // between two ESC; at an empty prompt, two of them have another meaning
}

var usual = timing{
	poll: 5 * time.Millisecond, zeros: 5, drained: 80 * time.Millisecond, settle: 150 * time.Millisecond,
	drain: 10 * time.Second, drainBusy: 30 * time.Second, show: 10 * time.Second, look: 100 * time.Millisecond,
	again: 1500 * time.Millisecond, confirm: 10 * time.Second, proof: 2 * time.Second,
	interrupt: 10 * time.Second, restore: time.Second, escapes: 2 * time.Second,
}

// Relax makes this process wait up to d for each call of tmux, and for a program to read, to show and to take
// a text. It is for tests on busy machines.
func Relax(d time.Duration) {
	callLimit = d
	usual.drain, usual.drainBusy, usual.show, usual.confirm, usual.interrupt = d, d, d, d, d
}

// delivery is the delivery of one message.
type delivery struct {
	ref     Ref
	profile Profile
	message Input
	steps   Steps
	timing  timing
	out     Outcome
	mark    string // the composer's display of our text
	entered bool   // [Steps.Entered] was called, by this process or an earlier one
	unread  error  // why the transcript could not be read
}

func (d *delivery) deliver(ctx context.Context) (Outcome, error) {
	d.out.State = NotSent
	if err := d.message.Check(); err != nil {
		return d.out, err
	}
	before, h, err := d.look(ctx)
	if err == nil && h.reason == "" && d.message.Policy == Urgent && before.composer.Busy {
		before, h, err = d.interrupt(ctx, before)
	}
	// A prompt that was interrupted early is back in the composer, and is put aside like a draft.
	if err == nil && h.reason == Draft && (d.message.SaveDraft || d.out.Escaped) {
		before, h, err = d.stash(ctx, before)
	}
	if err != nil || h.reason != "" {
		return d.ended(h, err)
	}
	d.out.Busy = before.composer.Busy
	if d.steps.Pasting != nil {
		if err := d.steps.Pasting(ctx); err != nil {
			return d.out, fmt.Errorf("tmux: before the paste: %w", err)
		}
	}
	if h, err := d.paste(ctx, before); err != nil || h.reason != "" {
		return d.ended(h, err)
	}
	d.out.State = Unconfirmed
	return d.submit(ctx, before)
}

func (d *delivery) resume(ctx context.Context) (Outcome, error) {
	d.out.State, d.out.Pasted = Unconfirmed, true
	if err := d.message.Check(); err != nil {
		return d.out, err
	}
	if d.submitted(ctx) {
		return d.out, nil
	}
	before, h, err := d.look(ctx)
	if err != nil || h.reason != "" && h.reason != Draft && h.reason != Busy && h.reason != HasQueue {
		return d.ended(h, err)
	}
	// Accept only text that certainly is ours.
	ours := false
	switch d.holds(before.composer) {
	case exactly:
		ours = true
	case part:
		if ours, err = d.remembers(ctx, before.composer.Draft); err != nil {
			return d.ended(hold{NotShown, "tmux did not report whose text is at the prompt"}, err)
		}
	}
	switch {
	case !ours:
		return d.ended(hold{NotShown, "the prompt does not hold the message; it may have been submitted"}, nil)
	case d.entered:
		d.mark = before.composer.Draft
		return d.confirm(ctx)
	}
	return d.submit(ctx, before)
}

// markOption is an option of the pane. It stores the composer's display of a long text, such as "[Pasted text
// #3 +12 lines]". Claude Code counts all pastes, so no other paste has that mark.
const markOption = "@teambridge_mark"

// remember stores the mark for [Continue], which another process may call.
func (d *delivery) remember(ctx context.Context, mark string) error {
	d.mark = mark
	_, err := run(ctx, d.ref.Socket, nil, "set-option", "-p", "-t", d.ref.ID, markOption, d.message.Nonce+" "+mark)
	return err
}

// remembers reports whether the mark was stored for this message.
func (d *delivery) remembers(ctx context.Context, mark string) (bool, error) {
	kept, err := run(ctx, d.ref.Socket, nil, "show-options", "-p", "-q", "-v", "-t", d.ref.ID, markOption)
	_, ok := pasteMark(mark)
	return ok && kept == d.message.Nonce+" "+mark+"\n", err
}

// ended returns the outcome of a message that is held, or of an error.
func (d *delivery) ended(h hold, err error) (Outcome, error) {
	if errors.Is(err, ErrGone) {
		h, err = hold{Gone, "the pane is gone"}, nil
	}
	d.out.Reason, d.out.Detail = h.reason, h.detail
	if d.unread != nil {
		d.out.Detail += "; the transcript could not be read: " + d.unread.Error()
	}
	return d.out, err
}

// interrupt sends ESC, and waits until the agent has stopped, and a little longer. Claude Code may put the
// interrupted prompt back after the screen shows that it has stopped. A text that is pasted in between would
// be appended to that prompt.
func (d *delivery) interrupt(ctx context.Context, s snapshot) (snapshot, hold, error) {
	// tmux stores the time of the last ESC with the pane, for all processes. The call that sends ESC compares
	// it.
	const last = "@teambridge_escape"
	now := time.Now().UnixMilli()
	// An unset option counts as 0. A time in the future comes from a clock that was set back.
	rested := fmt.Sprintf("#{||:#{e|<|:#{%s},%d},#{e|>|:#{%s},%d}}", last, now-d.timing.escapes.Milliseconds(), last, now)
	sent, err := d.call(ctx, s, nil, rested, fmt.Sprintf("set-option -p -t %s %s %d ; send-keys -t %s Escape", d.ref.ID, last, now, d.ref.ID), "")
	if err != nil {
		d.out.Escaped = true // it may have been sent
		return s, hold{}, err
	}
	if !sent {
		if h, err := d.changed(ctx, s); err != nil || h.reason != Changed {
			return s, h, err
		}
		return s, hold{TooSoon, fmt.Sprintf("less than %v after the last ESC", d.timing.escapes)}, nil
	}
	d.out.Escaped = true
	deadline := time.Now().Add(d.timing.interrupt)
	for stopped := (time.Time{}); ; {
		s, h, err := d.look(ctx)
		switch {
		case err != nil || h.reason != "":
			return s, h, err
		case s.composer.Busy && time.Now().After(deadline):
			return s, hold{Busy, fmt.Sprintf("the agent did not stop within %v of ESC", d.timing.interrupt)}, nil
		case s.composer.Busy:
			stopped = time.Time{}
		case stopped.IsZero():
			stopped = time.Now()
		case time.Since(stopped) >= d.timing.restore:
			return s, h, nil
		}
	}
}

// stash makes the program put a draft aside. The program can keep one: a second would overwrite the first.
func (d *delivery) stash(ctx context.Context, s snapshot) (snapshot, hold, error) {
	without := s.composer
	without.Draft = ""
	switch h := d.occupied(without); {
	case h.reason != "":
		return s, h, nil
	case d.profile != Claude:
		return s, hold{Draft, "somebody has typed at the prompt, and only Claude Code can put a draft aside"}, nil
	case s.composer.Stashed:
		return s, hold{Draft, "somebody has typed at the prompt, and another draft is put aside already"}, nil
	case strings.HasPrefix(s.composer.Draft, "!"):
		return s, hold{Draft, "somebody types a shell command"}, nil
	}
	sent, err := d.call(ctx, s, nil, "1", "send-keys -t "+d.ref.ID+" C-s", "")
	if err != nil {
		d.out.Stashed = true // it may have been put aside
		return s, hold{}, err
	}
	if !sent {
		h, err := d.changed(ctx, s)
		return s, h, err
	}
	d.out.Stashed = true
	for deadline := time.Now().Add(d.timing.show); ; {
		now, h, err := d.look(ctx)
		if err != nil || h.reason != "" && h.reason != Draft || h.reason == "" && now.composer.Stashed {
			return now, h, err
		}
		if time.Now().After(deadline) {
			return now, hold{Draft, "somebody has typed at the prompt, and Ctrl-S did not put it aside"}, nil
		}
	}
}

// paste pastes the text into the pane, unless the pane has changed since the snapshot.
func (d *delivery) paste(ctx context.Context, s snapshot) (hold, error) {
	buffer := "teambridge-" + d.message.Nonce
	sent, err := d.call(ctx, s, strings.NewReader(d.message.Line()), "1",
		"paste-buffer -d -p -r -b "+buffer+" -t "+d.ref.ID, "delete-buffer -b "+buffer+" ; ",
		"load-buffer", "-b", buffer, "-", ";")
	switch {
	case errors.Is(err, ErrNoServer):
		return hold{}, ErrGone
	case err != nil:
		// tmux did not report whether it pasted the text.
		d.out.State, d.out.Pasted = Unconfirmed, true
		return hold{}, err
	case !sent:
		return d.changed(ctx, s)
	}
	d.out.Pasted = true
	return hold{}, nil
}

// call runs commands of tmux if the pane is unchanged since the snapshot and condition, a format, holds. It
// reports whether it ran them. tmux does both in one step. The end of ctx does not interrupt the call,
// because its result would then be unknown.
func (d *delivery) call(ctx context.Context, s snapshot, stdin io.Reader, condition, commands, otherwise string, first ...string) (bool, error) {
	for _, c := range []string{
		"#{==:#{pid}," + strconv.Itoa(s.pane.Server) + "}",
		"#{==:#{pane_id}," + s.pane.ID + "}",
		"#{==:#{pane_pid}," + strconv.Itoa(s.pane.PID) + "}",
		"#{m:" + pattern(s.pane.Command) + ",#{pane_current_command}}",
		"#{==:#{pane_dead}#{pane_in_mode}#{pane_input_off}#{pane_synchronized},0000}",
	} {
		condition = "#{&&:" + c + "," + condition + "}"
	}
	args := append(first, "if-shell", "-F", "-t", s.pane.ID, condition, commands+" ; display-message -p done", otherwise+"display-message -p held")
	out, err := run(context.WithoutCancel(ctx), d.ref.Socket, stdin, args...)
	if err != nil {
		return false, err
	}
	switch out {
	case "done\n":
		return true, nil
	case "held\n":
		return false, nil
	}
	return false, fmt.Errorf("tmux: tmux if-shell answered %q", out)
}

// pattern returns a pattern of tmux that the name of a program matches. The name may contain anything, even
// #(commands).
func pattern(name string) string {
	return strings.Map(func(r rune) rune {
		if special(r) && r != '.' && r != '_' {
			return '*'
		}
		return r
	}, name)
}
