package teams

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"teambridge/teams/transcript"
)

// The state of a lead that config.json does not name comes from its session's process, or else from its transcript.
func TestLeadState(t *testing.T) {
	t.Parallel()
	me := self(t)
	here := domain(me.PidSpace)
	if here == "" {
		t.Log("this system has no machine id: nothing is known to be gone")
	}
	gone := Gone
	if here == "" {
		gone = Unknown
	}
	process := func(pid int, start, domain string) string {
		return fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q,"pidDomain":%q}`, pid, leadSession, start, domain)
	}
	for name, tc := range map[string]struct {
		process string
		written time.Duration // how long ago; 0: never
		want    Liveness
	}{
		"nothing":                               {"", 0, Unknown},
		"alive":                                 {process(me.PID, me.ProcStart, here), 0, Alive},
		"alive, of a file without it":           {process(me.PID, me.ProcStart, ""), 0, Alive},
		"another process has its number":        {process(me.PID, "1", here), 0, gone},
		"the same, and not known where":         {process(me.PID, "1", ""), 0, Unknown},
		"the same, on another machine":          {process(me.PID, "1", "linux:other:pid:[1]"), 0, Unknown},
		"no start":                              {process(me.PID, "", here), 0, Unknown},
		"it wrote a minute ago":                 {"", time.Minute, Alive},
		"it wrote an hour ago":                  {"", time.Hour, Unknown},
		"gone, and it wrote a minute ago":       {process(me.PID, "1", here), time.Minute, gone},
		"not found, and it wrote a minute ago":  {process(me.PID, "1", ""), time.Minute, Unknown},
		"not looked for, it wrote a minute ago": {process(me.PID, "", ""), time.Minute, Alive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, team, c := mixed(t, "", "", "", "")
			now := time.Now()
			if tc.process != "" {
				p.write("sessions/7.json", tc.process)
			}
			if tc.written != 0 {
				p.write("projects/"+transcript.Slug(p.path("project"))+"/"+leadSession+".jsonl",
					fmt.Sprintf(`{"version":"2.1.300","timestamp":%q}`+"\n", now.Add(-tc.written).UTC().Format(time.RFC3339Nano)))
			}
			if got := team.LeadState(c, now); got != tc.want {
				t.Errorf("the lead is %v, want %v", got, tc.want)
			}
		})
	}
	// A process that only shows a session, or that is kept ready, leads no team, although it is alive.
	for kind, want := range map[string]Liveness{`"kind":"bg","jobId":"0a2fe69c"`: Alive, `"kind":"interactive","parkedJobId":"0a2fe69c"`: Gone, `"kind":"bg","jobId":"0a2fe69c","spare":true`: Gone} {
		p, team, c := mixed(t, "2.1.329", "", "", fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":%q}`, me.PID, strings.ReplaceAll(me.PidSpace, `"`, ""), me.ProcStart))
		p.write(fmt.Sprintf("sessions/%d.json", me.PID), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q,%s}`, me.PID, leadSession, me.ProcStart, kind))
		if got := team.LeadState(c, time.Now()); got != want {
			t.Errorf("a process with %s leads, and is %v, want %v", kind, got, want)
		}
	}
	// leadProcess is better evidence than all others.
	_, team, c := mixed(t, "2.1.329", "", "", fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":"1"}`, me.PID, strings.ReplaceAll(me.PidSpace, `"`, "")))
	if got := team.LeadState(c, time.Now()); got != Gone {
		t.Errorf("with a leadProcess that is gone, it is %v", got)
	}
}

// An agent with a process of its own lives and ends with that process, all others with the lead.
func TestAgentState(t *testing.T) {
	t.Parallel()
	me := self(t)
	here := domain(me.PidSpace)
	if here == "" {
		t.Skip("this system has no machine id: nothing is known to be gone")
	}
	const gone = "1" // the start of a process that had our pid before
	for name, tc := range map[string]struct {
		lead, bob     string // their starts; empty: not known
		worker, paned Liveness
	}{
		"nothing known":             {"", "", Unknown, Unknown},
		"all alive":                 {me.ProcStart, me.ProcStart, Alive, Alive},
		"the lead alone has ended":  {gone, me.ProcStart, Gone, Alive},
		"bob alone has ended":       {me.ProcStart, gone, Alive, Gone},
		"the lead has ended, bob ?": {gone, "", Gone, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leader := ""
			if tc.lead != "" {
				leader = fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":%q}`, me.PID, me.PidSpace, tc.lead)
			}
			p, team, c := mixed(t, "", "2.1.329", "", leader)
			if tc.bob != "" {
				p.write("sessions/8.json", fmt.Sprintf(`{"pid":%d,"sessionId":"b","procStart":%q,"pidDomain":%q}`, me.PID, tc.bob, here))
			}
			for member, want := range map[string]Liveness{"team-lead": tc.worker, "worker": tc.worker, "operator": tc.worker, "bob": tc.paned} {
				if got := team.AgentState(c, member, time.Now()); got != want {
					t.Errorf("%s is %v, want %v", member, got, want)
				}
			}
		})
	}
}

// A teammate in a pane has no session file. While its lead runs here, the teammate's command line shows that it runs.
func TestStateOfATeammateInAPane(t *testing.T) {
	t.Parallel()
	me := self(t)
	lead := func(start string) string {
		return fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":%q}`, me.PID, me.PidSpace, start)
	}
	_, team, c := mixed(t, "", "2.1.329", "", lead(me.ProcStart))
	_, other, ofOther := mixed(t, "", "2.1.329", "", lead("1"))
	id := fmt.Sprintf("bob@%d", me.PID) // other tests have a bob, too
	for _, c := range []*Config{c, ofOther} {
		for i, m := range c.Members {
			if m.Name == "bob" {
				c.Members[i].AgentID = id
			}
		}
	}
	bob, _ := c.Member("bob")
	is := func(when string, want Liveness) {
		t.Helper()
		if got := team.AgentState(c, "bob", time.Now()); got != want {
			t.Errorf("%s, it is %v, want %v", when, got, want)
		}
		if got := team.Ended(c, time.Now()); got["bob"] != (want == Gone) || got["worker"] || got["team-lead"] {
			t.Errorf("%s, %v have ended", when, got)
		}
	}
	is("without a process", Gone)
	if got := team.AgentState(c, "bob", bob.JoinedAt.Add(time.Second)); got != Unknown {
		t.Errorf("before it can have started, it is %v", got)
	}
	if got := other.AgentState(ofOther, "bob", time.Now()); got != Unknown {
		t.Errorf("in a team whose lead does not run here, it is %v", got)
	}
	p := exec.Command("sh", "-c", "read line", "claude", "--agent-id", id, "--agent-name", "bob")
	in, err := p.StdinPipe()
	if err == nil {
		err = p.Start()
	}
	must(t, err)
	is("with a process", Alive)
	must(t, errors.Join(p.Process.Kill(), in.Close()))
	_ = p.Wait() // it was killed
	is("after a kill", Gone)
}
