package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
)

// bridgeJob configures a bridge, which relays for a station until it is killed.
type bridgeJob struct {
	Dir      string        // of the station
	Script   string        // of its agent, as in the environment of that
	Other    *otherAgent   // starts an agent that is not simulated
	Journal  bool          // it records envelopes
	Patience time.Duration // how long it waits for an agent that was left behind; 0: the default
	IdleExit time.Duration // its Options.IdleExit
}

// runBridge has a point of killtest at each moment.
func runBridge(of bridgeJob) error {
	t := &bridgeT{}
	defer t.cleanup()
	s := openStation(t, of.Dir, simchild.Script{})
	if s.other = of.Other; of.Journal {
		s.record()
	}
	opts := s.options()
	if s.other == nil {
		change(&opts, func(o *claude.Options) { o.Env = append(o.Env, of.Script) })
	}
	opts.Predecessor, opts.IdleExit = of.Patience, of.IdleExit
	opts.Report = func(st Status) {
		f, err := os.OpenFile(filepath.Join(of.Dir, "states"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, os.Getpid(), st.State)
			f.Close()
		}
	}
	r := s.newRelay(opts)
	r.at = func(now moment) { killtest.At(string(now)) }
	return r.Run(context.Background())
}

// bridgeT is the test for openStation, in a process that is no test.
type bridgeT struct {
	testing.TB
	cleanups []func()
}

func (*bridgeT) Helper()                   {}
func (*bridgeT) Context() context.Context  { return context.Background() }
func (t *bridgeT) Cleanup(f func())        { t.cleanups = append(t.cleanups, f) }
func (*bridgeT) Error(args ...any)         { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (*bridgeT) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }
func (*bridgeT) Fatal(args ...any)         { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (*bridgeT) Fatalf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }
func (t *bridgeT) cleanup() {
	for _, f := range t.cleanups {
		f()
	}
}

// bridge is a process that relays.
type bridge struct {
	*killtest.Process
	s   *station
	job bridgeJob
	at  string // the moment at which the next one is killed; "" for none
}

// bridge starts one, and ends it and its agent with the test.
func (s *station) bridge(change ...func(*bridge)) *bridge {
	s.t.Helper()
	b := &bridge{s: s, job: bridgeJob{Dir: s.dir, Script: s.script.Env(), Other: s.other, Journal: s.journal != nil}}
	for _, c := range change {
		c(b)
	}
	b.start()
	s.t.Cleanup(func() {
		b.Kill()
		s.killAgent()
	})
	return b
}

func (b *bridge) start() {
	b.s.t.Helper()
	cmd := killtest.Command(context.WithoutCancel(b.s.t.Context()), "bridge", b.job)
	if b.at != "" {
		killtest.KillAt(cmd, b.at)
		b.at = ""
	}
	b.Process = killtest.Start(b.s.t, cmd)
}

// sleeps makes the bridge end its agent as soon as the agent is idle.
func sleeps(b *bridge) { b.job.IdleExit = atOnce }

// reaches waits until the bridge that runs now has been in a state.
func (b *bridge) reaches(state State) {
	b.s.t.Helper()
	line := fmt.Sprintln(b.PID(), state)
	b.s.await("the bridge is "+string(state), func() bool {
		data, err := os.ReadFile(filepath.Join(b.s.dir, "states"))
		return err == nil && strings.Contains(string(data), line)
	})
}

// await waits until a condition holds that other processes cause.
func (s *station) await(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("never: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// drained waits until every row of the inbox was claimed, and every delivery has
// ended.
func (s *station) drained() {
	s.t.Helper()
	r := s.newRelay(s.options())
	s.await("all is done", func() bool {
		data, err := os.ReadFile(r.box.Path())
		if err != nil || bytes.Contains(data, []byte(`"read": false`)) {
			return false
		}
		open, err := s.ledger.Deliveries.OpenCount(s.t.Context(), r.post)
		return err == nil && open == 0
	})
}

// verdict counts the work of the agents, according to their own records.
type verdict struct {
	turns  int // frames that were begun
	lost   int // messages never worked on, and whose turn no nudge continued
	twice  int // messages that were stored, worked on, or led to the call of a tool, more than once
	again  int // frames that were read more than once
	known  int // readings of a frame that began no turn
	cut    int // turns that began and did not end, nudges not counted
	nudges int // frames that are nudges
	beside int // times that an agent worked although a later one had been started

	wrong []string
}

func (v *verdict) check(t *testing.T) {
	t.Helper()
	if v.lost+v.twice+v.beside > 0 {
		t.Errorf("lost %d, twice %d, two agents at once %d; want 0", v.lost, v.twice, v.beside)
	}
	for _, w := range v.wrong {
		t.Error(w)
	}
}

func (v *verdict) say(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// record is a line of a transcript, read without any of the code under test.
type record struct {
	Type, UUID string
	Message    struct {
		Stop    string `json:"stop_reason"`
		Content json.RawMessage
	}
}

// verdict reads the agents' log and transcripts, and the ledger.
func (s *station) verdict(markers []string) verdict {
	s.t.Helper()
	entries := s.log()
	var v verdict
	read, begun := map[string]int{}, map[string]int{}
	works, tools := map[string]int{}, map[string]int{}
	last, said := 0, map[int]bool{} // the newest process, and those that got a frame
	for _, e := range entries {
		switch e.Kind {
		case "start":
			last = e.PID
			said[e.PID] = false
			continue
		case "read":
			said[e.PID] = true
			read[e.UUIDs[0]]++
		case "begin":
			begun[e.UUIDs[0]]++
		}
		if e.PID != last && said[e.PID] {
			v.beside++
		}
		for _, m := range markers {
			switch n := strings.Count(e.Text, m); e.Kind {
			case "tool":
				tools[m] += n
			case "work":
				works[m] += n
			}
		}
	}
	for uuid, n := range read {
		if n > 1 {
			v.again++
		}
		v.known += n - begun[uuid]
	}
	v.turns = len(begun)

	// The conversation: which frames it has, and which turns have ended.
	files, err := filepath.Glob(filepath.Join(s.script.State, "projects", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		s.t.Fatalf("transcripts %q, %v; want one", files, err)
	}
	data, err := os.ReadFile(files[0])
	must(s.t, err)
	finished := map[string]bool{} // by frame; only those that are stored
	nudges := map[string][]string{}
	current := ""
	for line := range bytes.Lines(data) {
		var r record
		if json.Unmarshal(line, &r) != nil {
			continue // torn by a kill
		}
		switch {
		case r.Type == "assistant" && r.Message.Stop == "end_turn":
			finished[current] = true
		case r.Type == "user" && len(r.Message.Content) > 0 && r.Message.Content[0] == '"':
			current = r.UUID
			if _, there := finished[current]; there {
				v.twice++
				v.say("frame %s stands in the conversation twice", current)
			}
			finished[current] = false
			f, ok, err := s.ledger.Frames.Frame(s.t.Context(), current)
			if err != nil || !ok {
				s.t.Fatalf("frame %s of the transcript: %t, %v", current, ok, err)
			}
			if f.Kind != ledger.FrameNudge {
				break
			}
			v.nudges++
			if finished[f.Parent] {
				v.say("frame %s had been finished, and was nudged", f.Parent)
			}
			nudges[f.Parent] = append(nudges[f.Parent], current)
		}
	}
	for uuid, done := range finished {
		f, _, err := s.ledger.Frames.Frame(s.t.Context(), uuid)
		must(s.t, err)
		if done || f.Kind == ledger.FrameNudge {
			continue
		}
		v.cut++
		// One nudge finishes it; a nudge that was cut itself is followed by one more.
		list := nudges[uuid]
		for i, n := range list {
			if last := i == len(list)-1; finished[n] != last {
				v.say("frame %s: nudge %d of %d finished: %t", uuid, i+1, len(list), finished[n])
			}
		}
		if len(list) == 0 {
			v.say("frame %s was cut, and nobody noticed", uuid)
		}
	}

	all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Team: "demo"})
	must(s.t, err)
	frames := map[string]string{}
	answers := s.answers()
	for _, d := range all {
		if d.State != ledger.Done {
			v.say("%s is %s (%s)", d.ID, d.State, d.Reason)
		}
		if i := strings.Index(string(d.Raw), "[m"); i >= 0 {
			m := string(d.Raw)[i : i+strings.Index(string(d.Raw)[i:], "]")+1]
			frames[m] = d.Frame
			// The agent answers with its last input. Some rows have the same id.
			own, nudged := 0, 0
			for _, text := range answers[cmp.Or(d.ID, d.UUID)] {
				own += strings.Count(text, m)
				nudged += strings.Count(text, Nudge)
			}
			if own > 1 || own+nudged == 0 {
				v.say("%s is answered %d times, and %d times after a nudge", m, own, nudged)
			}
		}
	}
	for _, m := range markers {
		if works[m] > 1 || tools[m] > 1 {
			v.twice++
			v.say("%s was worked on %d times, with %d calls of a tool", m, works[m], tools[m])
		}
		if works[m] == 0 && len(nudges[frames[m]]) == 0 {
			v.lost++
			v.say("%s was lost, in frame %s", m, frames[m])
		}
	}
	return v
}

// answers returns the agent's answers in the ledger, by the message that they answer.
func (s *station) answers() map[string][]string {
	s.t.Helper()
	all := map[string][]string{}
	for after := int64(0); ; {
		list, err := s.ledger.Events.After(s.t.Context(), after, 500)
		must(s.t, err)
		if len(list) == 0 {
			return all
		}
		for _, e := range list {
			after = e.N
			if e.Answer == "" {
				continue
			}
			var a struct {
				Text      string
				InReplyTo []string
			}
			must(s.t, json.Unmarshal(e.Row, &a))
			for _, id := range a.InReplyTo {
				all[id] = append(all[id], a.Text)
			}
		}
	}
}

// killAgent kills every agent of the station that runs.
func (s *station) killAgent() {
	if s.other != nil {
		opts := s.options()
		r, err := New(context.Background(), opts)
		if err != nil {
			return // its team is gone
		}
		session, _, _ := s.ledger.Sessions.Session(context.Background(), r.post)
		if alive, _ := opts.Runtime.Predecessor(agent.Process{PID: session.PID, Group: session.Group, Start: session.Start}).Alive(); alive {
			if p, err := os.FindProcess(session.PID); err == nil {
				_ = p.Kill() // it may have ended by itself
			}
		}
		return
	}
	entries, err := simchild.Log(s.script.State)
	if err != nil {
		return
	}
	pids := map[int]bool{}
	for _, e := range entries {
		if e.Kind == "start" {
			pids[e.PID] = true
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(pids)) {
		if s.isAgent(pid) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended by itself
			}
		}
	}
}

// isAgent reports whether the process is an agent of this station: process ids
// are used again.
func (s *station) isAgent(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && strings.Contains(string(env), s.script.Env())
}

// The bridge alone is killed in the middle of a turn, and started again at once;
// its agent is alive, and held where it is. The next bridge waits for it: an
// agent that ends by itself has done the message once, and is not nudged. One
// that does not is ended, and only messages that it had not taken are sent again.
func TestBridgeKilledAgentGoesOn(t *testing.T) {
	t.Parallel()
	type want struct{ works, nudges int }
	for _, tc := range []struct {
		at   simchild.Point
		held want // if it is never let go
	}{
		{simchild.Began, want{0, 1}}, // before the echo: stored, so it is not sent again
		{simchild.Echoed, want{0, 1}},
		{simchild.Called, want{0, 1}},
		{simchild.Worked, want{1, 1}}, // done, but only the log has it
		{simchild.Finished, want{1, 0}},
		{simchild.Answered, want{1, 0}},
	} {
		for _, let := range []bool{true, false} {
			if let && (tc.at == simchild.Echoed || tc.at == simchild.Worked) {
				continue // the same as from the point before
			}
			t.Run(fmt.Sprintf("%s, let go %t", tc.at, let), func(t *testing.T) {
				t.Parallel()
				s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: tc.at, Do: simchild.Hold, Match: "[m-1]", Times: 1, Name: "go"}}})
				patience, expected := time.Minute, want{1, 0}
				if !let {
					patience, expected = 50*time.Millisecond, tc.held
				}
				s.agent().write("TOOL:0.01\n[m-1]")
				b := s.bridge(func(b *bridge) { b.job.Patience = patience })
				s.await("the agent is held", func() bool { return s.logged("hold") > 0 })
				b.Kill()
				b.start()
				b.reaches(Waiting)
				if let {
					must(t, os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600))
				}
				s.drained()
				s.agent().write("[m-2]")
				s.drained()
				v := s.verdict([]string{"[m-1]", "[m-2]"})
				v.check(t)
				if got := (want{s.works("[m-1]")["[m-1]"], v.nudges}); got != expected {
					t.Errorf("works and nudges %v, want %v", got, expected)
				}
				if s.works("[m-2]")["[m-2]"] != 1 {
					t.Error("the next message was not worked on once")
				}
			})
		}
	}
}

// logged counts the entries of a kind in the agents' log.
func (s *station) logged(kind string) int {
	s.t.Helper()
	entries := s.log()
	n := 0
	for _, e := range entries {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
