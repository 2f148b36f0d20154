// Package hub runs a NATS server for the links between machines (see package teambridge/relay/link/nats), for
// users who have none. It has one account and one stream, and flushes a frame to the disk before it confirms
// that the frame is stored.
//
// The directory of a hub contains the machines that may use it (machines.json), their queues (jetstream),
// and, while it runs, its address (hub.json). If another server is the hub, the directory contains the
// machines and the key of that server's administrator (admin.key; see [Accounts]).
package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"teambridge/relay/link/nats"
	"teambridge/relay/link/nats/admin"
	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
)

// Options are the options of [Open].
type Options struct {
	Dir      string
	Listen   string // host and port; "" for [Listen]
	TLSCert  string // files of a certificate and its key; "" for no encryption, which is allowed only on loopback
	TLSKey   string
	MaxBytes int64 // limit of all waiting frames; 0 for 1 GiB
	Log      *slog.Logger

	now   func() time.Time
	poll  time.Duration // of machines.json
	probe time.Duration
}

// Listen is the default address of a hub.
const Listen = "127.0.0.1:4222"

// ErrRunning means that a hub runs in this directory.
var ErrRunning = errors.New("a hub runs in this directory")

// A Hub is a running server.
type Hub struct {
	o      Options
	unlock func() error
	admin  *nats.Key // made at each start, and never stored
	tls    *tls.Config

	listed  []Machine   // the content of machines.json when it was last read
	file    os.FileInfo // its information before the last read; nil if it must be read
	badList string      // the last error of reading machines.json
	failed  int         // failed probes in a row

	mu       sync.Mutex // guards the fields below, which WriteMetrics reads
	addr     net.Addr
	server   *server.Server // nil if the last restart failed
	queues   *admin.Admin
	live     map[string]Machine // the machines that may use the hub now
	failures int                // failed probes since the start
	restarts int
}

// Open starts a hub. The hub answers as soon as Open returns; call Run next.
func Open(ctx context.Context, o Options) (_ *Hub, err error) {
	o.Listen, o.MaxBytes = cmp.Or(o.Listen, Listen), cmp.Or(o.MaxBytes, 1<<30)
	o.poll, o.probe = cmp.Or(o.poll, time.Second), cmp.Or(o.probe, 10*time.Second)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{o: o}
	if h.tls, err = o.tls(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	unlock, ok, err := flock.TryLock(filepath.Join(o.Dir, "hub.lock"))
	if err != nil {
		return nil, fmt.Errorf("start the hub: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrRunning, o.Dir)
	}
	h.unlock = unlock
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.admin, err = nats.NewKey(); err != nil {
		return nil, err
	}
	if h.listed, err = List(o.Dir); err != nil {
		return nil, err
	}
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	card, err := json.Marshal(Card{Address: h.addr.String(), TLS: h.tls != nil, PID: os.Getpid()})
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(cardPath(o.Dir), append(card, '\n')); err != nil {
		return nil, fmt.Errorf("record the address of the hub: %w", err)
	}
	return h, nil
}

// A Card is the address of a running hub, for processes on its machine.
type Card struct {
	Address string `json:"address"`
	TLS     bool   `json:"tls,omitempty"`
	PID     int    `json:"pid"`
}

func cardPath(dir string) string { return filepath.Join(dir, "hub.json") }

// Find returns the card of the hub that runs in dir. The error is [fs.ErrNotExist] if none runs.
func Find(dir string) (Card, error) {
	held, err := flock.Held(filepath.Join(dir, "hub.lock"))
	if err != nil {
		return Card{}, err
	}
	data, err := os.ReadFile(cardPath(dir))
	if err == nil && !held {
		err = fs.ErrNotExist // its process was killed
	}
	if err != nil {
		return Card{}, fmt.Errorf("no hub runs in %s: %w", dir, err)
	}
	var c Card
	if err := json.Unmarshal(data, &c); err != nil {
		return Card{}, fmt.Errorf("%s: %w", cardPath(dir), err)
	}
	return c, nil
}

// Check returns an error if a hub cannot listen with these options.
func (o Options) Check() error {
	_, err := o.tls()
	return err
}

// tls returns the hub's TLS configuration; nil for no encryption.
func (o Options) tls() (*tls.Config, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no address to listen on: use HOST:PORT", o.Listen)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, errors.New("a certificate needs its key, and a key its certificate")
	}
	if o.TLSCert == "" {
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, fmt.Errorf("other machines can reach %s, so the hub needs a certificate and its key; or listen on 127.0.0.1, and let machines connect by ssh", o.Listen)
		}
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the hub: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

// options returns the server's options, and the machines that may use it.
func (h *Hub) options() (*server.Options, map[string]Machine, error) {
	host, p, _ := net.SplitHostPort(h.o.Listen)
	port, _ := strconv.Atoi(p)
	if h.addr != nil {
		port = h.addr.(*net.TCPAddr).Port // a restart keeps the port
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	live := admitted(h.listed, h.o.now())
	administrator := "      {nkey: " + h.admin.Card("").Key + ", allowed_connection_types: [IN_PROCESS]}\n"
	o := &server.Options{}
	if err := o.ProcessConfigString("accounts: {\n" + nats.Accounts(administrator, users(live)) + "}\n"); err != nil {
		return nil, nil, err
	}
	o.ServerName, o.Host, o.Port, o.NoSigs = "teambridge-hub", host, port, true
	o.JetStream, o.StoreDir = true, h.o.Dir // the server appends jetstream
	o.SyncAlways, o.SyncInterval = true, 2*time.Minute
	o.JetStreamMaxStore, o.JetStreamMaxMemory = h.o.MaxBytes+16<<20, 16<<20
	o.MaxPayload, o.PingInterval, o.MaxPingsOut, o.WriteDeadline = nats.MaxPayload, 10*time.Second, 2, 10*time.Second
	if h.tls != nil {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, h.tls, 5
	}
	return o, live, nil
}

// start starts the server, and makes the missing stream and queues.
func (h *Hub) start(ctx context.Context) error {
	o, live, err := h.options()
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	var said lastError
	s.SetLogger(logger{h.o.Log, &said}, false, false)
	s.Start()
	stop := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(20 * time.Second) {
		stop()
		return fmt.Errorf("start the hub on %s: %w", h.o.Listen, cmp.Or(said.err(), errors.New("it is not ready after 20 s")))
	}
	queues, err := admin.Of(s, h.admin)
	if err != nil {
		stop()
		return fmt.Errorf("start the hub: %w", err)
	}
	if err := queues.Stream(ctx, h.o.MaxBytes); err != nil {
		queues.Close()
		stop()
		return fmt.Errorf("start the hub: %w", err)
	}
	h.mu.Lock()
	h.server, h.queues, h.addr = s, queues, s.Addr()
	h.mu.Unlock()
	return h.makeQueues(ctx, live)
}

// makeQueues makes the queues of the machines that may use the hub, and removes all others.
func (h *Hub) makeQueues(ctx context.Context, live map[string]Machine) error {
	// A frame that waits for the old machine is useless to a new one of the same name, which cannot decrypt
	// it.
	replaced := func(name string) bool {
		old, known := h.live[name]
		return known && old.Card != live[name].Card
	}
	removed, err := makeQueues(ctx, h.queues, live, replaced)
	for _, name := range removed {
		h.o.Log.Info("queue removed", "machine", name)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.live = live
	h.mu.Unlock()
	return nil
}

// Run admits and removes machines as machines.json says, until ctx ends. It restarts the server if it can no
// longer store frames. At the end, Run closes the hub.
func (h *Hub) Run(ctx context.Context) error {
	defer h.Close()
	poll, probe := time.NewTicker(h.o.poll), time.NewTicker(h.o.probe)
	defer poll.Stop()
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return h.Close()
		case <-poll.C:
			if err := h.look(ctx); err != nil && ctx.Err() == nil {
				h.o.Log.Error("cannot change who may use the hub", "err", err)
			}
		case <-probe.C:
			h.check(ctx)
		}
	}
}

// look applies changes of the machines that may use the hub.
func (h *Hub) look(ctx context.Context) error {
	now := h.o.now()
	expired := func(m Machine) bool { return !m.Expires.IsZero() && !m.Expires.After(now) }
	file, _ := os.Stat(machinesPath(h.o.Dir))
	listed, err := h.listed, error(nil)
	if file == nil || h.file == nil || !os.SameFile(file, h.file) || file.Size() != h.file.Size() || !file.ModTime().Equal(h.file.ModTime()) {
		listed, err = List(h.o.Dir)
	}
	h.file = nil
	if err != nil { // keep the known machines
		if h.badList != err.Error() {
			h.badList = err.Error()
			return err
		}
		return nil
	}
	h.badList = ""
	if slices.ContainsFunc(listed, expired) {
		err := edit(ctx, h.o.Dir, func(all []Machine) ([]Machine, error) {
			listed = slices.DeleteFunc(all, expired)
			return listed, nil
		})
		if err != nil {
			return err
		}
	}
	h.listed, h.file = listed, file
	if h.server == nil {
		return nil // the next start reads the list
	}
	if maps.Equal(admitted(h.listed, now), h.live) {
		return nil // the server's options of 1000 machines take a tenth of a second to parse
	}
	o, live, err := h.options()
	if err != nil {
		return err
	}
	// Permissions come first: they disconnect a removed machine, which then cannot send to its queue before
	// that is removed.
	if err := h.server.ReloadOptions(o); err != nil {
		return err
	}
	if err := h.makeQueues(ctx, live); err != nil {
		return err
	}
	h.o.Log.Info("machines may use the hub", "machines", slices.Sorted(maps.Keys(live)))
	return nil
}

// check stores a probe. After a full disk, JetStream stays off even once there is room, and publishing only
// times out (nats-server 7654), so check restarts the server.
func (h *Hub) check(ctx context.Context) {
	if h.server != nil {
		err := h.queues.Probe(ctx)
		if err == nil || ctx.Err() != nil {
			h.failed = 0
			return
		}
		h.failed++
		h.mu.Lock()
		h.failures++
		h.mu.Unlock()
		h.o.Log.Error("the hub stores nothing", "err", err, "times", h.failed)
		if h.failed < 2 {
			return
		}
	}
	h.stop()
	err := h.start(ctx)
	if err != nil {
		h.o.Log.Error("the hub cannot be started again; the next try follows", "in", h.o.probe, "err", err)
		return
	}
	h.failed = 0
	h.mu.Lock()
	h.restarts++
	h.mu.Unlock()
	h.o.Log.Info("the hub was started again")
}

func (h *Hub) stop() {
	h.mu.Lock()
	s, queues := h.server, h.queues
	h.server, h.queues = nil, nil
	h.mu.Unlock()
	if queues != nil {
		queues.Close()
	}
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Addr returns the address that the hub listens on.
func (h *Hub) Addr() net.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addr
}

// Close ends the hub.
func (h *Hub) Close() error {
	h.stop()
	if h.unlock == nil {
		return nil
	}
	err := os.Remove(cardPath(h.o.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, h.unlock())
	h.unlock = nil
	return err
}
