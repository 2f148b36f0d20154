// Package server is the HTTP API of the service. It listens, authenticates clients, decodes requests, calls
// [service.Service], and encodes answers. Package service does the work: it records the inboxes of one Claude
// directory, sends messages and tracks them until an agent has taken them, and runs the relays of headless
// agents that were added to it (package relay/fleet).
//
//	s, err := server.New(server.Options{Root: root, State: stateDir, Log: log})
//	err = s.Run(ctx) // until ctx ends
//
// The reference of the API is openapi.json, which is served at /openapi.json. Package api has the types.
//
// # Authentication
//
// The service listens on a unix socket that only its user can open and, on request, on loopback addresses. There,
// each request needs the token in the file api.token of the state directory, or the cookie that a browser gets for a
// one-time code, which is valid for a minute. If the file is removed or replaced, all cookies, codes and streams of
// that token end within a second, or 30 s if the kernel reports no changes. An authenticated client has a person's
// authority: see [bridge.Person]. Requests from pages of other sites are refused on every listener.
//
// The socket also accepts HTTP/2 without TLS, for clients on other machines: "teambridge dial-stdio" gives them a
// single connection.
//
// A browser sends cookies to all ports of an address. If you also open pages of other users of the machine there,
// give this service an address of its own, such as 127.7.4.2.
//
// A relay runs a command as the user of the service, so a client that may write to the service
// can run programs as that user.
//
// # Prompts
//
// A message is a user prompt if it goes from one of the person's own names to a member that a relay of this service
// serves. It reaches the agent as plain text or as a command, and may change the agent's mode. It goes through the
// ledger into the relay's queue, and not into the inbox, where any program could write; the journal has it as a
// message to that inbox. Its receipt is verified once it is committed, consumed once the agent has begun a turn with
// it, and lost if it failed before. Every other message is a row of the inbox, which the agent gets as a teammate's
// message, even if another process relays to the member.
//
// # Panes
//
// The registered tmux panes are the members of the team [pane.Team], which has no directory.
// A person's message to a pane is a user prompt, too: it goes through the ledger into the queue of the pane (package
// relay/pane), which the service runs. The service examines all panes every 2 s, and runs no tmux while none is
// registered. Requests do not wait until a message is typed, and do not run tmux themselves, except for GET
// /v1/panes/{pane}, /v1/doctor, ask and wait. A receipt is consumed once the agent has taken the message, seen once
// its model has got it, lost if it was not sent, and unknown if that cannot be found out.
//
// # Guarantees
//
//   - Each Claude directory has one service. A second one fails with the address of the first, even if it has
//     another state directory (except on Windows).
//   - Events have the order and the numbers of the journal. A client that sends the
//     last number it has seen continues after it, without a gap or a repeat, or gets a reset.
//   - A client that does not read is disconnected, and may connect again. It neither delays other clients nor
//     takes memory, since each stream reads the journal itself.
//   - When its context ends, requests in progress are answered, and streams and waiting requests end, within 10 s.
//     Its agents have 30 s to finish their turns. The next service continues their sessions, even after a kill.
//   - It changes teams only by sending messages on request, through its agents, and by
//     joining again if the person joined, did not leave, and is missing from config.json.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/service"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

// Options configures a service. Root and State are needed.
type Options struct {
	Root  *teams.Root
	State string // the directory of journal, ledger, locks and token
	Home  string // the directory for files that open the page in a browser; empty: State

	// Listen has "unix:PATH" or HOST:PORT, where HOST is a loopback address. If it is
	// empty, the service listens at [ListensAt].
	Listen []string

	ReadOnly bool        // refuse all changes, and run no relays
	Env      []string    // of the agents, as "NAME=value"; nil: the environment of this process
	Version  api.Version // of this program
	Log      *slog.Logger
	Lock     lockedfile.Options // all but Dir
	Payloads relay.Payloads     // how payloads of the session protocol are taken
	// KeepTranscripts names the teams whose transcripts of interactive agents are recorded. They can hold secrets.
	KeepTranscripts []string

	// As is the name of the service in the lists of sessions of Claude Code, so that their agents can write to
	// the person first. "": it is not listed.
	As string

	Alerts service.Alerts // about items that need the person

	// DialHub connects to a hub for other machines at an ssh:// address; nil: such hubs are not supported.
	DialHub func(ctx context.Context, address string) (net.Conn, error)

	KeepWork time.Duration // how long the events of agents are kept; 0: [KeepWork]

	// Page, if not nil, answers GET / and everything below /ui/, for anybody who can
	// connect: it must not contain secrets. See package page.
	Page http.Handler
}

// KeepWork is how long the events of agents are kept by default.
const KeepWork = 30 * 24 * time.Hour

// Server is a service. Make it with [New].
type Server struct {
	opts   Options
	log    *slog.Logger
	listen []address
	limits limits
	ready  chan struct{}
	ending chan struct{} // closed when streams must end

	core service.Options // options that opts lacks, for tests

	// While Run runs.
	addrs   []string
	tokens  *tokens // nil: no listener needs one
	codes   codes   // for signing browsers in
	local   *bridge.Local
	streams chan struct{} // one item for each open stream
	making  chan struct{} // one item for each large answer that is being made
}

// limits bounds the resources that clients can use.
type limits struct {
	connections int           // at once, on each listener; over TCP, as many again that are not authenticated
	streams     int           // of events, at once
	making      int           // large answers, at once; others wait
	body        int64         // of a request, in bytes
	request     time.Duration // to read, handle and answer one
	write       time.Duration // for a client to read its stream
	heartbeat   time.Duration // between two signs of life on a stream
	drain       time.Duration // for requests in progress when the service ends
	handover    time.Duration // for a service that was killed to let go of its lock
}

// New returns a service. It starts nothing. It fails if opts.Listen is invalid.
func New(opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if len(opts.Listen) == 0 {
		opts.Listen = []string{ListensAt(opts.State, opts.Root.Path())}
	}
	s := &Server{
		opts: opts, log: opts.Log, ready: make(chan struct{}), ending: make(chan struct{}),
		limits: limits{
			connections: 256, streams: 64, making: 2, body: 1 << 20, request: 30 * time.Second, write: 10 * time.Second,
			heartbeat: 15 * time.Second, drain: 10 * time.Second, handover: lockedfile.Handover,
		},
	}
	for _, text := range opts.Listen {
		a, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		s.listen = append(s.listen, a)
	}
	return s, nil
}

// RunningError means that another service runs for the Claude directory.
type RunningError struct {
	Root       string
	PID        int      // 0 if unknown
	Listen     []string // as in [Options]; nil if unknown
	OtherState bool     // it has another state directory
}

func (e *RunningError) Error() string {
	switch {
	case e.OtherState && e.PID == 0:
		return fmt.Sprintf("a service with another state directory is running for %s", e.Root)
	case e.OtherState:
		return fmt.Sprintf("a service with another state directory is running for %s: process %d", e.Root, e.PID)
	case e.PID == 0:
		return fmt.Sprintf("a service for %s is running already, or starting", e.Root)
	}
	return fmt.Sprintf("a service for %s is running already: process %d, at %s", e.Root, e.PID, strings.Join(e.Listen, " and "))
}

// Ready returns a channel that is closed once the service answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addrs returns the addresses where the service listens, as in [Options], with the port
// that the system chose in place of 0. Call it once Ready is closed.
func (s *Server) Addrs() []string { return s.addrs }

// Run serves until ctx ends, and then returns nil. It can be called once. Before Ready, it fails with a *[RunningError]
// after 2 s, or if the journal, the ledger or a listener cannot be opened. After Ready, it fails if recording or a
// listener fails.
func (s *Server) Run(ctx context.Context) (err error) {
	release, err := s.lock(ctx)
	defer func() { err = errors.Join(err, release()) }()
	if err != nil {
		return err
	}
	core := s.core
	core.Root, core.State, core.Lock, core.ReadOnly, core.Env, core.Log = s.opts.Root, s.opts.State, s.opts.Lock, s.opts.ReadOnly, s.opts.Env, s.log
	core.Version, core.DialHub = s.opts.Version.Version, s.opts.DialHub
	core.Alerts = s.opts.Alerts
	core.KeepTranscripts, core.As, core.KeepWork = s.opts.KeepTranscripts, s.opts.As, cmp.Or(s.opts.KeepWork, KeepWork)
	opened, err := service.Open(ctx, core)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	s.local, s.streams, s.making = opened.Local, make(chan struct{}, s.limits.streams), make(chan struct{}, s.limits.making)
	if slices.ContainsFunc(s.listen, func(a address) bool { return a.network == "tcp" }) {
		warn := func(err error) { s.log.Warn("nobody can sign in over TCP", "err", view.Describe(err)) }
		if s.tokens, err = newTokens(s.opts.State, warn); err != nil {
			return err
		}
	}
	changed, done := opened.FilesChanged()
	defer done()
	return opened.Run(ctx, func(running context.Context, part service.Part) error {
		if s.tokens != nil {
			part("looking at the token", func(ctx context.Context) error { return s.tokens.watch(ctx, changed) })
		}
		return s.serve(ctx, running, part)
	})
}

// lock takes the locks of the service, and removes the card of a killed one. Call release even after an error.
func (s *Server) lock(ctx context.Context) (release func() error, err error) {
	root := s.opts.Root.Path()
	release = func() error { return nil }
	own, err := lockedfile.HoldWithin(ctx, s.limits.handover, filepath.Join(s.opts.State, "locks"), api.LockKey(root))
	if errors.Is(err, lockedfile.ErrLocked) {
		card, _ := api.ReadCard(s.opts.State, root) // missing if the other service is just starting
		return release, &RunningError{Root: root, PID: card.PID, Listen: card.Listen}
	}
	if err != nil {
		return release, fmt.Errorf("server: %w", err)
	}
	release = own
	// Services with other state directories share only the Claude directory or, before there is one, its name.
	for _, hold := range []func() (func() error, error){
		func() (func() error, error) { return lockedfile.HoldDir(ctx, s.limits.handover, root) },
		func() (func() error, error) {
			return lockedfile.HoldName(ctx, s.limits.handover, "service\n"+root)
		},
	} {
		shared, err := hold()
		locked, ok := errors.AsType[*lockedfile.LockedError](err)
		switch {
		case ok:
			return release, &RunningError{Root: root, PID: locked.PID, OtherState: true}
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrNotExist):
			s.log.Debug("a service with another state directory might not be noticed", "err", view.Describe(err))
		case err != nil:
			return release, fmt.Errorf("server: %w", err)
		default:
			before := release
			release = func() error { return errors.Join(shared(), before()) }
		}
	}
	if err := os.Remove(api.CardPath(s.opts.State, root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return release, fmt.Errorf("server: %w", err)
	}
	return release, nil
}

// serve answers requests until ctx or running ends.
func (s *Server) serve(ctx, running context.Context, part service.Part) (err error) {
	if s.tokens != nil {
		part("signing in", s.sweepForwards)
	}
	listeners, err := s.listenAll(running)
	if err != nil {
		return err
	}
	// A client on another machine has only one connection, so the socket needs HTTP/2. Over TCP, HTTP/2 would let a
	// stranger send many requests on each connection.
	handler := s.handler()
	tcp, unix := s.http(running, handler), s.http(running, handler)
	unix.Protocols.SetUnencryptedHTTP2(true)
	for _, l := range listeners {
		server := tcp
		if l.Addr().Network() == "unix" {
			server = unix
		}
		part("listening", func(context.Context) error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	// Close alone leaves listeners open that Serve has not seen yet.
	defer func() { err = errors.Join(err, closeListeners(listeners), tcp.Close(), unix.Close()) }()
	if err := s.announce(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(api.CardPath(s.opts.State, s.opts.Root.Path()))) }()
	s.log.Info("serving", "root", s.opts.Root.Path(), "listen", s.addrs, "readOnly", s.opts.ReadOnly)
	close(s.ready)
	select {
	case <-ctx.Done():
	case <-running.Done():
		return context.Cause(running)
	}
	s.log.Info("ending: answering the requests in progress")
	close(s.ending)
	drain, cancel := context.WithTimeout(running, s.limits.drain)
	defer cancel()
	var both sync.WaitGroup
	for _, server := range []*http.Server{tcp, unix} {
		both.Go(func() {
			if err := server.Shutdown(drain); err != nil {
				s.log.Warn("not all requests were answered", "err", err)
			}
		})
	}
	both.Wait()
	return nil
}

// http returns a server for HTTP/1.1, whose requests end with running.
func (s *Server) http(running context.Context, h http.Handler) *http.Server {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       s.limits.request,
		WriteTimeout:      s.limits.request + s.limits.write,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return running },
		ConnContext:       connContext,
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// announce writes the service's card, by which clients find it.
func (s *Server) announce() error {
	card, err := json.Marshal(api.Card{PID: os.Getpid(), Listen: s.addrs, API: api.Level, Version: s.opts.Version.Version})
	if err == nil {
		err = atomicfile.Write(api.CardPath(s.opts.State, s.opts.Root.Path()), card)
	}
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}
