package tmux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// corpus has texts that shells, tmux and terminals could misread.
func corpus() map[string]string {
	return map[string]string{
		"plain":            "hello",
		"semicolon":        "ends with one;",
		"escaped":          `ends with \;`,
		"backslashes":      `\ \\ \n \t \033[31m \`,
		"formats of tmux":  "#{pid} #(touch /tmp/never) #[fg=red] ## #, #}",
		"dates":            "%H:%M:%S %s %% %1",
		"shell":            "$HOME `id` $(id) \"quoted\" 'quoted' | & > < ~ * ? [a] {b}",
		"keys of tmux":     "Enter C-c Escape Space -l -t %0",
		"several lines":    "one\n\n  two\n\tthree\n",
		"leading newlines": "\n\nx",
		"many lines":       strings.Repeat("line\n", 300),
		"tabs":             "a\tb\t\tc",
		"languages":        "Grüße, 日本語, Ελληνικά, עברית, العربية, हिन्दी, ไทย, 한국어, \u1112\u1161\u11ab",
		"emoji":            "👍 👩‍👩‍👧 🏳️‍🌈 e\u0301 \u200b\ufeff",
		"not characters":   "\ufffd \U0010ffff \ue000",
		"commands":         "/clear !ls @file #memory",
		"one long line":    strings.Repeat("0123456789", 500),
		"as long as may be": func() string {
			m := Input{Nonce: "0123456789ab", From: "worker"}
			return strings.Repeat("x", MaxText-len(m.Line()))
		}(),
	}
}

func TestDeliverByteExact(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"bracketed", "plain"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t)
			if mode == "plain" {
				a.do("plain")
			}
			var sent []Input
			for name, text := range corpus() {
				m := message(text)
				if o, err := a.deliver(m, Steps{}, patient); err != nil || o.State != Confirmed || o.Shown || o.Enters != 1 {
					t.Errorf("%s: %+v, %v", name, o, err)
				}
				sent = append(sent, m)
			}
			a.submitted(sent...)
			a.noBuffers()
			if n := len(a.all("pasted")); mode == "bracketed" && n != len(sent) {
				t.Errorf("%d bracketed pastes, want %d", n, len(sent))
			}
		})
	}
}

// If the program does not read while it works, Enter comes after it has read the text, however long that takes.
func TestDeliverToABusyProgramWaitsUntilItReads(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "busy", "block")
	m := message(strings.Repeat("line\n", 1000)) // more than the kernel keeps
	d := delivery{ref: a.ref, profile: Generic, message: m, timing: patient}
	d.steps.Submitted = func(context.Context) (bool, error) { return len(a.all("submit")) > 0, nil }
	var o Outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		o, err = d.deliver(t.Context())
	}()
	a.until("text in the terminal", func() bool { return a.waiting() > 0 })
	if got := a.all("read"); len(got) > 0 {
		t.Fatalf("read %q", got)
	}
	a.do("unblock")
	<-done
	if err != nil || o.State != Confirmed || o.Enters != 1 {
		t.Errorf("got %+v, %v", o, err)
	}
	a.submitted(m)
}

func TestDeliverStuckPressesNoEnter(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "block")
	m := message("hello")
	limits := patient
	limits.drain = 1
	o, err := a.deliver(m, Steps{Entered: func(context.Context) error { t.Error("Enter"); return nil }}, limits)
	ends(t, o, err, Unconfirmed, Stuck)
	if !o.Pasted || o.Enters != 0 {
		t.Errorf("got %+v", o)
	}
	// Later it can be continued.
	a.do("unblock")
	a.wait("pasted")
	a.shows(exactly, m)
	o, err = a.resume(m, Steps{}, patient)
	if err != nil || o.State != Confirmed {
		t.Errorf("Continue: %+v, %v", o, err)
	}
	a.submitted(m)
}

// shows waits until the composer holds so much of a message.
func (a *agent) shows(want content, m Input) {
	a.t.Helper()
	d := delivery{message: m}
	a.until("the text on the screen", func() bool {
		_, c, err := a.ref.read(a.t.Context(), Claude)
		return err == nil && d.holds(c) == want
	})
}

// A program whose event loop is blocked for 0, 500 or 1500 ms before each read gets Enter in a read of its own. With
// a fixed wait of 300 ms, one in twelve read text and Enter as one, and did not submit.
func TestEnterIsReadApart(t *testing.T) {
	t.Parallel()
	trials := 10
	if s := os.Getenv("TMUX_TEST_TRIALS"); s != "" {
		var err error
		if trials, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	const panes = 5 // at a time
	s := startServer(t)
	var wg sync.WaitGroup
	for pane := range panes {
		a := s.start("", fmt.Sprintf("delays %d", pane+1))
		wg.Go(func() {
			var sent []Input
			for trial := pane; trial < trials; trial += panes {
				m := message(fmt.Sprintf("trial %d\nof %d", trial, trials))
				// The screen of a generic program is no help.
				d := delivery{ref: a.ref, profile: Generic, message: m, timing: patient}
				d.steps.Submitted = func(context.Context) (bool, error) {
					return len(a.all("submit")) > len(sent) || len(a.all("merged")) > 0, nil
				}
				if o, err := d.deliver(t.Context()); err != nil || o.State != Confirmed {
					t.Errorf("trial %d: %+v, %v", trial, o, err)
				}
				sent = append(sent, m)
			}
			a.submitted(sent...)
		})
	}
	wg.Wait()
}

func TestDeliverHolds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		commands []string
		tmux     func(a *agent)
		policy   Policy
		profile  Profile
		want     Reason
	}{
		"copy mode":                       {tmux: func(a *agent) { a.tmux("copy-mode", "-t", a.ref.ID) }, want: InMode},
		"clock mode":                      {tmux: func(a *agent) { a.tmux("clock-mode", "-t", a.ref.ID) }, want: InMode},
		"input off":                       {tmux: func(a *agent) { a.tmux("select-pane", "-d", "-t", a.ref.ID) }, want: InputOff},
		"synchronized":                    {tmux: func(a *agent) { a.tmux("set-option", "-w", "-t", a.ref.ID, "synchronize-panes", "on") }, want: Synchronized},
		"dead":                            {tmux: func(a *agent) { a.exit() }, want: Dead},
		"gone":                            {tmux: func(a *agent) { a.tmux("kill-pane", "-t", a.ref.ID) }, want: Gone},
		"server gone":                     {tmux: func(a *agent) { a.tmux("kill-server") }, want: Gone},
		"another program in it":           {tmux: func(a *agent) { a.tmux("respawn-pane", "-k", "-t", a.ref.ID, "sleep", "100000") }, want: Gone},
		"canonical":                       {commands: []string{"cooked"}, want: NotRaw},
		"draft":                           {commands: []string{"draft my own"}, want: Draft},
		"draft, busy":                     {commands: []string{"busy", "draft my own"}, want: Draft},
		"draft, urgent":                   {commands: []string{"busy", "draft my own"}, policy: Urgent, want: Draft},
		"draft, important":                {commands: []string{"draft my own"}, policy: Important, want: Draft},
		"dialog":                          {commands: []string{"dialog Do you want to proceed?"}, want: Dialog},
		"dialog, urgent":                  {commands: []string{"dialog Do you want to proceed?"}, policy: Urgent, want: Dialog},
		"busy, when-idle":                 {commands: []string{"busy"}, policy: WhenIdle, want: Busy},
		"own queue, urgent":               {commands: []string{"busy", "queue"}, policy: Urgent, want: HasQueue},
		"no composer":                     {tmux: func(a *agent) { a.tmux("resize-window", "-t", a.ref.ID, "-x", "100", "-y", "2") }, want: Unknown},
		"generic, when-idle":              {policy: WhenIdle, profile: Generic, want: Unknown},
		"generic, urgent":                 {policy: Urgent, profile: Generic, want: Unknown},
		"synchronized by an option of it": {tmux: func(a *agent) { a.tmux("set-option", "-p", "-t", a.ref.ID, "synchronize-panes", "on") }, want: Synchronized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, test.commands...)
			if test.tmux != nil {
				test.tmux(a)
			}
			m := message("hello")
			m.Policy = test.policy
			profile := test.profile
			if profile == "" {
				profile = Claude
			}
			reason, detail, err := a.ref.Held(t.Context(), profile, test.policy)
			if errors.Is(err, ErrGone) {
				reason, detail, err = Gone, "gone", nil
			}
			if err != nil || reason != test.want || detail == "" {
				t.Errorf("Held: %q, %q, %v; want %s", reason, detail, err, test.want)
			}
			o, err := Deliver(t.Context(), a.ref, profile, m, Steps{Pasting: func(context.Context) error { t.Error("pasted"); return nil }})
			ends(t, o, err, NotSent, test.want)
			if o.Pasted || o.Escaped || o.Enters > 0 {
				t.Errorf("got %+v", o)
			}
			if test.want == Gone && name == "server gone" {
				return
			}
			a.untouched()
		})
	}
}

// exit ends the program, and waits until tmux has noticed.
func (a *agent) exit() {
	a.do("exit")
	a.wait("end")
	a.until("the end of the program", func() bool {
		return !strings.Contains(a.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_dead}", "-f", "#{==:#{pane_pid},"+strconv.Itoa(a.ref.PID)+"}"), " 0")
	})
}

func TestDeliverToAShellIsHeld(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash"} {
		a := startServer(t).start(shell)
		a.do("exit")
		a.alone(shell)
		o, err := a.deliver(message("touch "+a.socket("canary")), Steps{}, patient)
		ends(t, o, err, NotSent, NotAgent)
		a.ranNothing()
	}
}

// A message is delivered to an agent that runs in a script, whose shell is in front.
func TestDeliverToAnAgentOfAScript(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash"} {
		a := startServer(t).start("script of " + shell)
		if p, err := a.ref.Look(t.Context()); err != nil || p.Command != shell {
			t.Fatalf("in front is %s, %v; want %s", p.Command, err, shell)
		}
		if reason, why, err := a.ref.Closed(t.Context(), Claude); err != nil || reason != "" {
			t.Errorf("closed: %s, %s, %v", reason, why, err)
		}
		m := message("hello")
		a.confirmed(m, Steps{})
		a.submitted(m)
		d := delivery{ref: a.ref, profile: Generic, message: message("again"), timing: hasty}
		o, err := d.deliver(t.Context())
		ends(t, o, err, NotSent, NotAgent)
		a.do("exit")
		a.alone(shell)
		o, err = a.deliver(message("touch "+a.socket("canary")), Steps{}, patient)
		ends(t, o, err, NotSent, NotAgent)
		a.ranNothing()
	}
}

// alone waits until the shell is in front, and what it has run is gone.
func (a *agent) alone(shell string) {
	a.t.Helper()
	a.until("the shell alone", func() bool {
		p, err := a.ref.Look(a.t.Context())
		if err != nil || p.Command != shell {
			return false
		}
		k, err := p.tty()
		return err == nil && !k.script()
	})
}

// ranNothing checks that the shell in the pane has run no command of a message, which makes a file canary.
func (a *agent) ranNothing() {
	a.t.Helper()
	// C-u removes any text at the prompt, in all shells.
	a.tmux("send-keys", "-t", a.ref.ID, "C-u", ": > "+a.socket("probe"), "Enter")
	a.until("the shell to run a command", func() bool { _, err := os.Stat(a.socket("probe")); return err == nil })
	if _, err := os.Stat(a.socket("canary")); err == nil {
		a.t.Error("the shell ran the message")
	}
}

// tmux itself checks the reasons to hold a message again, in the call that pastes. A paste into a dead pane ends the
// server of tmux 3.3a.
func TestPasteIsGuarded(t *testing.T) {
	t.Parallel()
	for name, test := range guarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startServer(t).start(test.shell)
			committed := false
			o, err := a.deliver(message("hello"), Steps{Pasting: func(context.Context) error {
				committed = true
				test.change(a)
				return nil
			}}, hasty)
			ends(t, o, err, NotSent, test.want)
			if o.Pasted || !committed {
				t.Errorf("got %+v, committed %t", o, committed)
			}
			a.untouched()
			a.tmux("has-session", "-t", "=main") // the server lives
		})
	}
}

// tmux also checks them in the call that presses Enter.
func TestEnterIsGuarded(t *testing.T) {
	t.Parallel()
	for name, test := range guarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startServer(t).start(test.shell)
			changed := 0
			d := delivery{ref: a.ref, profile: Claude, message: message("echo hello"), timing: patient}
			d.steps.Entered = func(context.Context) error {
				changed++
				test.change(a)
				d.timing.show = unshown.show // from now on
				return nil
			}
			o, err := d.deliver(t.Context())
			ends(t, o, err, Unconfirmed, test.want)
			if !o.Pasted || o.Enters != 0 || changed != 1 {
				t.Errorf("got %+v, Entered %d times", o, changed)
			}
			for _, read := range a.all("read") {
				if strings.Contains(read, "\r") {
					t.Errorf("the program read %q", read)
				}
			}
			a.tmux("has-session", "-t", "=main")
		})
	}
}

// guarded has the changes of a pane that tmux itself sees.
var guarded = map[string]struct {
	shell  string
	change func(a *agent)
	want   Reason
}{
	"copy mode":    {change: func(a *agent) { a.tmux("copy-mode", "-t", a.ref.ID) }, want: InMode},
	"clock mode":   {change: func(a *agent) { a.tmux("clock-mode", "-t", a.ref.ID) }, want: InMode},
	"input off":    {change: func(a *agent) { a.tmux("select-pane", "-d", "-t", a.ref.ID) }, want: InputOff},
	"synchronized": {change: func(a *agent) { a.tmux("set-option", "-w", "-t", a.ref.ID, "synchronize-panes", "on") }, want: Synchronized},
	"dead":         {change: func(a *agent) { a.exit() }, want: Dead},
	"gone":         {change: func(a *agent) { a.tmux("kill-pane", "-t", a.ref.ID) }, want: Gone},
	// Another process with the same name.
	"respawned": {change: func(a *agent) {
		a.tmux("respawn-pane", "-k", "-t", a.ref.ID, "bash", "-c", `exec -a "$0" sleep 100000`, os.Args[0])
		a.until("the new program", func() bool {
			return a.tmux("display-message", "-p", "-t", a.ref.ID, "#{pane_current_command}") == filepath.Base(os.Args[0])
		})
	}, want: Gone},
	"shell": {shell: "bash", change: func(a *agent) {
		a.do("exit")
		a.alone("bash")
	}, want: NotAgent},
}

// A mode that ends does not fail the message: Enter waits for it, and the step is committed once.
func TestEnterWaitsForTheEndOfAMode(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	entered := 0
	m := message("hello")
	var wg sync.WaitGroup
	a.confirmed(m, Steps{Entered: func(context.Context) error {
		entered++
		a.tmux("copy-mode", "-t", a.ref.ID)
		wg.Go(func() { a.tmux("send-keys", "-t", a.ref.ID, "-X", "cancel") })
		return nil
	}})
	wg.Wait()
	if entered != 1 {
		t.Errorf("Entered %d times", entered)
	}
	a.submitted(m)
}

// If the agent ends when it has the text, its shell comes to the front, and must not get the Enter.
func TestProgramThatEndsBeforeEnter(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash", "script of sh", "script of bash", ""} {
		t.Run("in front of "+shell, func(t *testing.T) {
			t.Parallel()
			a := startServer(t).start(shell, "paste exit")
			o, err := a.deliver(message("x\ntouch "+a.socket("canary")+"\n"), Steps{}, patient)
			if shell == "" {
				ends(t, o, err, Unconfirmed, Dead)
				return
			}
			if o.Reason.NoAgent() { // NotRaw until the shell waits for commands
				o.Reason = NotAgent
			}
			ends(t, o, err, Unconfirmed, NotAgent)
			a.ranNothing()
		})
	}
}

// An unread text goes to the shell. It stays at the prompt if the shell knows bracketed pastes, or if it is one line.
func TestProgramThatEndsBeforeItReads(t *testing.T) {
	t.Parallel()
	for shell, text := range map[string]string{"sh": "x; touch CANARY", "bash": "x\ntouch CANARY\n"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			a := startServer(t).start(shell, "block")
			var o Outcome
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				o, err = a.deliver(message(strings.ReplaceAll(text, "CANARY", a.socket("canary"))), Steps{}, patient)
			}()
			a.until("text in the terminal", func() bool { return a.waiting() > 0 })
			a.do("exit")
			<-done
			ends(t, o, err, Unconfirmed, NotAgent)
			a.ranNothing()
		})
	}
}

func TestProgramThatFlushesItsInput(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "flush")
	o, err := a.deliver(message("hello"), Steps{}, unshown)
	ends(t, o, err, Unconfirmed, NotShown)
	a.wait("flushed")
	a.submitted()
}

func TestEnterThatIsLostIsPressedAgain(t *testing.T) {
	t.Parallel()
	for swallowed, enters := range []int{1, 2, 3} {
		a := startAgent(t, fmt.Sprintf("swallow %d", swallowed))
		m := message("hello")
		d := delivery{ref: a.ref, profile: Claude, message: m, timing: patient}
		d.steps.Submitted = func(context.Context) (bool, error) {
			d.againOnceLost(a)
			return false, nil
		}
		o, err := d.deliver(t.Context())
		if err != nil || o.State != Confirmed || o.Enters < enters {
			t.Errorf("%d lost: got %+v, %v", swallowed, o, err)
		}
		a.submitted(m)
	}
}

func TestEnterIsPressedThreeTimesAtMost(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "deaf")
	d := delivery{ref: a.ref, profile: Claude, message: message("hello"), timing: patient}
	start, over := time.Now(), false
	d.steps.Submitted = func(context.Context) (bool, error) {
		d.againOnceLost(a)
		if !over && len(a.all("lost")) >= 3 { // there is time for one more
			d.timing.confirm, over = time.Since(start)+hasty.confirm, true
		}
		return false, nil
	}
	o, err := d.deliver(t.Context())
	ends(t, o, err, Unconfirmed, NotTaken)
	a.waitCount("lost", o.Enters)
	if o.Enters != 3 || len(a.all("lost")) != 3 {
		t.Errorf("Enter %d times: %+v", len(a.all("lost")), o)
	}
}

// If Enter was lost and a person types after our text, the text stays, and no Enter submits it with the person's.
func TestPersonTypesAfterALostEnter(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"hello", "1\n2\n3", strings.Repeat("0123456789 ", 60)} {
		a := startAgent(t, "deaf", "cut 5", "enter append , and then")
		o, err := a.deliver(message(text), a.afterLost(), hasty)
		ends(t, o, err, Unconfirmed, NotProven)
		if o.Enters != 1 {
			t.Errorf("%.10q: Enter %d times", text, o.Enters)
		}
	}
}

// No Enter is pressed into a dialog that opens after the paste: it would be the answer.
func TestNoEnterIntoADialog(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "paste dialog Do you want to proceed?")
	o, err := a.deliverDrawn(message("hello"), unshown)
	ends(t, o, err, Unconfirmed, Dialog)
	// A dialog that opens instead of a submit gets no second Enter.
	a = startAgent(t, "swallow 1", "enter dialog Do you want to proceed?")
	o, err = a.deliver(message("hello"), a.afterLost(), hasty)
	ends(t, o, err, Unconfirmed, NotProven)
	a.submitted()
}

// No Enter is pressed after a person typed: it would submit the person's text with ours.
func TestNoEnterAfterAPersonTyped(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "paste append , and then my own")
	o, err := a.deliverDrawn(message("hello"), unshown)
	ends(t, o, err, Unconfirmed, Mixed)
	a.submitted()
}

// A text that does not fit on the screen is recognized by its visible part.
func TestTextThatIsCutIsSubmitted(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "cut 5")
	m := message(strings.Repeat("0123456789 abcdefghi ", 100))
	a.confirmed(m, Steps{})
	a.submitted(m)
}

func TestTranscriptIsTheBetterProof(t *testing.T) {
	t.Parallel()
	// The composer proves nothing, because Enter opened a dialog: the transcript does.
	a := startAgent(t, "enter dialog Do you want to proceed?")
	m := message("hello")
	a.confirmed(m, Steps{Submitted: func(context.Context) (bool, error) { return len(a.all("submit")) > 0, nil }})
	a.submitted(m)
	// A person pressed Enter before us.
	a = startAgent(t, "paste draft")
	o, err := a.deliver(message("hello"), Steps{Submitted: func(context.Context) (bool, error) { return true, nil }}, unshown)
	if err != nil || o.State != Confirmed || !o.Shown || o.Enters != 0 {
		t.Errorf("got %+v, %v", o, err)
	}
	// It cannot be read: the composer decides, and the reason is kept if that proves nothing either.
	a = startAgent(t)
	broken := Steps{Submitted: func(context.Context) (bool, error) { return false, errTest }}
	limits := patient
	limits.proof = 0
	if o, err := a.deliver(message("hello"), broken, limits); err != nil || o.State != Confirmed || o.Shown {
		t.Errorf("got %+v, %v", o, err)
	}
	a = startAgent(t, "deaf")
	o, err = a.deliver(message("hello"), broken, hasty)
	ends(t, o, err, Unconfirmed, NotTaken)
	if !strings.Contains(o.Detail, errTest.Error()) {
		t.Errorf("detail %q", o.Detail)
	}
}

func TestStepThatFailsStopsTheDelivery(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	fails := func(context.Context) error { return errTest }
	o, err := a.deliver(message("hello"), Steps{Pasting: fails}, patient)
	if !errors.Is(err, errTest) || o.State != NotSent {
		t.Errorf("Pasting: %+v, %v", o, err)
	}
	a.untouched()
	m := message("hello")
	o, err = a.deliver(m, Steps{Entered: fails}, patient)
	if !errors.Is(err, errTest) || o.State != Unconfirmed || o.Enters != 0 {
		t.Errorf("Entered: %+v, %v", o, err)
	}
	a.submitted()
	// It is continued, and then Enter is pressed.
	if o, err := a.resume(m, Steps{}, patient); err != nil || o.State != Confirmed {
		t.Errorf("Continue: %+v, %v", o, err)
	}
	a.submitted(m)
}

// A delivery that its caller ends returns how far it came, and calls of tmux are not cut off in the middle.
func TestDeliveryThatIsEnded(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	end := func(m Input, s func(context.CancelCauseFunc) Steps) (Outcome, error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		d := delivery{ref: a.ref, profile: Claude, message: m, steps: s(cancel), timing: patient}
		return d.deliver(ctx)
	}
	m := message("hello")
	o, err := end(m, func(cancel context.CancelCauseFunc) Steps {
		return Steps{Pasting: func(context.Context) error { cancel(errTest); return nil }}
	})
	if !errors.Is(err, errTest) || o.State != Unconfirmed || !o.Pasted || o.Enters != 0 {
		t.Errorf("before the paste: %+v, %v", o, err)
	}
	a.shows(exactly, m)
	if o, err := a.resume(m, Steps{}, patient); err != nil || o.State != Confirmed {
		t.Errorf("Continue: %+v, %v", o, err)
	}
	last := message("again")
	o, err = end(last, func(cancel context.CancelCauseFunc) Steps {
		return Steps{Entered: func(context.Context) error { cancel(errTest); return nil }}
	})
	if !errors.Is(err, errTest) || o.State != Unconfirmed || o.Enters != 1 {
		t.Errorf("before Enter: %+v, %v", o, err)
	}
	a.waitCount("submit", 2)
	a.submitted(m, last)
}

// The screen of a generic program is not read, so only a transcript can confirm.
func TestGenericProgram(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	m := message("hello")
	d := delivery{ref: a.ref, profile: Generic, message: m, timing: hasty}
	o, err := d.deliver(t.Context())
	ends(t, o, err, Unconfirmed, NotProven)
	if o.Enters != 1 {
		t.Errorf("got %+v", o)
	}
	a.wait("submit")
	a.submitted(m)
}

func TestBadMessageIsNotSent(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	for _, text := range []string{"\x1b[201~\rrm -rf x\r", strings.Repeat("x", 10<<10), "\xff", ""} {
		if o, err := Deliver(t.Context(), a.ref, Claude, message(text), Steps{}); err == nil || o.State != NotSent {
			t.Errorf("%.20q: %+v, %v", text, o, err)
		}
		if _, err := Continue(t.Context(), a.ref, Claude, message(text), false, Steps{}); err == nil {
			t.Errorf("%.20q: continued", text)
		}
	}
	a.untouched()
}

func TestUrgentInterrupts(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "busy")
	m := message("hello")
	m.Policy = Urgent
	o, err := a.deliver(m, Steps{}, patient)
	if err != nil || o.State != Confirmed || !o.Escaped {
		t.Errorf("got %+v, %v", o, err)
	}
	if got := a.all("read"); got[0] != "\x1b" || len(a.all("escape")) != 1 {
		t.Errorf("read %q, want ESC alone first", got)
	}
	// Another process has just sent ESC: that is recorded with the pane.
	a.do("busy")
	m = message("again")
	m.Policy = Urgent
	limits := hasty
	limits.escapes = patience
	o, err = a.deliver(m, Steps{}, limits)
	ends(t, o, err, NotSent, TooSoon)
	// Later it is sent.
	limits = patient
	limits.escapes = 0
	if o, err := a.deliver(m, Steps{}, limits); err != nil || o.State != Confirmed {
		t.Errorf("later: %+v, %v", o, err)
	}
	if got := len(a.all("escape")); got != 2 {
		t.Errorf("%d times ESC", got)
	}
}

func TestUrgentToAnIdleAgentIsNoInterrupt(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	m := message("hello")
	m.Policy = Urgent
	a.confirmed(m, Steps{})
	a.submitted(m)
}

func TestAgentThatDoesNotStop(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "busy", "escape busy")
	m := message("hello")
	m.Policy = Urgent
	o, err := a.deliver(m, Steps{}, hasty)
	ends(t, o, err, NotSent, Busy)
}

// A prompt that was interrupted early comes back to the composer, and is put aside for the message.
func TestPromptThatWasInterruptedIsNotLost(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "busy", "escape late draft the prompt before")
	m := message("hello")
	m.Policy = Urgent
	limits := patient
	limits.restore = patience // it is over when the prompt is back
	o, err := a.deliver(m, Steps{}, limits)
	if err != nil || o.State != Confirmed || !o.Escaped || !o.Stashed {
		t.Errorf("got %+v, %v", o, err)
	}
	a.wait("submit")
	if got := a.all("submit"); len(got) != 1 || got[0] != m.Line() {
		t.Errorf("submitted %q", got)
	}
	a.do("enter")
	if _, c, err := a.ref.read(t.Context(), Claude); err != nil || c.Draft != "the prompt before" {
		t.Errorf("the composer: %+v, %v", c, err)
	}
}

// Continue presses Enter only for a text that is surely ours.
func TestContinue(t *testing.T) {
	t.Parallel()
	m := message("hello")
	t.Run("our text", func(t *testing.T) {
		a := startAgent(t, "draft "+m.Line())
		o, err := a.resume(m, Steps{}, patient)
		if err != nil || o.State != Confirmed || o.Enters != 1 || !o.Pasted {
			t.Errorf("got %+v, %v", o, err)
		}
		a.submitted(m)
	})
	// The process was killed before Enter, or Enter was lost.
	t.Run("our text, after Enter was due", func(t *testing.T) {
		a := startAgent(t, "draft "+m.Line())
		o, err := a.resumeEntered(m, patient)
		if err != nil || o.State != Confirmed || o.Enters != 1 {
			t.Errorf("got %+v, %v", o, err)
		}
		a.submitted(m)
	})
	for name, draft := range map[string]string{
		"nothing": "", "another draft": "my own", "a paste": "[Pasted text #1 +2 lines]", "our text and more": m.Line() + " and", "a part": m.Line()[:20],
	} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, "draft "+draft)
			o, err := a.resume(m, Steps{}, hasty)
			ends(t, o, err, Unconfirmed, NotShown)
			a.untouched()
		})
	}
	// A long text is shown as a mark, which tmux keeps.
	t.Run("our mark", func(t *testing.T) {
		long := message("1\n2\n3")
		a := startAgent(t)
		d := delivery{ref: a.ref, profile: Claude, message: long, timing: patient}
		d.steps.Entered = func(context.Context) error {
			a.tmux("copy-mode", "-t", a.ref.ID)
			d.timing.show = unshown.show // from now on
			return nil
		}
		o, err := d.deliver(t.Context())
		ends(t, o, err, Unconfirmed, InMode)
		o, err = a.resume(long, Steps{}, hasty)
		ends(t, o, err, Unconfirmed, InMode)
		a.tmux("send-keys", "-t", a.ref.ID, "-X", "cancel")
		o, err = a.resume(message("4\n5\n6"), Steps{}, hasty)
		ends(t, o, err, Unconfirmed, NotShown)
		if o, err := a.resume(long, Steps{}, patient); err != nil || o.State != Confirmed || o.Enters != 1 {
			t.Errorf("got %+v, %v", o, err)
		}
		a.submitted(long)
		// The mark of a later paste is another.
		a.do("draft [Pasted text #2 +2 lines]")
		o, err = a.resume(long, Steps{}, hasty)
		ends(t, o, err, Unconfirmed, NotShown)
		a.submitted(long)
	})
	t.Run("in the transcript", func(t *testing.T) {
		a := startAgent(t)
		o, err := a.resume(m, Steps{Submitted: func(context.Context) (bool, error) { return true, nil }}, hasty)
		if err != nil || o.State != Confirmed || !o.Shown {
			t.Errorf("got %+v, %v", o, err)
		}
		a.untouched()
	})
	t.Run("a dead program", func(t *testing.T) {
		a := startAgent(t)
		a.exit()
		o, err := a.resume(m, Steps{}, hasty)
		ends(t, o, err, Unconfirmed, Dead)
	})
}

// Faults of other programs that type into panes do not occur here.
func TestFaultsOfOthers(t *testing.T) {
	t.Parallel()
	// A send presses Ctrl-C or ESC on a busy agent, so the turn is aborted, and the text is typed twice. Two Ctrl-C end the agent (#2104).
	t.Run("agent-deck #1578: a send aborts the turn", func(t *testing.T) {
		t.Parallel()
		for _, policy := range []Policy{Queued, Important, ""} {
			a := startAgent(t, "busy")
			m := message("hello")
			m.Policy = policy
			a.confirmed(m, Steps{})
			a.submitted(m) // neither ESC nor Ctrl-C
			if n := len(a.all("pasted")); n != 1 {
				t.Errorf("%q: pasted %d times", policy, n)
			}
		}
	})
	t.Run("agent-deck #2077: Enter is lost and success reported", func(t *testing.T) {
		t.Parallel()
		a := startAgent(t, "deaf")
		o, err := a.deliver(message("hello"), Steps{}, hasty)
		ends(t, o, err, Unconfirmed, NotTaken)
	})
	// The message was submitted, but the screen did not show it: it counted as lost, and was sent again.
	t.Run("agent-deck #1978: failure is reported for what was delivered", func(t *testing.T) {
		t.Parallel()
		a := startAgent(t, "enter busy")
		m := message("first\nsecond\nthird\n") // shown as a mark, which does not hold the nonce
		a.confirmed(m, Steps{})
		a.submitted(m)
		a = startAgent(t, "enter block") // and shows nothing more
		m = message("hello")
		o, err := a.deliver(m, Steps{Submitted: func(context.Context) (bool, error) { return len(a.all("submit")) > 0, nil }}, patient)
		if err != nil || o.State != Confirmed || o.Enters != 1 {
			t.Errorf("got %+v, %v", o, err)
		}
	})
	t.Run("agent-message-queue #93: text joins a draft", func(t *testing.T) {
		t.Parallel()
		for _, policy := range []Policy{Queued, Important, WhenIdle, Urgent} {
			a := startAgent(t, "draft my own")
			m := message("hello")
			m.Policy = policy
			o, err := a.deliver(m, Steps{}, patient)
			ends(t, o, err, NotSent, Draft)
			a.untouched()
		}
	})
}

// A program that has read Enter, and shows it only later, gets no second one, which would submit the restored draft.
func TestDraftThatWasPutAsideIsNotSubmitted(t *testing.T) {
	t.Parallel()
	for _, commands := range [][]string{
		{"draft my own", "slow"},
		{"stash my own", "slow"}, // a person did it
	} {
		a := startAgent(t, commands...)
		m := message("hello")
		m.SaveDraft = true
		o, err := a.deliver(m, Steps{}, hasty)
		ends(t, o, err, Unconfirmed, NotTaken)
		if o.Enters != 1 || !strings.Contains(o.Detail, "put aside") {
			t.Errorf("%q: got %+v", commands, o)
		}
		a.submitted()
	}
	for text, shown := range map[string]string{"hello": "", "1\n2\n3": "[Pasted text #1 +2 lines]"} {
		m := message(text)
		if shown == "" {
			shown = m.Line()
		}
		a := startAgent(t, "stash my own", "draft "+shown, "slow")
		if strings.HasPrefix(shown, "[") {
			a.tmux("set-option", "-p", "-t", a.ref.ID, markOption, m.Nonce+" "+shown)
		}
		a.tmux("send-keys", "-t", a.ref.ID, "Enter") // by a process that was then killed
		a.wait("read")
		o, err := a.resumeEntered(m, hasty)
		ends(t, o, err, Unconfirmed, NotTaken)
		if o.Enters != 0 || !strings.Contains(o.Detail, "put aside") {
			t.Errorf("%q: got %+v", text, o)
		}
		a.submitted()
	}
}

// Claude Code puts a draft aside with Ctrl-S, and brings it back after the next prompt.
func TestDraftIsPutAsideAndComesBack(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"idle", "busy"} {
		a := startAgent(t, state, "draft my own\u00a0draft")
		m := message("hello")
		m.SaveDraft = true
		o, err := a.deliver(m, Steps{}, patient)
		if err != nil || o.State != Confirmed || !o.Stashed {
			t.Errorf("%s: got %+v, %v", state, o, err)
		}
		a.submitted(m)
		a.do("enter")
		if _, c, err := a.ref.read(t.Context(), Claude); err != nil || c.Draft != "my own\u00a0draft" || c.Stashed {
			t.Errorf("%s: the composer: %+v, %v", state, c, err)
		}
	}
	for what, test := range map[string]struct {
		commands []string
		policy   Policy
		profile  Profile
		want     Reason
		pressed  int
	}{
		"another one is put aside": {commands: []string{"stash first", "draft second"}, want: Draft},
		"a shell command":          {commands: []string{"draft !rm -r x"}, want: Draft},
		"a busy agent":             {commands: []string{"busy", "draft my own"}, policy: WhenIdle, want: Busy},
		"a dialog":                 {commands: []string{"draft my own", "dialog Do you want to proceed?"}, want: Dialog},
		"not put aside":            {commands: []string{"nostash", "draft my own"}, want: Draft, pressed: 1},
	} {
		a := startAgent(t, test.commands...)
		m := message("hello")
		m.SaveDraft, m.Policy = true, test.policy
		o, err := a.deliver(m, Steps{}, unshown)
		ends(t, o, err, NotSent, test.want)
		if test.pressed > 0 {
			a.waitCount("read", test.pressed)
		}
		if n := len(a.all("read")); n != test.pressed || o.Stashed != (n > 0) {
			t.Errorf("%s: %d keys were pressed: %+v", what, n, o)
		}
	}
}
