package tmux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Policy says when a message may be typed.
type Policy string

const (
	Queued    Policy = "queued"    // also to a busy agent, which takes it next
	Important Policy = "important" // as Queued; callers put it before others
	WhenIdle  Policy = "when-idle" // to an idle agent alone
	Urgent    Policy = "urgent"    // a busy agent is interrupted with ESC first
)

// Input is what is typed: `[teambridge NONCE from FROM] TEXT`.
type Input struct {
	Nonce  string // 8 to 64 letters, digits and hyphens, by which transcript and screen are searched
	From   string // optional
	Text   string
	Policy Policy // by default Queued
	// SaveDraft allows a person's draft to be put aside. Claude Code does so with Ctrl-S, and brings it back by itself after
	// the next prompt, which is the message.
	SaveDraft bool
}

// Steps are called by [Deliver] in its course. Each may be nil. An error of Pasting or Entered stops the delivery before that
// step; the outcome says how far it came.
type Steps struct {
	// Pasting commits that the text is about to be pasted. If the process dies after it, only [Continue] may be called for this
	// message. If Deliver then says NotSent, nothing was pasted after all.
	Pasting func(context.Context) error
	// Entered commits that Enter is about to be pressed; it is called once.
	Entered func(context.Context) error
	// Submitted reports whether the agent's transcript holds the nonce. It is asked several times a second.
	Submitted func(context.Context) (bool, error)
}

// Deliver types one message into a pane and presses Enter, or says why not. It takes from half a second to a minute. The
// caller holds a lock for the pane, over all processes.
//
// An error is of bad input ([Input.Check]), of ctx, of a step or of tmux. The outcome is valid also with an error.
func Deliver(ctx context.Context, r Ref, p Profile, m Input, s Steps) (Outcome, error) {
	d := delivery{ref: r, profile: p, message: m, steps: s, timing: usual}
	return d.deliver(ctx)
}

// Continue finishes a delivery whose process was killed after [Steps.Pasting], or that ended without Enter. It never pastes: if
// the composer holds exactly the message, or the mark that it showed for the message before, it presses Enter; otherwise it
// finds out what it can.
func Continue(ctx context.Context, r Ref, p Profile, m Input, s Steps) (Outcome, error) {
	d := delivery{ref: r, profile: p, message: m, steps: s, timing: usual}
	return d.resume(ctx)
}

// Held says why a message of that policy would not be typed now, with a sentence for a person; or "". Nothing is sent.
func (r Ref) Held(ctx context.Context, p Profile, policy Policy) (Reason, string, error) {
	d := delivery{ref: r, profile: p, message: Input{Policy: policy}, timing: usual}
	_, h, err := d.look(ctx)
	return h.reason, h.detail, err
}

// Closed is Held without a look at the composer, which takes time: it says why nothing at all can be typed now.
func (r Ref) Closed(ctx context.Context, p Profile) (Reason, string, error) {
	d := delivery{ref: r, profile: p, timing: usual}
	_, h, err := d.glance(ctx)
	return h.reason, h.detail, err
}

// timing is how long things take at least, or may take at most.
type timing struct {
	poll  time.Duration // between two looks at the input queue
	zeros int           // how often it has to be empty in a row
	// After that and before Enter. With 80 ms in all, 120 of 120 programs whose event loop was blocked at random had read text and
	// Enter apart; without the queue, after fixed 300 ms, 110 of 120.
	drained, settle time.Duration

	drain, drainBusy time.Duration // how long a program may take to read the text
	show             time.Duration // and to show it
	look             time.Duration // between two looks at the screen
	again            time.Duration // after which Enter is pressed again, if the text still stands there
	confirm          time.Duration // from the first Enter
	proof            time.Duration // how long the transcript may lag behind the composer
	interrupt        time.Duration // from ESC to an empty composer
	escapes          time.Duration // between two ESC: at an empty prompt two of them do something else
}

var usual = timing{
	poll: 5 * time.Millisecond, zeros: 5, drained: 80 * time.Millisecond, settle: 150 * time.Millisecond,
	drain: 10 * time.Second, drainBusy: 30 * time.Second, show: 10 * time.Second, look: 100 * time.Millisecond,
	again: 1500 * time.Millisecond, confirm: 10 * time.Second, proof: 2 * time.Second,
	interrupt: 10 * time.Second, escapes: 2 * time.Second,
}

const enters = 3 // at most

// delivery is one message on its way.
type delivery struct {
	ref     Ref
	profile Profile
	message Input
	steps   Steps
	timing  timing
	out     Outcome
	mark    string // what the composer showed for our text
	entered bool   // [Steps.Entered] was called
	unread  error  // why the transcript could not be read
}

// snapshot is the pane before the paste. Enter goes to the same one.
type snapshot struct {
	pane     Pane
	tty      tty
	composer Composer
}

// hold is why not.
type hold struct {
	reason Reason
	detail string
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
	// Newer versions put a prompt that was interrupted early back into the composer.
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
	// Only what can be told from anybody else's text.
	switch d.holds(before.composer) {
	case exactly:
		return d.submit(ctx, before)
	case part:
		ours, err := d.remembers(ctx, before.composer.Draft)
		if err != nil {
			return d.ended(hold{NotShown, "tmux did not say whose text is at the prompt"}, err)
		}
		if ours {
			return d.submit(ctx, before)
		}
	}
	return d.ended(hold{NotShown, "the prompt does not hold the message; it may have been submitted"}, nil)
}

// markOption is where tmux keeps with the pane what the composer shows for a long text: "[Pasted text #3 +12 lines]". Claude Code
// counts all pastes, so the mark is that of no other.
const markOption = "@teambridge_mark"

// remember keeps the mark for [Continue], which may be called by another process.
func (d *delivery) remember(ctx context.Context, mark string) error {
	d.mark = mark
	_, err := run(ctx, d.ref.Socket, nil, "set-option", "-p", "-t", d.ref.ID, markOption, d.message.Nonce+" "+mark)
	return err
}

// remembers reports whether the mark was kept for this message.
func (d *delivery) remembers(ctx context.Context, mark string) (bool, error) {
	kept, err := run(ctx, d.ref.Socket, nil, "show-options", "-p", "-q", "-v", "-t", d.ref.ID, markOption)
	_, ok := pasteMark(mark)
	return ok && kept == d.message.Nonce+" "+mark+"\n", err
}

// ended is the outcome for a message that is held, or for an error.
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

// look takes the snapshot before a paste, and says what holds the message.
func (d *delivery) look(ctx context.Context) (snapshot, hold, error) {
	s, h, err := d.glance(ctx)
	if err != nil || h.reason != "" {
		return s, h, err
	}
	if s.composer, err = d.ref.Composer(ctx, d.profile); err != nil {
		return s, hold{}, err
	}
	return s, d.occupied(s.composer), nil
}

// glance takes a snapshot without waiting, and says what would swallow keys or misuse them.
func (d *delivery) glance(ctx context.Context) (snapshot, hold, error) {
	pane, composer, err := d.ref.read(ctx, d.profile)
	if err != nil {
		return snapshot{}, hold{}, err
	}
	s := snapshot{pane: pane, composer: composer}
	switch {
	case pane.Dead:
		return s, hold{Dead, "the program has ended"}, nil
	case pane.Mode != "":
		return s, hold{InMode, "somebody uses " + pane.Mode + " in the pane"}, nil
	case pane.InputOff:
		return s, hold{InputOff, "the input of the pane is switched off; tmux select-pane -e switches it on"}, nil
	case pane.Synchronized:
		return s, hold{Synchronized, "the keys of the window go to all its panes (synchronize-panes)"}, nil
	}
	if s.tty, err = pane.tty(); err != nil {
		// The program may have ended since.
		if now, lookErr := d.ref.Look(ctx); lookErr != nil {
			return s, hold{}, lookErr
		} else if now.Dead {
			return s, hold{Dead, "the program has ended"}, nil
		}
		return s, hold{}, err
	}
	// With a profile, the screen has to show a composer as well.
	if isShell(pane.Command) && (d.profile == Generic || !s.tty.script()) {
		return s, hold{NotAgent, "a shell runs in front, " + pane.Command}, nil
	}
	if s.tty.canonical {
		return s, hold{NotRaw, pane.Command + " reads lines, not keys: it is no agent with a prompt"}, nil
	}
	return s, hold{}, nil
}

// occupied says what on the screen holds the message. An interrupt is not tried if it could do harm.
func (d *delivery) occupied(c Composer) hold {
	policy := d.message.Policy
	switch c.State() {
	case StateDialog:
		return hold{Dialog, "the agent asks: " + c.Dialog}
	case StateDraft:
		return hold{Draft, "somebody has typed at the prompt"}
	case StateBusy:
		if policy == WhenIdle {
			return hold{Busy, "the agent works"}
		}
		if policy == Urgent && c.Queued > 0 {
			return hold{HasQueue, "the agent has messages in its own queue: after ESC it would work on them, not stop"}
		}
	case StateUnknown:
		if d.profile != Generic {
			return hold{Unknown, "the screen shows no prompt that is known"}
		}
		if policy == WhenIdle || policy == Urgent {
			return hold{Unknown, "whether the program is busy cannot be seen with the profile generic"}
		}
	}
	return hold{}
}

var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "busybox", "rbash", "nu", "pwsh", "elvish", "xonsh", "login"}

func isShell(command string) bool {
	command = strings.TrimPrefix(command, "-") // of a login shell
	return slices.Contains(shells, command) || command == filepath.Base(os.Getenv("SHELL"))
}

// interrupt sends ESC and waits until the agent has stopped.
func (d *delivery) interrupt(ctx context.Context, s snapshot) (snapshot, hold, error) {
	// tmux keeps the time of the last ESC with the pane, so that it is known to all processes, and compared in the call that sends.
	const last = "@teambridge_escape"
	now := time.Now().UnixMilli()
	// An option that is not set counts as 0, and one in the future is of a clock that was set back.
	rested := fmt.Sprintf("#{||:#{e|<|:#{%s},%d},#{e|>|:#{%s},%d}}", last, now-d.timing.escapes.Milliseconds(), last, now)
	sent, err := d.call(ctx, s, nil, rested, fmt.Sprintf("set-option -p -t %s %s %d ; send-keys -t %s Escape", d.ref.ID, last, now, d.ref.ID), "")
	if err != nil {
		d.out.Escaped = true // perhaps
		return s, hold{}, err
	}
	if !sent {
		if h, err := d.changed(ctx, s); err != nil || h.reason != Changed {
			return s, h, err
		}
		return s, hold{TooSoon, fmt.Sprintf("less than %v after the last ESC", d.timing.escapes)}, nil
	}
	d.out.Escaped = true
	for deadline := time.Now().Add(d.timing.interrupt); ; {
		s, h, err := d.look(ctx)
		if err != nil || h.reason != "" || !s.composer.Busy {
			return s, h, err
		}
		if time.Now().After(deadline) {
			return s, hold{Busy, fmt.Sprintf("the agent did not stop within %v of ESC", d.timing.interrupt)}, nil
		}
	}
}

// stash has the program put a draft aside. It has room for one: a second would overwrite the first.
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
		d.out.Stashed = true // perhaps
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

// paste gives the text to the pane, if it still is as in the snapshot.
func (d *delivery) paste(ctx context.Context, s snapshot) (hold, error) {
	buffer := "teambridge-" + d.message.Nonce
	sent, err := d.call(ctx, s, strings.NewReader(d.message.Line()), "1",
		"paste-buffer -d -p -r -b "+buffer+" -t "+d.ref.ID, "delete-buffer -b "+buffer+" ; ",
		"load-buffer", "-b", buffer, "-", ";")
	switch {
	case errors.Is(err, ErrNoServer):
		return hold{}, ErrGone
	case err != nil:
		// It may have been pasted, or not: tmux did not say.
		d.out.State, d.out.Pasted = Unconfirmed, true
		return hold{}, err
	case !sent:
		return d.changed(ctx, s)
	}
	d.out.Pasted = true
	return hold{}, nil
}

// call runs commands of tmux if the pane is as in the snapshot and the condition holds, a format; it reports whether it did.
// tmux does all in one go. It is not interrupted by ctx, as then nobody would know.
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

// pattern is one of tmux that the name of a program matches. The name may hold anything, #(commands) too.
func pattern(name string) string {
	return strings.Map(func(r rune) rune {
		if special(r) && r != '.' && r != '_' {
			return '*'
		}
		return r
	}, name)
}

// changed says what became of a pane that is not as in the snapshot.
func (d *delivery) changed(ctx context.Context, s snapshot) (hold, error) {
	now, h, err := d.glance(ctx)
	if err != nil || h.reason != "" {
		return h, err
	}
	if now.pane.Command != s.pane.Command || now.tty.foreground != s.tty.foreground {
		return hold{Changed, fmt.Sprintf("%s runs in front now, it was %s", now.pane.Command, s.pane.Command)}, nil
	}
	return hold{Changed, "the pane changed for a moment"}, nil
}

// submit presses Enter for a text that was pasted, and finds out what became of it.
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
			return d.ended(hold{NotProven, "tmux did not say whether Enter was pressed"}, err)
		}
		if entered {
			return d.confirm(ctx, now)
		}
	}
}

// ready waits until the program has read the text and shows it, and Enter would submit just that.
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
		// Also behind a mode of tmux.
		if _, ok := pasteMark(now.composer.Draft); ok && now.composer.Draft != d.mark && d.holds(now.composer) == part {
			if err := d.remember(ctx, now.composer.Draft); err != nil {
				return now, hold{}, err
			}
		}
		switch {
		case h.reason == Dead, h.reason == NotAgent:
			return now, hold{h.reason, h.detail + ", so Enter was not pressed"}, nil
		case h.reason != "": // may pass; a program that ends leaves raw mode first
		case now.pane.Command != before.pane.Command || now.tty.foreground != before.tty.foreground:
			return now, hold{Changed, fmt.Sprintf("%s came to the front, it was %s, so Enter was not pressed", now.pane.Command, before.pane.Command)}, nil
		case now.tty.waiting > 0: // somebody types
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

// drained waits until the program has read all that was typed.
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

// shown says why Enter would not submit our text, and ours alone.
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

// content is what a composer holds of our text.
type content int

const (
	nothing content = iota
	exactly         // our text
	part            // what may well be our text: its end, if it does not fit on the screen, or the mark for a long paste
	more            // our text and something else
)

// longEnd is how many characters a cut text shows at least.
const longEnd = 40

// holds compares the composer with our text.
func (d *delivery) holds(c Composer) content {
	line := d.message.Line()
	typed, ours := printed(c.Draft), printed(line)
	if !c.Found || typed == "" {
		return nothing
	}
	if typed == ours {
		return exactly
	}
	if first := len(printed(d.message.prefix())); uncertain(line) && strings.Contains(typed, d.message.Nonce) &&
		2*(len(typed)-first) > len(ours)-first && lacks(ascii(c.Draft), ascii(line)) {
		return exactly
	}
	if len(typed) >= longEnd && strings.HasSuffix(ours, typed) {
		return part
	}
	if breaks, ok := pasteMark(c.Draft); ok && (breaks == strings.Count(line, "\n") || breaks == strings.Count(strings.TrimRight(line, "\n"), "\n")) {
		return part
	}
	for _, sign := range []string{d.message.Nonce, ours[max(0, len(ours)-longEnd):], printed("[Pasted text #")} {
		if strings.Contains(typed, sign) {
			return more
		}
	}
	return nothing
}

// pasteMark returns how many line breaks a mark stands for: "[Pasted text #1]", "[Pasted text #2 +30 lines]".
func pasteMark(draft string) (breaks int, ok bool) {
	inner, ok := strings.CutPrefix(draft, "[Pasted text #")
	inner, closed := strings.CutSuffix(inner, "]")
	number, lines, several := strings.Cut(inner, " +")
	if several {
		lines = strings.TrimSuffix(strings.TrimSuffix(lines, "s"), " line")
		breaks, _ = strconv.Atoi(lines)
	}
	return breaks, ok && closed && digits(number) && (!several || digits(lines))
}

// printed takes white space out of a text: lines are wrapped, and tabs replaced.
func printed(text string) string { return strings.Join(strings.Fields(text), "") }

// uncertain reports whether a text may look different on the screen: Claude Code composes accents, and programs and terminals
// do not agree on the width of emoji, of Indic scripts and of what has none, so that characters are overwritten.
func uncertain(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f && !unicode.IsLetter(r) || unicode.Is(unicode.Hangul, r) })
}

// lacks reports whether the text on the screen is ours, or lacks some characters of it, but has none of another.
func lacks(screen, ours string) bool {
	for _, r := range screen {
		i := strings.IndexRune(ours, r)
		if i < 0 {
			return false
		}
		ours = ours[i+1:]
	}
	return true
}

// ascii takes from a text the characters that look the same everywhere: an accent may be one with the letter before it.
func ascii(text string) string {
	var kept []rune
	var last rune
	for _, r := range text {
		switch {
		case r > ' ' && r < 0x7f:
			kept = append(kept, r)
		case unicode.IsMark(r) && last > ' ' && last < 0x7f:
			kept = kept[:len(kept)-1]
		}
		last = r
	}
	return string(kept)
}

// enter presses Enter in a call of its own, if the pane is as in the snapshot.
func (d *delivery) enter(ctx context.Context, s snapshot) (bool, error) {
	entered, err := d.call(ctx, s, nil, "1", "send-keys -t "+d.ref.ID+" Enter", "")
	if entered || err != nil {
		d.out.Enters++
	}
	return entered, err
}

// confirm finds out whether the program has taken the text, and presses Enter again if it has not.
func (d *delivery) confirm(ctx context.Context, s snapshot) (Outcome, error) {
	start := time.Now()
	entered, cleared := start, time.Time{}
	for {
		if d.submitted(ctx) {
			return d.out, nil
		}
		if err := pause(ctx, d.timing.look); err != nil {
			return d.ended(hold{NotProven, "the wait for a proof was ended"}, err)
		}
		now, h, err := d.glance(ctx)
		if err != nil {
			if d.submitted(ctx) {
				return d.out, nil
			}
			return d.ended(hold{NotProven, "the pane could not be read after Enter"}, err)
		}
		stays := d.stays(now.composer)
		switch {
		case !d.left(now.composer) || h.reason != "":
			cleared = time.Time{}
		case cleared.IsZero():
			cleared = time.Now() // one look may fall into a redraw
		case d.steps.Submitted == nil || time.Since(cleared) >= d.timing.proof:
			d.out.State, d.out.Basis = Confirmed, ByComposer
			return d.out, nil
		}
		if stays && h.reason == "" && now.tty.waiting == 0 && d.out.Enters < enters && time.Since(entered) >= d.timing.again {
			// The screen is of before the program read the last Enter, perhaps.
			if h, err = d.drained(ctx, now, d.timing.drain); err == nil && h.reason == "" {
				now, h, err = d.glance(ctx)
			}
			if err == nil && h.reason == "" && now.tty.waiting == 0 && d.stays(now.composer) {
				if _, err := d.enter(ctx, now); err != nil {
					return d.ended(hold{NotProven, "tmux did not say whether Enter was pressed"}, err)
				}
				entered = time.Now()
			}
		}
		if time.Since(start) < d.timing.confirm || !cleared.IsZero() {
			continue
		}
		if stays {
			return d.ended(hold{NotTaken, fmt.Sprintf("the text still stands at the prompt after %d times Enter", d.out.Enters)}, nil)
		}
		return d.ended(hold{NotProven, "Enter was pressed, and neither transcript nor screen shows what became of the message"}, nil)
	}
}

// stays reports whether our text is still in the composer, and nothing else.
func (d *delivery) stays(c Composer) bool {
	return c.Dialog == "" && c.Draft != "" && (c.Draft == d.mark || d.holds(c) == exactly)
}

// left reports whether nothing of our text is in the composer. A person may have typed behind it.
func (d *delivery) left(c Composer) bool {
	return c.Found && c.Dialog == "" && d.holds(c) == nothing && (d.mark == "" || !strings.Contains(c.Draft, d.mark))
}

// submitted asks the transcript. If that cannot be read, the outcome says so unless something else confirms it.
func (d *delivery) submitted(ctx context.Context) bool {
	if d.steps.Submitted == nil {
		return false
	}
	ok, err := d.steps.Submitted(ctx)
	d.unread = err
	if ok {
		d.out.State, d.out.Basis = Confirmed, ByTranscript
	}
	return ok
}
