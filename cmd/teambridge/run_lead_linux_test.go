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
	"teambridge/relay/sim/standin"
	"teambridge/teams"
)

// A lead up to 2.1.177 reads the inbox of a team that its own process made, and
// delivers a row before it marks it. So its inbox is left to it: no row is relayed,
// and none is marked. What is typed reaches it.
//
// An agent that "run" starts never reads its inbox. So the agent here is started
// before, and what "run" starts is a script that hands on its lines.
func TestRealLeadThatPollsItself(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, standin.Oldest(t, teams.HeadlessDeaf), nil)
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
		"content": standin.CallLine("TeamCreate", map[string]string{"team_name": h.team, "description": "d"})}})
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
	standin.WriteProgram(t, script, `#!/bin/sh
cat '`+out+`' &
cat >'`+in+`'
kill $!
`)
	h.command = []string{script}
	h.start("--plain", "--session", session)
	h.up(ctx)
	l := h.ledger()
	const n = 100
	for i := range n {
		h.send(fmt.Sprintf("<m-%d>", i))
	}
	h.typing("<typed>")
	h.settled(ctx, l, 1)
	h.send(fmt.Sprintf("<m-%d>", n))
	data, err := standin.WaitFile(ctx, filepath.Join(h.home.Root, "teams", h.team, "inboxes", "team-lead.json"), func(data []byte) bool {
		return json.Valid(data) && !strings.Contains(string(data), `"read": false`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "relayedBy") {
		t.Errorf("rows are marked as relayed: %.2000s", data)
	}
	if all := h.deliveries(l); len(all) != 1 || all[0].State != ledger.Done || string(all[0].Raw) != "<typed>" {
		t.Errorf("deliveries %+v, want what was typed alone", all)
	}
	if c := h.home.API.Count(standin.Any, "<typed>"); c != 1 {
		t.Errorf("what was typed was given %d times, want once", c)
	}
	read, lost, twice := 0, 0, 0
	for i := range n + 1 {
		switch c := h.home.API.Count(standin.Any, fmt.Sprintf("<m-%d>", i)); {
		case c == 0:
			lost++
		case c > 1:
			twice++
			fallthrough
		default:
			read++
		}
	}
	// What it loses and takes twice it does by itself.
	t.Logf("%d messages: the lead took %d, %d of them twice, and lost %d", n+1, read, twice, lost)
	if read == 0 {
		t.Errorf("the lead took nothing\n%s", h)
	}
	if status := h.finish(ctx); status != 0 {
		t.Errorf("run ended with %d\n%s", status, h)
	}
}
