package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/acp"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simacp"
	"teambridge/relay/relaytest/simchild"
)

// The simulated agent of the Agent Client Protocol.
func TestConformanceACP(t *testing.T) {
	t.Parallel()
	Conformance(t, func(t *testing.T) *subject { return simulatedACP(t, simacp.Script{}) })
}

// An agent that finishes its turn without a bridge has the message once, too. Nothing proves the end of the turn, so
// the next agent is asked to continue if it was not finished.
func TestACPThatFinishesItsTurn(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"agent", "bridge", "both"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			s := simulatedACP(t, simacp.Script{Finishes: true})
			s.record()
			conformsKilledInTurn(t, s, victim)
		})
	}
}

// Wherever an agent dies in a turn, the message is sent again if the agent had not recorded it, and never otherwise.
func TestACPKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		at           string
		late         bool
		proves       bool // its own record proves the end of a turn
		read, nudges int  // how often the agent read the message, and a nudge
	}{
		{"taken", false, false, 2, 0},
		{"asked", true, false, 2, 0}, // the model was asked, and nothing was done
		{"recorded", false, false, 1, 1},
		{"said", false, false, 1, 1},
		{"recorded", false, true, 1, 1},
		{"answered", false, true, 1, 1},
		{"said", false, true, 1, 0},
	} {
		t.Run(fmt.Sprintf("%s, proves=%t", tc.at, tc.proves), func(t *testing.T) {
			t.Parallel()
			script := simacp.Script{Late: tc.late, Die: []string{tc.at}, Match: "[m-2]"}
			if tc.proves {
				script.Qwen = t.TempDir()
			}
			s := simulatedACP(t, script)
			s.record()
			s.send("TOOL:0.01 [m-1]")
			_, stop := s.relay(s.options())
			s.settled(1)
			s.send("TOOL:0.01\n[m-2]")
			s.settled(2)
			s.send("[m-3]")
			s.done(3)
			stop()
			s.check([]string{"[m-1]", "[m-2]", "[m-3]"})
			read, nudges := 0, 0
			for _, e := range simacp.Log(s.simulation) {
				if e.Kind == "read" && strings.Contains(e.Text, "[m-2]") {
					read++
				}
			}
			for _, f := range s.frames() {
				nudges += f.Nudges
			}
			if read != tc.read || nudges != tc.nudges {
				t.Errorf("it read the message %d times and was told %d times to go on, want %d and %d", read, nudges, tc.read, tc.nudges)
			}
		})
	}
}

// simulatedACP is a simulated agent with a team of its own.
func simulatedACP(t *testing.T, script simacp.Script) *subject {
	s := newStation(t, simchild.Script{})
	script.State = filepath.Join(s.dir, "sim")
	must(t, os.Mkdir(script.State, 0o700))
	s.other = &otherAgent{ACP: &acp.Options{Command: []string{simchild.Program()}, Env: append(os.Environ(), script.Env(), "QWEN_HOME="+script.Qwen, "GORACE=atexit_sleep_ms=0")}}
	said := func() (texts []string) {
		for _, e := range simacp.Log(script.State) {
			if e.Kind == "work" {
				texts = append(texts, e.Text)
			}
		}
		return texts
	}
	logged := func(kind string) (n int) {
		for _, e := range simacp.Log(script.State) {
			if e.Kind == kind {
				n++
			}
		}
		return n
	}
	return &subject{
		station: s, simulation: script.State, each: 20, pause: 250 * time.Millisecond, said: said, ends: true,
		modes: []mode.Mode{{Model: mode.Set("opus")}, {PermissionMode: mode.Set("acceptEdits")}},
		given: func(marker string) int { return strings.Count(strings.Join(said(), "\n"), marker) },
		held:  func() bool { return logged("hold") > 0 },
		letGo: func() { must(t, os.WriteFile(filepath.Join(script.State, "go"), nil, 0o600)) },
		calm:  func(kill func()) { kill() },
		check: func(markers []string) {
			// The agent itself recorded each message once, and one nudge for each cut turn.
			stored, worked := map[string]int{}, map[string]int{}
			nudges := 0
			for _, m := range simacp.Messages(script.State) {
				if m.Role != "user" {
					continue
				}
				if strings.Contains(m.Text, Nudge) {
					nudges++
				}
				for _, marker := range markers {
					stored[marker] += strings.Count(m.Text, marker)
				}
			}
			for _, e := range simacp.Log(script.State) {
				for _, marker := range markers {
					if e.Kind == "work" {
						worked[marker] += strings.Count(e.Text, marker)
					}
				}
			}
			lost, twice := 0, 0
			for _, m := range markers {
				if stored[m] == 0 {
					lost++
				}
				if stored[m] > 1 || worked[m] > 1 {
					twice++
				}
				if stored[m] != 1 || worked[m] > 1 {
					t.Errorf("%s is in the conversation %d times, and was worked on %d times; want once", m, stored[m], worked[m])
				}
			}
			want := 0
			for _, f := range s.frames() {
				want += f.Nudges
			}
			if nudges != want {
				t.Errorf("the agent was told %d times to go on, want %d", nudges, want)
			}
			t.Logf("%d messages in %d turns: lost %d, twice %d; nudges %d; given again %d", len(markers), logged("work"), lost, twice, nudges, logged("read")-logged("work"))
		},
	}
}
