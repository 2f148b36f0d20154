package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/teams/socket"
)

const unixPrefix = "unix:"

// ListensAt returns the default address of the service for root: [api.SocketPath] or, on Windows, where not every
// program can use such a socket, a free port of loopback.
func ListensAt(state, root string) string {
	if runtime.GOOS == "windows" {
		return "127.0.0.1:0"
	}
	return unixPrefix + api.SocketPath(state, root)
}

// address is where a listener listens.
type address struct{ network, name string }

// parseAddress parses an item of [Options].Listen.
func parseAddress(text string) (address, error) {
	const hint = "use unix:PATH, or a loopback address with a port, such as 127.0.0.1:8080"
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		if path == "" {
			return address{}, api.Decide(api.CodeUsage, hint, "invalid address %q: the path is missing", text)
		}
		path, err := filepath.Abs(path)
		return address{"unix", path}, err
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return address{}, api.Decide(api.CodeUsage, hint, "invalid address %q: %v", text, err)
	}
	if host == "localhost" {
		host = "127.0.0.1" // whatever the name resolves to
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return address{}, api.Decide(api.CodeUsage, hint, "invalid address %q: not a loopback address", text)
	}
	return address{"tcp", net.JoinHostPort(host, port)}, nil
}

// listenAll opens all listeners or none.
func (s *Server) listenAll(ctx context.Context) (listeners []net.Listener, err error) {
	for _, a := range s.listen {
		var l net.Listener
		if a.network == "unix" {
			l, err = listenUnix(ctx, a.name)
			s.addrs = append(s.addrs, unixPrefix+a.name)
		} else if l, err = new(net.ListenConfig).Listen(ctx, a.network, a.name); err == nil {
			s.addrs = append(s.addrs, l.Addr().String())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("server: listen: %w", err), closeListeners(listeners))
		}
		if a.network == "tcp" {
			listeners = append(listeners, &admission{Listener: l, limit: s.limits.connections, log: s.log})
			continue
		}
		listeners = append(listeners, &limited{Listener: l, slots: make(chan struct{}, s.limits.connections), gone: make(chan struct{})})
	}
	return listeners, nil
}

func closeListeners(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// listenUnix listens at path, with a socket that only this user can open. It replaces a socket at which no program
// listens, and no other file.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := socket.Check(path); err != nil {
		return nil, &api.Decided{Err: err, Code: api.CodeUsage, Hint: "choose a shorter one with --listen unix:PATH"}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, api.Decide(api.CodeRefused, "choose another path", "%s exists and is not a socket", path)
	default:
		dial := net.Dialer{Timeout: time.Second}
		if c, err := dial.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, api.Decide(api.CodeRefused, "choose another path", "another program listens at %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := (&net.ListenConfig{Control: private}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// admission is a listener to which other users of the machine can connect, too. So that they cannot lock the user out,
// unauthenticated connections never make others wait: beyond the limit, the oldest of them is closed.
type admission struct {
	net.Listener
	limit int // of admitted connections, and of others
	log   *slog.Logger

	mu        sync.Mutex
	strangers []*visitor // unauthenticated connections, the oldest first
	admitted  int
	warned    time.Time
}

func (a *admission) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: c, at: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.strangers = append(a.strangers, v)
	if len(a.strangers) > a.limit {
		oldest := a.strangers[0]
		a.strangers = slices.Delete(a.strangers, 0, 1)
		_ = oldest.Conn.Close() // the goroutine that serves it gets the error
		if now := time.Now(); now.Sub(a.warned) > time.Minute {
			a.warned = now
			a.log.Warn("there are too many connections without a token; the oldest ones are closed", "listen", a.Addr().String(), "limit", a.limit)
		}
	}
	return v, nil
}

// visitor is a connection to an admission.
type visitor struct {
	net.Conn
	at       *admission
	admitted bool
}

// admit marks the connection as the user's, so that it is not closed to make room.
func (v *visitor) admit() {
	v.at.mu.Lock()
	defer v.at.mu.Unlock()
	if n := slices.Index(v.at.strangers, v); n >= 0 && v.at.admitted < v.at.limit {
		v.at.strangers = slices.Delete(v.at.strangers, n, n+1)
		v.at.admitted++
		v.admitted = true
	}
}

func (v *visitor) Close() error {
	v.at.mu.Lock()
	if n := slices.Index(v.at.strangers, v); n >= 0 {
		v.at.strangers = slices.Delete(v.at.strangers, n, n+1)
	}
	if v.admitted {
		v.at.admitted--
		v.admitted = false
	}
	v.at.mu.Unlock()
	return v.Conn.Close()
}

// limited is a listener with a limit on open connections. Further connections wait.
type limited struct {
	net.Listener
	slots chan struct{}
	gone  chan struct{} // closed with the listener
	once  sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.gone:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.gone) })
	return l.Listener.Close()
}

// slot is a connection that counts towards the limit.
type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}
