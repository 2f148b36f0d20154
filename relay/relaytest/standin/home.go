package standin

import (
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
)

// object keeps literals readable.
type object map[string]any

// Home is a [model.Home] that a test has.
type Home struct {
	model.Home // by value, so that a copy is another home
}

// NewHome makes a home in a temporary folder that is removed when the test ends, after the processes in it were
// killed (on Linux), also those that the code under test started. A nil API starts one with Script.
func NewHome(t testing.TB, api *API) *Home {
	t.Helper()
	if api == nil {
		api = StartAPI(t, nil)
	}
	made, err := model.NewHome(t.TempDir(), api)
	if err != nil {
		t.Fatal(err)
	}
	h := &Home{*made}
	t.Cleanup(h.Sweep) // before the folder is removed, after all other clean-ups
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		h.limit(t, limited.Deadline)
	}
	return h
}

// limit ends the processes in the home a minute before the deadline of all tests, so that a test that waits in vain
// ends as well, and reports what came.
func (h *Home) limit(t testing.TB, deadline func() (time.Time, bool)) {
	end, ok := deadline()
	if !ok {
		return
	}
	late := time.AfterFunc(time.Until(end)-time.Minute, func() {
		t.Errorf("the time of all tests is over, and this one still waits; its model was asked for:\n%s", h.API)
		h.Sweep()
	})
	t.Cleanup(func() { late.Stop() })
}

// exists is false once the process has ended, whether or not its parent has noticed: a tmux 3.3a server can forget to
// ask for as long as it runs.
func exists(pid int) bool {
	alive, _ := process.Identify(pid).Alive() // of that id alone
	return alive
}
