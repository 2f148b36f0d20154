package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339Nano) }

func row(from, text string, ago time.Duration) Event {
	return Event{Entry: inbox.Entry{Row: inbox.Row{From: from, Text: text, Timestamp: at(ago)}, Inbox: "team-lead"}, FirstSeen: now}
}

func to(inbox, from, text string, ago time.Duration) Event {
	e := row(from, text, ago)
	e.Inbox = inbox
	return e
}

const (
	available = `{"type":"idle_notification","idleReason":"available"}`
	failed    = `{"type":"idle_notification","idleReason":"failed","failureReason":"boom"}`
	approved  = `{"type":"shutdown_approved","requestId":"r"}`
	response  = `{"type":"shutdown_response","request_id":"r","approve":true}`
	refused   = `{"type":"shutdown_response","request_id":"r","approve":false}`
	rejected  = `{"type":"shutdown_rejected","requestId":"r"}`
	request   = `{"type":"shutdown_request","requestId":"r"}`
	ended     = `{"type":"teammate_terminated","message":"worker has shut down."}`
)

func approvedBy(name string) string {
	return `{"type":"shutdown_approved","requestId":"r","from":"` + name + `"}`
}
func rejectedBy(name string) string {
	return `{"type":"shutdown_rejected","requestId":"r","from":"` + name + `"}`
}
func idleOf(name string) string {
	return `{"type":"idle_notification","idleReason":"available","from":"` + name + `"}`
}

func config(joined time.Duration) *teams.Config {
	return &teams.Config{Team: "t", Members: []teams.Member{
		{Name: "team-lead", AgentType: "team-lead", JoinedAt: now.Add(-joined)},
		{Name: "worker", BackendType: "in-process", JoinedAt: now.Add(-joined)},
		{Name: "operator", JoinedAt: now},
	}}
}

// of returns "STATE detail since-ago" of the worker.
func of(t *testing.T, c *teams.Config, events ...Event) string {
	t.Helper()
	for _, s := range Of(now, c, events, nil, nil) {
		if s.Member == "operator" {
			t.Error("a guest has a status")
		}
		if s.Member == "worker" {
			return fmt.Sprintf("%s %s %s", s.State, s.Detail, now.Sub(s.Since))
		}
	}
	return "none"
}

func TestState(t *testing.T) {
	t.Parallel()
	gone := config(time.Hour)
	gone.Members = gone.Members[:1]
	for name, tc := range map[string]struct {
		config *teams.Config
		events []Event
		want   string
	}{
		"just under five minutes":    {config(time.Hour), []Event{row("worker", "x", 4*time.Minute+59*time.Second+999*time.Millisecond)}, "ACTIVE working 4m59.999s"},
		"exactly five minutes":       {config(time.Hour), []Event{row("worker", "x", 5*time.Minute)}, "IDLE working 0s"},
		"just over five minutes":     {config(time.Hour), []Event{row("worker", "x", 5*time.Minute+time.Millisecond)}, "IDLE working 1ms"},
		"never said anything":        {config(time.Minute), nil, "ACTIVE working 1m0s"},
		"never, and long ago":        {config(time.Hour), nil, "IDLE working 55m0s"},
		"waits":                      {config(time.Hour), []Event{row("worker", "x", 2*time.Minute), row("worker", available, time.Minute)}, "ACTIVE waiting 1m0s"},
		"failed":                     {config(time.Hour), []Event{row("worker", failed, time.Minute)}, "ACTIVE failed 1m0s"},
		"others do not count":        {config(time.Hour), []Event{row("team-lead", "x", 0)}, "IDLE working 55m0s"},
		"shutdown approved":          {config(time.Hour), []Event{row("worker", "x", 2*time.Minute), row("worker", approved, time.Minute)}, "TERMINATED shut down 1m0s"},
		"shutdown response":          {config(time.Hour), []Event{row("worker", response, time.Minute)}, "TERMINATED shut down 1m0s"},
		"shutdown refused":           {config(time.Hour), []Event{row("worker", refused, time.Minute)}, "ACTIVE working 1m0s"},
		"told by another member":     {config(time.Hour), []Event{row("mallory", ended, 0)}, "IDLE working 55m0s"},
		"in another's name":          {config(time.Hour), []Event{row("mallory", approvedBy("worker"), 0)}, "IDLE working 55m0s"},
		"with another's name":        {config(time.Hour), []Event{row("worker", approvedBy("mallory"), time.Minute)}, "ACTIVE working 1m0s"},
		"idle in another's name":     {config(time.Hour), []Event{row("worker", "x", time.Minute), row("mallory", idleOf("worker"), 0)}, "ACTIVE working 1m0s"},
		"idle with another's name":   {config(time.Hour), []Event{row("worker", idleOf("mallory"), time.Minute)}, "ACTIVE working 1m0s"},
		"idle, and a strange name":   {config(time.Hour), []Event{row("worker", `{"type":"idle_notification","idleReason":"available","from":7}`, time.Minute)}, "ACTIVE working 1m0s"},
		"idle, and its own name":     {config(time.Hour), []Event{row("worker", idleOf("worker"), time.Minute)}, "ACTIVE waiting 1m0s"},
		"refused in another's name":  {gone, []Event{row("worker", "x", 3*time.Minute), to("worker", "team-lead", request, 2*time.Minute), row("mallory", rejectedBy("worker"), time.Minute)}, "TERMINATED shut down 2m0s"},
		"told by another, and gone":  {gone, []Event{row("worker", "x", 2*time.Minute), row("mallory", ended, time.Minute)}, "TERMINATED shut down 1m0s"},
		"told of nobody known":       {gone, []Event{row("mallory", ended, time.Minute)}, "none"},
		"told by itself":             {config(time.Hour), []Event{row("worker", ended, time.Minute)}, "TERMINATED shut down 1m0s"},
		"approved, says the system":  {config(time.Hour), []Event{row("system", approvedBy("worker"), time.Minute)}, "TERMINATED shut down 1m0s"},
		"keys have their case":       {config(time.Hour), []Event{row("worker", `{"TYPE":"shutdown_approved"}`, time.Minute)}, "ACTIVE working 1m0s"},
		"the lead was told":          {config(time.Hour), []Event{row("worker", "x", 2*time.Minute), row("system", ended, time.Minute)}, "TERMINATED shut down 1m0s"},
		"back again":                 {config(time.Hour), []Event{row("worker", approved, 2*time.Minute), row("worker", "x", time.Minute)}, "ACTIVE working 1m0s"},
		"back again, long ago":       {config(time.Hour), []Event{row("worker", approved, 20*time.Minute), row("worker", "x", 10*time.Minute)}, "IDLE working 5m0s"},
		"started again":              {config(time.Minute), []Event{row("worker", approved, 2*time.Minute)}, "ACTIVE working 1m0s"},
		"idle and end at one time":   {config(time.Hour), []Event{row("worker", approved, time.Minute), row("worker", available, time.Minute)}, "TERMINATED shut down 1m0s"},
		"order does not matter":      {config(time.Hour), []Event{row("worker", approved, time.Minute), row("worker", "x", 2*time.Minute)}, "TERMINATED shut down 1m0s"},
		"left after a shutdown":      {gone, []Event{row("worker", approved, time.Hour)}, "TERMINATED shut down 1h0m0s"},
		"left, was asked to":         {gone, []Event{row("worker", "x", 2*time.Minute), to("worker", "team-lead", request, time.Minute)}, "TERMINATED shut down 1m0s"},
		"asked, and never there":     {gone, []Event{to("worker", "team-lead", request, time.Minute)}, "none"},
		"asked, rejected, then left": {gone, []Event{to("worker", "team-lead", request, 2*time.Minute), row("worker", rejected, time.Minute)}, "none"},
		"asked, then a last word":    {gone, []Event{row("worker", available, time.Minute), to("worker", "team-lead", request, 2*time.Minute)}, "TERMINATED shut down 1m0s"},
		"asked, refused, then left":  {gone, []Event{to("worker", "team-lead", request, 2*time.Minute), row("worker", refused, time.Minute)}, "none"},
		"asked, and still there":     {config(time.Hour), []Event{row("worker", "x", 2*time.Minute), to("worker", "team-lead", request, time.Minute)}, "ACTIVE working 2m0s"},
		"asked before it was here":   {config(time.Minute), []Event{to("worker", "team-lead", request, time.Hour)}, "ACTIVE working 1m0s"},
		"left without a word of it":  {gone, []Event{row("worker", "x", time.Minute)}, "none"},
		"a clock that is ahead":      {config(time.Hour), []Event{row("worker", "x", -time.Hour)}, "ACTIVE working 0s"},
		"terminated, but not worker": {config(time.Hour), []Event{row("system", `{"type":"teammate_terminated","message":"worker2 has shut down."}`, 0)}, "IDLE working 55m0s"},
	} {
		if got := of(t, tc.config, tc.events...); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A member is working if it got a message after its last report that it is idle.
func TestTaken(t *testing.T) {
	t.Parallel()
	const goesOn = `{"type":"idle_notification","result":"done"}`
	seen := func(text string, ago, firstSeen time.Duration) Event {
		e := row("worker", text, ago)
		e.FirstSeen = now.Add(-firstSeen)
		return e
	}
	for name, tc := range map[string]struct {
		idle  Event
		given time.Duration // ago
		by    time.Duration // ago; 0: not known
		want  string
	}{
		"before it was idle":             {seen(available, time.Minute, time.Minute), 2 * time.Minute, 0, api.DetailWaiting},
		"after it was idle":              {seen(available, 2*time.Minute, 2*time.Minute), time.Minute, 0, api.DetailWorking},
		"long before it was seen":        {seen(available, 2*time.Minute, 0), time.Minute, 0, api.DetailWorking},
		"after a failure":                {seen(failed, 2*time.Minute, 2*time.Minute), time.Minute, 0, api.DetailWorking},
		"nothing, and goes on":           {seen(goesOn, time.Minute, time.Minute), time.Hour, 0, api.DetailWorking},
		"older agent, between two tasks": {seen(available, 1010*time.Millisecond, time.Second), 998 * time.Millisecond, 0, api.DetailWorking},
		"its turn was over in no time":   {seen(available, 1003*time.Millisecond, time.Second), 1001 * time.Millisecond, 0, api.DetailWaiting},
		"its taking was seen late":       {seen(available, 1000*time.Millisecond, 990*time.Millisecond), 900 * time.Millisecond, 1010 * time.Millisecond, api.DetailWaiting},
		"its next taking was, too":       {seen(available, 1000*time.Millisecond, 800*time.Millisecond), 790 * time.Millisecond, 993 * time.Millisecond, api.DetailWorking},
	} {
		given := Taken{"worker": {Seen: now.Add(-tc.given)}}
		if tc.by != 0 {
			given["worker"] = LastTaken{Seen: now.Add(-tc.given), By: now.Add(-tc.by)}
		}
		s := Of(now, config(time.Hour), []Event{tc.idle}, given, nil)[1]
		if s.Member != "worker" || s.Detail != tc.want {
			t.Errorf("%s: %s %s, want %s", name, s.Member, s.Detail, tc.want)
		}
	}
	// No process watched.
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		firstSeen   time.Duration // the report of 1000 ms ago, ago
		written, by time.Duration // ago; by 0: not known
		want        string
	}{
		"written before, taken after it":       {900 * ms, 1260 * ms, 980 * ms, api.DetailWorking},
		"written and taken before it":          {900 * ms, 1260 * ms, 991 * ms, api.DetailWaiting},
		"taken in its millisecond":             {900 * ms, 1260 * ms, 989600 * time.Microsecond, api.DetailWaiting},
		"written and taken in its millisecond": {900 * ms, 999600 * time.Microsecond, 989500 * time.Microsecond, api.DetailWaiting},
		"written before, and nothing is known": {900 * ms, 1260 * ms, 0, api.DetailWaiting},
		"its file changed long after":          {900 * ms, 1260 * ms, -900 * ms, api.DetailWaiting},
		"written after it, seen before that":   {990 * ms, 600 * ms, 400 * ms, api.DetailWorking},
		"written after it, seen after that":    {100 * ms, 600 * ms, 400 * ms, api.DetailWorking},
		"written after it, both seen now":      {0, 600 * ms, 0, api.DetailWorking},
	} {
		given := LastTaken{Written: now.Add(-tc.written)}
		if tc.by != 0 {
			given.By = now.Add(-tc.by)
		}
		s := Of(now, config(time.Hour), []Event{seen(available, 1000*ms, tc.firstSeen)}, Taken{"worker": given}, nil)[1]
		if s.Member != "worker" || s.Detail != tc.want {
			t.Errorf("%s: %s %s, want %s", name, s.Member, s.Detail, tc.want)
		}
	}
}

func TestTimeThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	e := row("worker", "x", 0)
	e.Timestamp, e.FirstSeen = "yesterday", now.Add(-3*time.Minute)
	if got := of(t, config(time.Hour), e); got != "ACTIVE working 3m0s" {
		t.Errorf("got %s", got)
	}
	// First seen long ago, although the row has a later time.
	e = row("worker", "x", -time.Hour)
	e.FirstSeen = now.Add(-10 * time.Minute)
	if got := of(t, config(time.Hour), e); got != "IDLE working 5m0s" {
		t.Errorf("got %s", got)
	}
}

// A member without a time of joining is as old as its team.
func TestMemberWithoutJoinedAt(t *testing.T) {
	t.Parallel()
	c := config(time.Hour)
	c.CreatedAt = now.Add(-2 * time.Minute)
	c.Members[1].JoinedAt = time.Time{}
	if got := of(t, c); got != "ACTIVE working 2m0s" {
		t.Errorf("got %s", got)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	e := row("worker", available, time.Minute)
	e.MsgID = "m"
	got := Of(now, config(time.Hour), []Event{row("worker", "x", 2*time.Minute), e}, nil, nil)
	want := api.Status{Team: "t", Member: "worker", State: api.StateActive, Since: now.Add(-time.Minute), Detail: api.DetailWaiting,
		WordSince: now.Add(-time.Minute), Heard: now.Add(-time.Minute), Basis: api.BasisMessage,
		Evidence: api.Evidence{Inbox: "team-lead", ID: "m", Kind: "idle_notification", Timestamp: at(time.Minute)}}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].Evidence != (api.Evidence{}) {
		t.Errorf("evidence of joinedAt: %+v", got[0].Evidence)
	}
}

// In a team whose lead's process is gone, no member is working, whatever its messages say.
func TestStaleTeam(t *testing.T) {
	t.Parallel()
	c := config(time.Minute)
	c.LeadProcess = &teams.LeadProcess{PID: 1 << 30}
	if c.LeadProcess.Liveness() != teams.Gone {
		t.Skip("this system does not tell that the process is gone")
	}
	if got := of(t, c); got != "ACTIVE stale 1m0s" {
		t.Errorf("got %s", got)
	}
}

// An agent that teambridge made a member has the states of any other, also as an entry
// without backend and pane, and a person who joined the same team has none.
func TestStateOfAnEnlistedAgent(t *testing.T) {
	t.Parallel()
	c, err := teams.Parse("t", fmt.Appendf(nil, `{"name":"t","createdAt":1,"leadAgentId":"team-lead@t","members":[
		{"agentId":"team-lead@t","name":"team-lead","agentType":"team-lead"},
		{"agentId":"worker@t","name":"worker","agentType":"general-purpose","joinedAt":%d,"tmuxPaneId":"","cwd":"/","subscriptions":[]},
		{"agentId":"operator@t","name":"operator","joinedAt":%[1]d,"tmuxPaneId":"","cwd":"/","subscriptions":[]}]}`, now.Add(-time.Hour).UnixMilli()))
	must(t, err)
	for _, tt := range []struct {
		events []Event
		want   string
	}{
		{[]Event{row("worker", "an answer", time.Minute)}, "ACTIVE working 1m0s"},
		{[]Event{row("worker", "an answer", 6*time.Minute)}, "IDLE working 1m0s"},
		{[]Event{row("worker", "an answer", 2*time.Minute), row("worker", approvedBy("worker"), time.Minute)}, "TERMINATED shut down 1m0s"},
	} {
		if got := of(t, c, tt.events...); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
