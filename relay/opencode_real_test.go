package relay

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
)

// envMessages is how many messages TestRealOpenCodeEachOnceInOrder sends; the default is 8.
const envMessages = "RELAY_TEST_MESSAGES"

// The model of a real OpenCode gets each message once, in order: one by one and in bursts,
// with a long turn among them, and a kill of the server in the middle of a turn, which is then
// continued.
func TestRealOpenCodeEachOnceInOrder(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	messages, long := 8, "SLEEP:3"
	if n, err := strconv.Atoi(os.Getenv(envMessages)); err == nil {
		messages, long = n, "SLEEP:60"
	}
	s := openCodeSubject(t)
	_, stop := s.relay(s.options())
	var markers []string
	next := func(more string) string {
		m := fmt.Sprintf("[m-%03d]", len(markers))
		markers = append(markers, m)
		return m + more
	}
	s.send(next(""))
	s.settled(1)
	s.send(next("\n" + long))
	for len(markers) < messages/2 { // while the long turn runs
		s.send(next(""))
	}
	s.settled(len(markers))

	s.send(next(" [held]"))
	s.await("the agent is held", s.held)
	for len(markers) < messages/2+messages/4 {
		s.send(next(""))
	}
	s.killAgent()
	s.letGo()
	s.settled(len(markers))
	for len(markers) < messages {
		s.send(next(""))
		if len(markers)%5 == 0 {
			s.settled(len(markers))
		}
	}
	s.done(messages)
	stop()
	s.check(markers)
	all, last := strings.Join(s.said(), "\n"), -1
	for _, m := range markers {
		at := strings.Index(all, m)
		if at <= last {
			t.Errorf("%s was given before the one that was sent before it", m)
		}
		last = at
	}
	nudges := 0
	for _, f := range s.frames() {
		nudges += f.Nudges
	}
	if nudges != 1 {
		t.Errorf("%d nudges, want 1 for the turn that was cut", nudges)
	}
}
