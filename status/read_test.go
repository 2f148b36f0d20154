package status

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// An agent takes a message and reports 30 ms later that it is done, and the taking
// is seen after the report: on a machine that has much to do. It waits for
// messages, for its inbox was not changed since; had it been, it would be at work.
func TestTakingThatIsSeenLate(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, team := f.Root, f.Team(teamstest.Older)
	c, err := team.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), filepath.Join(f.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	now := time.Now()
	took := now.Add(-time.Second + time.Millisecond) // no whole second
	see := func(name string, at time.Duration, rows ...map[string]any) {
		t.Helper()
		data, err := json.Marshal(append([]map[string]any{}, rows...))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := inbox.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		seen := took.Add(at)
		if _, err := j.Observe(t.Context(), journal.Snapshot{Root: root.Path(), Team: c.Instance(), Inbox: name, Rows: parsed, At: seen, Done: seen}); err != nil {
			t.Fatal(err)
		}
	}
	row := func(from, text string, at time.Duration) map[string]any {
		return map[string]any{"from": from, "text": text, "timestamp": took.Add(at).UTC().Format(inbox.TimestampLayout)}
	}
	see("worker", -400*time.Millisecond, row("user", "hello", -401*time.Millisecond))
	see("team-lead", 40*time.Millisecond, row("worker", available, 30*time.Millisecond))
	see("worker", 200*time.Millisecond)
	for name, tc := range map[string]struct {
		changed time.Time
		want    string
	}{
		"taken before":         {took, api.DetailWaiting},
		"changed since":        {took.Add(150 * time.Millisecond), api.DetailWorking},
		"dated by the seconds": {took.Add(-time.Second).Truncate(time.Second), api.DetailWorking},
	} {
		if err := os.Chtimes(filepath.Join(team.Path(), "inboxes", "worker.json"), tc.changed, tc.changed); err != nil {
			t.Fatal(err)
		}
		all, err := Source{Journal: j}.Read(t.Context(), team, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Member == "worker" && s.Detail != tc.want {
				t.Errorf("%s: %s, want %s; %+v", name, s.Detail, tc.want, s)
			}
		}
		if len(all) < 2 {
			t.Errorf("%s: only %+v", name, all)
		}
	}
}
