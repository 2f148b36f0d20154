package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simchild"
)

// Four messages each change the permission mode, and a row follows. Bridge and agent
// are killed at each point of each, or the bridge alone, also while the agent changes
// its mode. Each message is sent, and continued, in its own mode, and the row in that
// of the last one.
func TestModeOverACrash(t *testing.T) {
	t.Parallel()
	modes := map[string]string{"[a]": "bypassPermissions", "[b]": "acceptEdits", "[c]": "plan", "[d]": "default"}
	all := []simchild.Point{simchild.Changed, simchild.Read, simchild.Began, simchild.Echoed, simchild.Worked, simchild.Finished, simchild.Answered, simchild.Ended}
	// Plan mode is entered and left in a new process. Each case takes seconds: all of them with RELAY_TEST_ROUNDS.
	some := []simchild.Point{simchild.Changed, simchild.Read, simchild.Worked}
	points := map[string][]simchild.Point{"[a]": some[:2], "[b]": some[:1], "[c]": {simchild.Read, simchild.Echoed, simchild.Ended}, "[d]": some[2:]}
	if os.Getenv(envRounds) != "" {
		points = map[string][]simchild.Point{"[a]": some, "[b]": some, "[c]": all[1:], "[d]": some[1:]}
	}
	for m, points := range points {
		for i, at := range points {
			t.Run(fmt.Sprintf("%s %s", m, at), func(t *testing.T) {
				t.Parallel()
				match := m
				if at == simchild.Changed {
					match = modes[m]
				}
				s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: at, Do: simchild.Hold, Match: match, Times: 1, Name: "go"}}})
				person := s.newRelay(s.options())
				for _, text := range []string{"[a]", "[b]", "[c]", "[d]"} {
					s.prompt(person, Input{Text: text, Mode: mode.Mode{PermissionMode: mode.Set(modes[text])}})
				}
				s.send("[row]")
				b := s.bridge()
				s.await("the agent is held", func() bool { return s.logged("hold") > 0 })
				b.Kill()
				if i%2 == 0 {
					s.killAgent()
				} else if err := os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				b.start()
				s.drained()
				entries := s.log()
				var order []string
				for _, e := range entries {
					if e.Kind != "begin" {
						continue
					}
					f, ok, err := s.ledger.Frames.Frame(t.Context(), e.UUIDs[0])
					if err != nil || !ok {
						t.Fatal(ok, err)
					}
					if f.Kind == ledger.FrameNudge {
						if f, _, err = s.ledger.Frames.Frame(t.Context(), f.Parent); err != nil {
							t.Fatal(err)
						}
					}
					said, want := "[row]", "default"
					for text, mode := range modes {
						if strings.Contains(string(f.Bytes), text) {
							said, want = text, mode
						}
					}
					if e.Mode != want {
						t.Errorf("%s was said in mode %s, want %s", said, e.Mode, want)
					}
					if len(order) == 0 || order[len(order)-1] != said {
						order = append(order, said) // again: it was not taken, or cut
					}
				}
				if got := strings.Join(order, " "); got != "[a] [b] [c] [d] [row]" {
					t.Errorf("said in the order %s", got)
				}
			})
		}
	}
}

// A turn of the agent's own, before a message and with the same text, does not prove
// that the agent took the message: if it dies then, the message is sent again.
func TestAnotherTurnIsNoProof(t *testing.T) {
	t.Parallel()
	for name, person := range map[string]bool{"row": false, "person": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{Faults: []simchild.Fault{
				{At: simchild.Read, Do: simchild.Other, Match: "[m-1]", Times: 1},
				{At: simchild.Read, Do: simchild.Die, Match: "[m-1]", Times: 1},
			}})
			r, stop := s.relay(s.options())
			if person {
				s.prompt(r, Input{Text: "[m-1]"})
			} else {
				s.send("[m-1]")
			}
			s.settled(1)
			s.send("[m-2]")
			s.done(2)
			stop()
			if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
				t.Errorf("worked on %v, want each once", n)
			}
		})
	}
}

// If the agent does not die then, the relay waits for its own turn, and sends the
// next frame after it.
func TestAnotherTurnComesFirst(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{
		{At: simchild.Read, Do: simchild.Other, Match: "[m-1]"},
		{At: simchild.Began, Do: simchild.Hold, Match: "[m-1]", Name: "go"},
	}})
	s.send("[m-1]")
	_, stop := s.relay(s.options())
	s.await("its turn has begun", func() bool { return s.logged("hold") > 0 })
	for range 40 {
		s.send("[m-2]")
	}
	s.until("the rows are claimed", func(st Status) bool { return st.Queue > 30 })
	if n := s.logged("read"); n != 1 {
		t.Errorf("%d frames were written, want 1", n)
	}
	s.let("go")
	s.done(41)
	stop()
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 40 {
		t.Errorf("worked on %v", n)
	}
}

// The agent asks a hundred times whether it may use a tool before it reads one
// answer. Another goroutine than the reader of its stdout writes the answers, which
// are more than its stdin holds; otherwise each side would wait for the other for
// ever.
func TestAnswersDoNotWaitForTheAgent(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.Permission = &agent.Permission{Allow: []string{"*"}} })
	var results []string
	opts.Events = func(e agent.Event) {
		if r, ok := e.Payload.(claude.Result); ok {
			results = append(results, r.Text)
		}
	}
	s.send("ASKS:100\n[m-1]")
	_, stop := s.relay(opts)
	s.settled(1)
	stop()
	if len(results) != 1 || results[0] != "100 answers" || s.logged("start") != 1 {
		t.Errorf("results %q by %d processes, want 100 answers by one", results, s.logged("start"))
	}
}

// A program without flags gets the mode again after a restart: the message with
// which it died does not run in another mode.
func TestModeOfAPlainProgram(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Read, Do: simchild.Die, Match: "[m]", Times: 1}}})
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.Plain = true })
	r, stop := s.relay(opts)
	s.prompt(r, Input{Text: "[m]", Mode: mode.Mode{PermissionMode: mode.Set("plan")}})
	s.settled(1)
	s.send("[row]")
	s.settled(2)
	stop()
	if got := s.begun(); len(got) != 2 || got[0].Mode != "plan" || got[1].Mode != "plan" {
		t.Errorf("turns %+v, want two in plan mode", got)
	}
}

func (s *station) begun() []simchild.Entry {
	s.t.Helper()
	entries := s.log()
	return slices.DeleteFunc(entries, func(e simchild.Entry) bool { return e.Kind != "begin" })
}

// A message whose mode the agent refuses fails with the reason. The agent keeps its
// mode, even if half of it was changed, and the next message is delivered. The same
// holds for a message that is too long.
func TestRefusedMode(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Refuse: []string{"yolo"}})
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.FrameLimit = 1000 })
	r, stop := s.relay(opts)
	other := mode.Mode{Model: mode.Set("opus"), PermissionMode: mode.Set("plan")}
	for _, in := range []Input{
		{Text: "[a]", Mode: mode.Mode{Model: mode.Set("sonnet")}}, {Text: "[b]", Mode: mode.Mode{Model: mode.Set("opus"), PermissionMode: mode.Set("yolo")}},
		{Text: "[c]"}, {Text: strings.Repeat("x", 1000), Mode: other}, {Text: "[d]"},
	} {
		s.prompt(r, in)
	}
	all := s.settled(5)
	for _, e := range s.begun() {
		if e.Model != "sonnet" || e.Mode != "default" {
			t.Errorf("%s was said to %s in mode %s", e.Text, e.Model, e.Mode)
		}
	}
	stop()
	for i, want := range []ledger.DeliveryState{ledger.Done, ledger.Failed, ledger.Done} {
		if all[i].State != want || want == ledger.Failed && !strings.Contains(all[i].Reason, "yolo") {
			t.Errorf("%s is %s (%s), want %s", all[i].Raw, all[i].State, all[i].Reason, want)
		}
	}
	if n := s.works("[a]", "[b]", "[c]"); n["[a]"] != 1 || n["[b]"] != 0 || n["[c]"] != 1 || s.logged("start") != 1 {
		t.Errorf("worked on %v by %d processes", n, s.logged("start"))
	}
}

// The mode of a message still holds after a restart of the relay, even if the ledger
// no longer has the message. The initial mode of a relay counts for its first start
// only, and a new command counts for the settings of its flags.
func TestModeOverARestart(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	models := func(opts Options) (again Options, got *[]string) {
		got = new([]string)
		opts.Events = func(e agent.Event) {
			if i, ok := e.Payload.(claude.Init); ok {
				*got = append(*got, i.Model+" "+i.PermissionMode)
			}
		}
		return opts, got
	}
	for i, step := range []struct {
		mode  mode.Mode // of the message
		begin mode.Mode
		flag  string
		want  string
	}{
		{mode.Mode{}, mode.Mode{PermissionMode: mode.Set("acceptEdits"), Model: mode.Set("sonnet")}, "", "sonnet acceptEdits"},
		{mode.Mode{PermissionMode: mode.Set("plan")}, mode.Mode{PermissionMode: mode.Set("bypassPermissions")}, "", "sonnet plan"},
		{mode.Mode{Model: mode.Set("opus")}, mode.Mode{}, "", "opus plan"},
		{mode.Mode{}, mode.Mode{PermissionMode: mode.Set("bypassPermissions")}, "", "opus plan"},
		{mode.Mode{}, mode.Mode{}, "--model=haiku", "haiku plan"},
		{mode.Mode{}, mode.Mode{}, "--model=haiku", "haiku plan"},
		{mode.Mode{Model: mode.Default[string]()}, mode.Mode{}, "", "sim-model plan"},
		{mode.Mode{PermissionMode: mode.Default[string]()}, mode.Mode{Model: mode.Set("opus")}, "", "sim-model default"},
		{mode.Mode{}, mode.Mode{PermissionMode: mode.Set("plan")}, "", "sim-model default"},
		{mode.Mode{}, mode.Mode{}, "--permission-mode=plan", "sim-model plan"},
	} {
		opts, got := models(s.options())
		opts.Mode = step.begin
		if step.flag != "" {
			change(&opts, func(o *claude.Options) { o.Command = append(o.Command, step.flag) })
		}
		if _, err := s.ledger.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		r, stop := s.relay(opts)
		s.prompt(r, Input{Text: "[m]", Mode: step.mode})
		s.settled(1)
		stop()
		if len(*got) != 1 || (*got)[0] != step.want {
			t.Errorf("run %d: turns with %q, want %q", i+1, *got, step.want)
		}
	}
}
