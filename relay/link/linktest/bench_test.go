package linktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/teams/teamstest"
)

// pair is a hub and the machines a and b, all in this process.
type pair struct {
	testing.TB
	links   map[string]*link.Link
	ledgers map[string]*ledger.Ledger
	arrived chan struct{} // at b
	changed chan struct{} // at a
	stop    func()
}

func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{t, map[string]*link.Link{}, map[string]*ledger.Ledger{}, make(chan struct{}, 20_000), make(chan struct{}, 1), nil}
	b := &bed{TB: t, dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		for _, lg := range p.ledgers {
			lg.Close()
		}
	})
	t.Cleanup(func() { p.stop() })
	keys := map[string]*nats.Key{}
	for _, m := range []string{"a", "b"} {
		var err error
		keys[m], err = nats.NewKey()
		b.must(err)
		b.must(hub.Add(ctx, b.path("hub"), keys[m].Card(m), hub.AddOptions{}))
	}
	h, err := hub.Open(ctx, hub.Options{Dir: b.path("hub"), Listen: "127.0.0.1:0"})
	b.must(err)
	running.Go(func() { h.Run(ctx) })
	for _, m := range []string{"a", "b"} {
		lg, err := ledger.Open(ctx, b.path(m, "ledger.db"))
		b.must(err)
		b.must(lg.SetLink(ctx, ledger.Link{Name: m}))
		b.must(lg.AddMachine(ctx, peerOf(m), keys[peerOf(m)].Card(peerOf(m)).String(), false))
		self, _, err := lg.Link(ctx)
		b.must(err)
		wire, err := nats.Dial(ctx, nats.Options{Name: m, Key: keys[m], Hub: "nats://" + h.Addr().String(), Card: func(peer string) (nats.Card, bool) {
			return keys[peer].Card(peer), true
		}})
		b.must(err)
		p.ledgers[m] = lg
		p.links[m] = link.New(link.Options{
			Root: root, Self: self, Ledger: lg, Wire: wire, Warn: func(err error) { t.Log(m, err) },
			Deliver: func(_ context.Context, in link.Message) (ledger.Incoming, error) {
				p.arrived <- struct{}{}
				out := in.Incoming
				out.Stage, out.Root, out.Recipient = ledger.StageVerified, root, in.Member
				return out, nil
			},
			Changed: func() {
				if m == "a" {
					select {
					case p.changed <- struct{}{}:
					default:
					}
				}
			},
		})
		running.Go(func() {
			if err := p.links[m].Run(ctx); err != nil {
				t.Error(err)
			}
			wire.Close()
		})
	}
	p.send(0) // everything is connected
	<-p.arrived
	return p
}

// send puts message i into the outbox of a.
func (p *pair) send(i int) {
	o, digest := outgoing("b", i)
	if _, _, err := p.ledgers["a"].AddOutgoing(p.Context(), o, digest); err != nil {
		p.Fatal(err)
	}
	p.links["a"].Poke()
}

// From the call that sends a message until it is recorded in the ledger of the other machine, and
// handed over there.
func BenchmarkLatency(b *testing.B) {
	p := newPair(b)
	var list []time.Duration
	disk, inbox := teamstest.NewDisk(b), filepath.Join(b.TempDir(), "empty")
	if err := os.WriteFile(inbox, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	for i := 1; b.Loop(); i++ {
		begun := time.Now()
		p.send(i)
		<-p.arrived
		list = append(list, time.Since(begun))
		disk.Commit(inbox)
	}
	teamstest.ReportTimes(b, "", list)
	disk.Report(b)
	b.ReportMetric(0, "ns/op")
}

// Messages that are put into the outbox at once: how many a second are recorded in the ledger of the
// other machine, handed over there, and confirmed at the sender.
func BenchmarkBulk(b *testing.B) {
	const n = 5000
	var recorded, confirmed time.Duration
	for b.Loop() {
		p := newPair(b)
		list, ids := make([]ledger.Outgoing, n), make([]string, n)
		for i := range list {
			list[i], _ = outgoing("b", i+1)
			list[i].Person, list[i].Key, list[i].Occurrence = false, list[i].ID, 1 // a row, of which one commit can have many
			list[i].Raw = fmt.Appendf(nil, `{"text":%q}`, list[i].Raw)
			ids[i] = list[i].UUID
		}
		if err := p.ledgers["a"].ClaimOutgoing(b.Context(), list...); err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if err := p.ledgers["a"].Mark(b.Context(), ids...); err != nil { // which lets them go
			b.Fatal(err)
		}
		p.links["a"].Poke()
		for range n {
			<-p.arrived
		}
		recorded += time.Since(begun)
		for {
			open, err := p.ledgers["a"].OpenOutgoing(b.Context(), "b", 0, 2*n)
			if err != nil {
				b.Fatal(err)
			}
			if !slices.ContainsFunc(open, func(o ledger.Outgoing) bool { return o.Stage != ledger.StageVerified }) && len(open) == n+1 {
				break
			}
			<-p.changed
		}
		confirmed += time.Since(begun)
		p.stop()
	}
	b.ReportMetric(float64(n*b.N)/recorded.Seconds(), "recorded/s")
	b.ReportMetric(float64(n*b.N)/confirmed.Seconds(), "confirmed/s")
	b.ReportMetric(0, "ns/op")
}

// A hub that does nothing.
func BenchmarkIdleHub(b *testing.B) {
	bed := newBed(b, false)
	bed.startMachine("a")
	bed.startMachine("b")
	for b.Loop() {
		time.Sleep(3 * time.Second)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", bed.procs["hub"].PID()))
	if err != nil {
		b.Skip("reads the memory of a process in /proc: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(text)[0])
			bed.must(err)
			b.ReportMetric(float64(kib)/1024, "MiB")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// The same between processes in networks of their own, each message sent when the last one has had
// its time.
func BenchmarkLatencyBetweenNetworks(b *testing.B) {
	needNamespaces(b)
	bed := newBed(b, true)
	bed.startMachine("a")
	bed.startMachine("b")
	sent := 0
	for b.Loop() {
		fmt.Fprintln(bed.procs["a"].stdin, 100)
		sent += 100
		bed.confirmed("a", sent)
	}
	teamstest.ReportTimes(b, "", bed.count("b", sent).latency)
	b.ReportMetric(0, "ns/op")
}

// From the end of a cut of 12 seconds, in which the connection was given up, until the next message
// is recorded.
func BenchmarkResume(b *testing.B) {
	needNamespaces(b)
	bed := newBed(b, true)
	bed.startMachine("a")
	bed.startMachine("b")
	var resumed time.Duration
	sent := 0
	for b.Loop() {
		for _, m := range []string{"a", "b"} {
			bed.cut(m, true)
			time.Sleep(6 * time.Second)
			fmt.Fprintln(bed.procs["a"].stdin, 1)
			time.Sleep(6 * time.Second)
			bed.heal(m)
			begun := time.Now()
			sent++
			bed.confirmed("a", sent)
			resumed = max(resumed, time.Since(begun))
		}
	}
	b.ReportMetric(resumed.Seconds(), "max-s")
	b.ReportMetric(0, "ns/op")
}
