package standin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// within bounds one wait of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// versions runs a test with [standin.ForSome], side by side.
func versions(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, v)
	})
}

// put appends a row to an inbox as another program has to: holding the lock directory, in place of the whole file.
func put(t *testing.T, inbox, from, text string) {
	t.Helper()
	ctx := within(t)
	// The folder is made with the first message in the team.
	if err := os.MkdirAll(filepath.Dir(inbox), 0o700); err != nil {
		t.Fatal(err)
	}
	lock := inbox + ".lock"
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := os.Mkdir(lock, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("lock %s: %v", lock, ctx.Err())
		}
	}
	defer func() {
		if err := os.Remove(lock); err != nil {
			t.Error(err)
		}
	}()
	rows := []map[string]any{}
	data, err := os.ReadFile(inbox)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &rows); err != nil {
			t.Fatal(err)
		}
	}
	rows = append(rows, map[string]any{
		"from": from, "text": text, "read": false,
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
	})
	if data, err = json.MarshalIndent(rows, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inbox+".test", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(inbox+".test", inbox); err != nil {
		t.Fatal(err)
	}
}

// TestTeam is the package's promise in one: a team comes up, a row reaches its worker once, and the worker does what
// the row says.
func TestTeam(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		began := time.Now()
		team := standin.StartTeam(t, v, nil)
		t.Logf("team up after %v", time.Since(began).Round(time.Millisecond))
		ctx := within(t)

		config, err := team.Config()
		if err != nil {
			t.Fatal(err)
		}
		if config.Name != team.Name || !config.Has("worker") || !config.Has("team-lead") {
			t.Errorf("config.json of %q: got %+v, want team-lead and worker", team.Name, config)
		}

		put(t, team.Inbox("worker"), "team-lead", "please read [row-1]")
		got, err := team.API.Wait(ctx, func(r standin.Request) bool {
			return r.Agent == "worker" && r.Has("[row-1]") && !r.Answered.IsZero()
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := got.Deliveries(); len(d) != 1 || d[0].From != "team-lead" || d[0].Body != "please read [row-1]" {
			t.Errorf("deliveries: got %+v, want the row from team-lead", d)
		}

		// The reply is a second call with the first row in its history: what was counted must not count again.
		const name = "operator"
		join(t, team, name)
		put(t, team.Inbox("worker"), "team-lead", "answer [row-2]\n"+standin.CallLine("SendMessage", map[string]string{
			"to": name, "message": "a reply", "summary": "short",
		}))
		data, err := team.WaitText(ctx, name, "a reply")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), `"from": "worker"`) {
			t.Errorf("inbox of %s: got %s, want a row from worker", name, data)
		}
		if _, err := team.API.Wait(ctx, func(r standin.Request) bool {
			return r.Agent == "worker" && len(r.Results) > 0 && !r.Answered.IsZero()
		}); err != nil {
			t.Fatal(err)
		}
		for _, marker := range []string{"[row-1]", "[row-2]"} {
			if n := team.API.Count("worker", marker); n != 1 {
				t.Errorf("Count(worker, %s): got %d, want 1; %s", marker, n, team.API)
			}
			if n := team.API.Turns("worker", marker); n != 1 {
				t.Errorf("Turns(worker, %s): got %d, want 1", marker, n)
			}
		}
		put(t, team.Inbox("worker"), "team-lead", "again [row-1]")
		if err := team.API.WaitCount(ctx, "worker", "[row-1]", 2); err != nil {
			t.Errorf("a row that came twice: %v", err)
		}
	})
}

// join puts a person into config.json, which makes the name reachable.
func join(t *testing.T, team *standin.Team, name string) {
	t.Helper()
	if err := team.Add(t.Context(), map[string]any{
		"agentId": name + "@" + team.Name, "name": name, "joinedAt": time.Now().UnixMilli(),
		"tmuxPaneId": "", "cwd": team.Home.Work, "subscriptions": []string{},
	}); err != nil {
		t.Fatal(err)
	}
	if err := team.WaitMember(within(t), name); err != nil {
		t.Fatal(err)
	}
}

// TestStartMember brings up a team of two versions: the oldest leads, and the newest is a process of its own.
func TestStartMember(t *testing.T) {
	t.Parallel()
	team := standin.StartTeam(t, standin.Oldest(t), nil)
	team.StartMember(t, standin.Newest(t), "bob")
	put(t, team.Inbox("bob"), "team-lead", "please read [row-1]")
	ctx := within(t)
	if err := team.API.WaitCount(ctx, "bob", "[row-1]", 1); err != nil {
		t.Fatal(err)
	}
	if n := team.API.Count(standin.Any, "please read [row-1]"); n != 1 {
		t.Errorf("given to all: %d times, want 1; %s", n, team.API)
	}
}

// TestNothingStaysBehind ends a team by the end of its test and looks for its processes, its server and its files.
func TestNothingStaysBehind(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		var team *standin.Team
		t.Run("inner", func(t *testing.T) {
			team = standin.StartTeam(t, v, nil)
		})
		if team == nil {
			t.Skip("no team")
		}
		if standin.Alive(team.Lead.Pid()) {
			t.Errorf("Claude Code, process %d, is still there", team.Lead.Pid())
		}
		if pids := standin.Strays(team.Home); len(pids) > 0 {
			t.Errorf("processes of the home are still there: %v", pids)
		}
		if _, err := os.Stat(team.Root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the root is still there: %v", err)
		}
	})
}

// TestEnd ends a session in its own way, in which it removes its team.
func TestEnd(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		team := standin.StartTeam(t, v, nil)
		ctx := within(t)
		if err := team.Lead.End(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(team.Dir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("team directory after the end: got %v, want it gone", err)
		}
	})
}

// TestHeadless runs plain turns, a killed process and a resumed session.
func TestHeadless(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		session := "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
		p := standin.StartHeadless(t, v, h, "--session-id", session)
		ctx := within(t)
		if err := p.Prompt(ctx, "hello [first]"); err != nil {
			t.Fatal(err)
		}
		result, err := p.Wait(ctx, func(f standin.Frame) bool { return f.Type == "result" })
		if err != nil {
			t.Fatal(err)
		}
		if result.Result != "ACK: hello [first]" || result.SessionID != session {
			t.Errorf("result: got %q in session %s, want the echo in %s", result.Result, result.SessionID, session)
		}
		// A session can be resumed once its transcript is on disk, which can be some time after the turn.
		folder := regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(h.Work, "-")
		transcript := filepath.Join(h.Root, "projects", folder, session+".jsonl")
		if _, err := standin.WaitFile(ctx, transcript, func(data []byte) bool {
			return strings.Contains(string(data), "ACK: hello [first]")
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send("SLEEP:600 [cut]"); err != nil {
			t.Fatal(err)
		}
		if err := h.API.WaitCount(ctx, standin.Main, "[cut]", 1); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if standin.Alive(p.Pid()) {
			t.Error("alive after Kill")
		}

		p = standin.StartHeadless(t, v, h, "--resume", session)
		if err := p.Prompt(ctx, "hello [second]"); err != nil {
			t.Fatal(err)
		}
		for marker, want := range map[string][2]int{"[first]": {1, 1}, "[cut]": {1, 0}, "[second]": {1, 1}} {
			if n := h.API.Count(standin.Main, marker); n != want[0] {
				t.Errorf("Count(main, %s): got %d, want %d; %s", marker, n, want[0], h.API)
			}
		}
		if n := h.API.Turns(standin.Main, "[first]"); n != 1 {
			t.Errorf("Turns(main, [first]): got %d, want 1", n)
		}
		if err := p.End(ctx); err != nil {
			t.Errorf("End: %v", err)
		}
		if _, err := p.Wait(ctx, func(standin.Frame) bool { return false }); err == nil || ctx.Err() != nil {
			t.Errorf("Wait after the end: got %v, want an error at once", err)
		}
	})
}

// TestCompaction gives a text, has the conversation compacted, and gives the text again.
func TestCompaction(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		p := standin.StartHeadless(t, v, h)
		ctx := within(t)
		for _, text := range []string{"first [m]", "second"} {
			if err := p.Prompt(ctx, text); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Send("/compact"); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx, func(f standin.Frame) bool { return f.Subtype == "compact_boundary" }); err != nil {
			t.Fatal(err)
		}
		if err := p.Prompt(ctx, "third"); err != nil {
			t.Fatal(err)
		}
		if n := h.API.Count(standin.Main, "[m]"); n != 1 {
			t.Errorf("Count after the compaction: got %d, want 1; %s", n, h.API)
		}
		if err := p.Prompt(ctx, "again [m]"); err != nil {
			t.Fatal(err)
		}
		if n := h.API.Count(standin.Main, "[m]"); n != 2 {
			t.Errorf("Count after the second time: got %d, want 2; %s", n, h.API)
		}
		var side []int
		for _, r := range h.API.Log() {
			if r.Side {
				side = append(side, r.Seq)
			}
		}
		if len(side) != 1 || side[0] != 3 {
			t.Errorf("side calls: got %v, want the third, which asks for the summary; %s", side, h.API)
		}
	})
}

// TestBurst appends more rows than an agent takes at once, while it works, and counts each.
func TestBurst(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		team := standin.StartTeam(t, v, nil)
		ctx := within(t)
		want := map[string]int{}
		for i := range 60 {
			marker := fmt.Sprintf("[b-%d]", i)
			want[marker] = 1
			put(t, team.Inbox("worker"), "team-lead", "take "+marker)
		}
		for marker := range want {
			if err := team.API.WaitCount(ctx, "worker", marker, 1); err != nil {
				t.Fatal(err)
			}
		}
		// One more, behind all: nothing of the burst can come after it.
		put(t, team.Inbox("worker"), "team-lead", "the last [end]")
		if err := team.API.WaitCount(ctx, "worker", "[end]", 1); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, team.API.Counts("worker", regexp.MustCompile(`\[b-[0-9]+\]`))); diff != "" {
			t.Errorf("Counts (-want +got):\n%s", diff)
		}
	})
}

// TestTerminal types several lines at once, and in mid-turn: that text reaches the model inside a tool's result, or
// next to it, as the version has it.
func TestTerminal(t *testing.T) {
	versions(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		p := standin.StartTerminal(t, v, h)
		ctx := within(t)
		proceed := filepath.Join(h.Work, "proceed")
		if err := p.Prompt(ctx, "two lines\n"+standin.CallLine("Bash", map[string]string{
			"command": fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done; echo ran", proceed), "description": "wait",
		})); err != nil {
			t.Fatal(err)
		}
		if _, err := h.API.Wait(ctx, func(r standin.Request) bool { return r.Has("two lines") && !r.Answered.IsZero() }); err != nil {
			t.Fatal(err)
		}
		if err := p.Prompt(ctx, "typed meanwhile [mid]"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(proceed, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.API.Wait(ctx, func(r standin.Request) bool { return r.Has("[mid]") && !r.Side && !r.Answered.IsZero() })
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Results) != 1 || !strings.Contains(got.Results[0], "ran") {
			t.Errorf("results beside the text: got %q, want that of the command", got.Results)
		}
		if err := p.Prompt(ctx, "after [end]"); err != nil {
			t.Fatal(err)
		}
		// Some versions also ask a side question that quotes it.
		if err := h.API.WaitCount(ctx, standin.Main, "[end]", 1); err != nil {
			t.Fatal(err)
		}
		for _, marker := range []string{"[mid]", "[end]"} {
			if n := h.API.Count(standin.Main, marker); n != 1 {
				t.Errorf("Count(main, %s): got %d, want 1; %s", marker, n, h.API)
			}
		}
	})
}
