package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// person is a person at the terminal who acts at random in each round.
type person struct {
	*seat
	rnd    *rand.Rand
	drafts int // the drafts that were put back
	asked  int // how often the key was not enough, and a wish was recorded
	cut    int // the texts of which only a part was typed before the session was remote
}

// wait waits for a random time, up to most.
func (p *person) wait(most time.Duration) {
	<-time.After(time.Duration(p.rnd.Int64N(int64(most))))
}

const filler = "abcdefghijklmnop"

// acts does one of several things at the terminal, while a message arrives. The text that it types contains marker,
// and is to be sent once.
func (p *person) acts(way int, marker string) {
	p.t.Helper()
	switch way {
	case 1: // a draft
		p.types("a draft " + marker)
		p.composed(marker)
	case 2: // a turn
		p.enters(fmt.Sprintf("%s\nSLEEP:%.1f", marker, p.rnd.Float64()))
	case 3, 4: // typing, and perhaps Enter
		p.types(marker + " ")
		for _, key := range strings.Split(filler, "") {
			p.wait(150 * time.Millisecond)
			p.types(key)
		}
		if way == 4 {
			p.keys("Enter")
		}
	}
}

// goesHome waits until the session is at the terminal, for which the person presses the key, and no message is about
// to move it again. If the program ends, it is started again.
func (p *person) goesHome() {
	p.t.Helper()
	for home := false; !home; home = p.awake() {
		p.arrives()
	}
}

// arrives waits until the session is at the terminal. It may not stay there: the next launcher reads a key that was
// not read before the last one was killed.
func (p *person) arrives() {
	p.t.Helper()
	var pressed time.Time
	p.until("at home", func() bool {
		if p.hasEnded() {
			p.sitDown()
			return false
		}
		h, ok := p.handoff()
		session, _ := p.agent()
		if !ok || session.State == ledger.RelaySwitching {
			return false
		}
		waiting, _, err := p.l.Deliveries.OpenPrompts(p.ctx, h.InboxKey, h.Returned)
		must(p.t, err)
		if h.At == ledger.AtTerminal {
			_, ready, err := p.terminal.Composer(p.ctx)
			return session.State == ledger.RelayLocal && waiting == 0 && ready && err == nil
		}
		switch since := time.Since(pressed); {
		case h.To != "" || session.State != ledger.RelayRunning:
		case pressed.IsZero():
			pressed = time.Now()
			p.key()
		case since > 10*time.Second:
			// A second key would interrupt the turn, or move the session away again.
			pressed = time.Now()
			if _, err := p.l.Sessions.AskPlace(p.ctx, h.InboxKey, ledger.AtTerminal, false); err != nil {
				p.t.Fatal(err)
			}
			p.asked++
		}
		return false
	})
}

// awake waits until the program reads keys: older ones show their prompt earlier, and drop keys until then. It
// returns false if the session leaves in the meantime.
func (p *person) awake() bool {
	p.t.Helper()
	const mark = "~"
	marks := func() int {
		shown, _, err := p.terminal.Composer(p.ctx)
		if err != nil {
			p.t.Fatalf("%v\n%s", err, p)
		}
		return strings.Count(shown, mark)
	}
	left := false
	// A key is not pressed again before the last one had time to show.
	press := func(what, key string, is func() bool) {
		var pressed time.Time
		p.until(what, func() bool {
			if h, _ := p.handoff(); h.At != ledger.AtTerminal || is() {
				left = left || h.At != ledger.AtTerminal
				return true
			}
			if time.Since(pressed) > 5*time.Second {
				pressed = time.Now()
				p.keys(key)
			}
			return false
		})
	}
	press("a key is read", mark, func() bool { return marks() > 0 })
	for n := marks(); n > 0 && !left; n-- {
		press("a mark is deleted", "BSpace", func() bool { return marks() < n })
	}
	return !left
}

// tidies submits the text at the prompt, and reports whether it contains the marker.
func (p *person) tidies(marker string) bool {
	p.t.Helper()
	shown, _, err := p.terminal.Composer(p.ctx)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p)
	}
	if !strings.Contains(shown, marker) {
		return false
	}
	p.drafts++
	if i := strings.Index(shown, marker+" a"); i >= 0 && !strings.Contains(shown, filler) {
		p.cut++
	}
	// More than once: a program that has just drawn its prompt may not read keys yet.
	var pressed time.Time
	p.until("entered "+marker, func() bool {
		if time.Since(pressed) > 3*time.Second {
			pressed = time.Now()
			p.keys("Enter")
		}
		return p.home.API.Count(standin.Any, marker) > 0
	})
	p.answered(marker)
	return true
}

func newPerson(t *testing.T, v teams.Version, respond standin.Responder) *person {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &person{seat: newSeat(t, v, respond), rnd: rand.New(rand.NewPCG(seed, uint64(v.Patch)))}
}

// Messages arrive at random instants: while nothing happens, while the person types or has typed a text, in a turn,
// while the session is remote, and while it returns. Each is given to the agent once, the person's text is there at
// the end, and it is one conversation. The default is one round; $TEAMBRIDGE_SWITCH_ROUNDS sets the number.
func TestRealSwitchesAtRandomInstants(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		n := rounds(t, "TEAMBRIDGE_SWITCH_ROUNDS", 1)
		p := newPerson(t, v, nil)
		p.ctx = deadline(t, time.Duration(n)*30*time.Second+2*time.Minute)
		p.sitDown()
		p.goesHome()
		var markers []string
		messages := 0
		message := func() {
			messages++
			m := fmt.Sprintf("<m-%d>", messages)
			markers = append(markers, m)
			p.prompt(fmt.Sprintf("%s\nSLEEP:%.1f", m, p.rnd.Float64()))
		}
		first := p.rnd.IntN(5)
		for round := range n {
			marker, way := fmt.Sprintf("<p-%d>", round), (first+round)%5
			if way != 0 {
				markers = append(markers, marker)
			}
			began, delay := time.Now(), time.Duration(p.rnd.Int64N(int64(2500*time.Millisecond)))
			came := make(chan struct{})
			timer := time.AfterFunc(delay, func() { defer close(came); message() })
			p.acts(way, marker)
			if time.Since(began) > delay || p.rnd.IntN(2) == 0 {
				<-came
			} else if timer.Stop() {
				message()
			} else {
				<-came
			}
			p.answered(fmt.Sprintf("<m-%d>", messages))
			if p.rnd.IntN(2) == 0 { // one more message, perhaps while the session returns
				if p.rnd.IntN(2) == 0 {
					p.key()
				}
				p.wait(1500 * time.Millisecond)
				message()
			}
			p.goesHome()
			if way != 0 && !p.tidies(marker) && p.home.API.Count(standin.Any, marker) == 0 {
				t.Errorf("round %d: what the person typed (way %d) was neither sent nor is it at the prompt\n%s", round, way, p)
			}
			p.goesHome()
		}
		p.drain(messages)
		for _, d := range p.deliveries() {
			if d.State != ledger.Done {
				t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
			}
		}
		p.goesHome()
		session := p.id()
		p.ends()
		p.said(session, markers...)
		t.Logf("%d rounds, %d messages, %d drafts put back, %d texts cut; the key was not enough %d times", n, messages, p.drafts, p.cut, p.asked)
	})
}

// drain makes the relay send the messages that wait at the terminal, and waits until n messages have ended.
func (p *person) drain(n int) {
	p.t.Helper()
	ended := 0
	for _, d := range p.deliveries() {
		if d.State.Ended() {
			ended++
		}
	}
	if ended < n {
		h, _ := p.handoff()
		if _, err := p.l.Sessions.AskPlace(p.ctx, h.InboxKey, ledger.AtRelay, false); err != nil {
			p.t.Fatal(err)
		}
	}
	p.settled(n)
}

// restored waits until the terminal has the modes from before the program, which was killed: another process restores
// them.
func (p *person) restored() {
	p.t.Helper()
	tty, err := p.terminal.Run(p.ctx, nil, "display-message", "-p", "#{pane_tty}")
	must(p.t, err)
	want := p.read("before")
	p.until("restored", func() bool {
		now, err := exec.CommandContext(p.ctx, "stty", "-F", strings.TrimSpace(tty), "-g").Output()
		must(p.t, err)
		return strings.TrimSpace(string(now)) == want
	})
}

// The launcher, the agent, or both are killed at random instants while the session moves. The terminal is restored,
// and the next start continues the session: each message is given once, the text that the person entered is not lost,
// and it is one conversation. The default is one kill; $TEAMBRIDGE_SWITCH_KILLS sets the number.
func TestRealKilledWhileItSwitches(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		n := rounds(t, "TEAMBRIDGE_SWITCH_KILLS", 1)
		model := &standin.Thinker{}
		p := newPerson(t, v, model.Respond)
		p.ctx = deadline(t, time.Duration(n)*time.Minute+2*time.Minute)
		p.sitDown()
		p.goesHome()
		p.enters("<p-0>")
		p.answered("<p-0>")
		markers := []string{"<p-0>"}
		session := p.id()
		p.until("<p-0> in the transcript", func() bool { // a process that is killed earlier has nothing to resume
			path, err := p.transcript(session).Path()
			if err != nil {
				return false
			}
			texts, err := standin.Chain(path)
			return err == nil && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "<p-0>") })
		})
		first, lostDrafts := p.rnd.IntN(3), 0
		for round := range n {
			p.goesHome()
			marker, way := fmt.Sprintf("<p-%d>", round+1), p.rnd.IntN(3)
			p.acts(way, marker)
			if way == 2 {
				markers = append(markers, marker)
			}
			m := fmt.Sprintf("<m-%d>", round)
			markers = append(markers, m)
			p.prompt(fmt.Sprintf("%s\nSLEEP:%.1f", m, p.rnd.Float64()))
			if p.rnd.IntN(2) == 0 { // on the way back
				p.settledOrEnded(round + 1)
				p.key()
				p.wait(1200 * time.Millisecond)
			} else {
				p.wait(4 * time.Second)
			}
			start := p.starts
			launcher := p.launcher()
			killLauncher := func() {
				if err := sends(launcher, os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			_, agent := p.agent()
			what := []string{"launcher", "agent", "both"}[(first+round)%3]
			h, _ := p.handoff()
			t.Logf("round %d: way %d, %s killed at %s, to %q", round, way, what, h.At, h.To)
			if what == "launcher" {
				killLauncher()
			} else {
				model.Quiet(t, p.home, func() {
					if what == "both" {
						killLauncher()
					}
					p.killAgent()
				})
			}
			// First wait until the kill is noticed: the screen still shows what was drawn before.
			p.until("noticed that it was killed", func() bool {
				session, now := p.agent()
				return p.hasEnded() || now != agent || session.State == ledger.RelaySwitching
			})
			if what != "agent" {
				p.exited()
				p.restored()
			}
			// The message is still answered.
			p.settledOrEnded(round + 1)
			p.goesHome()
			if what == "agent" && p.starts > start {
				t.Logf("round %d: killed at the terminal, the program ended", round)
			}
			sent := p.tidies(marker)
			switch given := p.home.API.Count(standin.Any, marker); {
			case way == 1 && !sent && given == 0:
				lostDrafts++ // the program was killed before it was asked for the draft
			case way == 2 && !sent && given == 0:
				t.Errorf("round %d: what the person entered is lost\n%s", round, p)
			case way == 1:
				markers = append(markers, marker)
			}
		}
		p.goesHome()
		if now := p.id(); now != session {
			t.Errorf("session %s, and was %s", now, session)
		}
		p.ends()
		p.said(session, markers...)
		t.Logf("%d kills: %d drafts put back, %d drafts lost with their program", n, p.drafts, lostDrafts)
	})
}

// settledOrEnded waits until n messages have ended. Each time the program has ended, it is started again.
func (p *person) settledOrEnded(n int) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d messages answered", n), func() bool {
		if p.hasEnded() {
			p.sitDown()
		}
		ended := 0
		for _, d := range p.deliveries() {
			if d.State.Ended() {
				ended++
			}
		}
		return ended >= n
	})
}
