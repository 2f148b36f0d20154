package simagent_test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/relaytest/simagent"
)

var (
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyMS   = regexp.MustCompile(`shutdown-\d{12,13}@`)
)

// shape returns a captured file without the parts that differ between runs.
func shape(data string) string {
	data = anyTime.ReplaceAllString(data, "TIME")
	data = anyUUID.ReplaceAllString(data, "UUID")
	return anyMS.ReplaceAllString(data, "shutdown-0@")
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join("testdata", filepath.FromSlash(name)))
}

func TestConfigIsByteEqual(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fixture         string
		created, joined int64
		opts            simagent.TeamOptions
	}{
		{
			fixture: "2.1.329/config.json", created: 1795196213317, joined: 1795196285852,
			opts: simagent.TeamOptions{
				SessionID: "2de3961d-6921-4e4d-8adb-18a75361dbe0",
				Process:   simagent.Process{PID: 7189, Space: "vm#pid:[4026531836]", Claimed: time.UnixMilli(1795196213316), Start: "46498"},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.fixture, func(t *testing.T) {
			t.Parallel()
			now := time.UnixMilli(test.created)
			opts := test.opts
			opts.Root, opts.Cwd = t.TempDir(), "/home/dev/project"
			opts.Now = func() time.Time { return now }
			team, err := simagent.Create(t.Context(), opts)
			must(t, err)
			now = time.UnixMilli(test.joined)
			if _, err := team.Spawn(t.Context(), simagent.Member{Name: "worker", Prompt: "You are worker. Say hi"}); err != nil {
				t.Fatal(err)
			}
			equal(t, "config.json", readFile(t, filepath.Join(team.Dir(), "config.json")), fixture(t, test.fixture))
			equal(t, "inbox", readFile(t, team.Agent("worker").Inbox()), "[]")
		})
	}
}

// Old agents mark the rows that they take: the captured inbox, unread, becomes the captured inbox.
func TestMarksByteEqual(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	synctest.Test(t, func(t *testing.T) {
		want := fixture(t, "2.1.80/inboxes/worker.json")
		agent := newAgent(t, simagent.Options{Dir: dir, Name: simagent.Lead, Marks: true})
		writeFile(t, agent.Inbox(), strings.ReplaceAll(want, `"read": true`, `"read": false`))
		start(t, agent.Run)
		if _, err := agent.Wait(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it marks after it has delivered
		equal(t, "inbox", readFile(t, agent.Inbox()), want)
	})
}

// The rows of agents in their turns are equal to those in files captured from real agents.
func TestRowsAreByteEqual(t *testing.T) {
	t.Parallel()
	says := func(to, text, summary, final string) simagent.Handler {
		return func(_ context.Context, turn simagent.Turn) simagent.Reply {
			reply := simagent.Reply{Text: final}
			if turn.Prompt == "" {
				reply.Messages = []simagent.Message{{To: to, Text: text, Summary: summary}}
			}
			return reply
		}
	}
	tests := []struct {
		name   string
		worker simagent.Member
		joined string // a name in config.json besides the two
		script func(t *testing.T, lead *simagent.Agent)
		inbox  string
		want   string
	}{
		{
			name: "message and idle with result", inbox: simagent.Lead,
			worker: simagent.Member{Handle: says(simagent.Lead, "hello lead", "to lead", "done after tool")},
			script: ask, want: "2.1.329/snapshots/team-lead.message-then-idle.json",
		},
		{
			name: "idle with summary and result", inbox: simagent.Lead, joined: "user",
			worker: simagent.Member{Handle: says("user", "hello user reply", "reply to user", "done after tool")},
			script: ask, want: "2.1.329/snapshots/team-lead.idle-with-summary-and-result.json",
		},
		{
			name: "shutdown request", inbox: "worker",
			worker: simagent.Member{Absent: true},
			script: dismiss, want: "2.1.329/snapshots/worker.shutdown-request.json",
		},
		{
			name: "shutdown approved", inbox: simagent.Lead,
			script: dismiss, want: "2.1.329/snapshots/team-lead.shutdown-approved.json",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				test.worker.Name = "worker"
				members := []simagent.Member{test.worker}
				if test.joined != "" {
					members = append(members, simagent.Member{Name: test.joined, Absent: true})
				}
				// An absent lead leaves its inbox unread for the test.
				team := create(t, simagent.TeamOptions{Root: root, Lead: simagent.Member{Absent: true}, Members: members})
				start(t, team.Run)
				test.script(t, team.Agent(simagent.Lead))
				time.Sleep(time.Second)
				got := readQuiet(t, filepath.Join(team.Dir(), "inboxes", test.inbox+".json"))
				want := fixture(t, test.want)
				if test.inbox == simagent.Lead {
					want = strings.ReplaceAll(want, `"read": true`, `"read": false`)
				}
				equal(t, test.inbox, shape(got), shape(want))
			})
		})
	}
}

func ask(t *testing.T, lead *simagent.Agent) {
	t.Helper()
	if _, err := lead.Send(t.Context(), simagent.Message{To: "worker", Text: "go"}); err != nil {
		t.Fatal(err)
	}
}

func dismiss(t *testing.T, lead *simagent.Agent) {
	t.Helper()
	if _, err := lead.RequestShutdown(t.Context(), "worker", "bye"); err != nil {
		t.Fatal(err)
	}
}
