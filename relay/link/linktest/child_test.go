// Package linktest tests links as a whole: a hub and two machines, each a process of its own
// and, if that is allowed, in a network of its own, whose links are cut.
package linktest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
	"teambridge/relay/link"
	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/flock"
)

func TestMain(m *testing.M) {
	killtest.Main(m, killtest.Roles{"hub": runHub, "machine": runMachine, "dishonest": runDishonest})
}

// runHub runs a hub until it is killed, or its parent is: DIR LISTEN [CERTIFICATE KEY].
func runHub(args []string) error {
	o := hub.Options{Dir: args[0], Listen: args[1], Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if len(args) > 2 {
		o.TLSCert, o.TLSKey = args[2], args[3]
	}
	h, err := hub.Open(context.Background(), o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("ready", h.Addr())
	return h.Run(ctx)
}

const root = "/root"

// runMachine runs the link of a machine, as its service does, until it is killed, or its parent
// is: DIR.
func runMachine(args []string) error {
	dir := args[0]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unlock, ok, err := flock.TryLock(filepath.Join(dir, "lock"))
	if err != nil || !ok {
		return cmp.Or(err, errors.New("the machine runs"))
	}
	defer unlock()
	lg, err := ledger.Open(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	rec, err := openRecorder(ctx, dir)
	if err != nil {
		return err
	}
	key, err := nats.ReadKey(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	self, ok, err := lg.Links.Link(ctx)
	if err != nil || !ok {
		return cmp.Or(err, errors.New("the ledger has no link"))
	}
	machines, err := lg.Links.Machines(ctx, root)
	if err != nil {
		return err
	}
	cards := map[string]nats.Card{}
	for _, m := range machines {
		if cards[m.Name], err = nats.ParseCard(m.Card); err != nil {
			return err
		}
	}
	wire, err := nats.Dial(ctx, nats.Options{
		Name: self.Name, Key: key, Hub: self.Hub, Fingerprint: self.Trust, Unpin: true, // the lock is ours
		Card: func(peer string) (nats.Card, bool) { c, ok := cards[peer]; return c, ok },
	})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	l := link.New(link.Options{
		Root: root, Self: self, Ledger: lg, Wire: recordingWire{wire, rec, log},
		Deliver: rec.deliver,
		Warn:    func(err error) { log.Warn(err.Error()) },
	})
	// Polling notices messages that other processes put into the ledger.
	go func() {
		last := ""
		for range time.Tick(5 * time.Millisecond) {
			if now, err := lg.Version(ctx); err == nil && now != last {
				last = now
				l.Poke()
			}
		}
	}()
	go func() {
		i := 0
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if n, err := strconv.Atoi(in.Text()); err == nil { // the number of messages, 50 each second
				put(ctx, lg, machines[0].Name, i, n, 50, l.Poke)
				i += n
			}
		}
		cancel()
	}()
	fmt.Println("ready")
	return l.Run(ctx)
}

// recordingWire counts the messages that come over the wire.
type recordingWire struct {
	link.Wire
	rec *recorder
	log *slog.Logger
}

func (w recordingWire) Next(ctx context.Context) (link.Arrival, error) {
	a, err := w.Wire.Next(ctx)
	if err == nil && a.Frame == nil && a.Text == nil {
		w.log.Info("wire", "state", w.State())
	}
	if a.Frame != nil {
		var f struct{ Messages []struct{ ID string } }
		if a.From == dishonest || json.Unmarshal(a.Frame, &f) != nil {
			return a, nil
		}
		for _, m := range f.Messages {
			if err := w.rec.count(ctx, "came", m.ID); err != nil {
				return a, err
			}
		}
	}
	return a, err
}

// A recorder records the deliveries, in the place of inboxes and agents.
type recorder struct{ db *sqlite.DB }

func openRecorder(ctx context.Context, dir string) (*recorder, error) {
	db, err := sqlite.Open(ctx, filepath.Join(dir, "delivered.db"), sqlite.Format{Name: "recorder", Application: 1, Schema: []string{`
		CREATE TABLE delivered (n INTEGER PRIMARY KEY, id TEXT UNIQUE, sender TEXT, member TEXT, text TEXT, sent INTEGER, at INTEGER);
		CREATE TABLE came (id TEXT PRIMARY KEY, times INTEGER) WITHOUT ROWID;
		CREATE TABLE handed (id TEXT PRIMARY KEY, times INTEGER) WITHOUT ROWID`}})
	return &recorder{db}, err
}

// count counts an event of a message. A kill undoes no commit.
func (r *recorder) count(ctx context.Context, table, id string) error {
	return r.db.Do(ctx, "count", func(c *sqlite.Conn) error {
		if _, err := c.Exec("PRAGMA synchronous=OFF"); err != nil {
			return err
		}
		_, err := c.Exec("INSERT INTO "+table+" VALUES (?, 1) ON CONFLICT DO UPDATE SET times=times+1", id)
		return err
	})
}

// deliver records a message once under its id, as an inbox does.
func (r *recorder) deliver(ctx context.Context, m link.Message) (ledger.Incoming, error) {
	out := m.Incoming
	if m.Machine == dishonest { // with which no team is shared
		out.Stage, out.Reason = ledger.StageRefused, "there is no such team"
		return out, nil
	}
	if err := r.count(ctx, "handed", m.ID); err != nil {
		return out, err
	}
	err := r.db.Do(ctx, "deliver", func(c *sqlite.Conn) error {
		_, err := c.Exec("INSERT INTO delivered (id, sender, member, text, sent, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			m.ID, m.From, m.Member, m.Text, m.Sent.UnixMicro(), m.At.UnixMicro())
		return err
	})
	out.Stage, out.Root, out.Recipient = ledger.StageVerified, root, m.Member
	return out, err
}

// outgoing returns a message of one of two senders to one of three recipients. Its text has its
// place among the messages between the two.
func outgoing(machine string, i int) (ledger.Outgoing, [32]byte) {
	id, from, member := uuid.NewString(), fmt.Sprint("sender-", i%2), fmt.Sprint("member-", i%3)
	text := fmt.Sprintf("%08d %s", i, strings.Repeat("x", 400))
	o := ledger.Outgoing{Machine: machine, There: member, At: "team"}
	o.Delivery = ledger.Delivery{
		UUID: id, ID: id, InboxKey: inbox.InboxKey{Root: root, Team: "team@" + machine, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
		From: from, Kind: "message", Raw: []byte(text), Person: true, Isolated: true, At: time.Now(),
	}
	return o, sha256.Sum256([]byte(text))
}

// put puts n messages into the outbox, from number first on, at rate messages a second. While
// the outbox is full, it waits.
func put(ctx context.Context, lg *ledger.Ledger, machine string, first, n, rate int, did func()) error {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := first; i < first+n; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		o, digest := outgoing(machine, i)
		switch _, _, err := lg.Outbox.Add(ctx, o, digest); {
		case err == nil:
			i++
			did()
		case !errors.Is(err, ledger.ErrOutboxFull):
			return err
		}
	}
	return nil
}
