package standin_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
)

// late is a test that still waits at the deadline of all tests.
type late struct {
	testing.TB
	said chan string
}

func (late) Deadline() (time.Time, bool)         { return time.Now(), true }
func (l late) Errorf(format string, args ...any) { l.said <- fmt.Sprintf(format, args...) }

// A test that waits in vain reports what came, and the processes in its home end.
func TestLate(t *testing.T) {
	t.Parallel()
	l := late{t, make(chan string)}
	h := standin.NewHome(l, nil)
	cmd := exec.Command("sleep", "600")
	cmd.Env = h.Env()
	must(t, cmd.Start())
	if said := <-l.said; !strings.Contains(said, "\n0 calls") {
		t.Errorf("it says %q", said)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}
