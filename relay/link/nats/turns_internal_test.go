package nats

import (
	"errors"
	"fmt"
	"testing"

	"teambridge/relay/link"
)

// A machine that sends texts all the time delays no frame, and no text of another machine is dropped for it.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := &Wire{}
	tell := func(from string, n int) { w.keep(link.Arrival{From: from, Text: fmt.Append(nil, n)}) }
	for n := range 2 * maxTold {
		tell("loud", n)
	}
	tell("quiet", 0)
	var got string
	for n := range 3 {
		w.frame = &link.Arrival{From: "sender", Frame: []byte("x")}
		for range 2 {
			a, _ := w.pop()
			got += fmt.Sprintf("%s %s\n", a.From, a.Text)
			tell("loud", 1000+n)
		}
	}
	const want = "loud 511\nsender \nquiet 0\nsender \nloud 1001\nsender \n"
	if got != want {
		t.Errorf("handed out:\n%s\nwant\n%s", got, want)
	}
}

// While the queue cannot be read, nobody knows whether it is empty.
func TestUnreadQueueIsNotEmpty(t *testing.T) {
	t.Parallel()
	w := &Wire{state: link.State{Connected: true, Queue: "q"}}
	w.fail(errors.New("the hub does not answer"))
	if s := w.State(); s.Waiting != -1 {
		t.Errorf("%d frames wait, want -1", s.Waiting)
	}
}
