package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/opencode"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// subject is a runtime under test: a station with an agent of it, and the records of the
// agent or its model, read without any of the code under test.
type subject struct {
	*station
	said  func() []string         // the texts that reached the model as new ones, in order; after an interrupt, with those before it
	given func(marker string) int // how often a text with the marker reached the model as a new one
	held  func() bool             // the agent is in the middle of a turn whose text has "[held]" in it
	letGo func()                  // lets such turns go on
	calm  func(kill func())       // kills when the agent has recorded all its work
	check func(markers []string)  // fails unless each is in the conversation once, and was worked on at most once
	pause time.Duration           // the longest time between two kills
	modes []mode.Mode             // the agent can change to; nil: to another model, and to another system prompt
	ends  bool                    // the agent does not outlive its bridge for long, and may leave its turn

	simulation string // where a simulated agent of the Agent Client Protocol keeps its files

	// For real programs.
	api      *standin.API
	answered func(marker string) int // how often the model was asked for the work of a message, and answered
	each     int                     // messages in a round of kills
}

// envRounds is how many rounds of kills Conformance plays; the default is few. 200 of the
// simulated agents take two to three minutes:
//
//	RELAY_TEST_ROUNDS=200 go test -run TestConformance/killed_at -v -timeout 30m ./relay
const envRounds = "RELAY_TEST_ROUNDS"

// Conformance proves that a relay with a runtime delivers each message exactly once. Every
// runtime has to pass it. newSubject returns an agent with a team of its own.
func Conformance(t *testing.T, newSubject func(t *testing.T) *subject) {
	run := func(name string, test func(t *testing.T, s *subject)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			s.record()
			test(t, s)
		})
	}
	run("each message once", conformsEachOnce)
	run("an id is run once", conformsIDs)
	run("an interrupt", conformsInterrupt)
	run("a change of mode", conformsMode)
	for _, victim := range []string{"agent", "bridge", "both"} {
		run("killed in a turn: "+victim, func(t *testing.T, s *subject) { conformsKilledInTurn(t, s, victim) })
	}
	run("killed at random instants", func(t *testing.T, s *subject) { conformsKills(t, s) })
	run("killed at random instants, ended when idle", func(t *testing.T, s *subject) { conformsKills(t, s, sleeps) })
}

// The simulated Claude Code, of each kind.
func TestConformance(t *testing.T) {
	t.Parallel()
	Conformance(t, func(t *testing.T) *subject {
		s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Echoed, Do: simchild.Hold, Match: "[held]", Name: "go"}}})
		return &subject{
			station: s, said: s.turns, each: 20, pause: 250 * time.Millisecond,
			given: func(marker string) int { return strings.Count(strings.Join(s.turns(), "\n"), marker) },
			held:  func() bool { return s.logged("hold") > 0 },
			letGo: func() { s.let("go") },
			calm:  func(kill func()) { kill() },
			check: func(markers []string) {
				v := s.verdict(markers)
				t.Logf("%d messages in %d turns: lost %d, twice %d; written again %d, of these known %d; cut %d, nudges %d; two agents at once %d",
					len(markers), v.turns, v.lost, v.twice, v.again, v.known, v.cut, v.nudges, v.beside)
				v.check(t)
			},
		}
	})
}

// The real Claude Code.
func TestRealConformance(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		command := append(standin.Require(t, v), "--dangerously-skip-permissions", "--model", "sonnet")
		Conformance(t, func(t *testing.T) *subject {
			return realSubject(t, func(home *standin.Home) otherAgent {
				return otherAgent{Claude: &claude.Options{Command: command, Env: home.Env(), Member: claude.Member{Name: "team-lead", Team: "demo"}}}
			})
		})
	})
}

// The real OpenCode.
func TestRealConformanceOpenCode(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	Conformance(t, openCodeSubject)
}

func openCodeSubject(t *testing.T) *subject {
	s := realSubject(t, func(home *standin.Home) otherAgent {
		return otherAgent{OpenCode: &opencode.Options{Command: []string{home.OpenCode(t)}, Env: home.Env()}}
	})
	// A prompt is in the conversation before the model has it, so after a kill at any
	// instant it is not sent again.
	s.held, s.calm = func() bool { return s.given("[held]") > 0 }, func(kill func()) { kill() }
	// A cut answer is not in the conversation: the model then has the message right before
	// the nudge. The message itself is not sent again.
	s.answered = func(marker string) (n int) {
		for _, r := range s.api.Log() {
			if !r.Side && !r.Answered.IsZero() && r.Has(marker) && !r.Has(Nudge) {
				n++
			}
		}
		return n
	}
	return s
}

func realSubject(t *testing.T, program func(*standin.Home) otherAgent) *subject {
	model, release := &standin.Thinker{}, make(chan struct{})
	home := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if !r.Side && r.Has("[held]") {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return model.Respond(ctx, r)
	}))
	root := filepath.Join(home.Dir, "root")
	must(t, os.Rename(home.Root, root))
	home.Root = root
	for _, sub := range []string{"root/teams/demo/inboxes", "state"} {
		must(t, os.MkdirAll(filepath.Join(home.Dir, sub), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(root, "teams/demo/config.json"), []byte(teamConfig), 0o600))
	s := openStation(t, home.Dir, simchild.Script{State: root})
	other := program(home)
	s.other = &other
	subject := &subject{
		station: s, api: home.API, each: 4, pause: 3 * time.Second,
		given: func(marker string) int { return home.API.Count(standin.Any, marker) },
		said: func() (texts []string) {
			for _, r := range home.API.Log() {
				if !r.Side && len(r.Results) == 0 {
					texts = append(texts, r.Text())
				}
			}
			return texts
		},
		held: func() bool {
			if home.API.Count(standin.Any, "[held]") == 0 {
				return false
			}
			// The message is recorded after the model has it. After a kill in between, the
			// model would get it again.
			for _, f := range s.frames() {
				turn, err := s.options().Runtime.Turn(t.Context(), f.Session, f.UUID)
				return err == nil && turn.Stored
			}
			return false
		},
		letGo:    func() { close(release) },
		calm:     func(kill func()) { model.Quiet(t, home, kill) },
		answered: func(marker string) int { return home.API.Turns(standin.Any, marker) },
	}
	subject.check = func(markers []string) {
		frames, nudges := s.frames(), 0
		for _, f := range frames {
			nudges += f.Nudges
		}
		if told := home.API.Count(standin.Any, Nudge); told != nudges {
			t.Errorf("the agent was told %d times to go on, want %d", told, nudges)
			for _, r := range home.API.Log() {
				if r.Has(Nudge) {
					t.Logf("call %d at %s, answered %s: %.300q", r.Seq, r.Time.Format(time.StampMilli), r.Answered.Format(time.StampMilli), r.Text())
				}
			}
			for _, f := range frames {
				t.Logf("frame %s of %s is %s with %d nudges, written %d times", f.UUID, f.Parent, f.State, f.Nudges, f.Tries)
			}
		}
		lost, twice := 0, 0
		for _, m := range markers {
			n, turns := home.API.Count(standin.Any, m), subject.answered(m)
			if n == 0 {
				lost++
			} else if n > 1 || turns > 1 {
				twice++
			}
			if n != 1 || turns > 1 {
				t.Errorf("%s was given to the model %d times, and answered %d times; want once", m, n, turns)
			}
		}
		t.Logf("%d messages in %d frames: lost %d, twice %d, nudges %d", len(markers), len(frames), lost, twice, nudges)
	}
	return subject
}

// frames returns the frames that messages were sent in, by the uuid.
func (s *station) frames() map[string]ledger.Frame {
	s.t.Helper()
	all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Team: "demo"})
	must(s.t, err)
	frames := map[string]ledger.Frame{}
	for _, d := range all {
		f, ok, err := s.ledger.Frames.Frame(s.t.Context(), d.Frame)
		if err != nil || !ok {
			s.t.Fatalf("frame of %s: %t, %v", d.Raw, ok, err)
		}
		frames[f.UUID] = f
	}
	return frames
}

// ended waits for the end of the agent that a bridge left behind, and then checks its work.
func (s *subject) ended(b *bridge, markers []string) {
	s.t.Helper()
	b.Kill()
	opts := s.options()
	opts.Predecessor = time.Minute
	r, stop := s.relay(opts)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	stop()
	session, _, err := s.ledger.Sessions.Session(s.t.Context(), r.Key())
	must(s.t, err)
	for id, f := range s.frames() {
		turn, err := opts.Runtime.Turn(s.t.Context(), session.ID, id)
		if err != nil || !turn.Stored || turn.Finished != (f.Nudges == 0) || f.Nudges > 0 && f.State != ledger.Done {
			s.t.Errorf("frame %s is %s after %d nudges, and the conversation has %+v, %v", id, f.State, f.Nudges, turn, err)
		}
	}
	all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Team: "demo"})
	must(s.t, err)
	for _, d := range all {
		if d.State != ledger.Done {
			s.t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
		}
	}
	s.check(markers)
	s.checkEnvelopes(session.ID)
}

// checkEnvelopes fails unless the journal has each envelope of the conversation once, in
// its order, each turn with one start and one end. Output from right before a kill may be
// in the journal alone.
func (s *subject) checkEnvelopes(session string) {
	s.t.Helper()
	var told, kept []string
	raws := map[string][]byte{}
	known := map[string]int{}
	for e, err := range s.options().Runtime.Conversation(s.t.Context(), session, time.Time{}, true) {
		must(s.t, err)
		told = append(told, e.ID)
		if raws[e.ID], err = json.Marshal(e); err != nil {
			s.t.Fatal(err)
		}
		if known[e.ID]++; known[e.ID] > 1 {
			s.t.Errorf("the conversation has envelope %s twice", e.ID)
		}
	}
	starts, ends := map[string]int{}, map[string]int{}
	extra := 0
	for e, err := range s.journal.Envelopes.All(s.t.Context(), journal.EnvelopeQuery{}) {
		must(s.t, err)
		switch e.Kind {
		case "turn-start":
			starts[e.Turn]++
		case "turn-end":
			ends[e.Turn]++
		}
		if known[e.ID] == 0 {
			extra++
			s.t.Logf("the journal alone has %s", e.Raw)
			continue
		}
		kept = append(kept, e.ID)
	}
	if !slices.Equal(kept, told) {
		for _, id := range told {
			if !slices.Contains(kept, id) {
				s.t.Errorf("the journal lacks %.300s", raws[id])
			}
		}
		s.t.Errorf("the journal has %d of %d envelopes of the conversation, or in another order", len(kept), len(told))
	}
	if s.other == nil && extra > 0 {
		s.t.Errorf("%d envelopes in the journal are not in the conversation", extra)
	}
	for turn, n := range starts {
		if n != 1 || ends[turn] != 1 {
			s.t.Errorf("turn %s has %d starts and %d ends", turn, n, ends[turn])
		}
	}
	s.t.Logf("%d envelopes of %d turns, %d of them in the journal alone", len(kept)+extra, len(starts), extra)
	if len(told) == 0 || len(ends) != len(starts) {
		s.t.Errorf("%d envelopes, %d turns began, %d ended", len(told), len(starts), len(ends))
	}
}

// Rows that waited before and rows that come later are delivered once each, in order, each
// in its own wrapper, and rows that wait together are one turn.
func conformsEachOnce(t *testing.T, s *subject) {
	var markers []string
	for i := range 12 {
		markers = append(markers, fmt.Sprintf("[m-%02d]", i))
	}
	s.send(markers[:10]...)
	_, stop := s.relay(s.options())
	s.settled(10)
	s.send(markers[10:]...)
	s.done(12)
	stop()
	turns := s.said()
	if len(turns) > 3 {
		t.Errorf("%d turns, want 10 rows in one and 2 in at most two: %q", len(turns), turns)
	}
	all := strings.Join(turns, "\n")
	last := -1
	for _, m := range markers {
		at := strings.Index(all, "<teammate-message teammate_id=\"worker\">\n"+m+"\n</teammate-message>")
		if at <= last || strings.Count(all, m) != 1 {
			t.Errorf("%s at %d, after %d, %d times in %q", m, at, last, strings.Count(all, m), all)
		}
		last = at
	}
	s.check(markers)
}

// A frame that is sent again, to the same agent or to one that resumes the conversation,
// is known and not run. The conversation has the end of its turn, and nothing about a
// frame that was never sent.
func conformsIDs(t *testing.T, s *subject) {
	runtime, session, id := s.options().Runtime, uuid.NewString(), uuid.NewString()
	line, err := runtime.Encode(id, "hello [m-1]")
	must(t, err)
	if turn, err := runtime.Turn(t.Context(), session, id); err != nil || turn.Stored {
		t.Errorf("before it was sent: %+v, %v", turn, err)
	}
	wants := []agent.State{agent.Done, agent.Known, agent.Known}
	for _, wants := range [][]agent.State{wants[:2], wants[2:]} {
		a, err := runtime.Start(t.Context(), session, mode.Mode{})
		must(t, err)
		t.Cleanup(func() { _ = a.Kill() })
		for _, want := range wants {
			must(t, a.Send(t.Context(), line))
			if got := ending(t, a, id); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		if err := a.End(t.Context(), agent.Grace{EOF: time.Minute, Term: time.Minute}); err != nil {
			t.Error(err)
		}
	}
	if turn, err := runtime.Turn(t.Context(), session, id); err != nil || !turn.Finished {
		t.Errorf("the conversation has %+v, %v; want a finished turn", turn, err)
	}
	if turn, err := runtime.Turn(t.Context(), session, uuid.NewString()); err != nil || turn.Stored {
		t.Errorf("of a frame that was never sent: %+v, %v", turn, err)
	}
	if n := s.given("[m-1]"); n != 1 {
		t.Errorf("the message was run %d times, want once", n)
	}
}

// ending returns the state in which a frame ends.
func ending(t *testing.T, a agent.Agent, id string) agent.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for e, err := range a.Events(ctx) {
		must(t, err)
		for _, p := range e.Progress {
			if p.UUID == id && !p.State.InFlight() {
				return p.State
			}
		}
	}
	t.Fatalf("the agent ended before the frame did: %v", a.Wait(ctx))
	return 0
}

// An interrupt ends the turn of the frame in flight: its message is cancelled and not sent
// again, and the next messages are delivered.
func conformsInterrupt(t *testing.T, s *subject) {
	r := s.newRelay(s.options())
	r.patience = patience
	stop := s.run(r)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	if err := r.Interrupt(t.Context()); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("nothing in flight: %v", err)
	}
	s.send("SLEEP:60 [m-1]")
	s.until("working", func(st Status) bool { return st.State == Working })
	// The frame is in the ledger before it is in the agent.
	must(t, r.Interrupt(t.Context()))
	s.send("SLEEP:0 [m-2]") // the model has the first text before it, without an answer
	all := s.settled(2)
	stop()
	if all[0].State != ledger.Cancelled || all[1].State != ledger.Done {
		t.Errorf("got %s (%s), %s", all[0].State, all[0].Reason, all[1].State)
	}
	if s.other == nil && s.works("[m-1]")["[m-1]"] != 0 {
		t.Error("the interrupted message was worked on")
	}
	if n := s.given("[m-1]"); n > 1 {
		t.Errorf("the interrupted message was said %d times", n)
	}
}

// Messages that change the mode, in the running agent or by a new one, and a row after
// them are delivered once each.
func conformsMode(t *testing.T, s *subject) {
	r, stop := s.relay(s.options())
	markers := []string{"[m-1]", "[m-2]", "[m-3]"}
	if s.modes == nil {
		s.modes = []mode.Mode{{Model: mode.Set("opus")}, {AppendSystemPrompt: mode.Set("Be brief.")}}
	}
	for i, mode := range s.modes {
		s.prompt(r, Input{Text: markers[i], Mode: mode})
	}
	s.send(markers[2])
	s.done(3)
	stop()
	s.check(markers)
}

// The bridge, the agent, or both are killed in the middle of a turn. An agent that is left
// behind finishes its turn, and is not nudged. A cut turn is continued by one nudge. The
// message is never sent again.
func conformsKilledInTurn(t *testing.T, s *subject, victim string) {
	s.send("[held] [m-1]")
	b := s.bridge()
	s.await("the agent is held", s.held)
	if victim != "agent" {
		b.Kill()
	}
	if victim != "bridge" {
		s.calm(s.killAgent)
	}
	if victim != "agent" {
		b.start()
	}
	if victim == "bridge" && !s.ends {
		b.reaches(Waiting)
	}
	s.letGo()
	s.drained()
	s.send("[m-2]")
	s.drained()
	s.ended(b, []string{"[m-1]", "[m-2]"})
	for _, f := range s.frames() {
		if f.Nudges > 1 || victim == "bridge" && !s.ends && f.Nudges > 0 {
			t.Errorf("frame %s was nudged %d times", f.UUID, f.Nudges)
		}
	}
}

// The bridge, the agent, or both are killed at random instants, some of them twice in a
// row, with messages on their way, and started again at once. No message is lost or worked
// on twice, no two agents work on one session, and each cut turn, and no other, is
// continued by one nudge, according to the agent's own records.
func conformsKills(t *testing.T, s *subject, change ...func(*bridge)) {
	rounds, each := 3, min(6, s.each)
	if n, err := strconv.Atoi(os.Getenv(envRounds)); err == nil {
		rounds, each = n, s.each
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	sender := s.agent()
	var markers []string
	kills := map[string]int{}
	person := s.newRelay(s.options())
	b := s.bridge(change...)
	for round := range rounds {
		texts := make([]string, each)
		for i := range texts {
			m := fmt.Sprintf("[m-%d-%d]", round, i)
			markers = append(markers, m)
			// Half of the time before the echo, stored, and half of it after.
			texts[i] = fmt.Sprintf("SLEEP:%.3f\nTOOL:%.3f\n%s", rnd.Float64()/8, rnd.Float64()/8, m)
		}
		// A person's prompts are frames of their own, and acknowledged by uuid also
		// where a teammate's message is not.
		words := max(1, each/6)
		for _, text := range texts[:words] {
			s.prompt(person, Input{Text: text})
		}
		if rnd.IntN(2) == 0 {
			sender.write(texts[words:]...)
		} else {
			sender.write(texts[words : words+2]...)
			sender.write(texts[words+2:]...)
		}
		// Twice at most: a message with which the agent dies three times is given up.
		for range 1 + rnd.IntN(4)/3 {
			<-time.After(time.Duration(rnd.Int64N(int64(s.pause))))
			victim := []string{"agent", "bridge", "both"}[rnd.IntN(3)]
			kills[victim]++
			if victim != "agent" {
				b.Kill()
			}
			if victim != "bridge" {
				s.calm(s.killAgent)
			}
			if victim != "agent" {
				b.start()
			}
		}
		s.drained()
	}
	t.Logf("%d rounds, kills of %v", rounds, kills)
	s.ended(b, markers)
}
