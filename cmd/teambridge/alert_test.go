package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/status/alert"
)

// webhook simulates a server for alerts:
//
//	webhook VARIABLE FILE [STATUS...]
func webhook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: webhook VARIABLE FILE [STATUS...]")
	}
	var statuses []int
	for _, arg := range args[2:] {
		n, err := strconv.Atoi(arg)
		ts.Check(err)
		statuses = append(statuses, n)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	ts.Check(err)
	turn := make(chan struct{}, 1)
	one := func(w http.ResponseWriter, r *http.Request) { // one request at a time
		body, err := io.ReadAll(r.Body)
		status := http.StatusOK
		if len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		if err == nil {
			_, err = fmt.Fprintf(f, "%d %s %s %s %s\n", status, r.Method, r.URL, r.Header.Get("Authorization"), body)
		}
		if err != nil {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn <- struct{}{}
		one(w, r)
		<-turn
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	ts.Defer(func() {
		_ = server.Close()
		<-served
		_ = f.Close()
	})
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

// Agents get neither the addresses of alerts nor systemd's variables.
func TestAgentEnvironment(t *testing.T) {
	t.Parallel()
	got := agentEnvironment([]string{"A=1", "HOOK=https://a.example/secret", "NOTIFY_SOCKET=/s", "HOOKS=2", "=C:=C:\\"}, []alert.Destination{{Kind: alert.Slack, Variable: "HOOK"}, {Kind: alert.Slack, File: "/f"}})
	if want := []string{"A=1", "HOOKS=2", "=C:=C:\\"}; !slices.Equal(got, want) {
		t.Errorf("agents get %q, want %q", got, want)
	}
}
