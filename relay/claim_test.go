package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claim"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/lockedfile"
)

// hooked makes the relay's locks call before at each step.
func (s *station) hooked(before func(lockedfile.Step)) {
	s.locker = lockedfile.New(lockedfile.Options{Dir: filepath.Join(s.dir, "state", "locks"), Hold: time.Minute, Before: before})
}

// overwrite gives the inbox this content, by rename and without the lock.
func (s *station) overwrite(content []byte) {
	s.t.Helper()
	path := s.agent().path
	if err := errors.Join(os.WriteFile(path+".tmp", content, 0o600), os.Rename(path+".tmp", path)); err != nil {
		s.t.Error(err)
	}
}

func (s *station) inbox() []byte {
	s.t.Helper()
	data, err := os.ReadFile(s.agent().path)
	if err != nil {
		s.t.Error(err)
	}
	return data
}

// The ledger is not used while Claude's lock on the inbox is held: not to claim, not when
// rows come or go before the lock is taken, not to remove finished rows, not when the lock
// is lost.
func TestLedgerIsNotUsedUnderTheLock(t *testing.T) {
	t.Parallel()
	const rows = 2*(claim.KeptRows+claim.KeptRows/2) + 10
	s := newStation(t, simchild.Script{})
	lock := s.agent().path + ".lock"
	var texts []string
	for i := range rows {
		texts = append(texts, fmt.Sprintf("[m-%03d]", i))
	}
	s.agent().write(texts...)
	edits := 0
	s.hooked(func(step lockedfile.Step) {
		switch {
		case step == lockedfile.StepLock:
			edits++
			if edits == 2 {
				s.overwrite([]byte(strings.Replace(string(s.inbox()), `"text": "[m-`+"080", `"text": "[changed] [m-080`, 1)))
			}
		case step == lockedfile.StepFence && edits == 3:
			edits++
			if err := os.Remove(lock); err != nil {
				t.Error(err)
			}
		}
	})
	r := s.newRelay(s.options())
	r.ledger = stepStore{store: storeOf(s.ledger), before: func(call string) error {
		if _, err := os.Lstat(lock); err == nil {
			t.Errorf("%s was called while the lock of the inbox was held", call)
		}
		return nil
	}}
	stop := s.run(r)
	s.drained()
	stop()
	counts := s.works(texts...)
	for _, text := range texts {
		if counts[text] != 1 {
			t.Errorf("%s was worked on %d times", text, counts[text])
		}
	}
	if left := strings.Count(string(s.inbox()), inbox.RelayedBy); left >= rows || edits < 4 {
		t.Errorf("%d rows are left after %d edits; nothing was removed", left, edits)
	}
}

// A program writes back rows that it read before they were taken, or a row comes again
// with another time. A delivered row with an id of its own is marked and not delivered
// again; a row with another text is another message.
func TestRowsWrittenBack(t *testing.T) {
	t.Parallel()
	row := func(text, id, at string) string {
		return `{"from":"worker","text":"` + text + `","timestamp":"` + at + `",` + id + `"read":false}`
	}
	const early, late = "2026-11-20T12:00:00.000Z", "2026-11-20T13:00:00.000Z"
	one, two := `"messageId":"one",`, `"msg_id":"two",`
	for name, tc := range map[string]struct {
		then, back string
		want       int
	}{
		"as it was":            {row("[m]", one, early), row("[m]", one, early), 1},
		"with a msg_id":        {row("[m]", two, early), row("[m]", two, early), 1},
		"with another time":    {row("[m]", one, early), row("[m]", one, late), 1},
		"another text":         {row("[m]", one, early), row("[m] again", one, early), 2},
		"without an id":        {row("[m]", "", early), row("[m]", "", early), 2},
		"two of it at a time":  {row("[m]", one, early) + "," + row("[m]", one, early), "", 1},
		"both, without an id":  {row("[m]", "", early) + "," + row("[m]", "", early), "", 2},
		"twice, and one comes": {row("[m]", one, early), row("[m]", one, early) + "," + row("[n]", two, early), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			s.overwrite([]byte("[" + tc.then + "]"))
			_, stop := s.relay(s.options())
			s.settled(1)
			s.drainedWrites()
			if tc.back != "" {
				s.overwrite([]byte("[" + tc.back + "]"))
				s.drainedWrites()
			}
			stop()
			if n := s.works("[m]")["[m]"]; n != tc.want {
				t.Errorf("worked on %d times, want %d", n, tc.want)
			}
			for _, by := range strings.Split(string(s.inbox()), "},{") {
				if !strings.Contains(by, `"read":true`) || !strings.Contains(by, inbox.RelayedBy) {
					t.Errorf("a row is not marked: %s", by)
				}
			}
		})
	}
}

// drainedWrites waits until all rows are marked and all deliveries have ended.
func (s *station) drainedWrites() {
	s.t.Helper()
	s.await("all is done", func() bool {
		if strings.Contains(string(s.inbox()), `"read":false`) {
			return false
		}
		all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Team: "demo"})
		for _, d := range all {
			if !d.State.Ended() {
				return false
			}
		}
		return err == nil
	})
}

// If the relay is stopped right after rows were marked in the file, that is recorded
// anyway, and the claimed rows are delivered, even if they have since been removed as
// read rows.
func TestEndedBetweenMarkAndRecord(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := s.newRelay(s.options())
	r.at = func(now moment) {
		if now == claimed {
			cancel()
		}
	}
	s.send("[m-0]")
	must(t, r.Run(ctx))
	s.overwrite([]byte("[]"))
	_, stop := s.relay(s.options())
	if all := s.settled(1); all[0].State != ledger.Done {
		t.Errorf("the delivery is %s (%s)", all[0].State, all[0].Reason)
	}
	stop()
	if n := s.works("[m-0]")["[m-0]"]; n != 1 {
		t.Errorf("worked on %d times", n)
	}
}

// An earlier relay claimed a row, and may not have marked it: the row proves its state. If
// the row is gone, the state is unknown, and a person can have the message delivered.
func TestClaimedAndNotMarked(t *testing.T) {
	t.Parallel()
	const row = `{"from":"worker","text":"[m]","timestamp":"2026-11-20T12:00:00.000Z","messageId":"one"`
	const ours = "16282682-4f14-56d7-a042-0fabacee5ec5"
	for name, tc := range map[string]struct {
		now   string
		state ledger.DeliveryState
	}{
		"unread":              {row + `,"read":false}`, ledger.Done},
		"read with our key":   {row + `,"read":true,"relayedBy":"` + ours + `"}`, ledger.Done},
		"read by another":     {row + `,"read":true}`, ledger.TakenByAgent},
		"gone":                {"", ledger.Failed},
		"gone, others remain": {`{"from":"worker","text":"[n]","timestamp":"x","read":true}`, ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			r := s.newRelay(s.options())
			rows, err := inbox.Parse([]byte("[" + row + "}]"))
			must(t, err)
			if err := s.ledger.Deliveries.Claim(t.Context(), ledger.Delivery{
				UUID: ours, InboxKey: r.post, Key: rows[0].Key(), Occurrence: 1, ID: "one", From: "worker", Kind: "message", Raw: rows[0].Raw,
			}); err != nil {
				t.Fatal(err)
			}
			s.overwrite([]byte("[" + tc.now + "]"))
			_, stop := s.relay(s.options())
			all := s.settled(1)
			if len(all) != 1 || all[0].State != tc.state {
				t.Fatalf("got %+v, want it %s", all, tc.state)
			}
			want := 0
			if tc.state == ledger.Done {
				want = 1
			}
			if tc.state == ledger.Failed {
				if !strings.HasPrefix(all[0].Reason, "unknown: ") {
					t.Errorf("reason %q", all[0].Reason)
				}
				must(t, s.ledger.Deliveries.Retry(t.Context(), ours))
				s.await("it is delivered", func() bool { return s.saying(s.ledger, "[m]").State == ledger.Done })
				want = 1
			}
			stop()
			if n := s.works("[m]")["[m]"]; n != want {
				t.Errorf("worked on %d times, want %d", n, want)
			}
		})
	}
}

// The row of a delivery that may not be marked is found behind more unread rows than are
// claimed at once, so that the delivery does not count as lost.
func TestMarkedBehindMoreThanIsClaimed(t *testing.T) {
	t.Parallel()
	const ours = "16282682-4f14-56d7-a042-0fabacee5ec5"
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	var list []string
	for i := range MaxAhead + 6 {
		list = append(list, fmt.Sprintf(`{"from":"worker","text":"[n-%d]","timestamp":"2026-11-20T12:00:00.000Z","read":false}`, i))
	}
	list = append(list, `{"from":"worker","text":"[m]","timestamp":"2026-11-20T12:00:00.000Z","read":true,"relayedBy":"`+ours+`"}`)
	data := "[" + strings.Join(list, ",") + "]"
	rows, err := inbox.Parse([]byte(data))
	must(t, err)
	last := rows[len(rows)-1]
	if err := s.ledger.Deliveries.Claim(t.Context(), ledger.Delivery{
		UUID: ours, InboxKey: r.post, Key: last.Key(), Occurrence: 1, ID: last.ID(), From: "worker", Kind: "message", Raw: last.Raw,
	}); err != nil {
		t.Fatal(err)
	}
	s.overwrite([]byte(data))
	_, stop := s.relay(s.options())
	s.done(len(rows))
	stop()
}

// A row that its agent or a person takes between the plan and the lock was never marked, so
// it is not delivered, and its state is certain.
func TestRowTakenBeforeTheLock(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"removed": "[]", "marked": `"read": true`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			var once sync.Once
			s.agent().write("[m-0]")
			s.hooked(func(step lockedfile.Step) {
				if step != lockedfile.StepLock {
					return
				}
				once.Do(func() {
					if name == "marked" {
						after = strings.Replace(string(s.inbox()), `"read": false`, after, 1)
					}
					s.overwrite([]byte(after))
				})
			})
			_, stop := s.relay(s.options())
			if all := s.settled(1); all[0].State != ledger.TakenByAgent {
				t.Errorf("the delivery is %s (%s), want taken_by_agent", all[0].State, all[0].Reason)
			}
			stop()
			if n := s.works("[m-0]")["[m-0]"]; n != 0 {
				t.Errorf("worked on %d times", n)
			}
		})
	}
}
