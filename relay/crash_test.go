package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude/simchild"
)

// envBridge makes the test binary a bridge: it relays for the station whose
// directory is named, until it is killed.
const envBridge = "RELAY_TEST_BRIDGE"

func runBridge(dir string) int {
	t := &bridgeT{}
	defer t.cleanup()
	s := openStation(t, dir, simchild.Script{})
	script := os.Getenv("RELAY_TEST_SCRIPT")
	opts := s.options()
	opts.Child.Env = append(opts.Child.Env, script)
	r, err := New(context.Background(), opts)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := r.Run(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// bridgeT is what openStation needs of a test, in a process that is none.
type bridgeT struct {
	testing.TB
	cleanups []func()
}

func (*bridgeT) Helper()                   {}
func (*bridgeT) Context() context.Context  { return context.Background() }
func (t *bridgeT) Cleanup(f func())        { t.cleanups = append(t.cleanups, f) }
func (*bridgeT) Fatal(args ...any)         { fmt.Println(args...); os.Exit(1) }
func (*bridgeT) Fatalf(f string, a ...any) { fmt.Printf(f+"\n", a...); os.Exit(1) }
func (t *bridgeT) cleanup() {
	for _, f := range t.cleanups {
		f()
	}
}

func (s *station) bridge() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envBridge+"="+s.dir, "RELAY_TEST_SCRIPT="+s.script.Env(), "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// The bridge, the agent, or both are killed at random instants with messages on
// their way, and started again at once. Nothing is lost, nothing is worked on
// twice, and a turn that was cut is noticed. The count is the agent's own.
func TestKilledAtRandomInstants(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for _, g := range []int{1, 2} {
		t.Run(fmt.Sprintf("G%d", g), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			t.Logf("seed %d", seed)
			s := newStation(t, simchild.Script{Generation: g})
			const each = 5
			var markers []string
			cmd := s.bridge()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cmd.Process.Kill(); cmd.Wait(); s.killAgent() }()
			for round := range rounds {
				for i := range each {
					m := fmt.Sprintf("[m-%d-%d]", round, i)
					markers = append(markers, m)
					s.send("SLEEP:0.02 " + m)
				}
				<-time.After(time.Duration(rnd.IntN(150)) * time.Millisecond)
				switch rnd.IntN(3) {
				case 0: // the agent
					s.killAgent()
				case 1: // the bridge alone: its agent goes on
					cmd.Process.Kill()
					cmd.Wait()
					cmd = s.bridge()
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
				case 2: // both
					cmd.Process.Kill()
					cmd.Wait()
					s.killAgent()
					cmd = s.bridge()
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
				}
			}
			all := s.settled(len(markers))
			counts := s.works(append(markers, Nudge)...)
			lost, twice, cut := 0, 0, 0
			for _, d := range all {
				if d.State != ledger.Done {
					t.Errorf("%s is %s (%s)", d.ID, d.State, d.Reason)
				}
			}
			for _, m := range markers {
				switch n := counts[m]; {
				case n > 1:
					twice++
				case n == 0:
					cut++ // only right if its frame was cut and nudged
					if !s.nudged(m) {
						lost++
					}
				}
			}
			t.Logf("%d messages: lost %d, twice %d, cut before their work %d, nudges worked on %d", len(markers), lost, twice, cut, counts[Nudge])
			if lost > 0 || twice > 0 {
				t.Errorf("lost %d, twice %d; want 0, 0", lost, twice)
			}
		})
	}
}

// nudged reports whether the frame that held a message was cut and the agent
// was told so.
func (s *station) nudged(marker string) bool {
	s.t.Helper()
	all, err := s.ledger.Deliveries(s.t.Context(), ledger.DeliveryQuery{Team: "demo"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range all {
		if strings.Contains(string(d.Raw), marker) {
			f, ok, err := s.ledger.Frame(s.t.Context(), d.Frame)
			return err == nil && ok && f.Nudges > 0
		}
	}
	return false
}

// killAgent kills the newest agent that runs.
func (s *station) killAgent() {
	entries, err := simchild.Log(s.script.State)
	if err != nil {
		return
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if e := entries[i]; e.Kind == "start" && isChild(e.PID) {
			if p, err := os.FindProcess(e.PID); err == nil {
				_ = p.Kill() // it may have ended by itself
			}
			return
		}
	}
}

// isChild reports whether the process is a simulated child of this test binary:
// process ids are used again.
func isChild(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && strings.Contains(string(env), simchild.Variable+"=")
}
