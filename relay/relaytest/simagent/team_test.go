package simagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/relaytest/simagent"
)

// An agent runs one turn for all waiting rows, takes none during a turn, and reports whether it goes on.
func TestTurns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var turns []string
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{
			Name: "worker",
			Handle: func(_ context.Context, turn simagent.Turn) simagent.Reply {
				turns = append(turns, fmt.Sprintf("%s at %v", strings.Join(texts(turn.Rows), ","), time.Since(began)))
				return simagent.Reply{Lasts: 3 * time.Second}
			},
		}}})
		lead, worker := team.Agent(simagent.Lead), team.Agent("worker")
		send := func(text string) {
			if _, err := lead.Send(t.Context(), simagent.Message{To: "worker", Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		send("1")
		start(t, team.Run)
		synctest.Wait()
		send("2")
		send("3")
		rows, err := worker.Wait(t.Context(), 3)
		must(t, err)
		for i, want := range []time.Duration{0, 3 * time.Second, 3 * time.Second} {
			if got := rows[i].At.Sub(began); got != want {
				t.Errorf("row %d taken after %v, want %v, with the end of a turn", i+1, got, want)
			}
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if want := []string{"1 at 0s", "2,3 at 3s"}; !slices.Equal(turns, want) {
			t.Errorf("turns: got %q, want %q", turns, want)
		}
		var reasons []string
		for _, r := range lead.Log() {
			var idle struct{ IdleReason string }
			if err := json.Unmarshal([]byte(r.Text), &idle); err != nil {
				t.Error(err)
			}
			reasons = append(reasons, idle.IdleReason)
		}
		if want := []string{"", "available"}; !slices.Equal(reasons, want) {
			t.Errorf("reasons for being idle: got %q, want %q", reasons, want)
		}
	})
}
