package interop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// The bridge, the agent, or both are killed at random instants with messages on
// their way, and the bridge is started again at once. Nothing is lost, nothing is
// worked on twice, and each turn that was cut is noticed, and the agent told once.
// 3 rounds of 4 messages, or as many rounds as $TEAMBRIDGE_KILL_ROUNDS says.
func TestRealKilledAtRandomInstants(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		n := rounds(t, "TEAMBRIDGE_KILL_ROUNDS", 3)
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, uint64(v.Patch)))
		t.Logf("seed %d", seed)
		model := &standin.Thinker{}
		h := newHeadless(t, v, model.Respond)
		h.ctx = deadline(t, time.Duration(n)*20*time.Second+patience)
		h.start()
		h.up()
		tool := func(i int, command string) string {
			return fmt.Sprintf("<m-%d>\n", i) + standin.CallLine("Bash", map[string]string{
				"command": fmt.Sprintf("%s echo %d >> works", command, i), "description": "d"})
		}
		first, messages, struck, known := rnd.IntN(3), 0, 0, 0
		for round := range n {
			// What a person says, too: an agent acknowledges that in another way.
			line, err := json.Marshal(map[string]string{"text": tool(messages, "sleep 0.4;")})
			if err != nil {
				t.Fatal(err)
			}
			h.typing(string(line))
			h.claimed(messages + 1)
			h.send(
				fmt.Sprintf("<m-%d>", messages+1),
				tool(messages+2, "sleep 0.4;"),
				fmt.Sprintf("<m-%d>\nSLEEP:0.6", messages+3))
			messages += 4
			<-time.After(time.Duration(rnd.IntN(4000)) * time.Millisecond)
			victim := (first + round) % 3
			if victim != 1 {
				model.Quiet(t, h.home, func() {
					if victim == 2 {
						h.kill()
					}
					h.killAgent()
				})
			} else {
				h.kill()
			}
			session, _ := h.agent()
			if _, ok, err := h.l.Frames.InFlight(h.ctx, session.InboxKey); err != nil {
				t.Fatal(err)
			} else if ok {
				struck++
			}
			if victim != 0 {
				h.start()
			}
			h.settled(messages)
		}
		h.finish()

		session, _ := h.agent()
		memory := h.transcript(session.ID)
		done, nudges, redelivered := works(t, h), 0, 0
		frames := map[string]ledger.Frame{}
		all := h.deliveries()
		for i := range messages {
			m := fmt.Sprintf("<m-%d>", i)
			at := slices.IndexFunc(all, func(d ledger.Delivery) bool { return strings.Contains(string(d.Raw), m) })
			if at < 0 {
				t.Errorf("%s is not in the ledger", m)
				continue
			}
			d := all[at]
			f, ok, err := h.l.Frames.Frame(h.ctx, d.Frame)
			if err != nil || !ok {
				t.Fatalf("frame of %s: %v", m, err)
			}
			count, turns := h.home.API.Count(standin.Any, m), h.home.API.Turns(standin.Any, m)
			// A turn that was cut before the model answered is in the conversation;
			// what the model then answers is that it is to go on.
			if d.State != ledger.Done || count != 1 || turns > 1 || turns < 1 && f.Nudges == 0 {
				t.Errorf("%s: %s (%s), given %d times, answered %d times, nudged %d times; want done, once, once", m, d.State, d.Reason, count, turns, f.Nudges)
			}
			if w, want := done[i], (i+1)%2; w > want || w < want && f.Nudges == 0 {
				t.Errorf("%s was worked on %d times, want %d", m, w, want)
			}
			if _, seen := frames[f.UUID]; seen {
				continue
			}
			frames[f.UUID] = f
			nudges += f.Nudges
			if f.Tries > 1 {
				redelivered++
			}
			turn, err := memory.Turn(h.ctx, f.UUID)
			if err != nil {
				t.Fatal(err)
			}
			cut := turn.Stored && !turn.Finished && !turn.Interrupted && !turn.Failed
			if cut != (f.Nudges == 1) || turn.Finished != (f.Nudges == 0) {
				t.Errorf("%s: the transcript says %+v, and the agent was told %d times that it was cut", m, turn, f.Nudges)
			}
		}
		if told := h.home.API.Count(standin.Any, relay.Nudge); told != nudges {
			t.Errorf("the agent was told %d times to go on, want %d", told, nudges)
		}
		for _, s := range h.sayings() {
			if s.State == "known" {
				known++
			}
		}
		t.Logf("%d kills, %d with a frame in flight; %d messages in %d frames: %d written again, of these %d known to the agent, %d cut and nudged",
			n, struck, messages, len(frames), redelivered, known, nudges)
	})
}

// works is how often the agent's tool did each piece of work.
func works(t *testing.T, h *headless) map[int]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.home.Work, "works"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	done := map[int]int{}
	for line := range strings.Lines(string(data)) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		done[i]++
	}
	return done
}

// The bridge alone is killed and started again at once, in the middle of a turn
// that nothing ends: before the agent has printed anything of it, and in the
// middle of it. The agent that was left behind is waited for, so there is never a
// second one on its session; its turn is neither run again nor taken for cut.
func TestRealBridgeKilledAlone(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the echo", "after the echo"} {
		t.Run(when, func(t *testing.T) {
			onSome(t, func(t *testing.T, v teams.Version) {
				after := when == "after the echo"
				held := func(r standin.Request) bool {
					return !r.Side && (after && len(r.Results) > 0 || !after && r.Has("<m-1>"))
				}
				respond, release := holding(held)
				h := newHeadless(t, v, respond)
				h.start()
				h.up()
				text := "<m-1>"
				if after {
					text += "\n" + standin.CallLine("Bash", map[string]string{"command": "echo 1 >> works", "description": "d"})
				}
				h.send(text)
				h.called(held)
				if after {
					h.wait("accepted", func(s saying) bool { return s.State == "accepted" })
				}
				_, before := h.agent()
				h.kill()
				h.start()
				h.send("<m-2>")
				h.wait("waiting", func(s saying) bool { return s.Status == "waiting" })
				if alive, err := before.Alive(); !alive || err != nil {
					t.Fatalf("the agent that was left behind: alive %t, %v", alive, err)
				}
				if _, now := h.agent(); now != before {
					t.Errorf("there is another agent, %+v, beside %+v", now, before)
				}
				close(release)
				h.wait("started again", func(s saying) bool { return s.PID != 0 })
				if alive, _ := before.Alive(); alive {
					t.Error("the agent that was left behind is still there beside the next")
				}
				for _, d := range h.done(2) {
					if f, _, err := h.l.Frames.Frame(h.ctx, d.Frame); err != nil || f.Nudges != 0 {
						t.Errorf("%s: nudged %d times, %v", d.Raw, f.Nudges, err)
					}
				}
				h.turnsOnce("<m-1>", "<m-2>")
				if c := h.home.API.Count(standin.Any, relay.Nudge); c != 0 {
					t.Errorf("the agent was told %d times that its turn was cut; it was not", c)
				}
				if w := works(t, h)[1]; after && w != 1 {
					t.Errorf("the work was done %d times, want once", w)
				}
				h.finish()
			})
		})
	}
}

// The agent is killed when it has written down what a person said, and printed
// nothing of it yet. An agent would run that again if it were said again, and
// then has it twice in its conversation; so it is told to go on instead.
func TestRealAgentKilledBeforeItsEcho(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		respond, release := holding(func(standin.Request) bool { return true })
		h := newHeadless(t, v, respond)
		h.start()
		h.up()
		h.typing("<m-1>")
		frame := h.wait("at work", func(s saying) bool { return s.InFlight != "" }).InFlight
		session, _ := h.agent()
		until(t, h.ctx, func() bool {
			turn, err := h.transcript(session.ID).Turn(h.ctx, frame)
			if err != nil {
				t.Fatalf("%v\n%s", err, h)
			}
			return turn.Stored
		}, h.String)
		h.called(func(r standin.Request) bool { return r.Has("<m-1>") }) // some versions write it down before they ask their model
		h.killAgent()
		close(release)
		d := h.settled(1)[0]
		f, _, err := h.l.Frames.Frame(h.ctx, frame)
		if err != nil || d.State != ledger.Done || d.Frame != frame || f.Tries != 1 || f.Nudges != 1 {
			t.Errorf("%s: %s, %d tries, %d nudges, %v; want done, 1, 1", d.Raw, d.State, f.Tries, f.Nudges, err)
		}
		h.once("<m-1>")
		once(t, h.home.API, relay.Nudge)
		h.finish()
	})
}
