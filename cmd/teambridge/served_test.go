package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/teamstest"
)

// A service that says that it is there, and stops before it has answered, is not waited for.
func TestServiceStopsAfterAHealthCheck(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(teamstest.StateDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Attention(t.Context(), "")
	if _, status := explain(t.Context(), err); !errors.Is(err, client.ErrUnreachable) || status != api.ExitTimeout {
		t.Errorf("got %v, status %d; want ErrUnreachable, status %d", err, status, api.ExitTimeout)
	}
}

// What was shown, and was missing while the service did not answer, is no news after that.
func TestNoNewsAfterSilence(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := waitWatch{app: &app{host: host{stdout: &out}}}
	question := api.Attention{ID: "q", Kind: api.WaitsQuestion, Team: "t", Member: "worker", What: "asks: why?"}
	unread := api.Attention{ID: "u", Kind: api.WaitsUnread, Team: "t", Member: "me", What: "2 unread messages"}
	for _, look := range []struct {
		list    []api.Attention
		partial bool
		news    bool
	}{
		{nil, false, false},
		{[]api.Attention{question}, false, true},
		{[]api.Attention{unread}, true, true},
		{[]api.Attention{question, unread}, false, false},
		{[]api.Attention{unread}, false, false},
		{[]api.Attention{question, unread}, false, true},
	} {
		out.Reset()
		if err := w.show(look.list, look.partial); err != nil || (out.Len() > 0) != look.news {
			t.Errorf("%+v: printed %q, %v", look, &out, err)
		}
	}
}
