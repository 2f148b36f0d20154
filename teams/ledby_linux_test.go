package teams

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/teams/proc"
	"teambridge/teams/transcript"
)

// All facts about a lead and its teammate come from the process that leads the team, and none from a process that
// does not, or may not, lead it.
func TestLedByALivingProcess(t *testing.T) {
	t.Parallel()
	const first, now = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	above, err := proc.Read(os.Getppid())
	must(t, err)
	me, parent := self(t), LeadProcess{PID: os.Getppid(), ProcStart: above.Start}
	named := fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":%q}`, me.PID, me.PidSpace, me.ProcStart)
	for name, tc := range map[string]struct {
		version  string
		lead     string        // leadSessionId
		more     string        // of config.json
		age      time.Duration // of the team
		second   bool          // another process began at the same time
		by       Answer        // whether the process leads it
		state    Liveness
		known    bool     // whether its process and conversation are known
		teammate []string // the sessions with its conversation
	}{
		"resumed":                      {"2.1.300", "random", "", 0, false, Yes, Alive, true, []string{now}},
		"another began with it":        {"2.1.300", "random", "", 0, true, Unsure, Unknown, false, nil},
		"cleared":                      {"2.1.300", first, "", 0, false, Yes, Alive, true, []string{now, first}},
		"cleared, and named":           {"2.1.330", first, named, 0, true, Yes, Alive, true, []string{now, first}},
		"not resumed":                  {"2.1.300", now, "", 0, true, Yes, Alive, true, []string{now}},
		"left by a kill, then resumed": {"2.1.300", now, "", time.Hour, false, No, Unknown, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.mkdir("project")
			cwd, at := p.path("project"), time.Now()
			p.write("teams/t/config.json", fmt.Sprintf(`{"name":"t","createdAt":%d,"leadAgentId":"l@t","leadSessionId":%q%s,"members":[
				{"agentId":"l@t","name":"team-lead","agentType":"team-lead","cwd":%q,"tmuxPaneId":"leader","backendType":"in-process"},
				{"agentId":"w@t","name":"worker","cwd":%[4]q,"tmuxPaneId":"in-process","backendType":"in-process"}]}`,
				at.Add(-tc.age).UnixMilli()-1, tc.lead, tc.more, cwd))
			process := func(of LeadProcess, session string) {
				p.write(fmt.Sprintf("sessions/%d.json", of.PID), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"version":%q,"kind":"interactive","cwd":%q,"procStart":%q,"startedAt":%d,"status":"idle"}`,
					of.PID, session, tc.version, cwd, of.ProcStart, at.UnixMilli()))
			}
			process(me, now)
			if tc.second {
				process(parent, "another")
			}
			folder := "projects/" + transcript.Slug(cwd) + "/"
			for _, session := range []string{first, now} {
				p.write(folder+session+".jsonl", fmt.Sprintf(`{"version":%q,"timestamp":%q}`+"\n", tc.version, at.UTC().Format(time.RFC3339Nano)))
				p.write(folder+session+"/subagents/a.meta.json", `{"name":"worker"}`)
				p.write(folder+session+"/subagents/a.jsonl", "{}\n")
				p.write(folder+session+"/subagents/b.meta.json", `{"name":"worker","teamName":"other"}`)
				p.write(folder+session+"/subagents/b.jsonl", "{}\n")
			}
			team := p.team("t")
			c, err := team.Config(t.Context())
			must(t, err)
			if got := team.LedBy(c, now); got != tc.by {
				t.Errorf("the process leads it: %v, want %v", got, tc.by)
			}
			if got := team.LedBy(c, "another"); got == Yes || got == Unsure && tc.by != Unsure {
				t.Errorf("the other process leads it: %v", got)
			}
			if got := team.LeadState(c, at); got != tc.state {
				t.Errorf("the lead is %v, want %v", got, tc.state)
			}
			if pid, state := team.Leader(c); (pid == me.PID) != tc.known || state != tc.state {
				t.Errorf("process %d leads it, %v; want this one: %t", pid, state, tc.known)
			}
			processes := team.Processes(c)
			for _, member := range []string{"team-lead", "worker"} {
				if got := processes[member]; (got.PID == me.PID) != tc.known || got.PID != 0 && got.Shared != (member == "worker") {
					t.Errorf("%s: process %+v, want it: %t", member, got, tc.known)
				}
				if got := team.Agent(c, member).Version(); got.Known() != tc.known {
					t.Errorf("%s: version %v, want one: %t", member, got, tc.known)
				}
			}
			var conversation []string
			if tc.known {
				conversation = []string{p.path(folder + now + ".jsonl")}
			}
			if got := team.Agent(c, "team-lead").Transcripts(); !slices.Equal(got, conversation) {
				t.Errorf("the lead's conversation is %v, want %v", got, conversation)
			}
			var sessions []string
			for _, path := range team.Agent(c, "worker").Transcripts() {
				session, file, _ := strings.Cut(strings.TrimPrefix(path, p.path(folder)+string(filepath.Separator)), "/subagents/")
				if sessions = append(sessions, session); file != "a.jsonl" {
					t.Errorf("%s is another team's", path)
				}
			}
			if !slices.Equal(sessions, tc.teammate) {
				t.Errorf("the worker's conversation is in %v, want %v", sessions, tc.teammate)
			}
		})
	}
}

// A team that a tool made belongs to the session in which it was made, even after /clear.
func TestLedByAnEarlierSession(t *testing.T) {
	t.Parallel()
	_, team, c := mixed(t, "2.1.160", "", "", "")
	for _, tc := range []struct {
		session string
		earlier []string
		want    Answer
	}{
		{leadSession, nil, Yes},
		{"another", nil, No},
		{"another", []string{"first", leadSession}, Yes},
		{"", nil, No},
	} {
		if got := team.LedBy(c, tc.session, tc.earlier...); got != tc.want {
			t.Errorf("by %q, before %q: %v, want %v", tc.session, tc.earlier, got, tc.want)
		}
	}
}
