package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/attention"
	"teambridge/status/client"
	"teambridge/teams/errtest"
	"teambridge/teams/flock"
	"teambridge/teams/teamstest"
)

// A command chooses the service or the files, and explains why it does not use a service.
func TestChoice(t *testing.T) {
	t.Parallel()
	version := func(operations int, readOnly bool) *api.ServiceVersion {
		return &api.ServiceVersion{Version: api.Version{Version: "v0.1.0"}, Operations: operations, ReadOnly: readOnly}
	}
	for name, test := range map[string]struct {
		card, ended bool                // a service has left its card; the service has ended
		answers     *api.ServiceVersion // nil: no answer
		served      bool
		idle        string
		why         string // why the service is not used
		unreachable bool   // the only reason is that it does not answer
	}{
		"none":                     {idle: attention.NoService},
		"one that was killed":      {card: true, ended: true, idle: attention.NoService},
		"one that answers":         {card: true, answers: version(api.Operations, false), served: true, idle: attention.SilentService},
		"a later one":              {card: true, answers: version(api.Operations+1, false), served: true, idle: attention.SilentService},
		"one that is read-only":    {card: true, answers: version(api.Operations, true), idle: attention.ReadOnly},
		"an earlier one":           {card: true, answers: version(api.Operations-1, false), idle: attention.SilentService, why: "it is teambridge v0.1.0, which is an earlier version; restart it"},
		"one that does not answer": {card: true, idle: attention.SilentService, why: "does not answer: ", unreachable: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := teamstest.Captured(t, teamstest.OlderVersion)
			root := f.Root.Path()
			if test.card {
				socket, ended := filepath.Join(teamstest.StateDir(t), "s"), make(chan struct{})
				l, err := net.Listen("unix", socket)
				errtest.Must(t, err)
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if test.answers == nil {
						<-ended
						return
					}
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(test.answers)
				})}
				go func() { _ = srv.Serve(l) }()
				t.Cleanup(func() { close(ended); _ = srv.Close() })
				card, err := json.Marshal(api.Card{PID: os.Getppid(), Listen: []string{"unix:" + socket}, API: api.Level})
				errtest.Must(t, errors.Join(err, os.WriteFile(api.CardPath(f.State, root), card, 0o600), os.MkdirAll(filepath.Join(f.State, "locks"), 0o700)))
				if !test.ended {
					unlock, ok, err := flock.TryLock(api.LockPath(f.State, root))
					if !ok || err != nil {
						t.Fatal(ok, err)
					}
					t.Cleanup(func() { _ = unlock() })
				}
			}
			var said strings.Builder
			a := newApp(host{stdout: io.Discard, stderr: &said, lookup: func(string) (string, bool) { return "", false }, cwd: os.Getwd, wait: time.Minute}, nil)
			a.claudeDir, a.state = root, f.State
			if test.unreachable {
				a.wait = 50 * time.Millisecond
			}
			defer a.close()
			c := a.bridge(t.Context())
			if c != a.bridge(t.Context()) {
				t.Error("it was chosen twice")
			}
			if _, served := c.Bridge.(*client.Client); served != test.served || served != (c.service != nil) || c.idle != test.idle || a.local().Opts.Idle() != test.idle {
				t.Errorf("got %T, %q", c.Bridge, c.idle)
			}
			if (c.unused == nil) != (test.why == "") || c.unused != nil && !strings.Contains(c.unused.Error(), test.why) {
				t.Errorf("it is not used because of %v, want %q", c.unused, test.why)
			}
			if err := c.serviceError(); (err == nil) != (test.why == "") {
				t.Errorf("what is missing: %v", err)
			} else if err != nil {
				if _, status := explain(t.Context(), err); status != api.ExitTimeout {
					t.Errorf("status %d", status)
				}
			}
			if warned := strings.Contains(said.String(), "warning: "); warned != (test.why != "" && !test.unreachable) {
				t.Errorf("it said %q", &said)
			}
		})
	}
}

// A call that is given up while it opens the ledger does not make the next one fail, as in a server for an agent.
func TestLedgerIsOpenedAgain(t *testing.T) {
	t.Parallel()
	a := newApp(host{}, nil)
	a.state = t.TempDir()
	defer a.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.ledger(ctx); err == nil {
		t.Error("it was opened for a call that was given up")
	}
	if l, err := a.ledger(t.Context()); err != nil || l == nil {
		t.Errorf("then it is %v, %v", l, err)
	}
}
