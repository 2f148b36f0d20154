package nats

import (
	"fmt"
	"testing"

	"teambridge/relay/link"
)

// A machine that tells something all the time holds up no frame, and takes the place of no other machine.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := &Wire{}
	tell := func(from string, n int) { w.keep(link.Arrival{From: from, Told: fmt.Append(nil, n)}) }
	for n := range 2 * maxTold {
		tell("loud", n)
	}
	tell("quiet", 0)
	var got string
	for n := range 3 {
		w.frame = &link.Arrival{From: "sender", Frame: []byte("x")}
		for range 2 {
			a, _ := w.pop()
			got += fmt.Sprintf("%s %s\n", a.From, a.Told)
			tell("loud", 1000+n)
		}
	}
	const want = "loud 511\nsender \nquiet 0\nsender \nloud 1001\nsender \n"
	if got != want {
		t.Errorf("handed out:\n%s\nwant\n%s", got, want)
	}
}
