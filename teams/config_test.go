package teams

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/lockedfile"
)

func TestCapturedConfigs(t *testing.T) {
	t.Parallel()
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	for _, want := range []*Config{
		{
			Team: g1Team, Name: g1Team, Description: "d",
			CreatedAt:     at(1795196874576),
			LeadAgentID:   "team-lead@myteam",
			LeadSessionID: "4aeedb0f-bc61-4a48-8e87-5f88953c6bc8",
			Members: []Member{{
				AgentID: "team-lead@myteam", Name: "team-lead", AgentType: "team-lead", Model: "claude-sonnet-4-6",
				JoinedAt: at(1795196874576), Cwd: "/home/dev/project",
			}, {
				AgentID: "worker@myteam", Name: "worker", AgentType: "general-purpose", Model: "claude-opus-4-6",
				Prompt: "You are worker. Say hi", Color: "blue", JoinedAt: at(1795196879050),
				TmuxPaneID: "in-process", Cwd: "/home/dev/project", BackendType: "in-process",
			}},
		},
		{
			Team: g2Team, Name: g2Team,
			CreatedAt:     at(1795196213317),
			LeadAgentID:   "team-lead@session-2de3961d",
			LeadSessionID: "2de3961d-6921-4e4d-8adb-18a75361dbe0",
			LeadProcess: &LeadProcess{
				PID: 7189, PidSpace: "vm#pid:[4026531836]", ClaimedAt: at(1795196213316), ProcStart: "46498",
			},
			Members: []Member{{
				AgentID: "team-lead@session-2de3961d", Name: "team-lead", AgentType: "team-lead",
				JoinedAt: at(1795196213317), TmuxPaneID: "leader", Cwd: "/home/dev/project", BackendType: "in-process",
			}, {
				AgentID: "worker@session-2de3961d", Name: "worker", Color: "blue", Model: "sonnet",
				Prompt: "You are worker. Say hi", JoinedAt: at(1795196285852),
				TmuxPaneID: "in-process", Cwd: "/home/dev/project", BackendType: "in-process",
			}},
		},
	} {
		_, team := fixture(t, want.Team)
		got, err := team.Config(t.Context())
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Team, diff)
		}
		if lead, ok := got.Lead(); !ok || lead.Name != "team-lead" {
			t.Errorf("%s: Lead() = %v, %v", want.Team, lead, ok)
		}
		if id := (Instance{want.Team, want.CreatedAt.UnixMilli()}); got.Instance() != id {
			t.Errorf("%s: Instance() = %v, want %v", want.Team, got.Instance(), id)
		}
	}
}

// A fault in one place affects only the value in that place.
func TestParseTolerates(t *testing.T) {
	t.Parallel()
	const bob = `{"name":"bob","agentId":"bob@t"}`
	type result struct {
		Members []string
		Faults  int
	}
	for name, tc := range map[string]struct {
		in   string
		want result
	}{
		"nothing":                  {`{}`, result{nil, 0}},
		"unknown keys":             {`{"x":{"y":[1]},"members":[` + bob + `],"z":null}`, result{[]string{"bob"}, 0}},
		"members null":             {`{"members":null}`, result{nil, 0}},
		"members an object":        {`{"members":{}}`, result{nil, 1}},
		"no objects":               {`{"members":[null,1,"x",[],` + bob + `,true]}`, result{[]string{"bob"}, 5}},
		"wrong types in one":       {`{"members":[{"name":"a","agentId":7,"joinedAt":"x","cwd":[],"planModeRequired":"yes"},` + bob + `]}`, result{[]string{"a", "bob"}, 4}},
		"a name of another type":   {`{"members":[{"name":7},` + bob + `]}`, result{[]string{"bob"}, 2}},
		"bad names":                {`{"members":[{"name":"../config"},{"name":""},{},` + bob + `]}`, result{[]string{"bob"}, 3}},
		"a name twice":             {`{"members":[` + bob + `,` + bob + `]}`, result{[]string{"bob"}, 1}},
		"the last of equal keys":   {`{"members":[{"name":"a"}],"members":[{"name":"x","name":"bob"}]}`, result{[]string{"bob"}, 0}},
		"keys differ in case":      {`{"Members":[{"name":"a"}],"members":[{"Name":"x","name":"bob"}]}`, result{[]string{"bob"}, 0}},
		"escapes and surrogates":   {`{"description":"\ud800","members":[{"name":"b\u006fb"}]}`, result{[]string{"bob"}, 0}},
		"not UTF-8":                {"{\"description\":\"\xff\",\"members\":[{\"name\":\"bob\"}]}", result{[]string{"bob"}, 0}},
		"top level of odd types":   {`{"name":1,"createdAt":"now","leadAgentId":[],"leadProcess":"p","members":[` + bob + `]}`, result{[]string{"bob"}, 4}},
		"times in microseconds":    {`{"createdAt":1795196213317000,"members":[{"name":"bob","joinedAt":1795196213317000}]}`, result{[]string{"bob"}, 0}},
		"times out of range":       {`{"createdAt":1e400,"members":[{"name":"bob","joinedAt":-5}]}`, result{[]string{"bob"}, 0}},
		"pid of no process":        {`{"leadProcess":{"pid":-1},"members":[` + bob + `]}`, result{[]string{"bob"}, 0}},
		"pid larger than there is": {`{"leadProcess":{"pid":1e30},"members":[` + bob + `]}`, result{[]string{"bob"}, 0}},
	} {
		c, err := Parse("t", []byte(tc.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := result{Faults: len(c.Faults)}
		for _, m := range c.Members {
			got.Members = append(got.Members, m.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, c.Faults)
		}
		if !c.CreatedAt.IsZero() {
			t.Errorf("%s: CreatedAt = %v, want none", name, c.CreatedAt)
		}
		if p := c.LeadProcess; p != nil && (p.PID != 0 || p.Liveness() != Unknown) {
			t.Errorf("%s: lead process %+v is %v, want pid 0, unknown", name, p, p.Liveness())
		}
	}
}

func TestParseFaultsKeepValuesToThemselves(t *testing.T) {
	t.Parallel()
	c, err := Parse("t", []byte(`{"description":["hunter2"],"members":[{"name":"a","prompt":{"key":"hunter2"}}]}`))
	must(t, err)
	if text := errors.Join(c.Faults...).Error(); strings.Contains(text, "hunter2") || len(c.Faults) != 2 {
		t.Errorf("faults: %s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{g1Team, g2Team} {
		data, err := os.ReadFile("testdata/" + name + "/config.json")
		must(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"members":[{"name":"../x"},{"name":"a"},{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("t", data)
		if err != nil {
			if ce, ok := errors.AsType[*CorruptError](err); !ok || ce.Offset < 0 || ce.Offset > int64(len(data)) {
				t.Fatalf("%#v, want a CorruptError within %d bytes", err, len(data))
			}
			return
		}
		seen := map[string]bool{}
		for _, m := range c.Members {
			if CheckName("member", m.Name) != nil || seen[m.Name] {
				t.Fatalf("member %q", m.Name)
			}
			seen[m.Name] = true
		}
	})
}

// Each kind of file that is no config has an error of its own, with the offset.
func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content string
		offset  int64
	}{
		"empty":         {"", 0},
		"blank":         {" \n", 2},
		"array":         {"[]", 0},
		"null":          {"  null", 2},
		"string":        {`"x"`, 0},
		"cut off":       {`{"name":"t","mem`, 16},
		"garbage":       {`{"name":x}`, 8},
		"trailing":      {`{}{}`, 2},
		"mark":          {"\ufeff{}", 0},
		"comma":         {`{"a":1,}`, 6},
		"cut in member": {`{"members":[{"name":"a"},{"na`, 29},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t)
				p.write("teams/t/config.json", tc.content)
				team := p.team("t")
				start := time.Now()
				c, err := team.Config(t.Context())
				ce, ok := errors.AsType[*CorruptError](err)
				if !ok || c != nil {
					t.Fatalf("Config() = %v, %v, want a CorruptError", c, err)
				}
				if ce.Offset != tc.offset || ce.Path != p.path("teams/t/config.json") {
					t.Errorf("corrupt at byte %d of %s, want byte %d (%v)", ce.Offset, ce.Path, tc.offset, err)
				}
				if d := time.Since(start); d < tornWait || d > 2*tornWait {
					t.Errorf("gave up after %v, want %v", d, tornWait)
				}
			})
		})
	}
}

func TestConfigAnswersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.mkdir("teams/gone")
		p.mkdir("teams/dir/config.json")
		p.write("teams/link/config.json", "")
		p.remove("teams/link/config.json")
		p.write("secret.json", "{}")
		p.symlink("../../secret.json", "teams/link/config.json")
		p.write("teams/huge/config.json", "{}")
		must(t, os.Truncate(p.path("teams/huge/config.json"), lockedfile.MaxSize+1))
		start := time.Now()
		for name, want := range map[string]any{
			"gone": ErrTeamGone,
			"dir":  &CorruptError{},
			"link": &CorruptError{},
			"huge": lockedfile.ErrTooLarge,
		} {
			c, err := p.team(name).Config(t.Context())
			ok := false
			switch want := want.(type) {
			case *CorruptError:
				_, ok = errors.AsType[*CorruptError](err)
			case error:
				ok = errors.Is(err, want)
			}
			if !ok || c != nil {
				t.Errorf("%s: %v, %v, want %v", name, c, err, want)
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v for what waiting does not change", d)
		}
	})
}

// Claude Code writes config.json in place, so that it is empty for a moment, and then incomplete. Reading returns the
// whole file.
func TestConfigWaitsForAWriter(t *testing.T) {
	t.Parallel()
	const whole = `{"name":"t","members":[{"name":"bob"}]}`
	for name, tc := range map[string]struct {
		takes   time.Duration // until the file is whole
		lockAge time.Duration // of the lock directory at the start; -1: none
		ok      bool
	}{
		"quick":                         {200 * time.Millisecond, -1, true},
		"slow":                          {300 * time.Millisecond, -1, false},
		"slow under a lock":             {5 * time.Second, 0, true},
		"slow under an ageing lock":     {8 * time.Second, 3 * time.Second, false},
		"slow under a stale lock":       {300 * time.Millisecond, 11 * time.Second, false},
		"under a lock from the future":  {14 * time.Second, -time.Hour, true},
		"never, a lock from the future": {time.Hour, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t)
				p.write("teams/t/config.json", "")
				if tc.lockAge != -1 {
					p.mkdir("teams/t/config.json.lock")
					at := time.Now().Add(-tc.lockAge)
					must(t, os.Chtimes(p.path("teams/t/config.json.lock"), at, at))
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, part := range []string{whole[:1], whole[:20], whole} {
						select {
						case <-time.After(tc.takes / 3):
						case <-ctx.Done():
							return
						}
						if err := os.WriteFile(p.path("teams/t/config.json"), []byte(part), 0o644); err != nil {
							t.Error(err)
						}
					}
				}()
				c, err := p.team("t").Config(t.Context())
				cancel()
				<-done
				if _, corrupt := errors.AsType[*CorruptError](err); tc.ok != (err == nil) || !tc.ok && !corrupt {
					t.Fatalf("Config() = %v, %v, want ok %v", c, err, tc.ok)
				}
				if tc.ok {
					if _, found := c.Member("bob"); !found {
						t.Errorf("members %v, want bob", c.Members)
					}
				}
			})
		})
	}
}

func TestConfigStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.write("teams/t/config.json", "")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := p.team("t").Config(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Config: %v, want the context's error", err)
		}
	})
}

func TestInstanceTellsTeamsApart(t *testing.T) {
	t.Parallel()
	seen := map[Instance]string{}
	for _, tc := range []struct{ team, config string }{
		{"a", `{"name":"a","createdAt":1}`},
		{"a", `{"name":"a","createdAt":2}`},
		{"copy", `{"name":"a","createdAt":1}`},
		{"a", `{"name":"a"}`},
	} {
		c, err := Parse(tc.team, []byte(tc.config))
		must(t, err)
		id := c.Instance()
		if other, ok := seen[id]; ok {
			t.Errorf("%v is both %v and %s", id, tc, other)
		}
		seen[id] = fmt.Sprint(tc)
	}
	if got := (Instance{"a", 17}).String(); got != "a@17" {
		t.Errorf("String() = %s", got)
	}
}
