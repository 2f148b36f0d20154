//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"

	"teambridge/relay/link/hub"
)

// systemd gets the ready notification once machines can connect to the hub.
func TestReady(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	ctx, cancel := context.WithCancel(t.Context())
	dir, done := t.TempDir(), make(chan error, 1)
	go func() {
		a := &app{stdout: io.Discard, stderr: t.Output()}
		done <- a.run(ctx, runOptions{Options: hub.Options{Dir: dir, Listen: "127.0.0.1:0"}})
		l.Close()
	}()
	said := make([]byte, 100)
	n, err := l.Read(said)
	if err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("it said %q, %v", said[:n], err)
	}
	card, err := hub.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", card.Address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
