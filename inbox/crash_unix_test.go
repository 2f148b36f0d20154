//go:build unix

package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams/lockedfile"
)

// A sender is killed at each point of an append. If the message is sent again under its id, it is there once. If an
// agent took rows in between, the message is known to be sent, or its state is unknown, and it is never there twice.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, pt := range []struct {
		at       string
		intended bool // whether the memory has the intent by then
		written  bool // whether the row is in the file by then
		known    bool // whether the memory has recorded that the row is written
	}{
		{at: "recall before"},
		{at: "recall after"},
		{at: string(lockedfile.StepRead)},
		{at: "intend before"},
		{at: "intend after", intended: true},
		{at: string(lockedfile.StepWrite), intended: true},
		{at: string(lockedfile.StepFlush), intended: true},
		{at: string(lockedfile.StepLock), intended: true},
		{at: string(lockedfile.StepFence), intended: true},
		{at: string(lockedfile.StepRename), intended: true},
		{at: string(lockedfile.StepReadBack), intended: true, written: true},
		{at: string(lockedfile.StepUnlock), intended: true, written: true},
		{at: "written before", intended: true, written: true},
		{at: "written after", intended: true, written: true, known: true},
		{at: "withdraw before", intended: true},
		{at: "withdraw after"},
	} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken %v", pt.at, taken), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.write([]byte(foreign))
				killtest.Killed(t, killtest.KillAt(p.sender(job{Prefix: "m", Count: 1, Break: strings.HasPrefix(pt.at, "withdraw")}), pt.at))
				p.wantForeign(p.content())
				if got := p.count("m-0") == 1; got != pt.written {
					t.Errorf("row in the file: %v, want %v", got, pt.written)
				}
				p.age()

				var seen int // how often the agent got the message
				var agent *simagent.Agent
				wantErr, dedup := error(nil), pt.written
				if taken {
					// Another message, so that there is always a row to take.
					if _, err := p.agent("bob", 0).Send(t.Context(), simagent.Message{To: "alice", Text: "other"}); err != nil {
						t.Fatal(err)
					}
					agent = p.agent("alice", time.Millisecond)
					p.drain(agent)
					seen = times(agent, "m-0")
					dedup = pt.known
					if pt.intended && !pt.known {
						wantErr = inbox.ErrUnknown
					}
				}
				r, err := p.open(lockedfile.Options{}).Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
				if !errors.Is(err, wantErr) || r.Deduplicated != dedup {
					t.Errorf("sent again: %+v, %v; want deduplicated %v, error %v", r, err, dedup, wantErr)
				}
				wantN := 1
				if wantErr != nil && !pt.written {
					wantN = 0 // an unknown message is not sent again
				}
				if n := p.count("m-0") + seen; n != wantN {
					t.Errorf("%d times there, want %d", n, wantN)
				}
				if _, err := os.Lstat(p.lock()); err == nil && !taken && pt.written && wantErr == nil {
					// Nothing had to be written, so the dead sender's lock was not taken over. Agents do that.
					p.wantNames("alice.json", "alice.json.lock")
				} else {
					p.wantNames("alice.json")
				}
				if !taken {
					p.wantForeign(p.content())
				}
			})
		}
	}
}

// times returns how often an agent took a text.
func times(a *simagent.Agent, text string) (n int) {
	for _, row := range a.Log() {
		if row.Text == text {
			n++
		}
	}
	return n
}

// drain lets an agent take all rows of its inbox, while no process writes.
func (p *place) drain(a *simagent.Agent) {
	p.t.Helper()
	n := len(a.Log())
	for _, row := range p.rows() {
		if !row.Read {
			n++
		}
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			p.t.Errorf("agent: %v", err)
		}
	})
	limit, stop := context.WithTimeout(ctx, 2*time.Minute)
	if _, err := a.Wait(limit, n); err != nil {
		p.t.Error(err)
	}
	stop()
	cancel()
	running.Wait()
}

// A sender that appends in a loop is killed at random instants, again and again. No message is there twice, no
// message that it reported as sent is missing, and the message that was interrupted can be sent again. With an agent
// that takes rows in between, the state of that one may be unknown instead. 200 kills take half a minute:
//
//	INBOX_TEST_ROUNDS=200 go test -run KilledAtRandomInstants -v ./inbox
func TestKilledAtRandomInstants(t *testing.T) {
	t.Parallel()
	for _, agent := range []bool{false, true} {
		t.Run(fmt.Sprintf("agent %v", agent), func(t *testing.T) {
			t.Parallel()
			killOften(t, killtest.Rounds(t, envRounds, 8), agent)
		})
	}
}

func killOften(t *testing.T, kills int, withAgent bool) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	p := newPlace(t)
	p.write([]byte(foreign))
	agent := p.agent("alice", 2*time.Millisecond)
	var ids []string
	unknown := map[string]bool{}
	locks, resent := 0, 0
	for k := range kills {
		j := job{Prefix: fmt.Sprintf("k%d", k), Count: 1 << 20}
		said := p.killed(t, j, time.Duration(random.Int64N(int64(25*time.Millisecond))), withAgent, agent)
		for i, l := range said {
			// A sender waits for locks that an agent holds, and does not fail because of them.
			if want := fmt.Sprintf("sent %s-%d", j.Prefix, i); l != want {
				t.Fatalf("kill %d: sender printed %q, want %q", k, l, want)
			}
			ids = append(ids, strings.TrimPrefix(l, "sent "))
		}
		if _, err := os.Lstat(p.lock()); err == nil {
			locks++
		}
		p.age()
		if !withAgent {
			p.wantForeign(p.content())
		} else if random.IntN(2) == 0 {
			p.drain(agent)
		}
		// The message that was interrupted, or the next one.
		at := numbered(j.Prefix, len(said))
		r, err := p.open(lockedfile.Options{}).Append(t.Context(), at, inbox.AppendOptions{Memory: p.memory()})
		switch {
		case withAgent && errors.Is(err, inbox.ErrUnknown):
			unknown[at.ID] = true
		case err != nil:
			t.Fatalf("kill %d: %s sent again: %v", k, at.ID, err)
		case r.Deduplicated:
			resent++
		}
		ids = append(ids, at.ID)
		if withAgent {
			p.drain(agent)
		}
	}
	// A message that is refused as unknown takes no lock, so the lock of the killed sender remains. The next message
	// takes it over.
	last := numbered("last", 0)
	if _, err := p.open(lockedfile.Options{}).Append(t.Context(), last, inbox.AppendOptions{Memory: p.memory()}); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, last.ID)
	p.wantNames("alice.json")
	seen := map[string]int{}
	for _, row := range agent.Log() {
		seen[row.Text]++
	}
	for _, row := range p.rows() {
		if !row.Read {
			seen[row.Text]++
		}
	}
	lost := 0
	for _, id := range ids {
		switch n := seen[id]; {
		case unknown[id] && n == 0:
			lost++
		case n != 1:
			t.Errorf("%s is there %d times", id, n)
		}
		delete(seen, id)
	}
	if len(seen) != 0 {
		t.Errorf("there are messages that were never sent: %v", seen)
	}
	t.Logf("agent %v: %d kills, %d messages; %d kills left a lock, %d had written what they were at; unknown %d, of which %d not sent",
		withAgent, kills, len(ids), locks, resent, len(unknown), lost)
}

// killed starts a sender, kills it that long after its first line, and returns the lines it printed. An agent, if
// there is one, takes rows while the sender lives.
func (p *place) killed(t *testing.T, j job, after time.Duration, withAgent bool, agent *simagent.Agent) []string {
	t.Helper()
	sender := killtest.Start(t, p.sender(j))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	if withAgent {
		running.Go(func() {
			if err := agent.Run(ctx); err != nil {
				t.Errorf("agent: %v", err)
			}
		})
	}
	said := []string{sender.Line()}
	<-time.After(after) // the random instant
	said = append(said, sender.Kill()...)
	// The agent may wait for the lock that the dead sender left; it gives up.
	stop()
	running.Wait()
	return said
}
