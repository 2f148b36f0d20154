package attention

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// Waiting items decide the section, or else the word does; items that need the person come before stuck agents.
func TestSection(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1795000000000).UTC()
	later := at.Add(time.Minute)
	waits := func(kind string, since *time.Time) api.Attention {
		return api.Attention{Kind: kind, Member: "worker", Since: since, What: kind + " waits"}
	}
	from := func(address string) api.Attention {
		return api.Attention{Kind: api.WaitsUnread, Member: "user", From: address, What: "1 unread message", Since: &at}
	}
	unread := from("worker")
	for _, test := range []struct {
		word, why string
		open      []api.Attention
		want      string // section, why, since and kind
	}{
		{word: api.WordWorking, want: "working  0s "},
		{word: api.WordIdle, why: "its last turn failed", want: "idle its last turn failed 0s "},
		{word: api.WordUnknown, want: "idle  0s "},
		{word: api.WordEnded, want: "ended  0s "},
		{word: api.WordBlocked, why: "its relay is dead", want: "stuck its relay is dead 0s "},
		{word: api.WordWaiting, why: "a machine said so", want: "needs-you a machine said so 0s "},
		{word: api.WordWorking, open: []api.Attention{waits(api.WaitsSilent, &later)}, want: "stuck silent waits 1m0s silent"},
		{word: api.WordWorking, open: []api.Attention{waits(api.WaitsLoop, &later), waits(api.WaitsSilent, &at)}, want: "stuck silent waits 0s silent"},
		{word: api.WordIdle, open: []api.Attention{waits(api.WaitsLost, &at), waits(api.WaitsHeld, &later)}, want: "needs-you held waits 1m0s held"},
		{word: api.WordIdle, open: []api.Attention{waits(api.WaitsHeld, &later), waits(api.WaitsLost, &at)}, want: "needs-you held waits 1m0s held"},
		{word: api.WordIdle, open: []api.Attention{unread}, want: "needs-you 1 unread message 0s unread"},
		{word: api.WordIdle, open: []api.Attention{from("worker@ci@build")}, want: "needs-you 1 unread message 0s unread"},
		{word: api.WordIdle, open: []api.Attention{from("worker@build"), from("worker@ci"), from("worker@ci@builder")}, want: "idle  0s "},
		{word: api.WordEnded, open: []api.Attention{unread}, want: "needs-you 1 unread message 0s unread"},
		{word: api.WordIdle, open: []api.Attention{{Kind: api.WaitsIdle, What: "all are idle"}, {Kind: api.WaitsPlan, Member: "another"}}, want: "idle  0s "},
	} {
		s := api.Status{Team: "ci@build", Member: "worker", Word: test.word, Why: test.why, WordSince: at}
		section(&s, test.open)
		if got := fmt.Sprint(s.Section, " ", s.SectionWhy, " ", s.SectionSince.Sub(at), " ", s.SectionKind); got != test.want {
			t.Errorf("%s, %+v: %q, want %q", test.word, test.open, got, test.want)
		}
	}
	unknown := api.Status{Word: api.WordUnknown}
	if section(&unknown, nil); unknown.SectionSince != nil {
		t.Errorf("since %s, want no time", unknown.SectionSince)
	}
	field, _ := reflect.TypeFor[api.Attention]().FieldByName("Kind")
	var kinds []string
	for _, w := range api.Waits {
		kinds = append(kinds, w.Kind)
		if w.Words == "" || w.Title == "" || (w.Section != "") != slices.Contains(api.Sections, w.Section) {
			t.Errorf("%+v", w)
		}
	}
	if want := slices.Sorted(strings.SplitSeq(field.Tag.Get("enum"), ",")); !slices.Equal(slices.Sorted(slices.Values(kinds)), want) {
		t.Errorf("words for %q, want %q", kinds, want)
	}
}

// A working agent is stuck after five minutes without news, and not a moment earlier.
func TestSilent(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795000000000).UTC()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	own := &teams.AgentProcess{Process: transcript.Process{PID: 7}}
	shared := &teams.AgentProcess{Process: transcript.Process{PID: 7}, Shared: true}
	unheard := (status.Known{Status: api.Status{State: api.StateIdle, Detail: api.DetailWorking, Basis: api.BasisMessage, Heard: ago(time.Hour), WordSince: ago(time.Hour)}}).Decide(now)
	for _, test := range []struct {
		what    string
		word    string
		heard   time.Duration
		since   time.Duration
		basis   string
		lead    teams.Liveness
		written time.Duration // how long ago its transcript was written; 0: not known
		started time.Duration // since its relay started it; 0: no relay
		process *teams.AgentProcess
		others  []*teams.AgentProcess
		stuck   time.Duration // since when; 0: not stuck
		due     time.Duration // time until the next look; 0: no look because of this
	}{
		{what: "just under", word: api.WordWorking, heard: status.IdleAfter - 1, due: 1},
		{what: "five minutes", word: api.WordWorking, heard: status.IdleAfter, stuck: status.IdleAfter, due: silentInterval},
		{what: "idle", word: api.WordIdle, heard: time.Hour},
		{what: "was just started", word: api.WordWorking, heard: time.Hour, started: time.Minute, due: status.IdleAfter - time.Minute},
		{what: "was started, and says nothing", word: api.WordWorking, heard: time.Hour, started: 10 * time.Minute, stuck: 10 * time.Minute, due: silentInterval},
		{what: "its transcript grows", word: api.WordWorking, heard: time.Hour, written: time.Minute, due: status.IdleAfter - time.Minute},
		{what: "its transcript has stopped, too", word: api.WordWorking, heard: time.Hour, written: 20 * time.Minute, stuck: 20 * time.Minute, due: silentInterval},
		{what: "a lead with teammates in its process", word: api.WordWorking, heard: time.Hour, process: own, others: []*teams.AgentProcess{shared}},
		{what: "a lead alone", word: api.WordWorking, heard: time.Hour, process: own, stuck: time.Hour, due: silentInterval},
		{what: "a busy pane", word: api.WordWorking, heard: 0, since: 10 * time.Minute, basis: api.BasisPane, written: 10 * time.Minute, stuck: 10 * time.Minute, due: silentInterval},
		{what: "was at work, and its lead is alive", word: api.WordUnknown, heard: time.Hour, lead: teams.Alive, stuck: time.Hour, due: silentInterval},
		{what: "was at work yesterday", word: api.WordUnknown, heard: 25 * time.Hour, lead: teams.Alive},
		{what: "of a team whose lead is not known", word: api.WordUnknown, heard: time.Hour},
	} {
		s := api.Status{Member: "worker", Word: test.word, Heard: ago(test.heard), WordSince: ago(test.since), Basis: test.basis}
		if test.word == api.WordUnknown {
			s.Why = unheard.Why
		}
		if test.started > 0 {
			s.Relay = &api.Relay{Started: new(ago(test.started))}
		}
		e := &cachedTeam{team: api.Team{Team: "t", LeadState: test.lead.String()}, states: []api.Status{s}}
		for _, p := range append([]*teams.AgentProcess{test.process}, test.others...) {
			e.known = append(e.known, status.Known{Signs: status.Signs{Process: p}})
		}
		list := e.silentWaits(now, func(int) time.Time {
			if test.written == 0 {
				return time.Time{}
			}
			return ago(test.written)
		})
		var stuck, due time.Duration
		if len(list) > 0 {
			stuck = now.Sub(*list[0].Since)
		}
		if !e.due.IsZero() {
			due = e.due.Sub(now)
		}
		if stuck != test.stuck || due != test.due || e.silent["worker"] != (stuck > 0) {
			t.Errorf("%s: stuck for %s, looked at again in %s; want %s, %s", test.what, stuck, due, test.stuck, test.due)
		}
	}
}

// talkOf makes messages of "FROM>TO" or "FROM>TO=TEXT", a time apart, the last one now, and returns the newest first.
func talkOf(now time.Time, apart time.Duration, messages ...string) (talk []journal.Record) {
	for i, m := range messages {
		names, text, _ := strings.Cut(m, "=")
		from, to, _ := strings.Cut(names, ">")
		at := now.Add(-apart * time.Duration(len(messages)-1-i))
		talk = append(talk, journal.Record{Row: inbox.Row{From: from, Text: text}, InboxKey: inbox.InboxKey{Team: "t", Inbox: to}, FirstSeen: at})
	}
	slices.Reverse(talk)
	return talk
}

func TestLoops(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795000000000).UTC()
	turns := func(n int) (list []string) { // n answers
		for i := range n + 1 {
			list = append(list, []string{"a>b", "b>a"}[i%2])
		}
		return list
	}
	idle := `a>lead={"type":"idle_notification","from":"a","idleReason":"available"}`
	for _, test := range []struct {
		what  string
		apart time.Duration
		talk  []string
		want  string
	}{
		{"enough answers", time.Second, turns(loopExchanges), "a b 16"},
		{"one less", time.Second, turns(loopExchanges - 1), ""},
		{"too slow", time.Minute, turns(loopExchanges), ""},
		{"slow, but for hours", 41 * time.Second, turns(slowExchanges), "a b 100"},
		{"not for long enough", 41 * time.Second, turns(slowExchanges - 1), ""},
		{"not on one day", 15 * time.Minute, turns(slowExchanges), ""},
		{"slow, with others", 41 * time.Second, slices.Concat(turns(slowExchanges/2), []string{"c>a"}, turns(slowExchanges/2)), ""},
		{"a burst is none", time.Second, slices.Repeat([]string{"a>b"}, 40), ""},
		{"a burst in each turn", time.Second, slices.Repeat([]string{"a>b", "a>b", "b>a"}, 12), "a b 23"},
		{"the person wrote to one", time.Second, slices.Concat(turns(9), []string{"user>a"}, turns(9)), ""},
		{"one wrote to somebody else", time.Second, append(turns(20), "b>c"), ""},
		{"that was before", time.Second, append([]string{"b>c"}, turns(20)...), "a b 20"},
		{"others write to each other", time.Second, slices.Concat(turns(9), []string{"c>d"}, turns(10)[2:]), "a b 18"},
		{"by their addresses", time.Second, slices.Repeat([]string{"a>b", "b@t>a"}, 10), "a b 19"},
		{"one in another team", time.Second, slices.Repeat([]string{"a>b", "b@other>a"}, 10), ""},
		{"reports do not count", time.Second, slices.Concat(turns(9), []string{idle}, turns(9)), "a b 19"},
		{"two loops", time.Second, slices.Concat(slices.Repeat([]string{"a>b", "c>d", "b>a", "d>c"}, 10)), "a b 19, c d 19"},
	} {
		var got []string
		for p, l := range loopsOf(talkOf(now, test.apart, test.talk...), now) {
			got = append(got, fmt.Sprintf("%s %s %d", p[0], p[1], l.exchanges))
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, want %q", test.what, got, test.want)
		}
	}
	l := loopsOf(talkOf(now, 10*time.Second, turns(30)...), now)[pairOf("b", "a")]
	if since, ends := now.Sub(l.since), l.ends.Sub(now); since != 300*time.Second || ends != loopWindow-160*time.Second {
		t.Errorf("since %s, ends in %s", since, ends)
	}
}

// An agent to which a person talks is in no loop, and neither are agents that call tools in between.
func TestNoLoop(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795000000000).UTC()
	e := &cachedTeam{states: []api.Status{{Member: "a"}, {Member: "b"}}, tools: map[string]task{}}
	l := loop{exchanges: 20, window: loopWindow, since: now, ends: now.Add(loopWindow)}
	waits := func(p pair) int {
		e.loops = map[pair]loop{p: l}
		return len(e.loopWaits())
	}
	slow := l
	slow.window = slowWindow
	e.loops = map[pair]loop{pairOf("a", "b"): slow}
	if list := e.loopWaits(); len(list) != 2 || list[0].What != "a and b only answer each other: 20 times within 24 hours" {
		t.Errorf("in a slow loop waits %+v", list)
	}
	if a, b := waits(pairOf("a", "b")), waits(pairOf("a", "user")); a != 2 || b != 0 {
		t.Errorf("%d and %d wait", a, b)
	}
	e.tools["b"] = task{what: "runs `go test`", at: now.Add(time.Second)}
	if n := waits(pairOf("a", "b")); n != 0 {
		t.Errorf("%d wait although one called a tool", n)
	}
}

// Agents in a loop show how to end it: by a hold, if a relay delivers to one of the two. A held loop is over.
func TestLoopIsHeldWhereThereIsARelay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795000000000).UTC()
	local := &api.Relay{Place: &api.Place{At: api.PlaceLocal}}
	for _, test := range []struct {
		name     string
		a, b     *api.Relay
		holdable string
		do, what string // expected parts of both texts
	}{
		{"none", nil, nil, "", "no relay can hold their messages, so tell one of them to stop: teambridge send a@t TEXT", "20 times"},
		{"one", nil, &api.Relay{}, "b", "teambridge relay hold a@t b", "to hold what b gets from a ends it"},
		{"both", &api.Relay{}, &api.Relay{}, "a b", "teambridge relay hold a@t b", "20 times"},
		{"at a terminal", local, nil, "", "no relay can hold their messages, so tell one of them to stop: teambridge send a@t TEXT", "20 times"},
	} {
		e := &cachedTeam{team: api.Team{Team: "t"}, states: []api.Status{{Member: "a", Relay: test.a}, {Member: "b", Relay: test.b}}, tools: map[string]task{},
			loops: map[pair]loop{pairOf("a", "b"): {exchanges: 20, window: loopWindow, since: now, ends: now.Add(loopWindow)}}}
		list := e.loopWaits()
		i := slices.IndexFunc(list, func(one api.Attention) bool { return one.Member == "a" })
		if len(list) != 2 {
			t.Errorf("%s: %+v", test.name, list)
			continue
		}
		if one := list[i]; one.Count != 20 || strings.Join(one.Holdable, " ") != test.holdable || !strings.HasSuffix(one.Do, test.do) || !strings.Contains(one.What, test.what) {
			t.Errorf("%s: %+v", test.name, one)
		}
		if test.b != nil {
			test.b.Held = []api.Hold{{Member: "b", Sender: "a"}}
			if list := e.loopWaits(); len(list) > 0 {
				t.Errorf("%s: held, and still %+v", test.name, list)
			}
		}
	}
}

func TestTasks(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1795000000000).UTC()
	talk := talkOf(now, time.Second, "lead>a=old", `lead>a={"type":"task_assignment","taskId":"1","subject":"Measure it"}`, "a>lead=Done.\n\nAll of it.", `lead>a={"type":"shutdown_request"}`,
		"user>b="+strings.Repeat("ü ", 200))
	talk[0].Summary = ""
	got := tasksOf(talk)
	if got["a"].what != "Measure it" || got["a"].from != "lead" || got["lead"].what != "Done. All of it." {
		t.Errorf("%+v", got)
	}
	if text := []rune(got["b"].what); len(text) != maxTask || text[maxTask-1] != '…' {
		t.Errorf("%d characters: %s", len(text), string(text))
	}
}

// A loop is recognized as it happens, and shown for both agents, in the snapshot and in the status. It is gone
// when it is dismissed. It causes no reading beyond the team's.
func TestLoopInSnapshot(t *testing.T) {
	t.Parallel()
	w := open(t, teamstest.New(t))
	w.Make("t", 1, "team-lead", "a", "b", "c")
	must(t, os.MkdirAll(w.Path("t", "inboxes"), 0o700))
	boxes := map[string][]any{}
	write := func(from, to, text string) {
		t.Helper()
		boxes[to] = append(boxes[to], map[string]any{"from": from, "text": text, "timestamp": time.Now().UTC().Format(time.RFC3339Nano), "read": false})
		data, err := json.Marshal(boxes[to])
		if err == nil {
			err = os.WriteFile(filepath.Join(w.Path("t", "inboxes"), to+".json"), data, 0o600)
		}
		must(t, err)
		w.record(t)
	}
	c := New(w.Options)
	stuck := func() (names []string) {
		t.Helper()
		s, err := c.Snapshot(t.Context(), "", 0)
		must(t, err)
		list, err := c.Status(t.Context(), w.Team("t"))
		if err == nil {
			err = c.Place(t.Context(), "t", list)
		}
		must(t, err)
		for i, one := range s.Status {
			if one.Section == api.SectionStuck {
				names = append(names, one.Member+" "+one.SectionKind)
			}
			if list[i].Section != one.Section || list[i].SectionWhy != one.SectionWhy || list[i].Doing != one.Doing {
				t.Errorf("the status says %+v, the snapshot %+v", list[i].Overview, one.Overview)
			}
		}
		return names
	}
	for i := range loopExchanges {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		write(from, to, fmt.Sprintf("thanks, %d", i))
	}
	if got := stuck(); got != nil {
		t.Errorf("stuck before the last exchange: %q", got)
	}
	write("a", "b", "you are welcome")
	if got := strings.Join(stuck(), ", "); got != "a loop, b loop" {
		t.Errorf("stuck: %q", got)
	}
	waits, err := c.Attention(t.Context(), "t")
	must(t, err)
	for _, one := range waits {
		if one.Kind == api.WaitsLoop && one.Member == "a" {
			if _, err := c.Dismiss(t.Context(), one.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("b", "a", "not at all") // the same loop continues
	if got := strings.Join(stuck(), ", "); got != "b loop" {
		t.Errorf("stuck after one was dismissed: %q", got)
	}
	write("c", "b", "What are you two doing?")
	if got := stuck(); got != nil {
		t.Errorf("stuck after somebody else wrote: %q", got)
	}
}
