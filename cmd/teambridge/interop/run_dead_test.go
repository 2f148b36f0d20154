package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// An agent that ends as soon as it is started is started more and more rarely,
// and given up in the end; what it was to be told is kept, with its team, and
// told to the next one.
func TestRealAgentThatDoesNotStart(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		good := h.command
		h.command = append(append([]string{}, good...), "--no-such-flag")
		h.start()
		h.wait("starting", func(s saying) bool { return s.Status == "starting" })
		h.send("<m-1>", "<m-2>", "<m-3>")
		<-h.ended
		if status := h.cmd.ProcessState.ExitCode(); status != api.ExitError {
			t.Errorf("exit status %d, want %d", status, api.ExitError)
		}
		var states []string
		for _, s := range h.sayings() {
			if s.Status == "backing off" || s.Status == "dead" {
				states = append(states, s.Status)
			}
		}
		if got, want := strings.Join(states, ", "), "backing off, backing off, backing off, backing off, dead"; got != want {
			t.Errorf("states: %s, want %s", got, want)
		}
		for _, rest := range []string{"500ms", "1s", "2s", "4s"} {
			if !strings.Contains(h.stderr.String(), "started again in "+rest) {
				t.Errorf("no back-off of %s:\n%s", rest, h.stderr.String())
			}
		}
		if n := len(h.home.API.Log()); n > 0 {
			t.Errorf("the model was asked %d times", n)
		}

		h.command = good
		h.start()
		// What was written to three agents that were slow to end counts as given up.
		for _, d := range h.settled(3) {
			if d.State == ledger.Failed && d.Reason == "agent died" {
				h.must("relay", "retry", d.UUID)
			}
		}
		h.done(3)
		for i := range 3 {
			once(t, h.home.API, fmt.Sprintf("<m-%d>", i+1))
		}
		h.finish()
	})
}

// A message with which the agent died three times is given up, and the next goes
// on; "relay retry" has it told by the bridge that runs.
func TestRealMessageIsRetried(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the agent that dies is a shell script")
	}
	h := newHeadless(t, standin.Newest(t), nil)
	// Its first three starts die of the first line, as of one that it cannot take.
	script := filepath.Join(h.home.Dir, "dying")
	program := standin.Require(t, h.version)
	quoted := "'" + strings.Join(program, "' '") + "'"
	count := "'" + filepath.Join(h.home.Dir, "starts") + "'"
	standin.WriteProgram(t, script, `#!/bin/sh
case "$*" in *--version*) exec `+quoted+` --version;; esac
n=$(cat `+count+` 2>/dev/null || echo 0)
if [ "$n" -lt 3 ]; then
	echo $((n + 1)) >`+count+`
	read -r line
	exit 1
fi
exec `+quoted+` "$@"
`)
	h.command = append([]string{script}, h.command[len(program):]...)
	h.start()
	h.wait("starting", func(s saying) bool { return s.Status == "starting" })
	h.send("<m-1>")
	if all := h.settled(1); all[0].State != ledger.Failed || all[0].Reason != "agent died" {
		t.Errorf("<m-1>: %s (%s), want failed: agent died", all[0].State, all[0].Reason)
	}
	h.send("<m-2>")
	h.settled(2)
	failed := decoded[[]api.Delivery](t, h.must("relay", "list", "--json"))
	if len(failed) != 1 || failed[0].State != "failed" {
		t.Fatalf("relay list: %+v; want the one that failed", failed)
	}
	h.must("relay", "retry", failed[0].Delivery)
	h.done(2)
	once(t, h.home.API, "<m-1>", "<m-2>")
	h.finish()
}
