package link

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
)

// Messages to an absent machine are collected in few frames, and those to one that keeps up do not wait. The clock is
// the test's.
func TestMessagesGatherForAMachineThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, a, b := two(t)
		a.retry, b.retry = 250*time.Millisecond, 250*time.Millisecond
		a.every, b.every = time.Hour, time.Hour
		a.start()
		var want []string
		send := func() (id string) {
			want = append(want, fmt.Sprint("message ", len(want)))
			id = a.send("b", "bob", want[len(want)-1])
			time.Sleep(40 * time.Millisecond)
			return id
		}
		for range 50 {
			send()
		}
		if n := len(h.frames("b")); n > 20 {
			t.Errorf("50 messages in 2 s are in %d frames for a machine that is away", n)
		}
		ids := make([]string, 150)
		for i := range ids {
			want = append(want, fmt.Sprint("message ", len(want)))
			ids[i] = a.send("b", "bob", want[len(want)-1])
		}
		time.Sleep(300 * time.Millisecond)
		for _, id := range ids {
			if a.stage(id) == ledger.StageQueued {
				t.Fatal("full frames wait for more")
			}
		}
		b.start()
		time.Sleep(time.Minute) // until everything is confirmed
		b.wantTexts(t, want...)
		for range 20 {
			if id := send(); a.stage(id) == ledger.StageQueued {
				t.Fatalf("message %d, to a machine that keeps up, is not at the hub after 40 ms", len(want)-1)
			}
		}
		time.Sleep(time.Minute)
		b.wantTexts(t, want...)
	})
}
