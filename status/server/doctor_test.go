package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/status/api"
)

// While a service runs, a finding shows the state of the connection with the hub.
func TestFindingsOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := hub.Open(t.Context(), hub.Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	must(t, err)
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
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			var report api.Report
			ask("GET", "/v1/doctor", "", &report)
			i := slices.IndexFunc(report.Findings, func(f api.Finding) bool { return f.Code == "hub" })
			if !slices.ContainsFunc(report.Findings, func(f api.Finding) bool { return f.Code == "service" && f.Level == api.LevelOK }) {
				t.Fatalf("got %+v, and a service answers", report.Findings)
			}
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
	must(t, err)
	found(api.LevelOK, "this machine, laptop, is connected with the hub since ")
}
