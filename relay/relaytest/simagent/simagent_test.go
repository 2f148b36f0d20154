package simagent_test

import (
	"context"
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

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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

// emptyTeam is a team directory with nothing but inboxes.
func emptyTeam(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "inboxes"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newAgent(t *testing.T, opts simagent.Options) *simagent.Agent {
	t.Helper()
	agent, err := simagent.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// readQuiet reads a file of a bubble while nobody writes it: agents of old write in
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
	if err != nil {
		t.Fatal(err)
	}
	return team
}

const plain = `{"from":"user","text":"do it","timestamp":"2026-11-20T17:38:59.100Z","read":false}`

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

func TestTakenHoldsTheRow(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	synctest.Test(t, func(t *testing.T) {
		raw := `{ "text":"x", "from":"a","timestamp":"t","summary":"s","color":"red","msg_id":"m","messageId":"i", "n":1.0 }`
		agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker"})
		writeFile(t, agent.Inbox(), `[`+raw+`]`)
		start(t, agent.Run)
		rows, err := agent.Wait(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		got := rows[0]
		equal(t, "raw", string(got.Raw), raw)
		equal(t, "fields", strings.Join([]string{got.From, got.Text, got.Timestamp, got.Summary, got.Color, got.MsgID, got.MessageID, got.Kind()}, " "), "a x t s red m i message")
		if !got.At.Equal(time.Now()) || got.At.Location() != time.UTC {
			t.Errorf("taken at %v, want %v in UTC", got.At, time.Now())
		}
	})
}

func TestPollsAtItsInterval(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		set, want time.Duration
	}{
		{"worker", 0, 500 * time.Millisecond},
		{simagent.Lead, 0, 1000 * time.Millisecond},
		{simagent.Lead, 7 * time.Millisecond, 7 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name+"/"+test.set.String(), func(t *testing.T) {
			t.Parallel()
			dir := emptyTeam(t)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				agent := newAgent(t, simagent.Options{Dir: dir, Name: test.name, Poll: test.set})
				start(t, agent.Run)
				// The inbox is made by somebody else, while the agent runs.
				for n := 1; n <= 3; n++ {
					time.Sleep(time.Millisecond)
					writeFile(t, agent.Inbox(), `[`+plain+`]`)
					rows, err := agent.Wait(t.Context(), n)
					if err != nil {
						t.Fatal(err)
					}
					if got, want := rows[n-1].At.Sub(began), time.Duration(n)*test.want; got != want {
						t.Errorf("row %d taken after %v, want %v", n, got, want)
					}
				}
			})
		})
	}
}

func TestWriterReplacesWhatIsNoArray(t *testing.T) {
	t.Parallel()
	for _, before := range []string{``, `{}`, `null`, `[` + plain + `,{"fr`, `what?`} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			team := create(t, simagent.TeamOptions{Members: []simagent.Member{{Name: "worker"}}})
			path := team.Agent("worker").Inbox()
			writeFile(t, path, before)
			raw, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: "worker", Text: "new"})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "file", compact(t, readFile(t, path)), `[`+string(raw)+`]`)
		})
	}
}

func TestWriterKeepsTheOtherRows(t *testing.T) {
	t.Parallel()
	team := create(t, simagent.TeamOptions{Members: []simagent.Member{{Name: "worker"}}})
	path := team.Agent("worker").Inbox()
	const others = `{"odd":1.0,"a":1,"a":2,"s":"\ud800 \u00e9"},null,{"from":"x","read":true}`
	writeFile(t, path, `[`+others+`]`)
	raw, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: "worker", Text: "a <b> & \"c\"\né"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "file", compact(t, readFile(t, path)), `[`+others+`,`+string(raw)+`]`)
	if want := `"text":"a <b> & \"c\"\né"`; !strings.Contains(string(raw), want) {
		t.Errorf("row: got %s, want %s in it", raw, want)
	}
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	team := create(t, simagent.TeamOptions{Members: []simagent.Member{{Name: "worker"}}})
	worker := team.Agent("worker")
	for _, name := range []string{"", "..", ".x", "../config", `a\b`, "a/b", "a:b", "a\nb", "a\x00b"} {
		_, err := worker.Send(t.Context(), simagent.Message{To: name, Text: "x"})
		if !errors.Is(err, simagent.ErrName) && !errors.Is(err, simagent.ErrUnreachable) {
			t.Errorf("send to %q: got %v, want a refusal", name, err)
		}
	}
	_, err := worker.Send(t.Context(), simagent.Message{To: "user", Text: "x"})
	if !errors.Is(err, simagent.ErrUnreachable) {
		t.Errorf("to user: got %v, want ErrUnreachable", err)
	}
	if err := os.RemoveAll(team.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Send(t.Context(), simagent.Message{To: simagent.Lead, Text: "x"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("send to a team that is gone: got %v, want ErrNotExist", err)
	}
	if _, err := os.Stat(team.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a late send brought the team back: %v", err)
	}
}

// A person who joined the team by an entry of its own is reachable.
func TestSendReachesWhoJoined(t *testing.T) {
	t.Parallel()
	team := create(t, simagent.TeamOptions{})
	path := filepath.Join(team.Dir(), "config.json")
	config := readFile(t, path)
	writeFile(t, path, strings.Replace(config, `"members": [`, `"extra": 1.0, "members": [{"agentId":"operator@myteam","name":"operator","mine":{"k":2.50}},`, 1))
	if _, err := team.Agent(simagent.Lead).Send(t.Context(), simagent.Message{To: "operator", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, filepath.Join(team.Dir(), "inboxes", "operator.json")); !strings.Contains(got, `"text": "x"`) {
		t.Errorf("operator's inbox: %s", got)
	}
	// Unknown keys and the entry survive the team's own rewrites.
	if _, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"}); err != nil {
		t.Fatal(err)
	}
	kept := `"extra":1.0,"members":[{"agentId":"operator@myteam","name":"operator","mine":{"k":2.50}},`
	want := strings.TrimSuffix(strings.Replace(compact(t, config), `"members":[`, kept, 1), "]}")
	if got := compact(t, readFile(t, path)); !strings.HasPrefix(got, want+`,{`) || !strings.Contains(got[len(want):], `"name":"worker"`) {
		t.Errorf("config: got %s, want %s and the worker", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]simagent.Options{
		"name": {Name: "../a"},
		"poll": {Name: "a", Poll: -1},
	} {
		if _, err := simagent.New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
