package linktest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
		b.must(lg.Links.SetLink(ctx, ledger.Link{Name: m}))
		b.must(lg.Links.AddMachine(ctx, peerOf(m), keys[peerOf(m)].Card(peerOf(m)).String(), false))
		self, _, err := lg.Links.Link(ctx)
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
	if _, _, err := p.ledgers["a"].Outbox.Add(p.Context(), o, digest); err != nil {
		p.Fatal(err)
	}
	p.links["a"].Poke()
}

// BenchmarkLatency measures the time from the call that sends a message until it is recorded in the
// ledger of the other machine, and handed over there.
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

// BenchmarkManyMachines measures the cost of an idle machine for the hub, a process of its own, while that many
// machines are connected, each linked with one other: memory, processor time, and bytes read and written. "join-ms"
// is the time until one more machine can use the hub.
//
//	go test -run '^$' -bench ManyMachines -benchtime 60x ./relay/link/linktest
//
// An iteration is a second.
func BenchmarkManyMachines(b *testing.B) {
	for _, machines := range []int{100, 1000} {
		b.Run(fmt.Sprint(machines), func(b *testing.B) {
			bed := newBed(b, false)
			pid := bed.procs["hub"].PID()
			alone := procKiB(b, pid)
			keys := make([]*nats.Key, machines)
			cards := map[string]nats.Card{}
			name := func(i int) string { return fmt.Sprintf("m%d", i%machines) }
			var joined time.Duration
			for i := range keys {
				var err error
				keys[i], err = nats.NewKey()
				bed.must(err)
				cards[name(i)] = keys[i].Card(name(i))
				begun := time.Now()
				bed.must(hub.Add(b.Context(), bed.path("hub"), cards[name(i)], hub.AddOptions{}))
				joined += time.Since(begun)
			}
			at, err := os.ReadFile(bed.path("listen"))
			bed.must(err)
			dial := func(i int) *nats.Wire {
				w, err := nats.Dial(b.Context(), nats.Options{Name: name(i), Key: keys[i], Hub: "tls://" + string(at), Fingerprint: bed.fingerprint,
					Card: func(peer string) (nats.Card, bool) { card, ok := cards[peer]; return card, ok }})
				bed.must(err)
				return w
			}
			wires := make([]*nats.Wire, machines)
			for i := range wires {
				wires[i] = dial(i)
				defer wires[i].Close()
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for _, w := range wires {
				for !w.State().Connected {
					<-tick.C
				}
			}
			before, read, began := processorTimeOf(b, pid), bytesOf(b, pid), time.Now()
			second := 0
			presence := make([]byte, 300) // the size of one with a team of four
			for b.Loop() {
				for i := second % 15; i < machines; i += 15 { // each every 15 s, as a link does
					bed.must(wires[i].Tell(b.Context(), name(i), presence))
					bed.must(wires[i].Tell(b.Context(), name(i+1), presence))
				}
				second++
				<-tick.C
			}
			took := time.Since(began)
			b.ReportMetric(100*(processorTimeOf(b, pid)-before).Seconds()/took.Seconds(), "%core")
			b.ReportMetric(float64(bytesOf(b, pid)-read)/1024/float64(machines)/took.Minutes(), "KiB/machine/min")
			b.ReportMetric(float64(procKiB(b, pid)-alone)/float64(machines), "KiB/machine")
			b.ReportMetric(float64(joined.Milliseconds())/float64(machines), "join-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// procKiB returns the resident memory of a process.
func procKiB(b *testing.B, pid int) int {
	b.Helper()
	return procNumber(b, pid, "status", "VmRSS:")
}

// bytesOf returns how many bytes a process has read and written.
func bytesOf(b *testing.B, pid int) int {
	b.Helper()
	return procNumber(b, pid, "io", "rchar:") + procNumber(b, pid, "io", "wchar:")
}

// procNumber returns the number in a file of /proc after a word at the start of a line.
func procNumber(b *testing.B, pid int, file, word string) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Skip("reads /proc: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("%s of process %d has no %s", file, pid, word)
	return 0
}

// processorTimeOf returns the processor time of a process.
func processorTimeOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("reads /proc: ", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks time.Duration
	for _, i := range []int{11, 12} { // utime and stime
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			b.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}
