package teams

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/teams/transcript"
)

// A lead that config.json does not name is known by its session's process, else by
// what was written into its conversation.
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
		written time.Duration // ago; 0: never
		want    Liveness
	}{
		"nothing":                               {"", 0, Unknown},
		"alive":                                 {process(me.PID, me.ProcStart, here), 0, Alive},
		"alive, of a version without it":        {process(me.PID, me.ProcStart, ""), 0, Alive},
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
					fmt.Sprintf(`{"version":"2.1.200","timestamp":%q}`+"\n", now.Add(-tc.written).UTC().Format(time.RFC3339Nano)))
			}
			if got := team.LeadState(c, now); got != tc.want {
				t.Errorf("the lead is %v, want %v", got, tc.want)
			}
		})
	}
	// leadProcess says it better than anything else.
	_, team, c := mixed(t, "2.1.329", "", "", fmt.Sprintf(`,"leadProcess":{"pid":%d,"pidSpace":%q,"procStart":"1"}`, me.PID, strings.ReplaceAll(me.PidSpace, `"`, "")))
	if got := team.LeadState(c, time.Now()); got != Gone {
		t.Errorf("with a leadProcess that is gone, it is %v", got)
	}
}
