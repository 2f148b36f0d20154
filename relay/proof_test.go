package relay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/claude/simchild"
	"teambridge/relay/pipe"
)

// envSilence is for how long the agent of TestSilence says nothing, as a
// duration; the default is until the inbox has changed 50 times.
//
//	RELAY_TEST_SILENCE=70s go test -run Silence -v ./relay
const envSilence = "RELAY_TEST_SILENCE"

// An agent says nothing while a long tool call runs. However often the inbox
// changes meanwhile, its message is not said again, and nothing else is.
func TestSilence(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		s := newStation(t, simchild.Script{Generation: g, Faults: []simchild.Fault{{At: simchild.Called, Do: simchild.Hold, Match: "[m-1]", Name: "go"}}})
		s.agent().write("TOOL:0.001\n[m-1]")
		_, stop := s.relay(s.options())
		s.await("the tool runs", func() bool { return s.logged("hold") > 0 })
		for range 50 {
			s.agent().write("[m-2]")
		}
		s.until("the rows are claimed", func(st Status) bool { return st.Queue > 30 })
		if d, err := time.ParseDuration(os.Getenv(envSilence)); err == nil {
			<-time.After(d)
		}
		if n := s.logged("read"); n != 1 {
			t.Errorf("%d frames were written during the tool call, want 1", n)
		}
		if err := os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.drained()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 50 {
			t.Errorf("worked on %v", n)
		}
		all, err := s.ledger.Deliveries(t.Context(), ledger.DeliveryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := s.ledger.Frame(t.Context(), all[len(all)-1].Frame)
		if err != nil || f.Tries != 1 {
			t.Errorf("written %d times, %v; want once", f.Tries, err)
		}
	})
}

// Before the agent comes to a message it runs a turn that nobody of ours asked
// for, with the very text of the message in it. That is no proof: when it dies
// then, the message is said again.
func TestAnotherTurnIsNoProof(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		for name, person := range map[string]bool{"row": false, "person": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newStation(t, simchild.Script{Generation: g, Faults: []simchild.Fault{
					{At: simchild.Read, Do: simchild.Other, Match: "[m-1]", Times: 1},
					{At: simchild.Read, Do: simchild.Die, Match: "[m-1]", Times: 1},
				}})
				r, stop := s.relay(s.options())
				if person {
					if _, err := r.Say(t.Context(), Input{Text: "[m-1]"}); err != nil {
						t.Fatal(err)
					}
				} else {
					s.send("[m-1]")
				}
				s.settled(1)
				s.send("[m-2]")
				for _, d := range s.settled(2) {
					if d.State != ledger.Done {
						t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
					}
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
					t.Errorf("worked on %v, want each once", n)
				}
			})
		}
	})
}

// The same, and the agent does not die: its own turn is waited for, and the next
// frame comes after it.
func TestAnotherTurnComesFirst(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		s := newStation(t, simchild.Script{Generation: g, Faults: []simchild.Fault{
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
		if err := os.WriteFile(filepath.Join(s.script.State, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, d := range s.settled(41) {
			if d.State != ledger.Done {
				t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 40 {
			t.Errorf("worked on %v", n)
		}
	})
}

// The agent asks a hundred times whether it may use a tool before it reads one
// answer. The answers, more than its stdin holds, wait for it beside the reading
// of its stdout: written in the place where they are made, each side would wait
// for the other for ever.
func TestAnswersDoNotWaitForTheAgent(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		s := newStation(t, simchild.Script{Generation: g})
		opts := s.options()
		opts.Child.Permission = &claude.Permission{Allow: []string{"*"}}
		var results []string
		opts.Events = func(e claude.Event) {
			if r, ok := e.Payload.(claude.Result); ok {
				results = append(results, r.Text)
			}
		}
		s.send("ASKS:100\n[m-1]")
		_, stop := s.relay(opts)
		s.settled(1)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(results) != 1 || results[0] != "100 answers" || s.logged("start") != 1 {
			t.Errorf("results %q by %d processes, want 100 answers by one", results, s.logged("start"))
		}
	})
}

// A message asks for a mode that the agent refuses. It fails, and says why; the
// agent stays as it is, and the next message goes on.
func TestRefusedMode(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		s := newStation(t, simchild.Script{Generation: g, Refuse: []string{"yolo"}})
		r, stop := s.relay(s.options())
		for _, in := range []Input{{Text: "[a]"}, {Text: "[b]", Mode: pipe.Mode{PermissionMode: pipe.Set("yolo")}}, {Text: "[c]"}} {
			if _, err := r.Say(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		all := s.settled(3)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i, want := range []ledger.DeliveryState{ledger.Done, ledger.Failed, ledger.Done} {
			if all[i].State != want || want == ledger.Failed && !strings.Contains(all[i].Reason, "yolo") {
				t.Errorf("%s is %s (%s), want %s", all[i].Raw, all[i].State, all[i].Reason, want)
			}
		}
		if n := s.works("[a]", "[b]", "[c]"); n["[a]"] != 1 || n["[b]"] != 0 || n["[c]"] != 1 || s.logged("start") != 1 {
			t.Errorf("worked on %v by %d processes", n, s.logged("start"))
		}
	})
}

// What a message asked for still holds when the relay is started again with the
// same command, so also for a message that was in flight. Another command says
// itself what the mode is.
func TestModeOverARestart(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	models := func(opts Options) (again Options, got *[]string) {
		got = new([]string)
		opts.Events = func(e claude.Event) {
			if i, ok := e.Payload.(claude.Init); ok {
				*got = append(*got, i.Model+" "+i.PermissionMode)
			}
		}
		return opts, got
	}
	for i, step := range []struct {
		mode pipe.Mode
		flag string
		want string
	}{
		{pipe.Mode{PermissionMode: pipe.Set("plan")}, "", "sim-model plan"},
		{pipe.Mode{Model: pipe.Set("opus")}, "", "opus plan"},
		{pipe.Mode{}, "", "opus plan"},
		{pipe.Mode{}, "--model=haiku", "haiku default"},
	} {
		opts, got := models(s.options())
		if step.flag != "" {
			opts.Child.Command = append(opts.Child.Command, step.flag)
		}
		r, stop := s.relay(opts)
		if _, err := r.Say(t.Context(), Input{Text: "[m]", Mode: step.mode}); err != nil {
			t.Fatal(err)
		}
		s.settled(i + 1)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(*got) != 1 || (*got)[0] != step.want {
			t.Errorf("run %d: turns with %q, want %q", i+1, *got, step.want)
		}
	}
}
