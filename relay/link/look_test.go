package link

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
)

// However many messages wait, those before them are followed, too.
func TestOldMessagesAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a, b := two(t)
		a.every, b.every = time.Hour, time.Hour
		b.page = 10
		taken := map[string]bool{} // by id; written while b does not look
		b.state = func(_ context.Context, in ledger.Incoming) (ledger.Incoming, error) {
			if taken[in.ID] {
				in.Stage = ledger.StageSeen
			}
			return in, nil
		}
		a.start()
		b.start()
		var ids []string
		for i := range 45 {
			ids = append(ids, a.send("b", "bob", fmt.Sprint("message ", i)))
		}
		time.Sleep(5 * time.Minute)
		b.stop()
		old := ids[:15]
		for _, id := range old {
			taken[id] = true
		}
		b.start()
		time.Sleep(10 * time.Minute)
		for i, id := range ids {
			want := ledger.StageVerified
			if slices.Contains(old, id) {
				want = ledger.StageSeen
			}
			if got := a.stage(id); got != want {
				t.Errorf("message %d is %s, want %s", i, got, want)
			}
		}
	})
}
