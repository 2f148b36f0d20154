package status

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

var must = errtest.Must

// On a busy machine, an agent takes a message and reports 30 ms later that it is
// done, and the taking is seen after the report. The agent counts as waiting, since
// its inbox was not changed after the report; otherwise it would count as working.
func TestTakingThatIsSeenLate(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, team := f.Root, f.Team(teamstest.Older)
	c, err := team.Config(t.Context())
	must(t, err)
	j, err := journal.Open(t.Context(), filepath.Join(f.State, "journal.db"))
	must(t, err)
	defer j.Close()
	now := time.Now()
	took := now.Add(-time.Second + time.Millisecond) // no whole second
	see := func(name string, at time.Duration, rows ...map[string]any) {
		t.Helper()
		data, err := json.Marshal(append([]map[string]any{}, rows...))
		must(t, err)
		parsed, err := inbox.Parse(data)
		must(t, err)
		seen := took.Add(at)
		if _, err := j.Messages.Observe(t.Context(), journal.Snapshot{InboxKey: inbox.Key(root.Path(), c.Instance(), name), Rows: parsed, At: seen, Done: seen}); err != nil {
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
		must(t, os.Chtimes(filepath.Join(team.Path(), "inboxes", "worker.json"), tc.changed, tc.changed))
		all, err := Source{Journal: j}.Read(t.Context(), team, now)
		must(t, err)
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

// Records of turns count with the messages: an envelope after an approved shutdown
// does not revive a member, nor does one of an earlier team of that name.
func TestReadTurns(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	team := f.Team(teamstest.Older)
	c, err := team.Config(t.Context())
	must(t, err)
	j, err := journal.Open(t.Context(), filepath.Join(f.State, "journal.db"))
	must(t, err)
	defer j.Close()
	now := time.Now()
	id := 0
	says := func(instance teams.Instance, kind, event string, ago time.Duration) {
		t.Helper()
		id++
		if _, err := j.Envelopes.Record(t.Context(), journal.Envelope{
			InboxKey: inbox.Key(f.Root.Path(), instance, "worker"), ID: fmt.Sprint(id), Session: "s", Kind: kind,
			Role: "agent", At: now.Add(-ago), Raw: []byte(`{"ev":` + event + `}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		all, err := Source{Journal: j}.Read(t.Context(), team, now)
		must(t, err)
		for _, k := range all {
			if s := k.Decide(now); s.Member == "worker" && fmt.Sprint(s.Word, s.Why, " ", s.State) != want {
				t.Errorf("%s %s %s, want %s", s.Word, s.Why, s.State, want)
			}
		}
	}
	earlier := c.Instance()
	earlier.CreatedAt--
	says(earlier, "turn-start", `{"t":"turn-start"}`, time.Minute)
	is("unknownnothing was heard from it yet IDLE")
	says(c.Instance(), "turn-start", `{"t":"turn-start"}`, 20*time.Minute)
	is("unknownnothing was heard from it for 5 minutes or more IDLE")
	says(c.Instance(), "text", `{"t":"text","text":"x"}`, 4*time.Minute)
	is("working ACTIVE")
	says(c.Instance(), "turn-end", `{"t":"turn-end","status":"failed"}`, 3*time.Minute)
	is("idleits last turn failed ACTIVE")
	data, err := json.Marshal([]map[string]any{{"from": "worker", "text": approved, "timestamp": now.Add(-2 * time.Minute).UTC().Format(inbox.TimestampLayout)}})
	must(t, err)
	rows, err := inbox.Parse(data)
	must(t, err)
	if _, err := j.Messages.Observe(t.Context(), journal.Snapshot{InboxKey: inbox.Key(f.Root.Path(), c.Instance(), "team-lead"), Rows: rows, At: now, Done: now}); err != nil {
		t.Fatal(err)
	}
	says(c.Instance(), "turn-start", `{"t":"turn-start"}`, time.Minute)
	is("endedit has shut down TERMINATED")
}
