package simagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/relaytest/simagent"
)

func hasMember(t *testing.T, team *simagent.Team, name string) bool {
	t.Helper()
	return strings.Contains(readFile(t, filepath.Join(team.Dir(), "config.json")), fmt.Sprintf(`"name": %q`, name))
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var turns []string
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{
			Name: "worker",
			Handle: func(_ context.Context, turn simagent.Turn) simagent.Reply {
				turns = append(turns, texts(turn.Rows)...)
				return simagent.Reply{Lasts: time.Second, Text: "done"}
			},
		}}})
		lead, worker := team.Agent(simagent.Lead), team.Agent("worker")
		ask(t, lead)
		dismiss(t, lead)
		ask(t, lead)
		start(t, team.Run)
		if _, err := worker.Wait(t.Context(), 100); !errors.Is(err, simagent.ErrEnded) {
			t.Errorf("the worker has not shut down: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()

		// The turn before the request was finished, none was begun after it.
		if want := []string{"go"}; !slices.Equal(turns, want) {
			t.Errorf("turns: got %q, want %q", turns, want)
		}
		var kinds []string
		for _, r := range lead.Log() {
			kinds = append(kinds, r.Kind())
		}
		if want := []string{"idle_notification", "shutdown_approved"}; !slices.Equal(kinds, want) {
			t.Errorf("the lead took %q, want %q", kinds, want)
		}
		if hasMember(t, team, "worker") {
			t.Error("the worker still stands in config.json")
		}
		if !hasMember(t, team, simagent.Lead) {
			t.Error("the lead no longer stands in config.json")
		}
		if _, err := worker.Wait(t.Context(), 99); !errors.Is(err, simagent.ErrEnded) {
			t.Errorf("Wait on an agent that ended: got %v, want ErrEnded", err)
		}
		if err := worker.Run(t.Context()); err != nil {
			t.Errorf("Run of an agent that ended: %v", err)
		}
		// The name may be used again, and the team runs the new agent.
		again, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"})
		if err != nil {
			t.Fatal(err)
		}
		ask(t, lead)
		if _, err := again.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	})
}

// An agent runs one turn for what waits, takes nothing in mid-turn, and says whether it goes on.
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
		if err != nil {
			t.Fatal(err)
		}
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

// What comes while an agent reports the end of its turn is taken right after that,
// and the report says that the agent is available: it is dated before the taking.
func TestTakesAfterTheReport(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{
			Name: "worker", Handle: func(context.Context, simagent.Turn) simagent.Reply { return simagent.Reply{} },
		}}})
		lead, worker := team.Agent(simagent.Lead), team.Agent("worker")
		lock := foreignLock(t, lead.Inbox(), 0) // it cannot report yet
		ask(t, lead)
		start(t, worker.Run)
		if _, err := worker.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		ask(t, lead)
		time.Sleep(100 * time.Millisecond)
		if got := len(worker.Log()); got != 1 {
			t.Errorf("took %d rows before it had reported, want 1", got)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		rows, err := worker.Wait(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if after := rows[1].At.Sub(rows[0].At); after >= 500*time.Millisecond {
			t.Errorf("took the second row %v after the first, want it before the next poll", after)
		}
		data := readQuiet(t, lead.Inbox())
		var reports []struct{ Text, Timestamp string }
		if err := json.Unmarshal([]byte(data), &reports); err != nil || len(reports) == 0 {
			t.Fatalf("reports %s, %v", data, err)
		}
		at, err := time.Parse(time.RFC3339, reports[0].Timestamp)
		if err != nil || !at.Before(rows[1].At) || !strings.Contains(reports[0].Text, `"available"`) {
			t.Errorf("%+v, %v; want it available, and dated before %v", reports[0], err, rows[1].At)
		}
	})
}

// Without a handler an agent takes and says nothing.
func TestSilentWithoutHandler(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{Name: "worker", Prompt: "hi"}}})
		start(t, team.Run)
		ask(t, team.Agent(simagent.Lead))
		time.Sleep(5 * time.Second)
		if got := len(team.Agent("worker").Log()); got != 1 {
			t.Errorf("the worker took %d rows, want 1", got)
		}
		if got := team.Agent(simagent.Lead).Log(); len(got) != 0 {
			t.Errorf("the lead got %q", texts(got))
		}
	})
}

// An agent that is ended in mid-turn says nothing of that turn.
func TestEndInMidTurn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{
			Name: "worker",
			Handle: func(context.Context, simagent.Turn) simagent.Reply {
				return simagent.Reply{Lasts: 5 * time.Second, Text: "done"}
			},
		}}})
		stop := start(t, team.Run)
		lead := team.Agent(simagent.Lead)
		ask(t, lead)
		if _, err := team.Agent("worker").Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		stop()
		if got := readFile(t, lead.Inbox()); got != "[]" || len(lead.Log()) != 0 {
			t.Errorf("the lead got %q, and its inbox holds %s", texts(lead.Log()), got)
		}
	})
}

// Everybody has a first turn with its prompt, once, and only teammates notify
// the lead.
func TestPrompt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var turns []string
		handle := func(_ context.Context, turn simagent.Turn) simagent.Reply {
			turns = append(turns, fmt.Sprint(turn.Prompt, len(turn.Rows)))
			return simagent.Reply{Text: "done"}
		}
		team := create(t, simagent.TeamOptions{
			Root: root, Lead: simagent.Member{Handle: handle},
			Members: []simagent.Member{{Name: "worker", Prompt: "hi", Handle: handle}},
		})
		for range 2 {
			stop := start(t, team.Run)
			time.Sleep(5 * time.Second)
			stop()
		}
		if want := []string{"hi0", "1"}; !slices.Equal(turns, want) {
			t.Errorf("turns: got %q, want %q", turns, want)
		}
		if got := len(team.Agent(simagent.Lead).Log()); got != 1 {
			t.Errorf("the lead took %d rows, want the worker's notification alone", got)
		}
	})
}

// Run returns when nothing of it runs any more.
func TestRunJoins(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		running := false
		team := create(t, simagent.TeamOptions{
			Root: root, Members: []simagent.Member{{Name: "worker"}},
			// The clock is read in the middle of taking a row.
			Now: func() time.Time {
				if running {
					<-release
				}
				return time.Now()
			},
		})
		ask(t, team.Agent(simagent.Lead))
		running = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- team.Run(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("Run returned with %v while its agent was taking a row", err)
		default:
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := len(team.Agent("worker").Log()); got != 1 {
			t.Errorf("the worker took %d rows, want 1", got)
		}
	})
}

func TestTeamLife(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root})
		if _, err := simagent.Create(t.Context(), simagent.TeamOptions{Root: root, Name: "myteam"}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create over a team: got %v, want ErrExist", err)
		}
		equal(t, "dir", team.Dir(), filepath.Join(root, "teams", "myteam"))
		stop := start(t, team.Run)
		synctest.Wait()
		if err := team.Run(t.Context()); !errors.Is(err, simagent.ErrRunning) {
			t.Errorf("second Run: got %v, want ErrRunning", err)
		}
		worker, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"}); !errors.Is(err, simagent.ErrMember) {
			t.Errorf("Spawn of a name in use: got %v, want ErrMember", err)
		}
		ask(t, team.Agent(simagent.Lead))
		if _, err := worker.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		stop()

		// A later Run goes on with the same agents.
		stop = start(t, team.Run)
		ask(t, team.Agent(simagent.Lead))
		if _, err := worker.Wait(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		stop()
	})
}

func TestCreateLeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]simagent.TeamOptions{
		"name":           {Name: "../a"},
		"member's name":  {Name: "a", Members: []simagent.Member{{Name: "../x"}}},
		"two of a name":  {Name: "a", Members: []simagent.Member{{Name: "x"}, {Name: "x"}}},
		"one like lead":  {Name: "a", Members: []simagent.Member{{Name: simagent.Lead}}},
		"negative timer": {Name: "a", Poll: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts.Root = t.TempDir()
			if _, err := simagent.Create(t.Context(), opts); err == nil {
				t.Error("no error")
			}
			left, err := filepath.Glob(filepath.Join(opts.Root, "teams", "*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// A failure that nobody is told of ends the team's Run.
func TestFailureEndsRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{
			Name: "worker",
			Handle: func(context.Context, simagent.Turn) simagent.Reply {
				return simagent.Reply{Messages: []simagent.Message{{To: "user", Text: "x"}}}
			},
		}}})
		ask(t, team.Agent(simagent.Lead))
		if err := team.Run(t.Context()); !errors.Is(err, simagent.ErrUnreachable) {
			t.Errorf("got %v, want ErrUnreachable", err)
		}
	})
}
