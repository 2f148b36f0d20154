package teams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"teambridge/teams/lockedfile"
	"teambridge/teams/winetest"
)

func locker(t *testing.T) *lockedfile.Locker {
	return lockedfile.New(lockedfile.Options{Dir: filepath.Join(t.TempDir(), "locks"), Wait: time.Minute, Hold: time.Minute})
}

const g2Config = "teams/" + g2Team + "/config.json"

// Join adds its entry in the style of the file, and changes no other byte.
func TestJoin(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g2Team)
	before := p.read(g2Config)
	from := time.Now().Truncate(time.Millisecond)
	m, err := team.Join(t.Context(), locker(t), "operator", `/home/<dev>/"x"`)
	must(t, err)
	if !m.Added || m.Name != "operator" || m.AgentID != "operator@"+g2Team || m.JoinedAt.Before(from) || m.JoinedAt.After(time.Now()) {
		t.Errorf("Join = %+v", m)
	}
	entry := fmt.Sprintf(`,
    {
      "agentId": "operator@%s",
      "name": "operator",
      "joinedAt": %d,
      "tmuxPaneId": "",
      "cwd": "/home/<dev>/\"x\"",
      "subscriptions": []
    }
  ]
}`, g2Team, m.JoinedAt.UnixMilli())
	want := strings.TrimSuffix(before, "\n  ]\n}") + entry
	if diff := cmp.Diff(want, p.read(g2Config)); diff != "" {
		t.Errorf("config.json (-want +got):\n%s", diff)
	}
	if entries, _ := os.ReadDir(p.path("teams/" + g2Team)); len(entries) != 2 {
		t.Errorf("left in the team: %v", entries)
	}
	c, err := team.Config(t.Context())
	must(t, err)
	got, ok := c.Member("operator")
	if !ok || !got.Guest() || got.Cwd != `/home/<dev>/"x"` || len(c.Faults) > 0 {
		t.Errorf("member %+v, %v, faults %v", got, ok, c.Faults)
	}
	for _, m := range c.Members[:2] {
		if m.Guest() {
			t.Errorf("%v counts as a guest", m)
		}
	}

	left, err := team.Leave(t.Context(), locker(t), m)
	if err != nil || !left {
		t.Errorf("Leave = %v, %v", left, err)
	}
	if diff := cmp.Diff(before, p.read(g2Config)); diff != "" {
		t.Errorf("after Leave (-want +got):\n%s", diff)
	}
	if left, err := team.Leave(t.Context(), locker(t), m); err != nil || left {
		t.Errorf("Leave again = %v, %v, want false", left, err)
	}
}

// A second Join returns the first membership, and does not change the file.
func TestJoinTwiceIsOnce(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g2Team)
	first, err := team.Join(t.Context(), locker(t), "operator", "/a")
	must(t, err)
	once := p.read(g2Config)
	second, err := team.Join(t.Context(), locker(t), "operator", "/b")
	must(t, err)
	if once != p.read(g2Config) {
		t.Error("the second join has changed the file")
	}
	first.Added = false
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("memberships (-first +second):\n%s", diff)
	}
}

// A team of an old version can be joined, and left without a trace.
func TestJoinOlderTeam(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g1Team)
	before, err := os.ReadFile(p.path("teams/myteam/config.json"))
	must(t, err)
	m, err := team.Join(t.Context(), locker(t), "operator", "/a")
	if err != nil || !m.Added {
		t.Fatalf("Join = %+v, %v", m, err)
	}
	c, err := team.Config(t.Context())
	must(t, err)
	if there, ok := c.Member("operator"); !ok || !there.Guest() {
		t.Errorf("the entry is %+v", there)
	}
	if left, err := team.Leave(t.Context(), locker(t), m); err != nil || !left {
		t.Errorf("Leave = %v, %v", left, err)
	}
	if after, err := os.ReadFile(p.path("teams/myteam/config.json")); err != nil || string(after) != string(before) {
		t.Errorf("%v, something was left: %s", err, after)
	}
}

const g2Head = `{"name":"t","leadProcess":{"pid":1},"members":`

// Join refuses a taken or invalid name, and a config.json that is corrupt, and changes nothing.
func TestJoinRefuses(t *testing.T) {
	t.Parallel()
	agents := g2Head + `[{"agentId":"worker@t","name":"worker","backendType":"in-process","tmuxPaneId":""},{"agentId":"typed@t","name":"typed","agentType":"x","tmuxPaneId":""},` +
		`{"agentId":"paned@t","name":"paned","tmuxPaneId":"%3"},{"agentId":"guest@other","name":"guest","tmuxPaneId":""}]}`
	taken := func(err error) bool {
		te, ok := errors.AsType[*TakenError](err)
		return ok && errors.Is(err, ErrNameTaken) && te.Team == "t"
	}
	corrupt := func(err error) bool {
		_, ok := errors.AsType[*CorruptError](err)
		return ok
	}
	badName := func(err error) bool { return errors.Is(err, ErrBadName) }
	for name, tc := range map[string]struct {
		config, as string
		want       func(error) bool
	}{
		"an agent's name":         {agents, "worker", taken},
		"in another case":         {agents, "Worker", taken},
		"one with a type":         {agents, "typed", taken},
		"one with a pane":         {agents, "paned", taken},
		"a guest of another team": {agents, "guest", taken},
		"user":                    {agents, "user", taken},
		"the lead's":              {agents, "team-lead", taken},
		"its alias":               {agents, "Lead", taken},
		"system":                  {agents, "system", taken},
		"a path":                  {agents, "../config", badName},
		"nothing":                 {agents, "", badName},
		"no members":              {`{"leadProcess":{}}`, "operator", corrupt},
		"members of another type": {g2Head + `{}}`, "operator", corrupt},
		"cut off":                 {g2Head + `[`, "operator", corrupt},
		"empty":                   {"", "operator", corrupt},
		"an array":                {"[]", "operator", corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write("teams/t/config.json", tc.config)
			m, err := p.team("t").Join(t.Context(), locker(t), tc.as, "/a")
			if !tc.want(err) || m != (Membership{}) {
				t.Errorf("Join = %+v, %v", m, err)
			}
			if got := p.read("teams/t/config.json"); got != tc.config {
				t.Errorf("config.json changed to %s", got)
			}
		})
	}
}

// Leave removes the entry that Join added, and no entry that only has the same name.
func TestLeaveRemovesOnlyOurs(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1000).UTC()
	ours := Membership{Name: "operator", AgentID: "operator@t", JoinedAt: at}
	for name, tc := range map[string]struct {
		entry string
		ok    bool
	}{
		"ours":                {`{"agentId":"operator@t","name":"operator","joinedAt":1000,"tmuxPaneId":""}`, true},
		"ours, with new keys": {`{"new":{"a":[1.0]},"agentId":"operator@t","name":"operator","joinedAt":1e3,"tmuxPaneId":""}`, true},
		"joined later":        {`{"agentId":"operator@t","name":"operator","joinedAt":1001,"tmuxPaneId":""}`, false},
		"of another id":       {`{"agentId":"operator@u","name":"operator","joinedAt":1000,"tmuxPaneId":""}`, false},
		"an agent by now":     {`{"agentId":"operator@t","name":"operator","joinedAt":1000,"backendType":"in-process"}`, false},
	} {
		p := newPlace(t)
		before := g2Head + `[ {"name":"a"},` + tc.entry + `,{"name":"z", "x":1.0}]}`
		p.write("teams/t/config.json", before)
		left, err := p.team("t").Leave(t.Context(), locker(t), ours)
		want := before
		if tc.ok {
			want = g2Head + `[ {"name":"a"},{"name":"z", "x":1.0}]}`
		}
		if left != tc.ok || errors.Is(err, ErrNotOurs) == tc.ok || p.read("teams/t/config.json") != want {
			t.Errorf("%s: Leave = %v, %v, file now %s", name, left, err, p.read("teams/t/config.json"))
		}
	}
}

// Join and Leave fail with ErrTeamGone if the team is gone or was made again, and write nothing.
func TestJoinAndLeaveInATeamThatIsGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *place){
		"deleted": func(p *place) { p.remove("teams/" + g2Team) },
		"orphan":  func(p *place) { p.remove(g2Config) },
		"remade":  func(p *place) { p.remove("teams/" + g2Team); p.write(g2Config, g2Head+"[]}") },
	} {
		p, team := fixture(t, g2Team)
		change(p)
		before := p.snapshot()
		if _, err := team.Join(t.Context(), locker(t), "operator", "/a"); !errors.Is(err, ErrTeamGone) {
			t.Errorf("%s: Join: %v, want ErrTeamGone", name, err)
		}
		if _, err := team.Leave(t.Context(), locker(t), Membership{Name: "worker"}); !errors.Is(err, ErrTeamGone) {
			t.Errorf("%s: Leave: %v, want ErrTeamGone", name, err)
		}
		if diff := cmp.Diff(before, p.snapshot()); diff != "" {
			t.Errorf("%s: something was written (-before +after):\n%s", name, diff)
		}
	}
}

// Join fails if the team is deleted, moved away or made again while it runs, and leaves nothing.
func TestJoinRacesWithDeletion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*place){
		"deleted": func(p *place) { p.remove("teams/" + g2Team) },
		"remade":  func(p *place) { p.remove("teams/" + g2Team); p.write(g2Config, g2Head+"[]}") },
		"moved":   func(p *place) { os.Rename(p.path("teams/"+g2Team), p.path("trash")) },
	} {
		if name == "moved" && winetest.Running() {
			continue // it does not find the content of a moved directory by its handle
		}
		for _, at := range []lockedfile.Step{lockedfile.StepLock, lockedfile.StepRead, lockedfile.StepWrite, lockedfile.StepFence} {
			p, team := fixture(t, g2Team)
			changed := false
			l := lockedfile.New(lockedfile.Options{Hold: time.Minute, Before: func(s lockedfile.Step) {
				if s == at && !changed {
					changed = true
					change(p)
				}
			}})
			if _, err := team.Join(t.Context(), l, "operator", "/a"); !errors.Is(err, ErrTeamGone) {
				t.Errorf("%s before %s: %v, want ErrTeamGone", name, at, err)
			}
			for _, dir := range []string{"teams/" + g2Team, "trash"} {
				entries, _ := os.ReadDir(p.path(dir))
				for _, e := range entries {
					if e.Name() != "inboxes" && e.Name() != configFile {
						t.Errorf("%s before %s: left behind in %s: %s", name, at, dir, e.Name())
					}
					if data, _ := os.ReadFile(p.path(dir + "/" + configFile)); bytes.Contains(data, []byte("operator")) {
						t.Errorf("%s before %s: written into %s", name, at, dir)
					}
				}
			}
		}
	}
}

// An empty members array has no style, so the style of its line is used.
func TestJoinAnEmptyTeam(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const before = "{\n\t\"name\": \"t\",\n\t\"leadProcess\": {},\n\t\"members\": []\n}"
	p.write("teams/t/config.json", before)
	team, l := p.team("t"), locker(t)
	m, err := team.Join(t.Context(), l, "operator", "/a")
	must(t, err)
	if got := p.read("teams/t/config.json"); !strings.Contains(got, "\n\t  {\n") && !strings.Contains(got, "\n\t\t{\n") || !strings.HasSuffix(got, "\n\t]\n}") {
		t.Errorf("the entry is not indented below its line:\n%s", got)
	}
	if left, err := team.Leave(t.Context(), l, m); err != nil || !left || p.read("teams/t/config.json") != before {
		t.Errorf("Leave = %v, %v: %s", left, err, p.read("teams/t/config.json"))
	}
}

// If many join and leave at once, through lockers that do not know each other, no change is lost.
func TestJoinAtOnce(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g2Team)
	before := p.read(g2Config)
	var wg sync.WaitGroup
	got := make([]Membership, 8)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = team.Join(t.Context(), locker(t), fmt.Sprint("person", i), "/a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := team.Config(t.Context())
	if err != nil || len(c.Members) != 2+len(got) {
		t.Fatalf("%d members, %v, want %d", len(c.Members), err, 2+len(got))
	}
	for _, m := range got {
		wg.Go(func() {
			if left, err := team.Leave(t.Context(), locker(t), m); err != nil || !left {
				t.Errorf("Leave = %v, %v", left, err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, p.read(g2Config)); diff != "" {
		t.Errorf("after all have left (-want +got):\n%s", diff)
	}
}

// If Claude Code adds a member after we joined, leaving removes our entry from the middle.
func TestLeaveAfterClaudeAddedAMember(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g2Team)
	before := p.read(g2Config)
	spawn := func(s string) string {
		return strings.TrimSuffix(s, "\n  ]\n}") + ",\n    {\n      \"name\": \"late\"\n    }\n  ]\n}"
	}
	m, err := team.Join(t.Context(), locker(t), "operator", "/a")
	must(t, err)
	p.write(g2Config, spawn(p.read(g2Config)))
	if left, err := team.Leave(t.Context(), locker(t), m); err != nil || !left {
		t.Fatalf("Leave = %v, %v", left, err)
	}
	if diff := cmp.Diff(spawn(before), p.read(g2Config)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever the layout of the file, joining is one insertion, and leaving removes exactly the inserted bytes.
func TestJoinThenLeaveGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("teams/t/config.json", "{}")
	team := p.team("t")
	l := locker(t)
	rapid.Check(t, func(rt *rapid.T) {
		before := layout(rt)
		p.write("teams/t/config.json", before)
		m, err := team.Join(t.Context(), l, "operator", rapid.String().Draw(rt, "cwd"))
		if err != nil {
			rt.Fatalf("Join: %v\n%s", err, before)
		}
		joined := p.read("teams/t/config.json")
		if n := commonPrefix(before, joined); !strings.HasSuffix(joined, before[n:]) || len(joined) <= len(before) {
			rt.Fatalf("more than one insertion\nbefore %q\njoined %q", before, joined)
		}
		if !json.Valid([]byte(joined)) {
			rt.Fatalf("no JSON: %q", joined)
		}
		c, err := team.Config(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if got, ok := c.Member("operator"); !ok || !got.Guest() || got.AgentID != m.AgentID || !got.JoinedAt.Equal(m.JoinedAt) {
			rt.Fatalf("member %+v, %v, want %+v\n%s", got, ok, m, joined)
		}
		if left, err := team.Leave(t.Context(), l, m); err != nil || !left {
			rt.Fatalf("Leave = %v, %v", left, err)
		}
		if after := p.read("teams/t/config.json"); after != before {
			rt.Fatalf("not the same bytes\nbefore %q\nafter  %q", before, after)
		}
	})
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// layout draws a config.json of a newer version as any program could have written it: in any style, with members
// anywhere in it, and with values that a new encoding would change.
func layout(t *rapid.T) string {
	values := rapid.SampledFrom([]string{
		`1e3`, `1.0`, `-0`, `12345678901234567890`, `0.10`, `"\ud800"`, "\"\xff\"", `"<&>\/"`, `"members"`, `null`, `true`,
		`[]`, `{}`, `[1,2]`, `{"a":1,"a":2}`, `[{"name":"operator"}]`, `"],{"`,
	})
	keys := rapid.SampledFrom([]string{"x", "y", "Members", "member", "cwd", "", "é", `\u006d`, "x"})
	field := rapid.Custom(func(t *rapid.T) string {
		return `"` + keys.Draw(t, "key") + `":` + values.Draw(t, "value")
	})
	count := rapid.IntRange(0, 4).Draw(t, "members")
	var rows []string
	for i := range count {
		fields := append(rapid.SliceOfN(field, 0, 3).Draw(t, "fields"), fmt.Sprintf(`"name":"m%d","backendType":"x"`, i))
		rows = append(rows, "{"+strings.Join(rapid.Permutation(fields).Draw(t, "order"), ",")+"}")
	}
	if rapid.Bool().Draw(t, "odd member") {
		rows = append(rows, values.Draw(t, "odd"))
	}
	members := `"members":[` + strings.Join(rows, ",") + `]`
	others := append(rapid.SliceOfN(field, 0, 4).Draw(t, "others"), `"name":"t"`, `"leadProcess":{"pid":1}`)
	others = rapid.Permutation(others).Draw(t, "order")
	at := rapid.IntRange(0, len(others)).Draw(t, "place of members")
	text := "{" + strings.Join(slices.Insert(others, at, members), ",") + "}"

	style := rapid.SampledFrom([]string{"minified", "  ", "\t", "    ", "\r\n", "spaced"}).Draw(t, "style")
	var b bytes.Buffer
	switch style {
	case "minified":
		b.WriteString(text)
	case "spaced":
		// White space in unusual places, but not inside an empty array, the only place where it is not kept.
		b.WriteString(strings.NewReplacer(`,"name"`, " ,\n\n \t\"name\"", `"members":[{`, "\"members\" :\t[  {", `}]`, "} \n]").Replace(text))
	case "\r\n":
		must(t, json.Indent(&b, []byte(text), "", "  "))
		return strings.ReplaceAll(b.String(), "\n", "\r\n")
	default:
		must(t, json.Indent(&b, []byte(text), "", style))
	}
	return b.String() + rapid.SampledFrom([]string{"", "\n", " \r\n"}).Draw(t, "end")
}

// An enlisted agent is no person, and dismissing it restores the file byte for byte. It is not dismissed once another
// agent has its name, and a person is not dismissed as an agent.
func TestEnlistAndDismiss(t *testing.T) {
	t.Parallel()
	p, team := fixture(t, g2Team)
	l := locker(t)
	before := p.read(g2Config)
	recorded := 0
	m, err := team.Enlist(t.Context(), l, "bob", "/w", func(m Membership) error {
		if recorded++; p.read(g2Config) != before || m.Name != "bob" {
			t.Errorf("%+v is recorded too late", m)
		}
		return nil
	})
	if err != nil || !m.Added || recorded != 1 {
		t.Fatal(m, recorded, err)
	}
	c, err := team.Config(t.Context())
	must(t, err)
	if there, ok := c.Member("bob"); !ok || there.Guest() || there.BackendType != "" || there.TmuxPaneID != "" || there.Cwd != "/w" {
		t.Errorf("config.json has %+v", there)
	}
	if again, err := team.Enlist(t.Context(), l, "bob", "/w", nil); err != nil || again.Added {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := team.Join(t.Context(), l, "bob", "/w"); !errors.Is(err, ErrNameTaken) {
		t.Errorf("a person under its name: %v", err)
	}
	for name, err := range map[string]error{
		"left as a person": func() error { _, err := team.Leave(t.Context(), l, m); return err }(),
		"another of that name": func() error {
			o := m
			o.JoinedAt = o.JoinedAt.Add(time.Second)
			_, err := team.Dismiss(t.Context(), l, o)
			return err
		}(),
	} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := errors.New("failed")
	if _, err := team.Enlist(t.Context(), l, "eve", "/w", func(Membership) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("unrecorded: %v", err)
	}
	if left, err := team.Dismiss(t.Context(), l, m); err != nil || !left {
		t.Errorf("dismissed %v, %v", left, err)
	}
	if diff := cmp.Diff(before, p.read(g2Config)); diff != "" {
		t.Errorf("config.json (-want +got):\n%s", diff)
	}
}
