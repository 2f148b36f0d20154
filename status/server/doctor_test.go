package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/status/api"
)

// The service finds what "teambridge doctor" finds, and removes what blocks an inbox only when
// it is asked to, and unless it is read-only.
func TestFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock := filepath.Join(w.Path(older, "inboxes"), "user.json.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	r := w.start(t, func(s *Server) { s.opts.ReadOnly = true })
	report := func(method, path string) (report api.Report) {
		t.Helper()
		a := r.ask(t, method, path, "")
		if err := json.Unmarshal(a.body, &report); err != nil || a.status != 200 {
			t.Fatalf("%s %s: %d %s: %v", method, path, a.status, a.body, err)
		}
		return report
	}
	// blocked returns the finding about the lock.
	blocked := func(r api.Report) api.Finding {
		t.Helper()
		i := slices.IndexFunc(r.Findings, func(f api.Finding) bool { return f.Code == "foreign_lock" })
		if i < 0 || r.Findings[i].Path != lock || r.Findings[i].Level != api.LevelProblem || r.Inboxes == 0 {
			t.Fatalf("got %+v, want a problem with %s", r, lock)
		}
		return r.Findings[i]
	}
	if f := blocked(report("GET", "/v1/doctor?team="+older)); f.Fixed {
		t.Errorf("a look has fixed %+v", f)
	}
	all := report("GET", "/v1/doctor")
	if blocked(all); all.Teams != 2 || !slices.ContainsFunc(all.Findings, func(f api.Finding) bool { return f.Code == "service" && f.Level == api.LevelOK }) {
		t.Errorf("got %+v, want two teams, and a service that answers", all)
	}
	if a := r.ask(t, "GET", "/v1/doctor?team=nobody", ""); a.status != 404 {
		t.Errorf("a team that does not exist: %d %s", a.status, a.body)
	}
	if a := r.ask(t, "POST", "/v1/doctor/fix", ""); a.status != api.CodeReadOnly.HTTP() {
		t.Errorf("a read-only service: %d %s", a.status, a.body)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("nobody asked to fix anything: %v", err)
	}
	r.end(t)
	r = w.start(t)
	if f := blocked(report("POST", "/v1/doctor/fix?team="+older)); !f.Fixed {
		t.Errorf("not fixed: %+v", f)
	}
	if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock: %v", err)
	}
}

// While a service runs, a finding says how the connection with the hub is.
func TestFindingsOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := hub.Open(t.Context(), hub.Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	r := newWorld(t).start(t)
	ask := func(method, path, body string, into any) {
		t.Helper()
		if a := r.ask(t, method, path, body); json.Unmarshal(a.body, into) != nil || a.status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
	}
	// found waits for a finding about the hub.
	found := func(level, message string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var report api.Report
			ask("GET", "/v1/doctor", "", &report)
			i := slices.IndexFunc(report.Findings, func(f api.Finding) bool { return f.Code == "hub" })
			if i >= 0 && report.Findings[i].Level == level && strings.HasPrefix(report.Findings[i].Message, message) && (level == api.LevelOK) == (report.Findings[i].Advice == "") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("got %+v, want %s: %s", report.Findings, level, message)
			}
		}
	}
	var k api.Links
	ask("PUT", "/v1/links", `{"machine":"laptop"}`, &k)
	ask("PUT", "/v1/links", fmt.Sprintf(`{"hub":"nats://%s"}`, h.Addr()), &k)
	found(api.LevelProblem, "there is no connection with the hub")
	card, err := nats.ParseCard(k.Card)
	if err == nil {
		err = hub.Add(t.Context(), dir, card, hub.AddOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	found(api.LevelOK, "this machine, laptop, is connected with the hub since ")
}
