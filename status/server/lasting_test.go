package server

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
)

// later asks in the background, and returns the answer, which is zero if ctx ended first.
func (r *running) later(ctx context.Context, t *testing.T, method, path, body string) <-chan answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://teambridge"+path, strings.NewReader(body))
	must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	all := make(chan answer, 1)
	go func() {
		if res, err := r.client.Do(req); err == nil {
			_ = res.Body.Close()
			all <- answer{}
		} else if ctx.Err() == nil {
			t.Error(err)
		}
		close(all)
	}()
	return all
}

// open waits for a number of lasting requests.
func (r *running) open(t *testing.T, n int) {
	t.Helper()
	for end := time.After(patience); len(r.streams) != n; {
		select {
		case <-end:
			t.Fatalf("%d requests last, want %d", len(r.streams), n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A lasting request outlives the deadlines of others, counts as a stream, and ends with its
// client.
func TestRequestsThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, func(s *Server) {
		s.limits.streams, s.limits.request, s.limits.write = 1, time.Second, time.Second // also of the other requests here
	})
	const wait = "/v1/teams/" + newer + "/wait?for=message&member=worker"
	happened := make(chan answer, 1)
	go func() { happened <- r.ask(t, "GET", wait, "") }()
	r.open(t, 1)
	for _, path := range []string{wait, "/v1/events", "/v1/transcripts/x"} {
		problem(t, r.ask(t, "GET", path, ""), api.CodeTooMany)
	}
	<-time.After(r.limits.request + r.limits.write)
	w.Send(newer, "worker", "team-lead", "at last")
	if h := of[api.Happened](t, <-happened, http.StatusOK); h.Message == nil || h.Message.Text != "at last" {
		t.Errorf("it is %+v", h)
	}
	r.open(t, 0)

	for _, what := range [][3]string{{"GET", wait, ""}, {"POST", "/v1/teams/" + newer + "/members/worker/ask", `{"text":"anybody?"}`}} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := r.later(ctx, t, what[0], what[1], what[2])
		r.open(t, 1)
		cancel()
		<-gone
		r.open(t, 0)
	}
	problem(t, r.ask(t, "GET", "/v1/teams/"+newer+"/wait?for=message&timeout=soon", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", "/v1/teams/"+newer+"/wait?for=message&timeout=-1s", ""), api.CodeUsage)
	problem(t, r.ask(t, "POST", "/v1/teams/"+newer+"/members/worker/ask", `{"text":"x"`), api.CodeBody)
}

// Lasting requests end with the service, with an error; a message stays sent.
func TestRequestsThatWaitEndWithTheService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	const session = "2de3961d-6921-4e4d-8adb-18a75361dbe0"
	dir := filepath.Join(w.Root.Path(), "projects", "-p")
	must(t, os.MkdirAll(dir, 0o700))
	record := `{"type":"user","uuid":"f1","timestamp":"2026-11-21T15:04:05Z","version":"2.1.329","message":{"role":"user","content":"mend it"}}` + "\n"
	must(t, os.WriteFile(filepath.Join(dir, session+".jsonl"), []byte(record), 0o600))
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://teambridge/v1/transcripts/"+session+"?follow=true", nil)
	must(t, err)
	res, err := r.client.Do(req)
	must(t, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"text":"mend it"`) {
	}
	asked, waited := make(chan answer, 1), make(chan answer, 1)
	go func() { asked <- r.ask(t, "POST", "/v1/teams/"+newer+"/members/worker/ask", `{"text":"anybody?"}`) }()
	go func() { waited <- r.ask(t, "GET", "/v1/teams/"+newer+"/wait?for=reply", "") }()
	r.open(t, 3)
	for end := time.After(patience); ; {
		rows, err := w.Inbox(newer, "worker").Read(t.Context())
		if err == nil && len(rows) > 0 && rows[len(rows)-1].Text == "anybody?" {
			break
		}
		select {
		case <-end:
			t.Fatal("nothing was sent")
		case <-time.After(5 * time.Millisecond):
		}
	}
	r.end(t)
	if p := problem(t, <-asked, api.CodeUnavailable); !strings.Contains(p.Hint, "it stays sent") {
		t.Errorf("the hint is %q", p.Hint)
	}
	problem(t, <-waited, api.CodeUnavailable)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"error":{"code":"unavailable",`) || lines.Scan() || lines.Err() != nil {
		t.Errorf("the transcript ends with %s, %v", lines.Text(), lines.Err())
	}
}
