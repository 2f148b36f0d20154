package status

import (
	"fmt"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// process returns the report of a process a minute ago.
func process(status, waitingFor string, shared bool) *teams.AgentProcess {
	return &teams.AgentProcess{Process: transcript.Process{PID: 7, Interactive: true, Status: status, WaitingFor: waitingFor, Changed: now.Add(-time.Minute)}, Shared: shared}
}

func turn(running bool, at, heard time.Duration, outcome string) Turn {
	return Turn{Running: running, At: now.Add(-at), Heard: now.Add(-heard), Outcome: outcome}
}

func TestWord(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	acked := now.Add(-30 * time.Second)
	relay := func(state, reason string, queue int) *api.Relay {
		return &api.Relay{State: state, Running: state != "stopped" && state != "dead", Reason: reason, Queue: queue, LastAck: &acked}
	}
	local, kept := relay("local", "", 1), relay("local", "", 1)
	local.Place = &api.Place{At: "local"}
	kept.Place = &api.Place{At: "local", To: "remote", Reason: "a draft is at the prompt", Since: now.Add(-4 * time.Minute)}
	held := relay("idle", "", 0)
	held.Held = []api.Hold{{Sender: "helper", Reason: "too often", Since: now.Add(-2 * time.Minute)}}
	question := &api.Question{Tool: "Bash", At: now.Add(-3 * time.Minute)}
	for name, tc := range map[string]struct {
		events []Event
		signs  Signs
		unread int
		want   string // word (why), since, basis; when it was heard
	}{
		"never said anything":  {nil, Signs{}, 0, "unknown (nothing was heard from it yet) 1h0m0s team; 1h0m0s"},
		"said something":       {[]Event{row("worker", "x", time.Minute)}, Signs{}, 0, "working () 1m0s message; 1m0s"},
		"almost 5 minutes ago": {[]Event{row("worker", "x", IdleAfter-1)}, Signs{}, 0, "working () 4m59.999999999s message; 4m59.999999999s"},
		"5 minutes ago":        {[]Event{row("worker", "x", IdleAfter)}, Signs{}, 0, "unknown (nothing was heard from it for 5 minutes or more) 5m0s message; 5m0s"},
		"said it is idle":      {[]Event{row("worker", available, hour/2)}, Signs{}, 0, "idle () 30m0s message; 30m0s"},
		"said it failed":       {[]Event{row("worker", failed, time.Minute)}, Signs{}, 0, "idle (its last turn failed) 1m0s message; 1m0s"},
		"shut down":            {[]Event{row("worker", approved, time.Minute)}, Signs{Agent: relay("working", "", 1), Question: question}, 0, "ended (it has shut down) 1m0s message; 30s"},

		"turn runs":              {[]Event{row("worker", available, hour/2)}, Signs{Turn: turn(true, 2*time.Minute, time.Minute, "")}, 0, "working () 2m0s turn; 1m0s"},
		"long turn":              {nil, Signs{Turn: turn(true, hour/2, time.Minute, "")}, 0, "working () 30m0s turn; 1m0s"},
		"turn, and no more":      {[]Event{row("worker", available, hour/2)}, Signs{Turn: turn(true, 20*time.Minute, IdleAfter, "")}, 0, "unknown (nothing was heard from it for 5 minutes or more) 5m0s turn; 5m0s"},
		"turn ended":             {[]Event{row("worker", "x", 2*time.Minute)}, Signs{Turn: turn(false, time.Minute, time.Minute, "completed")}, 0, "idle () 1m0s turn; 1m0s"},
		"turn cancelled":         {nil, Signs{Turn: turn(false, time.Minute, time.Minute, "cancelled")}, 0, "idle (its last turn was cancelled) 1m0s turn; 1m0s"},
		"turn before a message":  {[]Event{row("worker", available, time.Minute)}, Signs{Turn: turn(true, 2*time.Minute, 2*time.Minute, "")}, 0, "idle () 1m0s message; 1m0s"},
		"turn after a shutdown":  {[]Event{row("worker", approved, 2*time.Minute)}, Signs{Turn: turn(true, time.Minute, time.Minute, "")}, 0, "ended (it has shut down) 2m0s message; 2m0s"},
		"turn of a predecessor":  {nil, Signs{Turn: turn(false, 2*hour, 2*hour, "")}, 0, "unknown (nothing was heard from it yet) 1h0m0s team; 1h0m0s"},
		"turn, by another clock": {nil, Signs{Turn: turn(true, -time.Minute, -time.Minute, "")}, 0, "working () 0s turn; 0s"},

		"process idle":          {[]Event{row("worker", "x", 2*time.Minute)}, Signs{Process: process("idle", "", false)}, 0, "idle () 1m0s process; 1m0s"},
		"process busy":          {[]Event{row("worker", available, hour/2)}, Signs{Process: process("busy", "", false)}, 0, "working () 1m0s process; 1m0s"},
		"process waits":         {nil, Signs{Process: process("waiting", "permission prompt", false)}, 0, "waiting for you (permission prompt) 1m0s process; 1m0s"},
		"process has a shell":   {nil, Signs{Process: process("shell", "", false)}, 0, "working () 1m0s process; 1m0s"},
		"process without words": {[]Event{row("worker", available, time.Minute)}, Signs{Process: process("", "", false)}, 0, "idle () 1m0s message; 1m0s"},
		"process with new ones": {[]Event{row("worker", available, time.Minute)}, Signs{Process: process("dreaming", "", false)}, 0, "idle () 1m0s message; 1m0s"},
		"lead's idle":           {[]Event{row("worker", "x", hour/2)}, Signs{Process: process("idle", "", true)}, 0, "idle () 1m0s process; 30m0s"},
		"lead's busy, works":    {[]Event{row("worker", "x", hour/2)}, Signs{Process: process("busy", "", true)}, 0, "working () 1m0s process; 30m0s"},
		"lead's busy, idle":     {[]Event{row("worker", available, hour/2)}, Signs{Process: process("busy", "", true)}, 0, "idle () 30m0s message; 30m0s"},
		"lead's waits, idle":    {[]Event{row("worker", available, hour/2)}, Signs{Process: process("waiting", "x", true)}, 0, "idle () 30m0s message; 30m0s"},

		"lead gone":              {[]Event{row("worker", available, time.Minute)}, Signs{LeadGone: true}, 0, "ended (the team's lead is not running) 1m0s team; 1m0s"},
		"lead gone, own process": {nil, Signs{LeadGone: true, Process: process("idle", "", false)}, 0, "idle (the team's lead is not running) 1m0s process; 1m0s"},
		"ended":                  {[]Event{row("worker", available, time.Minute)}, Signs{Gone: true}, 0, "ended (its process has ended) 1m0s team; 1m0s"},
		"ended, relay runs":      {nil, Signs{Gone: true, Agent: relay("idle", "", 0)}, 0, "idle () 30s relay; 30s"},
		"lead gone, relay runs":  {nil, Signs{LeadGone: true, Agent: relay("idle", "", 0)}, 0, "idle () 30s relay; 30s"},
		"lead gone, relay, too":  {nil, Signs{LeadGone: true, Agent: relay("stopped", "", 0)}, 0, "ended (the team's lead is not running) 30s relay; 30s"},

		"question":               {nil, Signs{Agent: relay("working", "", 1), Question: question}, 0, "waiting for you (it asks to use Bash) 3m0s question; 30s"},
		"relay works":            {[]Event{row("worker", available, hour)}, Signs{Agent: relay("working", "", 1)}, 0, "working () 30s relay; 30s"},
		"relay works on a turn":  {nil, Signs{Agent: relay("working", "", 1), Turn: turn(true, hour/2, time.Minute, "")}, 0, "working () 30m0s turn; 30s"},
		"relay idle":             {[]Event{row("worker", "x", time.Minute)}, Signs{Agent: relay("idle", "", 0)}, 0, "idle () 30s relay; 30s"},
		"relay idle, turn runs":  {nil, Signs{Agent: relay("idle", "", 0), Turn: turn(true, time.Minute, time.Second, "")}, 0, "working () 1m0s turn; 1s"},
		"relay idle, turn quiet": {nil, Signs{Agent: &api.Relay{State: "idle", Running: true}, Turn: turn(true, hour/2, hour/2, "")}, 0, "idle () 30m0s relay; 30m0s"},
		"relay idle, failed":     {nil, Signs{Agent: relay("idle", "", 0), Turn: turn(false, time.Minute, time.Minute, "failed")}, 0, "idle (its last turn failed) 30s relay; 30s"},
		"relay starts":           {nil, Signs{Agent: relay("starting", "", 0)}, 0, "working (its relay is starting) 30s relay; 30s"},
		"relay asleep":           {nil, Signs{Agent: relay("asleep", "the next message starts it", 0)}, 0, "idle (the next message starts it) 30s relay; 30s"},
		"relay holds":            {nil, Signs{Agent: held}, 0, "blocked (the messages of helper are held: too often) 2m0s relay; 30s"},
		"relay dead":             {nil, Signs{Agent: relay("dead", "it ended 5 times", 0)}, 0, "blocked (its relay is dead: it ended 5 times) 30s relay; 30s"},
		"relay backs off":        {nil, Signs{Agent: relay("backing off", "boom", 1), Turn: turn(true, time.Minute, time.Minute, "")}, 0, "blocked (its relay is backing off: boom) 30s relay; 30s"},
		"relay waits":            {nil, Signs{Agent: relay("waiting", "process 7 is still at work", 1)}, 0, "blocked (its relay is waiting: process 7 is still at work) 30s relay; 30s"},
		"relay stopped":          {nil, Signs{Agent: relay("stopped", "", 0)}, 0, "ended (its relay is stopped) 30s relay; 30s"},
		"relay stopped, unread":  {nil, Signs{Agent: relay("stopped", "", 0)}, 1, "blocked (its relay is stopped) 30s relay; 30s"},
		"relay stopped, queue":   {nil, Signs{Agent: relay("stopped", "", 1)}, 0, "blocked (its relay is stopped) 30s relay; 30s"},
		"at a terminal":          {nil, Signs{Agent: local}, 0, "idle (its session is at a terminal) 30s relay; 30s"},
		"at a terminal, held":    {nil, Signs{Agent: kept}, 0, "blocked (its session is at a terminal; the switch is held: a draft is at the prompt) 4m0s relay; 30s"},
		"at a terminal, works":   {nil, Signs{Agent: kept, Process: process("busy", "", false)}, 0, "working () 1m0s process; 30s"},
		"at a terminal, waits":   {nil, Signs{Agent: kept, Process: process("waiting", "permission prompt", false)}, 0, "waiting for you (permission prompt) 1m0s process; 30s"},
		"at a terminal, idle":    {nil, Signs{Agent: local, Process: process("idle", "", false)}, 0, "idle () 1m0s process; 30s"},
		"at it, idle and held":   {nil, Signs{Agent: kept, Process: process("idle", "", false)}, 0, "blocked (its session is at a terminal; the switch is held: a draft is at the prompt) 4m0s relay; 30s"},
		"switching":              {nil, Signs{Agent: relay("switching", "", 1), Process: process("idle", "", false)}, 0, "working (its session is being switched) 30s relay; 30s"},
		"relay before, terminal": {nil, Signs{Agent: relay("stopped", "", 1), Process: process("idle", "", false)}, 0, "idle () 1m0s process; 30s"},
	} {
		k := Known{Status: Of(now, config(time.Hour), tc.events, nil, map[string]Turn{"worker": tc.signs.Turn})[1], Signs: tc.signs}
		k.Unread = tc.unread
		s := k.Decide(now)
		got := fmt.Sprintf("%s (%s) %s %s; %s", s.Word, s.Why, now.Sub(s.WordSince), s.Basis, now.Sub(s.Heard))
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if wantPID := s.Basis == api.BasisProcess; wantPID != (s.PID == 7) {
			t.Errorf("%s: process %d", name, s.PID)
		}
		if again := k.Decide(now); again.Word != s.Word || again.WordSince != s.WordSince {
			t.Errorf("%s: decided again: %+v", name, again)
		}
	}
}

// Recorded turns are events of their member: an agent at work is ACTIVE.
func TestTurnsCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		events []Event
		heard  time.Duration // ago
		want   string
	}{
		"at work":              {[]Event{row("worker", available, time.Hour)}, time.Minute, "ACTIVE waiting 1m0s"},
		"worked":               {nil, 7 * time.Minute, "IDLE working 2m0s"},
		"before its last word": {[]Event{row("worker", "x", time.Minute)}, 7 * time.Minute, "ACTIVE working 1m0s"},
		"has shut down":        {[]Event{row("worker", approved, 2*time.Minute)}, time.Minute, "TERMINATED shut down 2m0s"},
	} {
		s := Of(now, config(time.Hour), tc.events, nil, map[string]Turn{"worker": {Heard: now.Add(-tc.heard)}})[1]
		if got := fmt.Sprintf("%s %s %s", s.State, s.Detail, now.Sub(s.Since)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A wait for an idle agent ends by its status.
func TestRests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		state, word string
		unread      int
		want        bool
	}{
		{api.StateActive, api.WordIdle, 0, true},
		{api.StateActive, api.WordIdle, 1, false},
		{api.StateIdle, api.WordWorking, 0, false},
		{api.StateIdle, api.WordUnknown, 0, false},
		{api.StateActive, api.WordBlocked, 0, false},
		{api.StateActive, api.WordWaiting, 0, false},
		{api.StateTerminated, api.WordEnded, 1, true},
		{api.StateIdle, api.WordEnded, 0, false}, // its lead or its relay is gone: the work may not be done
	} {
		if got := Rests(api.Status{State: tc.state, Word: tc.word, Unread: tc.unread}); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
