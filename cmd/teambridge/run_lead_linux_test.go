package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude/claudetest"
	"teambridge/teams"
)

// A lead of the first generation that made its team itself polls its inbox, too.
// What is claimed for it is relayed once, what the lead has taken is not relayed,
// and what only the lead can act on stays for it.
//
// More cannot be promised: that lead reads without the lock and marks as read
// later. Without any bridge, it lost 5 of 150 messages in bursts, and when it was
// busy 24 of 130, and took 41 twice.
//
// An agent that "run" starts never polls: measured, one that resumes its session
// does not, and TeamCreate makes a team of another name where there is one of that
// name. So the agent here is started before, and what "run" starts is a script that
// hands on its lines.
func TestRealLeadThatPollsItself(t *testing.T) {
	h := newHeadless(t, claudetest.Oldest(t, teams.HeadlessDeaf), nil)
	ctx := deadline(t, 3*time.Minute)
	h.team = "myteam"
	fifo := func(name string) (string, *os.File) {
		path := filepath.Join(h.home.Dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // so that it does not end with the script
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return path, f
	}
	in, stdin := fifo("in")
	out, stdout := fifo("out")
	session := uuid.NewString()
	lead := exec.Command(h.command[0], append(h.command[1:], "-p", "--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--replay-user-messages", "--session-id", session)...)
	lead.Dir, lead.Env = h.home.Work, h.home.Env()
	lead.Stdin, lead.Stdout = stdin, stdout
	if err := lead.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = lead.Process.Kill()
		_ = lead.Wait()
	})
	frame, err := json.Marshal(map[string]any{"type": "user", "uuid": uuid.NewString(), "message": map[string]string{"role": "user",
		"content": claudetest.CallLine("TeamCreate", map[string]string{"team_name": h.team, "description": "d"})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(append(frame, '\n')); err != nil {
		t.Fatal(err)
	}
	// Up to its result: what comes behind is for the bridge.
	stop := context.AfterFunc(ctx, func() { _ = stdout.SetReadDeadline(time.Now()) })
	for lines, done := bufio.NewReaderSize(stdout, 1), false; !done; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the lead did not make its team: %v\n%s", err, h.home.API)
		}
		done = strings.HasPrefix(line, `{"type":"result"`)
	}
	stop()
	if c := h.config(ctx); c.LeadSessionID != session {
		t.Fatalf("the team's lead is in session %s, want %s", c.LeadSessionID, session)
	}

	script := filepath.Join(h.home.Dir, "lead")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
case "$*" in *--version*) echo '`+h.version.String()+` (Claude Code)'; exit;; esac
cat '`+out+`' &
cat >'`+in+`'
kill $!
`), 0o700); err != nil {
		t.Fatal(err)
	}
	h.command = []string{script}
	h.start("--session", session)
	h.up(ctx)
	l := h.ledger()
	const n = 100
	for i := range n {
		h.send(fmt.Sprintf("<m-%d>", i))
	}
	own := `{"type":"shutdown_approved","requestId":"r","from":"worker","timestamp":"2026-11-20T00:00:00.000Z","paneId":"","backendType":"in-process"}`
	h.send(own, fmt.Sprintf("<m-%d>", n))
	// Each row is somebody's in the end; the lead takes what is its own in its own time.
	data, err := claudetest.WaitFile(ctx, filepath.Join(h.home.Root, "teams", h.team, "inboxes", "team-lead.json"), func(data []byte) bool {
		return json.Valid(data) && !strings.Contains(string(data), `"read": false`)
	})
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Text, RelayedBy string
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, d := range h.settled(ctx, l, len(h.deliveries(l))) {
		if d.State != ledger.Done && d.State != ledger.TakenByAgent {
			t.Errorf("%s: %s (%s)", d.ID, d.State, d.Reason)
		}
		if d.State != ledger.Done {
			continue
		}
		if err := h.home.API.WaitCount(ctx, claudetest.Any, relayed.FindString(string(d.Raw)), 1); err != nil {
			t.Fatalf("%v\n%s", err, h)
		}
	}
	relayedBy := map[string]bool{}
	for _, r := range rows {
		relayedBy[r.Text] = r.RelayedBy != ""
	}
	if len(rows) != n+2 || relayedBy[own] {
		t.Errorf("%d rows, of %d; the lead's own taken from it: %t", len(rows), n+2, relayedBy[own])
	}
	// What each of them gave it: a lead that polls does not say who is verified.
	said, polled := map[string]int{}, map[string]int{}
	for _, r := range h.asked() {
		for _, d := range r.Deliveries() {
			if d.Verified != "" {
				said[d.Body]++
			} else {
				polled[d.Body]++
			}
		}
	}
	ours, both, lost, twice := 0, 0, 0, 0
	for i := range n + 1 {
		m := fmt.Sprintf("<m-%d>", i)
		if want := map[bool]int{true: 1}[relayedBy[m]]; said[m] != want {
			t.Errorf("%s, marked as relayed %t, was relayed %d times", m, relayedBy[m], said[m])
		}
		ours += said[m]
		switch {
		case said[m] > 0 && polled[m] > 0:
			both++
		case said[m]+polled[m] == 0:
			lost++
		case polled[m] > 1:
			twice++
		}
	}
	t.Logf("%d messages: %d relayed, each once; by the lead itself: %d of these too, %d others twice, %d marked as read and not taken", n+1, ours, both, twice, lost)
	if ours == 0 {
		t.Errorf("nothing was relayed\n%s", h)
	}
	if status := h.finish(ctx); status != 0 {
		t.Errorf("run ended with %d\n%s", status, h)
	}
}
