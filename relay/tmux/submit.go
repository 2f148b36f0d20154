package tmux

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// submit presses Enter after a paste, and finds out whether the message was submitted.
func (d *delivery) submit(ctx context.Context, before snapshot) (Outcome, error) {
	for {
		now, h, err := d.ready(ctx, before)
		if err != nil || h.reason != "" {
			// A person may have pressed Enter.
			if d.submitted(context.WithoutCancel(ctx)) {
				return d.out, nil
			}
			return d.ended(h, err)
		}
		if d.steps.Entered != nil && !d.entered {
			if err := d.steps.Entered(ctx); err != nil {
				return d.out, fmt.Errorf("tmux: before Enter: %w", err)
			}
			d.entered = true
		}
		entered, err := d.enter(ctx, now)
		if err != nil {
			return d.ended(hold{NotProven, "tmux did not report whether Enter was pressed"}, err)
		}
		if entered {
			return d.confirm(ctx)
		}
	}
}

// ready waits until the program has read and shows the text, and Enter would submit exactly that text.
func (d *delivery) ready(ctx context.Context, before snapshot) (snapshot, hold, error) {
	limit := d.timing.drain
	if before.composer.Busy {
		limit = d.timing.drainBusy
	}
	if h, err := d.drained(ctx, before, limit); err != nil || h.reason != "" {
		return before, h, err
	}
	for deadline := time.Now().Add(d.timing.show); ; {
		if err := pause(ctx, d.timing.settle); err != nil {
			return before, hold{}, err
		}
		now, h, err := d.glance(ctx)
		if err != nil {
			return now, hold{}, err
		}
		// Even in a mode of tmux, such as copy mode.
		if _, ok := pasteMark(now.composer.Draft); ok && now.composer.Draft != d.mark && d.holds(now.composer) == part {
			if err := d.remember(ctx, now.composer.Draft); err != nil {
				return now, hold{}, err
			}
		}
		switch {
		case h.reason == Dead, h.reason == NotAgent:
			return now, hold{h.reason, h.detail + ", so Enter was not pressed"}, nil
		case h.reason != "": // it may pass; a program that ends leaves raw mode first
		case now.pane.Command != before.pane.Command || now.tty.foreground != before.tty.foreground:
			return now, hold{Changed, fmt.Sprintf("%s is in front now, in place of %s, so Enter was not pressed", now.pane.Command, before.pane.Command)}, nil
		case now.tty.waiting > 0: // a person is typing
			h = hold{Stuck, now.pane.Command + " has not read all keys"}
		default:
			if h = d.shown(now.composer); h.reason == "" {
				return now, hold{}, nil
			}
		}
		if time.Now().After(deadline) {
			return now, hold{h.reason, h.detail + ", so Enter was not pressed"}, nil
		}
		if err := pause(ctx, d.timing.look); err != nil {
			return now, hold{}, err
		}
	}
}

// drained waits until the program has read all typed bytes.
func (d *delivery) drained(ctx context.Context, s snapshot, limit time.Duration) (hold, error) {
	zeros := 0
	for deadline := time.Now().Add(limit); zeros < d.timing.zeros; {
		t, err := s.pane.tty()
		if err != nil {
			if now, lookErr := d.ref.Look(ctx); lookErr != nil {
				return hold{}, lookErr
			} else if now.Dead {
				return hold{Dead, "the program has ended before it read the text"}, nil
			}
			return hold{}, err
		}
		zeros++
		if t.waiting > 0 {
			zeros = 0
			if time.Now().After(deadline) {
				return hold{Stuck, fmt.Sprintf("%s did not read the text within %v, so Enter was not pressed", s.pane.Command, limit)}, nil
			}
		}
		if err := pause(ctx, d.timing.poll); err != nil {
			return hold{}, err
		}
	}
	return hold{}, pause(ctx, d.timing.drained)
}

// shown returns the reason if Enter would not submit exactly our text.
func (d *delivery) shown(c Composer) hold {
	if d.profile == Generic {
		return hold{}
	}
	if c.Dialog != "" {
		return hold{Dialog, "the agent asks: " + c.Dialog}
	}
	switch d.holds(c) {
	case nothing:
		return hold{NotShown, "the prompt does not show the text"}
	case more:
		return hold{Mixed, "the prompt shows more than the text: somebody typed"}
	}
	d.mark = c.Draft
	return hold{}
}

const enters = 3 // limit

// enter presses Enter in a separate call, if the pane is unchanged since the snapshot.
func (d *delivery) enter(ctx context.Context, s snapshot) (bool, error) {
	entered, err := d.call(ctx, s, nil, "1", "send-keys -t "+d.ref.ID+" Enter", "")
	if entered || err != nil {
		d.out.Enters++
	}
	return entered, err
}

// confirm finds out whether the program has taken the text. If it has not, confirm presses Enter again.
func (d *delivery) confirm(ctx context.Context) (Outcome, error) {
	start := time.Now()
	entered, cleared := start, time.Time{}
	for {
		if d.submitted(ctx) {
			return d.out, nil
		}
		if err := pause(ctx, d.timing.look); err != nil {
			return d.ended(hold{NotProven, "the wait for proof was interrupted"}, err)
		}
		now, h, err := d.glance(ctx)
		if err != nil {
			if d.submitted(ctx) {
				return d.out, nil
			}
			return d.ended(hold{NotProven, "the pane could not be read after Enter"}, err)
		}
		stays := d.stays(now.composer)
		// A slow program restores the draft before it reads a second Enter, which would submit the draft.
		once := d.out.Stashed || now.composer.Stashed
		switch {
		case !d.left(now.composer) || h.reason != "":
			cleared = time.Time{}
		case cleared.IsZero():
			cleared = time.Now() // one look may come during a redraw
		case d.steps.Submitted == nil || time.Since(cleared) >= d.timing.proof:
			d.out.State = Confirmed
			return d.out, nil
		}
		if stays && !once && h.reason == "" && now.tty.waiting == 0 && d.out.Enters < enters && time.Since(entered) >= d.timing.again {
			// The screen may be older than the program's read of the last Enter.
			if h, err = d.drained(ctx, now, d.timing.drain); err == nil && h.reason == "" {
				now, h, err = d.glance(ctx)
			}
			if err == nil && h.reason == "" && now.tty.waiting == 0 && d.stays(now.composer) {
				if _, err := d.enter(ctx, now); err != nil {
					return d.ended(hold{NotProven, "tmux did not report whether Enter was pressed"}, err)
				}
				entered = time.Now()
			}
		}
		if time.Since(start) < d.timing.confirm || !cleared.IsZero() {
			continue
		}
		if stays {
			pressed := [enters + 1]string{"may have been pressed", "was pressed once", "was pressed twice", "was pressed three times"}
			detail := "the text is still at the prompt, although Enter " + pressed[d.out.Enters]
			if once {
				detail += "; pressing it again could submit the draft that was put aside, so look at the pane first"
			}
			return d.ended(hold{NotTaken, detail}, nil)
		}
		return d.ended(hold{NotProven, "Enter was pressed, and neither the transcript nor the screen shows whether the message was submitted"}, nil)
	}
}

// stays reports whether our text, and no other, is still in the composer.
func (d *delivery) stays(c Composer) bool {
	return c.Dialog == "" && c.Draft != "" && (c.Draft == d.mark || d.holds(c) == exactly)
}

// left reports whether our text has left the composer. A person may have typed since.
func (d *delivery) left(c Composer) bool {
	return c.Found && c.Dialog == "" && d.holds(c) == nothing && (d.mark == "" || !strings.Contains(c.Draft, d.mark))
}

// submitted asks the transcript. An error appears in the outcome unless the composer confirms the message.
func (d *delivery) submitted(ctx context.Context) bool {
	if d.steps.Submitted == nil {
		return false
	}
	ok, err := d.steps.Submitted(ctx)
	d.unread = err
	if ok {
		d.out.State, d.out.Shown = Confirmed, true
	}
	return ok
}
