package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// A command that asks a teammate in a pane, or waits for it, reports that its process was killed. No file shows
// that: its lead runs, and config.json still has the member.
func TestTeammateInAPaneIsKilled(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	list, err := f.Root.Teams()
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	team := list[0].Name
	id := fmt.Sprintf("worker@%d", os.Getpid())
	inPane(t, f.Path(team, "config.json"), id)
	agent := exec.Command("sh", "-c", "read line", "claude", "--agent-id", id)
	in, err := agent.StdinPipe()
	if err == nil {
		err = agent.Start()
	}
	must(t, err)
	defer in.Close()
	b := bridge.New(options(t, f))
	words := func() string {
		all, err := b.Status(t.Context(), team)
		must(t, err)
		for _, s := range all {
			if s.Member == "worker" {
				return s.Word + " (" + s.Why + ")"
			}
		}
		return ""
	}
	if got := words(); strings.HasPrefix(got, api.WordEnded) {
		t.Errorf("while it runs, the status is %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	over := make(chan error, 3)
	go func() {
		_, err := b.Ask(ctx, team, "worker", "q-1", api.NewQuestion{NewMessage: api.NewMessage{Text: "what is it?"}, Timeout: "2m"})
		over <- err
	}()
	for rows := []inbox.Row(nil); len(rows) == 0; time.Sleep(5 * time.Millisecond) {
		if rows, err = f.Inbox(team, "worker").Read(ctx); err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
			t.Fatal(err)
		}
	}
	for _, occasion := range []string{api.ForReply, api.ForIdle} {
		go func() {
			_, err := b.Wait(ctx, team, api.Occasion{For: occasion, Member: "worker", Timeout: 2 * time.Minute})
			over <- err
		}()
	}
	must(t, agent.Process.Kill())
	_ = agent.Wait() // it was killed
	for range 3 {
		if err := <-over; !errors.Is(err, api.CodeNotFound) || !strings.Contains(err.Error(), "process") || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("the error is %v", err)
		}
	}
	if got, want := words(), api.WordEnded+" (its process has ended)"; got != want {
		t.Errorf("the status is %s, want %s", got, want)
	}
	if _, err := b.Wait(ctx, team, api.Occasion{For: api.ForTerminated, Member: "worker", Timeout: 2 * time.Minute}); err != nil {
		t.Errorf("waiting for its end: %v", err)
	}
	if _, err := b.Ask(ctx, team, "worker", "q-2", api.NewQuestion{NewMessage: api.NewMessage{Text: "and now?"}}); !errors.Is(err, api.CodeNotFound) {
		t.Errorf("asked again: %v", err)
	}
}

// inPane lets this process lead a team, and gives its worker a pane and an id.
func inPane(t *testing.T, config, id string) {
	t.Helper()
	editConfig(t, config, func(c map[string]any) {
		c["leadProcess"] = leadProcess(t, os.Getpid(), teams.ThisStart())
		for _, m := range c["members"].([]any) {
			if m := m.(map[string]any); m["name"] == "worker" {
				m["agentId"], m["tmuxPaneId"], m["backendType"] = id, "%1", "tmux"
			}
		}
	})
}
