package interop

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// With --idle-reports result, repeated reports that a member is idle start no turn of a real headless lead, and its
// model is not called. A later message reaches it once.
func TestRealIdleReportsStartNoTurn(t *testing.T) {
	t.Parallel()
	const reports = 60
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		ctx := deadline(t, patience)
		h := newHeadless(t, v, nil)
		h.start("--idle-reports", "result")
		h.up()
		root, err := teams.Open(h.home.Root)
		must(t, err)
		defer root.Close()
		team, err := root.Team("mine")
		must(t, err)
		defer team.Close()
		c, err := team.Config(ctx)
		must(t, err)
		lead, _ := c.Lead()
		box, err := inbox.Open(team, lead.Name, lockedfile.New(lockedfile.Options{Dir: filepath.Join(h.state, "locks"), Wait: time.Minute}))
		must(t, err)
		for n := range reports {
			summary := ""
			if n%2 == 1 {
				summary = fmt.Sprintf(`,"summary":"[to tester] idle again %d"`, n)
			}
			text := fmt.Sprintf(`{"type":"idle_notification","from":"worker","timestamp":%q,"idleReason":"available"%s}`, time.Now().UTC().Format(time.RFC3339Nano), summary)
			if _, err := box.Append(ctx, inbox.Message{From: "worker", Text: text, Own: true}, inbox.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		h.must("send", "lead@mine", "<m-1> go on")
		h.given("<m-1>")
		h.finish()
		turns := 0
		for _, r := range h.asked() {
			turns += min(1, len(r.Deliveries()))
			for _, d := range r.Deliveries() {
				if !strings.Contains(d.Body, "<m-1>") {
					t.Errorf("the model was given %.200q", d.Body)
				}
			}
			if strings.Contains(r.Text(), "idle") {
				t.Errorf("the model was asked %.200q", r.Text())
			}
		}
		if n := h.home.API.Counts(standin.Any, relayed())["<m-1>"]; turns != 1 || n != 1 {
			t.Errorf("%d turns, the message %d times; want one of each\n%s", turns, n, h)
		}
		list := decoded[[]api.Delivery](t, h.must("relay", "list", "--all", "--json"))
		skipped := len(slices.DeleteFunc(list, func(d api.Delivery) bool { return d.State != string(ledger.Skipped) }))
		t.Logf("%d reports skipped, %d requests to the model", skipped, len(h.asked()))
		if skipped != reports {
			t.Errorf("%d were skipped, want %d", skipped, reports)
		}
	})
}
