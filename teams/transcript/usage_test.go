package transcript_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/teams/errtest"
	"teambridge/teams/transcript"
)

// hour is the hour of the answers of these tests, unless a minute says otherwise.
var hour = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

var must = errtest.Must

// answered returns the record of one block of an answer.
func answered(minute int, id string, output int, more string) string {
	return fmt.Sprintf(`{"type":"assistant","uuid":"u-%s-%d","cwd":"/work","timestamp":%q,%s"message":{"id":%q,"model":"m","usage":{"input_tokens":10,"cache_read_input_tokens":100,"output_tokens":%d}}}`,
		id, output, hour.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), more, id, output)
}

func stated(cost float64) string {
	return fmt.Sprintf(`{"type":"cost-state","sessionId":"s","totalCostUSD":%v,"modelUsage":{"m":{"costUSD":%v},"free":{"costUSD":0}},"hasUnknownModelCost":false}`, cost, cost)
}

func meter(t *testing.T, counted *transcript.Counted, session string, lines ...string) *transcript.Meter {
	t.Helper()
	path := filepath.Join(t.TempDir(), session+".jsonl")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	m := transcript.NewMeter(path, counted)
	must(t, m.Read())
	return m
}

func wantSpent(t *testing.T, m *transcript.Meter, want map[transcript.Spending]transcript.Spent) {
	t.Helper()
	if got := maps.Collect(m.Spent()); !maps.Equal(got, want) {
		t.Errorf("%s spent %+v, want %+v", m.Session, got, want)
	}
}

// Each block of an answer is a record, and only the last one, which has the whole usage, counts. Records without a
// valid usage, or of no answer, are ignored.
func TestMeterCountsAnswersOnce(t *testing.T) {
	counted := transcript.NewCounted()
	m := meter(t, counted, "s",
		answered(0, "a", 1, ""), answered(0, "a", 1, ""), `{"type":"user","message":{"content":"\"type\":\"assistant\""}}`, answered(1, "a", 50, ""),
		answered(61, "b", 5, ""), answered(62, "x", -1, ""), answered(62, "", 3, ""), `{"type":"assistant","timestamp":"never","message":{"id":"c","usage":{"output_tokens":9}}}`,
		`{"type":"assistant","message":"no object"}`, answered(63, "b", 5, ""))
	here, later := transcript.Spending{Hour: hour, Model: "m", Open: true}, transcript.Spending{Hour: hour.Add(time.Hour), Model: "m", Open: true}
	want := map[transcript.Spending]transcript.Spent{
		here:  {Answers: 1, Input: 10, CacheRead: 100, Output: 50},
		later: {Answers: 2, Input: 20, CacheRead: 200, Output: 8}, // b, and the one without an id by its uuid
	}
	wantSpent(t, m, want)
	if !m.Began.Equal(hour) || m.Cwd != "/work" || !m.Own() {
		t.Errorf("%+v", m)
	}

	file, err := os.OpenFile(m.Path(), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	fmt.Fprintln(file, answered(64, "d", 7, ""))
	file.Close()
	for range 2 {
		must(t, m.Read())
	}
	s := want[later]
	s.Add(transcript.Spent{Answers: 1, Input: 10, CacheRead: 100, Output: 7}, 1)
	want[later] = s
	wantSpent(t, m, want)
}

// A fork begins with copies of its parent's answers, which do not count for it. Where a file does not mark copies, an
// answer still counts once.
func TestMeterLeavesCopiesOut(t *testing.T) {
	counted := transcript.NewCounted()
	parent := meter(t, counted, "parent", answered(0, "a", 1, ""), answered(1, "b", 1, ""), stated(0.5), answered(30, "late", 1, ""), stated(0.75))
	copied := `"sessionId":"fork","requestSessionId":"parent",`
	fork := meter(t, counted, "fork", answered(0, "a", 1, copied), answered(1, "b", 1, copied), answered(20, "c", 1, ""), stated(0.625))
	old := meter(t, counted, "old", answered(0, "a", 1, ""), answered(40, "e", 1, ""))
	for m, n := range map[*transcript.Meter]int64{parent: 3, fork: 1, old: 1} {
		wantSpent(t, m, map[transcript.Spending]transcript.Spent{{Hour: hour, Model: "m", Open: m == old}: {Answers: n, Input: 10 * n, CacheRead: 100 * n, Output: n}})
	}
	if fork.Parent != "parent" || parent.Parent != "" {
		t.Errorf("the parents are %q and %q", fork.Parent, parent.Parent)
	}
	for m, want := range map[*transcript.Meter]float64{parent: 0.75, fork: 0.125} {
		var before map[string]float64
		if m == fork {
			before = parent.StatedBefore(fork.Began)
		}
		if got := sum(transcript.Costs(before, m.Stated)); got != want {
			t.Errorf("%s has cost %v, want %v", m.Session, got, want)
		}
	}
}

func sum(costs func(func(transcript.Spending, float64) bool)) (all float64) {
	for _, cost := range costs {
		all += cost
	}
	return all
}

// Stated costs are a counter that restarts with each process, from a kept value or from nothing.
func TestCosts(t *testing.T) {
	at := func(minute int, cost float64, kept bool) transcript.Stated {
		return transcript.Stated{At: hour.Add(time.Duration(minute) * time.Minute), Cost: map[string]float64{"m": cost}, Kept: kept}
	}
	for name, test := range map[string]struct {
		list []transcript.Stated
		want float64
	}{
		"nothing":                         {nil, 0},
		"turns of a process":              {[]transcript.Stated{at(0, 1, false), at(1, 2, false), at(2, 2.5, false)}, 2.5},
		"the same, in no order":           {[]transcript.Stated{at(2, 2.5, false), at(0, 1, false), at(1, 2, false)}, 2.5},
		"an old version, resumed":         {[]transcript.Stated{at(0, 2, false), at(1, 0.5, false), at(2, 1, false)}, 3},
		"a new version, resumed":          {[]transcript.Stated{at(0, 2, false), at(0, 2, true), at(1, 2.5, false), at(1, 2.5, true)}, 2.5},
		"killed after a turn that is not": {[]transcript.Stated{at(0, 1, true), at(1, 4, false), at(2, 1.5, false), at(2, 1.5, true)}, 4.5},
	} {
		if got := sum(transcript.Costs(nil, test.list)); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A meter knows the agent and the team of a transcript.
func TestMeterOfTeammates(t *testing.T) {
	counted := transcript.NewCounted()
	own := meter(t, counted, "s", answered(0, "a", 1, `"teamName":"t","agentName":"worker",`))
	if own.Team != "t" || own.Agent != "worker" {
		t.Errorf("the agent is %s@%s", own.Agent, own.Team)
	}
	dir := filepath.Join(t.TempDir(), "lead", "subagents")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "agent-1.meta.json"), []byte(`{"name":"helper","teamName":"t"}`), 0o600))
	if m := transcript.NewMeter(filepath.Join(dir, "agent-1.jsonl"), counted); m.Team != "t" || m.Agent != "helper" || m.Session != "lead" || m.Own() {
		t.Errorf("%+v", m)
	}
}

// Conversations returns all transcripts that have changed, at any depth, and follows no link to another place.
func TestConversations(t *testing.T) {
	root := t.TempDir()
	if got := conversations(t, root, time.Time{}); len(got) != 0 {
		t.Errorf("without a folder: %q", got)
	}
	for _, name := range []string{"projects/a/1.jsonl", "projects/a/1/subagents/agent-1.jsonl", "projects/b/2.jsonl", "projects/b/2.txt", "elsewhere.jsonl"} {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	if err := os.Symlink(filepath.Join(root, "elsewhere.jsonl"), filepath.Join(root, "projects", "b", "3.jsonl")); err != nil {
		t.Log("without links: ", err)
	}
	old := filepath.Join(root, "projects", "b", "2.jsonl")
	must(t, os.Chtimes(old, time.Time{}, hour.AddDate(-1, 0, 0)))
	if got, want := conversations(t, root, time.Time{}), []string{"1.jsonl", "2.jsonl", "agent-1.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := conversations(t, root, hour.AddDate(0, -1, 0)), []string{"1.jsonl", "agent-1.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("lately: %q, want %q", got, want)
	}
}

func conversations(t *testing.T, root string, since time.Time) (names []string) {
	t.Helper()
	for path, err := range transcript.Conversations(root, since) {
		must(t, err)
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names
}

func FuzzMeter(f *testing.F) {
	f.Add(answered(0, "a", 1, ""))
	f.Add(stated(1))
	f.Add(`{"type":"cost-state","modelUsage":{"m":{"costUSD":-1},"n":{"costUSD":"x"}}}`)
	f.Fuzz(func(t *testing.T, line string) {
		m := meter(t, transcript.NewCounted(), "s", line, answered(3, "own", 2, ""))
		var answers int64
		for at, s := range m.Spent() {
			if s.Answers < 0 || s.Input < 0 || s.CacheCreation < 0 || s.CacheRead < 0 || s.Output < 0 || !at.Hour.Equal(at.Hour.Truncate(time.Hour)) {
				t.Errorf("%+v: %+v", at, s)
			}
			answers += s.Answers
		}
		if answers == 0 {
			t.Error("an answer after it is not counted")
		}
		for _, cost := range transcript.Costs(nil, m.Stated) {
			if !(cost > 0) {
				t.Errorf("a cost is %v", cost)
			}
		}
	})
}
