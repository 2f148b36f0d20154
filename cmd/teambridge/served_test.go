package main

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// A command does not wait for a service that accepts a connection, and stops before it has answered.
func TestServiceStopsAfterAHealthCheck(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(teamstest.StateDir(t), "s")
	l, err := net.Listen("unix", socket)
	errtest.Must(t, err)
	var checks atomic.Int32
	stopped := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if checks.Add(1) > 1 {
			<-stopped
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { <-stopped })
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	defer close(stopped)
	c, err := client.New(client.Options{Socket: socket, Patience: 50 * time.Millisecond})
	errtest.Must(t, err)
	_, err = c.Attention(t.Context(), "")
	if _, status := explain(t.Context(), err); !errors.Is(err, client.ErrUnreachable) || status != api.ExitTimeout {
		t.Errorf("got %v, status %d; want ErrUnreachable, status %d", err, status, api.ExitTimeout)
	}
}
