package attention

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// A relay that stopped waits for a person, but not one that waits for its team.
func TestStoppedRelay(t *testing.T) {
	t.Parallel()
	created := time.Now()
	entry := func(state, reason string, added bool, queue int) api.RelayEntry {
		e := api.RelayEntry{ID: "r", Team: "t", Relay: api.Relay{State: state, Reason: reason, Queue: queue}}
		if added {
			e.Created = &created
		}
		return e
	}
	for _, test := range []struct {
		e    api.RelayEntry
		want bool
	}{
		{entry("dead", "died 5 times", true, 0), true},
		{entry("dead", "died 5 times", false, 0), true},
		{entry("stopped", "the lead of t is alive", true, 0), true},
		{entry("stopped", "there is no team t", true, 0), false},
		{entry("stopped", ReadOnly, true, 0), false},
		{entry("stopped", "", true, 0), false},
		{entry("stopped", "", false, 0), false},
		{entry("stopped", "", false, 2), true},
		{entry("idle", "", true, 0), false},
		{entry("asleep", "idle for 30m", true, 0), false},
	} {
		if got := stoppedRelay(test.e); (got != "") != test.want {
			t.Errorf("%s (%s), added %t: %q", test.e.State, test.e.Reason, test.e.Created != nil, got)
		}
	}
}

// happened is the status of a member, with the facts behind it.
type happened struct {
	known status.Known
	shows api.Status
}

// An item from a state keeps its id, and gets a new one when it waits again. Nothing waits in a team that never
// had work, or has just ended.
func TestWaitsBecauseOfStates(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1795000000000).UTC()
	later := at.Add(time.Minute)
	of := func(member, word, why, basis string, change ...func(*happened)) happened {
		h := happened{shows: api.Status{Member: member, State: api.StateIdle, Word: word, Why: why, Basis: basis, WordSince: at}}
		h.known.WordSince = at
		for _, f := range change {
			f(&h)
		}
		return h
	}
	wrote := func(h *happened) { h.known.Evidence.ID, h.shows.Evidence.ID = "m", "m" }
	turn := func(at time.Time, outcome string) func(*happened) {
		return func(h *happened) { h.known.Turn = status.Turn{At: at, Outcome: outcome} }
	}
	since := func(at time.Time) func(*happened) { return func(h *happened) { h.shows.WordSince = at } }
	dead := func(h *happened) { h.shows.Relay = &api.Relay{DeadLetters: 1} }
	acked := func(at time.Time) func(*happened) {
		return func(h *happened) { h.shows.Relay = &api.Relay{LastAck: &at} }
	}
	shut := func(h *happened) { h.shows.State, h.shows.Word = api.StateTerminated, api.WordEnded }
	lead := of("lead", api.WordIdle, "", api.BasisProcess)
	done := of("a", api.WordIdle, "", api.BasisMessage, wrote)
	const gone = "the team's lead is not running"
	for _, test := range []struct {
		what   string
		lead   teams.Liveness
		all    []happened
		asked  bool // a member asks the lead
		served bool // the service runs the lead
		want   string
	}{
		{what: "nobody"},
		{what: "a lead alone", all: []happened{lead}},
		{what: "no work yet", all: []happened{lead, of("a", api.WordIdle, "", api.BasisRelay)}},
		{what: "all idle", all: []happened{lead, done}, want: "idle/t/1795000000000"},
		{what: "idle by a turn", all: []happened{lead, of("a", api.WordIdle, "", api.BasisTurn, turn(later, "completed"))}, want: "idle/t/1795000060000"},
		{what: "idle again", all: []happened{lead, done, of("b", api.WordIdle, "", api.BasisTurn, turn(later, "completed"))}, want: "idle/t/1795000060000"},
		{what: "idle by an acknowledgement", all: []happened{lead, of("a", api.WordIdle, "", api.BasisRelay, acked(later))}, want: "idle/t/1795000060000"},
		{what: "one works", all: []happened{lead, done, of("b", api.WordWorking, "", api.BasisTurn)}},
		{what: "one has unread messages", all: []happened{lead, of("a", api.WordIdle, "", api.BasisMessage, wrote, func(h *happened) { h.shows.Unread = 1 })}},
		{what: "the lead works", all: []happened{of("lead", api.WordWorking, "", api.BasisProcess), done}},
		{what: "just ended", all: []happened{lead, of("a", "", "", api.BasisMessage, wrote, shut)}},
		{what: "a failed turn", all: []happened{lead, of("a", api.WordIdle, "", api.BasisTurn, turn(later, "failed")), of("b", api.WordWorking, "", api.BasisTurn)}, want: "failed/t/a/1795000060000"},
		{what: "a failed turn with its message", all: []happened{lead, of("a", api.WordIdle, "", api.BasisTurn, turn(later, "failed"), dead), of("b", api.WordWorking, "", api.BasisTurn)}},
		{what: "works after a failed turn", all: []happened{lead, of("a", api.WordWorking, "", api.BasisProcess, turn(later, "failed"))}},
		{what: "the lead is gone", lead: teams.Gone, all: []happened{of("lead", api.WordEnded, gone, api.BasisTeam), of("a", api.WordEnded, gone, api.BasisTeam, wrote)}, want: "ended/t/lead"},
		{what: "the lead is relayed", lead: teams.Gone, served: true, all: []happened{of("lead", api.WordIdle, "", api.BasisRelay), of("a", api.WordEnded, gone, api.BasisTeam, wrote)}},
		{what: "at the terminal", all: []happened{of("lead", api.WordWaiting, "dialog open", api.BasisProcess), done}, want: "terminal/t/lead/1795000000000"},
		{what: "at the terminal again", all: []happened{of("lead", api.WordWaiting, "", api.BasisProcess, since(later)), done}, want: "terminal/t/lead/1795000060000"},
		{what: "at the terminal, for a member", asked: true, all: []happened{of("lead", api.WordWaiting, "permission prompt", api.BasisProcess), done}},
		{what: "a question", all: []happened{lead, of("a", api.WordWaiting, "", api.BasisQuestion)}},
	} {
		e := &cachedTeam{team: api.Team{Team: "t", Lead: "lead", LeadState: test.lead.String()}}
		for _, h := range test.all {
			e.known, e.states = append(e.known, h.known), append(e.states, h.shows)
		}
		if test.asked {
			e.messageWaits = []api.Attention{{Kind: api.WaitsLead}}
		}
		var got []string
		for _, a := range e.stateWaits("", at, func(string) bool { return test.served }, noDialogs) {
			got = append(got, a.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", test.what, got, test.want)
		}
	}
}

// A question in the background has no terminal.
func TestQuestionInTheBackground(t *testing.T) {
	t.Parallel()
	for job, want := range map[string]string{"": "answer it at its terminal", "0a2fe69c": "answer it: claude attach 0a2fe69c"} {
		e := &cachedTeam{team: api.Team{Team: "t", Lead: "lead"}}
		e.known = []status.Known{{Signs: status.Signs{Process: &teams.AgentProcess{Process: transcript.Process{PID: 7, Job: job}}}}}
		e.states = []api.Status{{Member: "lead", State: api.StateIdle, Word: api.WordWaiting, Basis: api.BasisProcess}}
		if got := e.stateWaits("", time.Now(), func(string) bool { return false }, noDialogs); len(got) != 1 || got[0].Do != want {
			t.Errorf("in %q: %+v, want %q", job, got, want)
		}
	}
}

// An item names the tool of an MCP server as such, not as a tool of the runtime. It has only the beginning of a
// long question.
func TestToolOfAServer(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"Read": "wants to use Read", "mcp__weather__Read": "wants to use Read of the MCP server weather (mcp__weather__Read)",
		"mcp__a__b__c": "wants to use b__c of the MCP server a (mcp__a__b__c)", "mcp__a": "wants to use mcp__a", "mcp____a": "wants to use mcp____a",
	} {
		if got := asksFor(api.Question{Kind: api.AsksPermission, Tool: tool, Display: "Read"}); got.What != want {
			t.Errorf("%s: %q, want %q", tool, got.What, want)
		}
	}
	long := asksFor(api.Question{Kind: api.AsksPermission, Tool: strings.Repeat("é", maxWhat)})
	if n := len(long.What); n > maxWhat+len("…") || n < maxWhat-4 || !strings.HasSuffix(long.What, "é…") {
		t.Errorf("%d bytes, %.20q … %q", n, long.What, long.What[n-8:])
	}
}

// noDialogs finds no dialog that can be answered elsewhere.
func noDialogs(transcript.Process, time.Time, string) (a api.Attention, ok bool) { return a, false }

// A question of a member to its lead waits until it is answered, however much others write.
func TestQuestionAmongManyMessages(t *testing.T) {
	t.Parallel()
	w := crowd(t, 1)
	c := New(w.Options)
	at := time.Now()
	write := func(member string, rows ...map[string]any) {
		t.Helper()
		for _, r := range rows {
			at = at.Add(time.Millisecond)
			r["timestamp"] = at.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		data, err := json.Marshal(rows)
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Path("team-000", "inboxes"), member+".json"), data, 0o600)
		}
		must(t, err)
		w.record(t)
	}
	chatter := func(n int) (rows []map[string]any) {
		for i := range lately + 10 {
			rows = append(rows, map[string]any{"from": fmt.Sprint("worker-", 1+i%8), "text": fmt.Sprint("message ", n, " ", i)})
		}
		return rows
	}
	asks := func(want ...string) {
		t.Helper()
		list, err := c.Attention(t.Context(), "team-000")
		must(t, err)
		var got []string
		for _, a := range list {
			if a.Kind == api.WaitsLead {
				got = append(got, a.Member)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q ask, want %q", got, want)
		}
	}
	question := map[string]any{"from": "worker-0", "text": `{"type":"permission_request","request_id":"perm-1-a","tool_name":"Write","input":{}}`}
	write("team-lead", question)
	asks("worker-0")
	write("team-lead", chatter(1)...)
	asks("worker-0")
	write("worker-0", map[string]any{"from": "team-lead", "text": `{"type":"permission_response","request_id":"perm-1-a","subtype":"success"}`})
	asks()
	write("team-lead", chatter(2)...)
	asks()
	ask := func(id string) map[string]any {
		return map[string]any{"from": "worker-0", "text": `{"type":"permission_request","request_id":"` + id + `","tool_name":"Write","input":{}}`}
	}
	answer := func(id string) {
		t.Helper()
		write("worker-0", map[string]any{"from": "team-lead", "text": `{"type":"permission_response","request_id":"` + id + `","subtype":"success"}`})
	}
	write("team-lead", ask("perm-2-b"), ask("perm-3-c"))
	asks("worker-0", "worker-0")
	answer("perm-3-c") // and no other
	asks("worker-0")
	answer("perm-2-b")
	asks()
	answer("perm-4-d") // is recorded before its question
	write("team-lead", ask("perm-4-d"))
	asks()
	write("team-lead", ask("perm-5-e"), ask("perm-6-f"))
	write("team-lead", chatter(3)...)
	asks("worker-0", "worker-0")
	answer("perm-6-f") // and not the earlier one
	asks("worker-0")
	answer("perm-5-e")
	asks()
}
