package teams

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"teambridge/teams/transcript"
)

const leadSession = "4aeedb0f-bc61-4a48-8e87-5f88953c6bc8"

// mixed makes a team with a lead of one version, a teammate in its process, and a teammate in a pane of another
// version. An agent whose version is empty has written nothing.
func mixed(t *testing.T, lead, paned, leadMore, teamMore string) (*place, *Team, *Config) {
	t.Helper()
	p := newPlace(t)
	p.mkdir("project")
	cwd := p.path("project")
	p.write("teams/t/config.json", fmt.Sprintf(`{"name":"t","createdAt":1,"leadAgentId":"team-lead@t","leadSessionId":%q%s,"members":[
		{"agentId":"team-lead@t","name":"team-lead","agentType":"team-lead","cwd":%q%s},
		{"agentId":"worker@t","name":"worker","joinedAt":5000,"tmuxPaneId":"in-process","backendType":"in-process","cwd":%[3]q},
		{"agentId":"bob@t","name":"bob","joinedAt":5000,"tmuxPaneId":"%%1","backendType":"tmux","cwd":%[3]q},
		{"agentId":"operator@t","name":"operator","joinedAt":5000,"tmuxPaneId":"","cwd":%[3]q}]}`, leadSession, teamMore, cwd, leadMore))
	folder := "projects/" + transcript.Slug(cwd) + "/"
	at := time.Now().UTC().Format(time.RFC3339Nano)
	if lead != "" {
		p.write(folder+leadSession+".jsonl", fmt.Sprintf(`{"version":%q,"timestamp":%q,"teamName":"t"}`+"\n", lead, at))
	}
	if paned != "" {
		p.write(folder+"b.jsonl", fmt.Sprintf(`{"version":%q,"timestamp":%q,"teamName":"t","agentName":"bob"}`+"\n", paned, at))
	}
	team := p.team("t")
	c, err := team.Config(t.Context())
	must(t, err)
	return p, team, c
}

// The answers about an agent come from its own version or, if that is unknown, from what was observed of it.
func TestAgent(t *testing.T) {
	t.Parallel()
	const process = `,"tmuxPaneId":"leader","backendType":"in-process"`
	type answers struct {
		version            string
		keeps, keepsMarked bool
	}
	var (
		old      = answers{"2.1.80", true, true}
		outdated = answers{"2.1.256", true, true} // it removes rows, but that is not proved
		oldest   = answers{"2.1.257", false, false}
		current  = answers{"2.1.329", false, false}
		unknown  = answers{"unknown", false, true}
	)
	for name, tc := range map[string]struct {
		lead, paned      string
		led, worker, bob answers
	}{
		"all old":         {"2.1.80", "2.1.80", old, old, old},
		"all outdated":    {"2.1.256", "2.1.256", outdated, outdated, outdated},
		"the oldest":      {"2.1.257", "2.1.257", oldest, oldest, oldest},
		"all 329":         {"2.1.329", "2.1.329", current, current, current},
		"80 and 329":      {"2.1.80", "2.1.329", old, old, current},
		"329 and 80":      {"2.1.329", "2.1.80", current, current, old},
		"nothing written": {"", "", unknown, unknown, unknown},
		"80, and nothing": {"2.1.80", "", old, old, unknown},
		"no version":      {"newest", "2.1", unknown, unknown, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, team, c := mixed(t, tc.lead, tc.paned, process, "")
			versions := team.Versions(c)
			for member, want := range map[string]answers{"team-lead": tc.led, "worker": tc.worker, "bob": tc.bob} {
				a := team.Agent(c, member)
				if got := (answers{a.Version().String(), a.MayKeepRows(false), a.MayKeepRows(true)}); got != want {
					t.Errorf("%s: %+v, want %+v", member, got, want)
				}
				if got := versions[member].String(); got != want.version {
					t.Errorf("%s of all: %s, want %s", member, got, want.version)
				}
			}
			if _, ok := versions["operator"]; ok {
				t.Error("a person has a version")
			}
		})
	}
	_, team, c := mixed(t, "2.1.80", "2.1.80", "", "")
	for _, member := range []string{"operator", "nobody", "user"} {
		if a := team.Agent(c, member); a.Version().Known() {
			t.Errorf("%s has version %v", member, a.Version())
		}
	}
}

// The process with the lead's session shows its version before it has written anything into the transcript.
func TestVersionOfTheProcess(t *testing.T) {
	t.Parallel()
	p, team, c := mixed(t, "2.1.200", "", "", "")
	p.write("sessions/1.json", `{"pid":1,"sessionId":"`+leadSession+`","version":"2.1.329"}`)
	if a := team.Agent(c, "worker"); a.Version() != (Version{2, 1, 329}) {
		t.Errorf("version %v", a.Version())
	}
}

// A lead reads its inbox once a teammate of its own has joined after its process claimed the team.
func TestReadsInbox(t *testing.T) {
	t.Parallel()
	self := strconv.Itoa(os.Getpid()) // a process that exists
	const lead = `"leadAgentId":"l@t","members":[{"agentId":"l@t","name":"l","agentType":"team-lead"`
	const leader = `,"tmuxPaneId":"leader"`
	const worker = `,{"name":"w","agentId":"w@t","joinedAt":5000,"backendType":"in-process"}`
	for config, want := range map[string]Answer{
		`{` + lead + `}]}`:                       Unsure,
		`{` + lead + `}` + worker + `]}`:         Unsure,
		`{` + lead + `,"tmuxPaneId":"leader"}]}`: No,
		`{` + lead + `,"tmuxPaneId":"leader"},{"name":"operator","agentId":"operator@t"}]}`:           No,
		`{` + lead + `,"tmuxPaneId":"leader"}` + worker + `]}`:                                        Yes,
		`{"leadProcess":{"pid":` + self + `,"claimedAt":4000},` + lead + leader + `}` + worker + `]}`: Yes,
		`{"leadProcess":{"pid":` + self + `,"claimedAt":6000},` + lead + leader + `}` + worker + `]}`: No,
		`{"leadProcess":{"pid":` + self + `},` + lead + leader + `}` + worker + `]}`:                  Yes,
		`{"leadProcess":{"pid":` + self + `},` + lead + `,"tmuxPaneId":""}]}`:                         Unsure, // made by Create
	} {
		c, err := Parse("t", []byte(config))
		must(t, err)
		if got := c.ReadsInbox(); got != want {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
		reach := Reachable
		if want == No {
			reach = NoTeammate
		}
		if got := c.Deliverability("l", Facts{}); got != reach {
			t.Errorf("%s: %s, want %s", config, got, reach)
		}
		if got := c.Deliverability("l", Facts{Relayed: true}); got != Reachable {
			t.Errorf("%s, and relayed: %s", config, got)
		}
	}
}
