package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
)

// idleReport returns the report of an agent that has become idle.
func idleReport(from, more string) string {
	return fmt.Sprintf(`{"type":"idle_notification","from":%q,"idleReason":"available"%s}`, from, more)
}

// fates returns the states of the deliveries to a member, with the reason of skipped ones, in the order of claiming.
func (s *station) fates(member string) (list []string) {
	s.t.Helper()
	all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Inbox: member})
	must(s.t, err)
	for _, d := range slices.Backward(all) {
		list = append(list, strings.TrimSuffix(string(d.State)+": "+d.Reason, ": "))
	}
	return list
}

// Repeated "idle" reports cause no turn of the lead, and messages after them arrive once. Reports with content, and
// unknown ones, always reach it.
func TestIdleReports(t *testing.T) {
	t.Parallel()
	const bare, summary = "skipped: an idle report that says nothing else", "skipped: an idle report without a result"
	rows := []string{
		idleReport("worker", ""), idleReport("worker", `,"summary":"[to helper] hello"`), idleReport("worker", `,"result":"[m-1]"`),
		`{"type":"idle_notification","from":"worker","idleReason":"failed","failureReason":"[m-2]"}`, `{"type":"idle_notification","from":"worker","idleReason":"later"}`,
		`{"type":"idle_notification","from":"worker"}`, `{"type":"brand_new"}`, `{"type":"shutdown_approved"}`, "[m-3]",
	}
	for which, want := range map[IdleReports][2]string{
		"": {bare, "done"}, IdleReportsWithContent: {bare, "done"}, IdleReportsOfResult: {bare, summary}, AllIdleReports: {"done", "done"},
	} {
		t.Run("which "+string(which), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			opts := s.options()
			opts.IdleReports = which
			s.writes("worker", "team-lead", rows...)
			_, stop := s.relay(opts)
			s.await("all is settled", func() bool {
				claimed := len(s.fates("team-lead")) == len(rows)
				n, err := s.ledger.Deliveries.OpenCount(context.Background(), inbox.KeyOf(s.team, s.config(), "team-lead"))
				return claimed && err == nil && n == 0
			})
			stop()
			all := []string{want[0], want[1], "done", "done", "done", "done", "done", "skipped: it confirms a shutdown", "done"}
			if got := s.fates("team-lead"); !slices.Equal(got, all) {
				t.Errorf("%q, want %q", got, all)
			}
			if left := s.unread("team-lead"); len(left) > 0 {
				t.Errorf("unread: %q", left)
			}
		})
	}
	t.Run("no turn", func(t *testing.T) {
		t.Parallel()
		s := newStation(t, simchild.Script{})
		opts := s.options()
		opts.IdleReports = IdleReportsOfResult
		_, stop := s.relay(opts)
		for n := range 40 {
			s.writes("worker", "team-lead", idleReport("worker", fmt.Sprintf(`,"n":%d`, n)))
		}
		s.await("all is skipped", func() bool { return len(s.fates("team-lead")) == 40 })
		s.writes("worker", "team-lead", "[m-1]")
		s.await("it is told", func() bool { return s.told("team-lead", "worker") == 1 })
		stop()
		if turns := s.turns(); len(turns) != 1 {
			t.Errorf("turns: %q, want one", turns)
		}
	})
}

// If a relay ends between any two steps of skipping a row, the next one skips the row or, with another setting,
// relays it: always one of the two, once.
func TestSkippedThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, next := range []IdleReports{IdleReportsOfResult, AllIdleReports} {
		for _, at := range []string{"claim", "mark", "record", "before settle", "settle"} {
			t.Run(at+", then "+string(next), func(t *testing.T) {
				t.Parallel()
				s := newStation(t, simchild.Script{})
				s.writes("worker", "team-lead", idleReport("worker", ""), idleReport("worker", ""), "[m-1]")
				opts := s.options()
				opts.IdleReports = IdleReportsOfResult
				ctx, crash := context.WithCancel(t.Context())
				r, err := New(ctx, opts)
				must(t, err)
				errCrash := errors.New("crashed here")
				crashAt := func(at string) func(string) error {
					return func(call string) error {
						if call == at {
							crash()
							return errCrash
						}
						return nil
					}
				}
				steps := stepStore{store: storeOf(s.ledger)}
				switch at {
				case "claim", "settle": // only the ledger has it
					steps.after = crashAt(at)
				case "mark", "before settle":
					steps.before = crashAt(strings.TrimPrefix(at, "before "))
				}
				r.ledger = steps
				if at == "record" {
					r.at = func(m moment) {
						if m == claimed {
							crash()
						}
					}
				}
				err = r.Run(ctx)
				if ctx.Err() == nil {
					t.Fatalf("it did not end there: %v", err)
				}
				was := s.fates("team-lead")

				opts.IdleReports = next
				_, stop := s.relay(opts)
				s.await("the message is told", func() bool {
					return s.told("team-lead", "worker") > 0 && !slices.Contains(s.fates("team-lead"), "claimed")
				})
				stop()
				skipped := "skipped: an idle report that says nothing else"
				want := []string{skipped, skipped, "done"}
				if next == AllIdleReports {
					want = []string{"done", "done", "done"}
					for i, fate := range was {
						if fate == skipped {
							want[i] = skipped
						}
					}
				}
				if got := s.fates("team-lead"); !slices.Equal(got, want) || len(s.unread("team-lead")) > 0 {
					t.Errorf("%q, want %q (%q before)", got, want, was)
				}
			})
		}
	}
}

// Skipped reports neither hide a loop nor count as one.
func TestSkippedIsNoExchange(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	c := &clock{now: time.Now()}
	opts := s.options()
	opts.Now = c.read
	n := 0
	opts.Events = func(e agent.Event) {
		if _, ok := e.Payload.(claude.Result); ok {
			n++
			c.pass(time.Second)
			s.writes("worker", "team-lead", fmt.Sprintf("USE:SendMessage {\"to\": \"worker\"}\n[m-%02d]", n), idleReport("worker", fmt.Sprintf(`,"n":%d`, n)))
		}
	}
	_, stop := s.relay(opts)
	s.writes("worker", "team-lead", "USE:SendMessage {\"to\": \"worker\"}\n[m-00]", idleReport("worker", ""))
	s.await("it is held", func() bool {
		held, err := s.ledger.Holds.Held(context.Background(), inbox.KeyOf(s.team, s.config(), "team-lead"))
		return err == nil && len(held) == 1
	})
	stop()
	if n := s.told("team-lead", "worker"); n < 15 || n > 20 {
		t.Errorf("%d messages were said, want about 20", n)
	}
}
