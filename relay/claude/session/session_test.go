package session

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/wire"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// fixtures has recordings of real conversations.
const fixtures = "../../../testdata"

// live returns the envelopes of a fixture's recorded stream.
func live(t testing.TB, path string) []wire.Envelope {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	a := New()
	var all []wire.Envelope
	at := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var l struct {
			Dir  string
			Line json.RawMessage
		}
		must(t, json.Unmarshal(lines.Bytes(), &l))
		switch l.Dir {
		case "stdin":
			send(a, l.Line)
		case "stdout":
			_, told := a.Line(parsed(t, l.Line), at)
			all = append(all, told...)
		}
	}
	left, err := a.End(at, nil)
	must(t, err)
	return append(all, left...)
}

// read returns the envelopes of a transcript.
func read(t testing.TB, path string, o Options) []wire.Envelope {
	t.Helper()
	var all []wire.Envelope
	for e, err := range Read(t.Context(), path, o) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

// shown returns an envelope on one line, without ids and times.
func shown(e wire.Envelope) string {
	who := string(e.Role)
	if e.Subagent != nil {
		who = "subagent"
	}
	turn := "-"
	if e.Turn != nil {
		turn = (*e.Turn)[:min(4, len(*e.Turn))]
	}
	what := ""
	switch ev := e.Event.(type) {
	case *wire.Text:
		what = fmt.Sprintf("text %q", ev.Text)
		if ev.Thinking != nil {
			what = fmt.Sprintf("thinking %q", ev.Text)
		}
	case *wire.Service:
		what = fmt.Sprintf("service %q", ev.Text)
	case *wire.ToolCallStart:
		what = fmt.Sprintf("tool-call-start %s: %s", ev.Call, ev.Title)
	case *wire.ToolCallEnd:
		what = fmt.Sprintf("tool-call-end %s: %s", ev.Call, ev.Outcome)
	case *wire.File:
		what = fmt.Sprintf("file %s %v", ev.Name, ev.Size)
	case *wire.TurnStart:
		what = "turn-start"
	case *wire.TurnEnd:
		what = "turn-end " + string(ev.Status)
	case *wire.Start:
		what = "start"
		if ev.Title != nil {
			what += " " + *ev.Title
		}
	case *wire.Stop:
		what = "stop"
	}
	return fmt.Sprintf("%s %s: %s", turn, who, what)
}

func showAll(list []wire.Envelope) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintln(&b, shown(e))
	}
	return b.String()
}

// check fails if a conversation breaks a rule of the protocol, or has an id twice, or a turn or a
// tool call that is not paired.
func check(t testing.TB, list []wire.Envelope) {
	t.Helper()
	ids, turns, calls := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, e := range list {
		if _, err := e.MarshalJSON(); err != nil {
			t.Errorf("%s: %v", shown(e), err)
		}
		if ids[e.ID] {
			t.Errorf("%s: id %s is there twice", shown(e), e.ID)
		}
		ids[e.ID] = true
		switch ev := e.Event.(type) {
		case *wire.TurnStart:
			turns[*e.Turn]++
		case *wire.TurnEnd:
			turns[*e.Turn]--
		case *wire.ToolCallStart:
			calls[ev.Call]++
		case *wire.ToolCallEnd:
			calls[ev.Call]--
		case *wire.Start:
			calls[*e.Subagent]++
		case *wire.Stop:
			calls[*e.Subagent]--
		}
	}
	for turn, n := range turns {
		if n != 0 {
			t.Errorf("turn %s: %+d starts that have no end", turn, n)
		}
	}
	for call, n := range calls {
		if n != 0 {
			t.Errorf("call or subagent %s: %+d starts that have no end", call, n)
		}
	}
}

// idsOf returns the ids of the envelopes, for the conversation itself and for each subagent.
func idsOf(list []wire.Envelope) map[string][]string {
	ids := map[string][]string{}
	for _, e := range list {
		who := ""
		if e.Subagent != nil {
			who = *e.Subagent
		}
		usage := ""
		if u := e.Usage; u != nil {
			usage = fmt.Sprintf(" %d in %d out %v", u.InputTokens, u.OutputTokens, *u.CacheReadInputTokens)
		}
		ids[who] = append(ids[who], e.ID+" "+shown(e)+usage)
	}
	return ids
}

// golden compares with a file, which -update writes.
func golden(t testing.TB, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if *update {
		err = os.WriteFile(path, []byte(got), 0o600)
		want = []byte(got)
	}
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", path, diff)
	}
}

var update = flag.Bool("update", false, "write the expected envelopes")

func TestFixtures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(fixtures, "claude-2.1.329")
	printed, kept := live(t, filepath.Join(folder, "stream.jsonl")), read(t, filepath.Join(folder, "transcript.jsonl"), Options{Gone: true})
	check(t, printed)
	check(t, kept)
	printed[2].Event = kept[2].Event // the first answer was shortened by hand
	if diff := cmp.Diff(idsOf(printed), idsOf(kept)); diff != "" {
		t.Errorf("live (-) and transcript (+) differ:\n%s", diff)
	}
	golden(t, "testdata/claude-2.1.329.txt", showAll(kept))
}

// The transcript of an outdated version can be read.
func TestOldTranscript(t *testing.T) {
	t.Parallel()
	kept := read(t, filepath.Join(fixtures, "claude-2.1.80", "transcript.jsonl"), Options{Gone: true})
	check(t, kept)
	golden(t, "testdata/claude-2.1.80.txt", showAll(kept))
}

// TestResumedFixtures: a known frame that is sent to a resumed process begins nothing.
func TestResumedFixtures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(fixtures, "claude-2.1.329")
	known := map[string]bool{}
	for _, e := range read(t, filepath.Join(folder, "transcript.jsonl"), Options{Gone: true}) {
		known[e.ID] = true
	}
	for _, e := range live(t, filepath.Join(folder, "stream-resume.jsonl")) {
		if known[e.ID] {
			t.Errorf("%s is told again", shown(e))
		}
	}
}

// TestTeammateFixtures: the transcripts of teammates in the lead's process can be read.
func TestTeammateFixtures(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"claude-2.1.329/subagents/agent-aworker-a1e744e97229d791",
		"claude-2.1.80/subagents/agent-ad7a8cae325ec9e4a",
	} {
		all := read(t, filepath.Join(fixtures, name+".jsonl"), Options{})
		check(t, all)
		golden(t, filepath.Join("testdata", strings.ReplaceAll(name, "/", "-")+".txt"), showAll(all))
	}
}

// The end of a turn has the cost of the session up to then, as the program states it.
func TestStatedCost(t *testing.T) {
	t.Parallel()
	var costs []float64
	for _, e := range live(t, filepath.Join(fixtures, "claude-2.1.329", "stream.jsonl")) {
		if e.Usage == nil {
			continue
		}
		var by map[string]float64
		if err := json.Unmarshal(e.Usage.Extra[StatedCost], &by); err != nil || len(by) != 1 {
			t.Fatalf("%s: %v", e.Usage.Extra, err)
		}
		for _, cost := range by {
			costs = append(costs, cost)
		}
	}
	if len(costs) < 2 || costs[0] <= 0 || !slices.IsSorted(costs) {
		t.Errorf("the costs are %v", costs)
	}
}
