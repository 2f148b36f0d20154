package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
)

const unixPrefix = "unix:"

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

// maxSocketPath is the longest path of a socket, in bytes, that every system accepts.
const maxSocketPath = 103

// listenUnix listens at path, with a socket that only this user can open. It replaces a
// socket at which nobody listens, and removes nothing else.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, api.Decide(api.CodeUsage, "choose a shorter one with --listen unix:PATH",
			"the path of the socket has %d bytes; the limit is %d: %s", len(path), maxSocketPath, path)
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

// limited is a listener with a limit on open connections; further ones wait.
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
