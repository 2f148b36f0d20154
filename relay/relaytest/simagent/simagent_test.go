package simagent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/relaytest/simagent"
	"teambridge/teams/errtest"
)

var must = errtest.Must

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func texts(rows []simagent.Taken) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Text
	}
	return out
}

// emptyTeam returns a team directory with nothing but inboxes.
func emptyTeam(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "inboxes"), 0o700))
	return dir
}

func newAgent(t *testing.T, opts simagent.Options) *simagent.Agent {
	t.Helper()
	agent, err := simagent.New(opts)
	must(t, err)
	return agent
}

// readQuiet reads a file of a bubble while no agent writes it: old agents write in
// place.
func readQuiet(t *testing.T, path string) string {
	t.Helper()
	synctest.Wait()
	return readFile(t, path)
}

// start runs until the test ends, and fails the test if the run does.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func create(t *testing.T, opts simagent.TeamOptions) *simagent.Team {
	t.Helper()
	if opts.Root == "" {
		opts.Root = t.TempDir()
	}
	if opts.Name == "" {
		opts.Name = "myteam"
	}
	if opts.Process == (simagent.Process{}) {
		opts.Process = simagent.Process{PID: 7, Space: "host#pid:[1]", Start: "42"}
	}
	team, err := simagent.Create(t.Context(), opts)
	must(t, err)
	return team
}

const plain = `{"from":"user","text":"do it","timestamp":"2026-11-20T17:38:59.100Z","read":false}`

// An agent takes exactly the rows that Claude Code takes, and leaves the same file.
func TestTakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		before         string
		taken          []string
		marks, removes string // the file afterwards
	}{
		{
			name:    "a plain row",
			before:  `[` + plain + `]`,
			taken:   []string{"do it"},
			marks:   "[\n  {\n    \"from\": \"user\",\n    \"text\": \"do it\",\n    \"timestamp\": \"2026-11-20T17:38:59.100Z\",\n    \"read\": true\n  }\n]",
			removes: `[]`,
		},
		{
			name:    "read may be missing, and who marks adds it at the end",
			before:  `[{"from":"a","text":"x","timestamp":"yesterday"}]`,
			taken:   []string{"x"},
			marks:   "[\n  {\n    \"from\": \"a\",\n    \"text\": \"x\",\n    \"timestamp\": \"yesterday\",\n    \"read\": true\n  }\n]",
			removes: `[]`,
		},
		{
			name:    "rows that were read are not delivered, and who removes removes them too",
			before:  `[{"from":"a","text":"old","timestamp":"t","read":true},{"from":"a","text":"new","timestamp":"t","read":false}]`,
			taken:   []string{"new"},
			marks:   "[\n  {\n    \"from\": \"a\",\n    \"text\": \"old\",\n    \"timestamp\": \"t\",\n    \"read\": true\n  },\n  {\n    \"from\": \"a\",\n    \"text\": \"new\",\n    \"timestamp\": \"t\",\n    \"read\": true\n  }\n]",
			removes: `[]`,
		},
		{
			name:    "only read rows",
			before:  `[{"from":"a","text":"old","timestamp":"t","read":true}]`,
			marks:   `[{"from":"a","text":"old","timestamp":"t","read":true}]`,
			removes: `[]`,
		},
		{
			name:    "malformed rows",
			before:  `[{"text":"x","timestamp":"t"},{"from":"a","timestamp":"t"},{"from":"a","text":7,"timestamp":"t"},{"from":"a","text":"x"},{"from":"a","text":"x","timestamp":1},{"from":null,"text":"x","timestamp":"t"},null,"s",1,[]]`,
			marks:   `[{"text":"x","timestamp":"t"},{"from":"a","timestamp":"t"},{"from":"a","text":7,"timestamp":"t"},{"from":"a","text":"x"},{"from":"a","text":"x","timestamp":1},{"from":null,"text":"x","timestamp":"t"},null,"s",1,[]]`,
			removes: `[]`,
		},
		{
			name:    "keys differ by case",
			before:  `[{"From":"a","text":"x","timestamp":"t"}]`,
			marks:   `[{"From":"a","text":"x","timestamp":"t"}]`,
			removes: `[]`,
		},
		{
			name:    "unknown keys, numbers and escapes stay where rows are marked",
			before:  `[{"z":1.50,"from":"a","big":12345678901234567890,"text":"\u00e9<&>","read":false,"timestamp":"t","o":{"k":[],"e":{}}}]`,
			taken:   []string{"é<&>"},
			marks:   "[\n  {\n    \"z\": 1.50,\n    \"from\": \"a\",\n    \"big\": 12345678901234567890,\n    \"text\": \"\\u00e9<&>\",\n    \"read\": true,\n    \"timestamp\": \"t\",\n    \"o\": {\n      \"k\": [],\n      \"e\": {}\n    }\n  }\n]",
			removes: `[]`,
		},
		{
			name:    "one id twice is delivered twice",
			before:  `[{"from":"a","text":"1","timestamp":"t","msg_id":"m"},{"from":"a","text":"2","timestamp":"t","msg_id":"m"}]`,
			taken:   []string{"1", "2"},
			marks:   "[\n  {\n    \"from\": \"a\",\n    \"text\": \"1\",\n    \"timestamp\": \"t\",\n    \"msg_id\": \"m\",\n    \"read\": true\n  },\n  {\n    \"from\": \"a\",\n    \"text\": \"2\",\n    \"timestamp\": \"t\",\n    \"msg_id\": \"m\",\n    \"read\": true\n  }\n]",
			removes: `[]`,
		},
		{name: "empty file", before: ``, marks: ``, removes: ``},
		{name: "empty array", before: `[]`, marks: `[]`, removes: `[]`},
		{name: "object", before: `{}`, marks: `{}`, removes: `{}`},
		{name: "null", before: `null`, marks: `null`, removes: `null`},
		{name: "cut off", before: `[` + plain + `,{"from`, marks: `[` + plain + `,{"from`, removes: `[` + plain + `,{"from`},
		{name: "garbage", before: `what?`, marks: `what?`, removes: `what?`},
		{name: "something after the array", before: `[` + plain + `]x`, marks: `[` + plain + `]x`, removes: `[` + plain + `]x`},
		{name: "byte order mark", before: "\ufeff[" + plain + `]`, marks: "\ufeff[" + plain + `]`, removes: "\ufeff[" + plain + `]`},
	}
	for _, test := range tests {
		for _, marks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", test.name, marks), func(t *testing.T) {
				t.Parallel()
				dir := emptyTeam(t)
				synctest.Test(t, func(t *testing.T) {
					agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker", Marks: marks})
					writeFile(t, agent.Inbox(), test.before)
					stop := start(t, agent.Run)
					time.Sleep(2 * time.Second)
					stop()
					if got := texts(agent.Log()); !slices.Equal(got, test.taken) {
						t.Errorf("taken: got %q, want %q", got, test.taken)
					}
					want := test.removes
					if marks {
						want = test.marks
					}
					equal(t, "file", readFile(t, agent.Inbox()), want)
					if names, _ := filepath.Glob(filepath.Join(dir, "inboxes", "*")); len(names) != 1 {
						t.Errorf("left behind: %q", names)
					}
				})
			})
		}
	}
}
