package codex

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/delivery"
	"teambridge/relay/relaytest/simcodex"
)

// The threads of a process are listed, with their states and whether they take messages.
func TestThreads(t *testing.T) {
	t.Parallel()
	c := simcodex.New(t)
	if list := Threads(c.Home); len(list) != 0 {
		t.Fatalf("%+v", list)
	}
	one, two, exec := c.Thread("vscode"), c.Thread("cli"), c.Thread("exec")
	sub := c.Thread(map[string]any{"subagent": "review"})
	c.Event(two, map[string]any{"type": "task_started", "turn_id": "a"})
	for range 200 { // so that the end of the file does not show it
		c.Event(two, map[string]any{"type": "token_count", "info": strings.Repeat("x", 1000)})
	}
	list := Threads(c.Home)
	if len(list) != 3 || list[0].ID != one || list[1].ID != two || list[2].ID != exec {
		t.Fatalf("%+v; the subagent is %s", list, sub)
	}
	for i, thread := range list {
		if thread.PID != os.Getpid() || !thread.Shared || thread.Cwd != "/home/ann/work" || thread.Version != "0.169.0" || thread.Exec != (i == 2) || thread.Busy != (i == 1) ||
			time.Since(thread.Changed) > time.Minute {
			t.Errorf("%+v", thread)
		}
	}
	// A session that was killed in a turn and resumed does not count as working.
	if began := startOf(os.Getpid()); time.Since(began) > time.Hour || time.Since(began) < 0 {
		t.Errorf("this process began at %v", began)
	}
	f, err := os.OpenFile(list[0].Rollout, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"timestamp":"2020-01-01T00:00:00Z","type":"event_msg","payload":{"type":"task_started","turn_id":"killed"}}` + "\n")
		err = errors.Join(err, f.Close())
	}
	must(t, err)
	if now := Threads(c.Home)[0]; now.ID != one || now.Busy || now.Changed.Year() == 2020 {
		t.Errorf("killed in a turn: %+v", now)
	}
	c.Release(one)
	if list = Threads(c.Home); len(list) != 2 || list[0].ID != two {
		t.Errorf("without the first: %+v", list)
	}
	c.Kill()
	c.Hold(exec)
	if list = Threads(c.Home); len(list) != 1 || list[0].ID != exec || list[0].Shared {
		t.Errorf("without a server: %+v", list)
	}
}

// A message is sent with three calls; requests of the server get no answer. An error says if it may have arrived.
func TestSend(t *testing.T) {
	t.Parallel()
	c := simcodex.New(t)
	id := c.Thread("vscode")
	must(t, Send(t.Context(), c.Home, id, "hello"))
	if said := c.Said(); !slices.Equal(said, []string{"initialize", "initialized", "turn/start"}) {
		t.Errorf("said %q", said)
	}
	other := c.Thread("vscode")
	c.Release(other)
	if err := Send(t.Context(), c.Home, other, "hello"); !errors.As(err, new(*delivery.UnsentError)) || !strings.Contains(err.Error(), "thread not found: "+other) {
		t.Errorf("to a thread that is not there: %v", err)
	}
	c.Turn = func(string, string) error { return simcodex.ErrKilled }
	if err := Send(t.Context(), c.Home, id, "hello"); err == nil || errors.As(err, new(*delivery.UnsentError)) {
		t.Errorf("to a server that is killed: %v", err)
	}
	if err := Send(t.Context(), c.Home, id, "hello"); !errors.As(err, new(*delivery.UnsentError)) {
		t.Errorf("without a server: %v", err)
	}
	c.Serve()
	c.Hold(id)
	ctx, cancel := context.WithCancel(t.Context())
	c.Turn = func(string, string) error { cancel(); <-t.Context().Done(); return simcodex.ErrKilled }
	if err := Send(ctx, c.Home, id, "hello"); err == nil || errors.As(err, new(*delivery.UnsentError)) {
		t.Errorf("given up: %v", err)
	}
}
