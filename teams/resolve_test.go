package teams

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func members(names ...string) []Member {
	var out []Member
	for _, n := range names {
		out = append(out, Member{Name: n, AgentID: n + "@real"})
	}
	return out
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c := &Config{Team: "dir", Name: "real", LeadAgentID: "team-lead@real", Members: members("team-lead", "worker", "Bob", "bob", "a@dir", "x")}
	called := &Config{Team: "dir", LeadAgentID: "boss@real", Members: members("boss", "lead")}
	headless := &Config{Team: "dir", LeadAgentID: "nobody@real", Members: members("worker")}
	badlead := &Config{Team: "dir", LeadAgentID: "x", Members: []Member{{Name: "w", AgentID: "w@dir"}}}
	inboxes := []string{"user", "worker", "Old-Timer", "../evil"}
	for _, tc := range []struct {
		in    *Config
		query string
		want  string
	}{
		{c, "worker", "worker"},
		{c, "user", "user"},
		{c, "lead", "team-lead"},
		{c, "LEAD", "team-lead"},
		{headless, "LEAD", ""},
		{called, "Lead", "lead"},
		{called, "lead", "lead"},
		{headless, "lead", ""},
		{badlead, "lead", ""},
		{c, "worker@real", "worker"},
		{c, "worker@dir", "worker"},
		{c, "lead@real", "team-lead"},
		{c, "WORKER@real", "worker"},
		{c, "user@dir", "user"},
		{c, "worker@other", ""},
		{c, "a@dir", "a@dir"},
		{c, "a@dir@dir", "a@dir"},
		{c, "Worker", "worker"},
		{c, "old-timer", "Old-Timer"},
		{c, "Bob", "Bob"},
		{c, "bob", "bob"},
		{c, "BOB", ""}, // both could be meant
		{c, "wroker", ""},
		{c, "config", ""},
	} {
		got, err := tc.in.Resolve(tc.query, inboxes)
		if got != tc.want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", tc.query, got, err, tc.want)
		}
		if nf, ok := errors.AsType[*NotFoundError](err); tc.want == "" && (!ok || nf.Query != tc.query || nf.Kind != "member" || errors.Is(err, ErrTeamGone)) {
			t.Errorf("Resolve(%q): %v, want a NotFoundError for a member", tc.query, err)
		}
	}
	for _, query := range []string{"", "../evil", "../config@real", "worker@../x", "a/b", ".", "nul"} {
		if got, err := c.Resolve(query, inboxes); !errors.Is(err, ErrBadName) {
			t.Errorf("Resolve(%q) = %q, %v, want ErrBadName", query, got, err)
		}
	}
}

func TestResolveNamesTheNearest(t *testing.T) {
	t.Parallel()
	c := &Config{Team: "t", Members: members("alice", "bob", "carol", "worker", "worker-2", "Alina")}
	for query, want := range map[string][]string{
		"wroker":   {"worker", "worker-2"},
		"ALINE":    {"Alina", "alice"},
		"bobb@t":   {"bob"},
		"worker-3": {"worker-2", "worker"},
	} {
		_, err := c.Resolve(query, nil)
		nf, ok := errors.AsType[*NotFoundError](err)
		if !ok || len(nf.Nearest) != 5 {
			t.Fatalf("Resolve(%q): %v, want a NotFoundError with 5 names", query, err)
		}
		if diff := cmp.Diff(want, nf.Nearest[:len(want)]); diff != "" {
			t.Errorf("nearest to %q (-want +got):\n%s", query, diff)
		}
	}
	if _, err := (&Config{Team: "t"}).Resolve("x", nil); err == nil || err.Error() != `teams: no member "x" in team "t"` {
		t.Errorf("in an empty team: %v", err)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"wbe", "web", 1}, {"wroker", "worker", 1}, {"ca", "abc", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}, {"é", "e", 1},
	} {
		if got := distance([]rune(tc.a), []rune(tc.b)); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestTeamResolve(t *testing.T) {
	t.Parallel()
	_, team := fixture(t, g1Team)
	got := map[string]string{}
	for _, query := range []string{"lead", "worker@myteam", "user", "Worker"} {
		name, err := team.Resolve(t.Context(), query)
		if err != nil {
			t.Error(err)
		}
		got[query] = name
	}
	want := map[string]string{"lead": "team-lead", "worker@myteam": "worker", "user": "user", "Worker": "worker"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An interrupted choice is an error, and not the choice of no team.
func TestChooseInterrupted(t *testing.T) {
	t.Parallel()
	root, _, _ := orphaned(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if team, err := root.Choose(ctx, "/"); team != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want context.Canceled", team, err)
	}
}

// A member has one name in its team. If the team is unknown, only "lead" stands for another name.
func TestMemberName(t *testing.T) {
	t.Parallel()
	p, _ := fixture(t, g1Team)
	p.write("teams/other/config.json", `{"name":"other","createdAt":1,"leadAgentId":"boss@other","members":[{"agentId":"boss@other","name":"boss"},{"agentId":"WORKER@other","name":"WORKER"},{"agentId":"solo@other","name":"solo"}]}`)
	root, err := Open(p.dir)
	must(t, err)
	defer root.Close()
	for _, tc := range []struct{ team, name, want string }{
		{"myteam", "lead", "team-lead"},
		{"myteam", "WORKER", "worker"},
		{"myteam", "worker@myteam", "worker"},
		{"myteam", "stranger", "stranger"},
		{"other", "Lead", "boss"},
		{"other", "worker", "WORKER"},
		{"gone", "lead", "team-lead"},
		{"gone", "Worker", "Worker"},
		{"../evil", "lead", "team-lead"},
		{"", "SOLO", "solo"},
		{"", "Worker", "Worker"}, // both could be meant
		{"", "lead", "team-lead"},
	} {
		if got := root.MemberName(t.Context(), tc.team, tc.name); got != tc.want {
			t.Errorf("%q in %q is %q, want %q", tc.name, tc.team, got, tc.want)
		}
	}
}

// Having returns only teams that can be read and have all of these members.
func TestHaving(t *testing.T) {
	t.Parallel()
	p, _ := fixture(t, g1Team)
	p.write("teams/other/config.json", `{"name":"other","createdAt":1,"leadAgentId":"boss@other","members":[{"agentId":"boss@other","name":"boss"},{"agentId":"WORKER@other","name":"WORKER"},{"agentId":"solo@other","name":"solo"}]}`)
	p.write("teams/broken/config.json", `{"name":"broken","members":[{"name":"worker"}`)
	p.write("teams/nothing/inboxes/worker.json", `[]`)
	root, err := Open(p.dir)
	must(t, err)
	defer root.Close()
	for _, tc := range []struct {
		members []string
		want    string
	}{
		{[]string{"worker"}, "myteam other"},
		{[]string{"Solo"}, "other"},
		{[]string{"worker", "solo"}, "other"},
		{[]string{"solo", "team-lead"}, ""},
		{[]string{"stranger"}, ""},
	} {
		all, err := root.Having(t.Context(), tc.members...)
		must(t, err)
		var got []string
		for _, team := range all {
			got = append(got, team.Name())
			if err := team.Close(); err != nil {
				t.Error(err)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%q: %q, want %q", tc.members, got, tc.want)
		}
	}
}
