package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// toServe configures a process that serves. Its agents are simulated, by Script.
type toServe struct{ Root, State, Script string }

func serveForEver(o toServe) error {
	root, err := teams.Open(o.Root)
	if err != nil {
		return err
	}
	s, err := New(Options{
		Root: root, State: o.State, Env: append(os.Environ(), o.Script),
		Log:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Lock: teamstest.Patient,
	})
	if err != nil {
		return err
	}
	s.core.Tick, s.limits.handover = 50*time.Millisecond, time.Minute
	go func() {
		<-s.Ready()
		fmt.Println("ready")
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return s.Run(ctx)
}

// serve starts a service that runs as a process of its own.
func (h *headless) serve(t *testing.T) *killtest.Process {
	t.Helper()
	s := killtest.Start(t, killtest.Command(t.Context(), "service", toServe{h.Root.Path(), h.State, h.script.Env()}))
	s.Line() // ready
	return s
}

// A service is killed again and again, at any moment, while a person and teammates write to an agent. The agent
// gets each message once, and a reconnecting client sees each message, receipt and relay event once. The
// service is killed 4 times, or $SERVER_TEST_ROUNDS times.
//
// Not in parallel with other tests: its processes would slow them down.
func TestKilledAtRandomInstants(t *testing.T) {
	rounds := killtest.Rounds(t, "SERVER_TEST_ROUNDS", 4)
	const each = 8 // of each kind, a round
	h := newHeadless(t, simchild.Script{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*time.Minute+patience)
	defer cancel()
	socket := api.SocketPath(h.State, h.Root.Path())
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	s := h.serve(t)
	post := func(path, body, key string) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://teambridge"+path, strings.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		return res.StatusCode, data, err
	}
	if status, data, err := post("/v1/relays", fmt.Sprintf(`{"team": %q, "member": "lead", "command": [%q], "dir": %q}`, band, simchild.Program(), h.work), ""); status != http.StatusCreated {
		t.Fatalf("%d %s, %v", status, data, err)
	}

	var busy, speaking sync.WaitGroup
	defer busy.Wait()
	defer speaking.Wait()
	defer cancel()
	watcher := &watcher{seen: map[string]int{}, changed: make(chan struct{}, 1)}
	busy.Go(func() { watcher.run(ctx, client) })

	came := 0 // the number of the watcher's connections when the present service was started
	for round := range rounds {
		for round%2 == 0 && watcher.times() == came { // otherwise it may be killed before any event
			select {
			case <-watcher.changed:
			case <-ctx.Done():
				t.Fatalf("nobody could follow the events; round %d", round)
			}
		}
		speaking.Go(func() { // a person, who sends unanswered messages again
			for i := range each {
				name := fmt.Sprintf("p-%d-%d", round, i)
				for ctx.Err() == nil {
					status, data, err := post(path(band, "lead"), message(t, "SLEEP:0.01 ["+name+"]", ""), name)
					if err != nil {
						<-time.After(time.Millisecond) // there is no service now
						continue
					}
					// Never as a row, however early after a kill.
					if status != http.StatusCreated && status != http.StatusOK || !strings.Contains(string(data), `"delivery":`) {
						t.Errorf("%s: %d %s", name, status, data)
					}
					break
				}
			}
		})
		speaking.Go(func() {
			for i := range each {
				h.Send(band, "drums", "team-lead", fmt.Sprintf("SLEEP:0.01 [r-%d-%d]", round, i))
			}
		})
		<-time.After(time.Duration(rand.Int64N(int64(250 * time.Millisecond))))
		s.Kill()
		came = watcher.times()
		s = h.serve(t)
		speaking.Wait()
	}

	// All messages have a final state.
	l, err := ledger.Open(ctx, filepath.Join(h.State, "ledger.db"))
	must(t, err)
	defer l.Close()
	j, err := journal.Open(ctx, filepath.Join(h.State, "journal.db"))
	must(t, err)
	defer j.Close()
	want := 2 * each * rounds
	for {
		all, err := l.Deliveries.List(ctx, ledger.DeliveryQuery{})
		must(t, err)
		ended := 0
		for _, d := range all {
			if d.State.Ended() {
				ended++
			}
			if d.State.Ended() && d.State != ledger.Done {
				t.Errorf("%s is %s: %s", d.ID, d.State, d.Reason)
			}
		}
		if ended == want && len(all) == want {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d have ended, of %d", ended, want, len(all))
		case <-time.After(10 * time.Millisecond):
		}
	}
	works, err := simchild.Works(h.script.State)
	must(t, err)
	var sent, done []string
	for round := range rounds {
		for i := range each {
			for _, kind := range []string{"p", "r"} {
				mark := fmt.Sprintf("[%s-%d-%d]", kind, round, i)
				sent = append(sent, mark)
				for text, times := range works {
					done = append(done, slices.Repeat([]string{mark}, times*strings.Count(text, mark))...)
				}
			}
		}
	}
	killtest.Once(t, sent, done)

	// And the client has seen all events.
	var last []journal.Change
	turns := map[string]int{} // the envelopes of each turn, by kind
	missing := func() (missed []string) {
		if last, err = j.Messages.Changes(ctx, 0, 1<<20); err != nil {
			t.Fatal(err)
		}
		consumed, done := 0, 0
		clear(turns)
		for _, c := range last {
			var name string
			switch c.Kind {
			case journal.Receipted:
				if name = api.EventReceipt; c.Receipt.State == inbox.Consumed {
					consumed++
				}
			case journal.Relaying:
				if name = api.EventRelay; c.RelayEvent.State == string(ledger.Done) {
					done++
				}
			case journal.Said:
				name = api.EventEnvelope
				turns[c.Envelope.Kind+" "+c.Envelope.Turn]++
			default:
				name = api.EventMessage
			}
			if key := name + " " + strconv.FormatInt(c.Seq, 10); !watcher.has(key) {
				missed = append(missed, key)
			}
		}
		began := 0
		for key, n := range turns {
			if turn, ok := strings.CutPrefix(key, "turn-start "); ok {
				if began++; n != 1 || turns["turn-end "+turn] != 1 {
					missed = append(missed, fmt.Sprintf("turn %s has %d starts and %d ends", turn, n, turns["turn-end "+turn]))
				}
			}
		}
		if began == 0 {
			missed = append(missed, "every turn")
		}
		if consumed < each*rounds || done < want {
			missed = append(missed, fmt.Sprintf("%d receipts of %d and %d ends of %d", consumed, each*rounds, done, want))
		}
		return missed
	}
	for missed := missing(); len(missed) > 0; missed = missing() {
		select {
		case <-watcher.changed:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the client has not seen %d events: %q", len(missed), missed)
		}
	}
	repeated := watcher.repeated()
	t.Logf("%d messages, %d kills; a client that came %d times saw %d events, %d of them again",
		want, rounds, watcher.times(), len(last), len(repeated))
	if len(repeated) > 0 || watcher.times() <= rounds/2 {
		t.Errorf("it came %d times, and saw again %q", watcher.times(), repeated)
	}
	p, err := os.FindProcess(s.PID())
	must(t, err)
	if p.Signal(os.Interrupt) == nil { // with its agent, which writes files until it has ended
		must(t, s.Wait())
	}
}

// watcher follows the events from the first on, and reconnects at its position.
type watcher struct {
	mu      sync.Mutex
	last    string
	seen    map[string]int // by name and number
	came    int
	changed chan struct{}
}

func (w *watcher) run(ctx context.Context, client *http.Client) {
	for ctx.Err() == nil {
		if err := w.follow(ctx, client); err == nil || errors.Is(err, io.EOF) {
			continue
		}
		<-time.After(time.Millisecond) // there is no service now
	}
}

func (w *watcher) follow(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://teambridge/v1/events?after=0", nil)
	if err != nil {
		return err
	}
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	w.mu.Lock()
	w.came++
	w.mu.Unlock()
	in := bufio.NewReader(res.Body)
	var name, id string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			if !json.Valid([]byte(value)) {
				continue // torn by the kill: it never ended
			}
		case "":
			if name == "" {
				continue
			}
			w.mu.Lock()
			w.last = id
			if name != api.EventSnapshot {
				_, seq, _ := strings.Cut(id, "-")
				w.seen[name+" "+seq]++
			}
			w.mu.Unlock()
			select {
			case w.changed <- struct{}{}:
			default: // there is a signal already
			}
			name = ""
		}
	}
}

func (w *watcher) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key] > 0
}

func (w *watcher) repeated() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range w.seen {
		if n > 1 {
			list = append(list, key)
		}
	}
	return list
}

func (w *watcher) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came
}
