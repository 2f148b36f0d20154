package linktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
)

// No message is lost or delivered twice when networks are cut and processes are killed, and all are
// confirmed soon afterwards. Messages between two members arrive in order, unless the hub has lost
// its data.
//
// TEAMBRIDGE_LINK_MESSAGES and TEAMBRIDGE_LINK_SEED choose how many messages are sent, and what
// happens when.
func TestPartitionsAndKills(t *testing.T) {
	needNamespaces(t)
	messages, seed := number(t, "TEAMBRIDGE_LINK_MESSAGES", quick), uint64(number(t, "TEAMBRIDGE_LINK_SEED", int(time.Now().UnixNano()%1e6)))
	for _, wipe := range []bool{false, true} {
		name := "the hub keeps its data"
		if wipe {
			name = "the hub loses its data"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survive(t, messages, seed, wipe)
		})
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// quick is the default number of messages. Then only cables are cut, and the hub is killed.
const quick = 100

// survive lets each of two machines send the other n/2 messages while faults happen, and then
// counts. The number of sent messages serves as the clock.
func survive(t *testing.T, n int, seed uint64, wipe bool) {
	t.Logf("TEAMBRIDGE_LINK_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := newBed(t, true)
	b.startMachine("a")
	b.startMachine("b")

	const rate = 100 // of both machines together, in a second
	var sent atomic.Int64
	progress, all := make(chan struct{}, 1), make(chan struct{})
	var sending sync.WaitGroup
	for _, m := range []string{"a", "b"} {
		sending.Go(func() {
			b.ledger(m, func(lg *ledger.Ledger) {
				err := put(t.Context(), lg, peerOf(m), 0, n/2, rate/2, func() {
					sent.Add(1)
					select {
					case progress <- struct{}{}:
					default:
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	go func() {
		sending.Wait()
		close(all)
	}()
	// pass lets some messages be sent, and reports whether there are more to come.
	pass := func(from, to int) bool {
		for until := sent.Load() + int64(from+random.IntN(to-from)); sent.Load() < until; {
			select {
			case <-progress:
			case <-all:
				return false
			}
		}
		return true
	}
	pass(rate/4, rate)
	faults := map[string]int{}
	did := func(what string) { faults[what]++ }
	wiped := !wipe
	for more := true; more; {
		m := []string{"a", "b"}[random.IntN(2)]
		kinds := 8
		if n == quick {
			kinds = 5 // the hub waits for 10 s for a machine that was killed
		}
		switch random.IntN(kinds) {
		case 0, 1, 2:
			atHub := random.IntN(2) == 0
			b.cut(m, atHub)
			did("cuts")
			pass(rate/4, 4*rate)
			if n != quick && random.IntN(3) == 0 { // while the link is down
				b.kill(m)
				did("kills of a machine")
				pass(1, rate/2)
				b.startMachine(m)
			}
			b.heal(m)
		case 3, 4:
			b.kill("hub")
			did("kills of the hub")
			if !wiped && sent.Load() > int64(n)/3 {
				wiped = true
				b.must(os.RemoveAll(b.path("hub", "jetstream")))
				did("wipes of the hub")
			}
			pass(1, 2*rate)
			b.restartHub()
		case 5, 6:
			b.kill(m)
			did("kills of a machine")
			b.startMachine(m)
		case 7:
			b.kill(m)
			did("times that a machine was away")
			pass(2*rate, 5*rate)
			b.startMachine(m)
		}
		more = pass(rate/4, rate)
	}
	if !wiped {
		b.kill("hub")
		b.must(os.RemoveAll(b.path("hub", "jetstream")))
		did("wipes of the hub")
		b.restartHub()
	}
	over := time.Now()
	<-all
	b.confirmed("a", n/2)
	b.confirmed("b", n/2)
	confirmed := time.Since(over)

	var sum counts
	for _, m := range []string{"a", "b"} {
		c := b.count(m, n/2)
		sum.add(c)
		if c.lost+c.twice > 0 || c.overtaken > 0 && !wipe {
			t.Errorf("of %d messages to %s: %d lost, %d delivered twice, %d overtaken", n/2, m, c.lost, c.twice, c.overtaken)
		}
	}
	slices.Sort(sum.latency)
	at := func(p float64) time.Duration {
		return sum.latency[int(p*float64(len(sum.latency)-1))].Round(time.Millisecond)
	}
	var list []string
	for _, what := range []string{"cuts", "kills of the hub", "wipes of the hub", "kills of a machine", "times that a machine was away"} {
		list = append(list, fmt.Sprint(faults[what], " ", what))
	}
	t.Logf("%d messages; %s\nlost %d, on the wire again %d, handed over again %d, delivered twice %d, overtaken %d\np50 %v, p99 %v, max %v; all confirmed %v after the last fault",
		n, strings.Join(list, ", "), sum.lost, sum.wire, sum.handed, sum.twice, sum.overtaken, at(0.5), at(0.99), at(1), confirmed.Round(10*time.Millisecond))
}

// counts has the outcomes of the messages to a machine.
type counts struct {
	lost, twice, overtaken int
	wire, handed           int // more than once
	latency                []time.Duration
	passages               []passage
}

// passage is when a message was sent, and when it was recorded.
type passage struct{ sent, at time.Time }

func (c *counts) add(d counts) {
	c.lost, c.twice, c.overtaken, c.wire, c.handed = c.lost+d.lost, c.twice+d.twice, c.overtaken+d.overtaken, c.wire+d.wire, c.handed+d.handed
	c.latency = append(c.latency, d.latency...)
}

// count counts the deliveries of n messages to a machine.
func (b *bed) count(machine string, n int) (c counts) {
	b.Helper()
	b.witness(machine, func(r *recorder) {
		times, last := map[int]int{}, map[string]int{}
		b.must(r.db.Do(context.Background(), "count", func(conn *sqlite.Conn) (err error) {
			err = conn.Query(func(v sqlite.Row) {
				i, err := strconv.Atoi(v.Text(2)[:8])
				b.must(err)
				times[i]++
				pair := v.Text(0) + " to " + v.Text(1)
				if was, ok := last[pair]; ok && i < was {
					c.overtaken++
				}
				last[pair] = max(last[pair], i)
				c.passages = append(c.passages, passage{v.Time(3), v.Time(4)})
				c.latency = append(c.latency, time.Duration(v.Int(4)-v.Int(3))*time.Microsecond)
			}, "SELECT sender, member, text, sent, at FROM delivered ORDER BY n")
			if err != nil {
				return err
			}
			again := func(table string) int {
				more, e := conn.Number("SELECT coalesce(sum(times-1), 0) FROM " + table)
				b.must(e)
				return int(more)
			}
			c.wire, c.handed = again("came"), again("handed")
			return nil
		}))
		for i := range n {
			switch {
			case times[i] == 0:
				c.lost++
			case times[i] > 1:
				c.twice++
			}
		}
	})
	return c
}
