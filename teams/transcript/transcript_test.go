package transcript

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/teams/errtest"
)

// claude is a Claude directory with a project.
type claude struct {
	*testing.T
	root, dir string
}

var must = errtest.Must

func newClaude(t *testing.T) *claude {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	c := &claude{T: t, root: filepath.Join(dir, "claude"), dir: filepath.Join(dir, "project")}
	must(t, os.Mkdir(c.dir, 0o700))
	return c
}

// write makes a file below the Claude directory.
func (c *claude) write(name, content string) {
	c.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c *claude) session(id, content string) {
	c.write("projects/"+Slug(c.dir)+"/"+id+".jsonl", content)
}

func of(c *claude, session string) (Record, bool) {
	path, ok := Session(c.root, c.dir, session)
	if !ok {
		return Record{}, false
	}
	return Newest(path)
}

func ofAgent(c *claude, team, agent string) (Record, bool) {
	path, ok := Agent(c.root, c.dir, team, agent)
	if !ok {
		return Record{}, false
	}
	return Newest(path)
}

func record(version string, second int, more string) string {
	return fmt.Sprintf(`{"type":"user","version":%q,"timestamp":"2026-11-20T10:00:%02d.000Z"%s}`+"\n", version, second, more)
}

func TestSlug(t *testing.T) {
	t.Parallel()
	long := "/tmp/" + strings.Repeat("long_dir.", 25)
	for dir, want := range map[string]string{
		"/home/dev/project":  "-home-dev-project",
		"/tmp/a_b.c d+é漢😀-X": "-tmp-a-b-c-d------X",
		// A test with real programs has both versions make a hash.
		long: "-tmp-" + strings.Repeat("long-dir-", 25)[:195] + "-" + "3n0yoz",
	} {
		if got := Slug(dir); got != want {
			t.Errorf("%.30s: got %s, want %s", dir, got, want)
		}
	}
}

// Transcripts that real programs wrote are read as they are.
func TestCaptured(t *testing.T) {
	t.Parallel()
	for version, at := range map[string]string{"2.1.80": "2026-11-20T18:10:16.91Z", "2.1.329": "2026-11-20T18:09:47.975Z"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "claude-"+version, "transcript.jsonl"))
		must(t, err)
		c := newClaude(t)
		c.session("s", string(data))
		r, ok := of(c, "s")
		if !ok || r.Version != version || r.Time().Format(time.RFC3339Nano) != at || r.Agent != "" {
			t.Errorf("%s: %+v, %v", version, r, ok)
		}
	}
}

// The version of a session is that of its newest whole record with a version and a time.
func TestNewest(t *testing.T) {
	t.Parallel()
	first, second := record("2.1.80", 1, ""), record("2.1.160", 2, "")
	for name, tc := range map[string]struct{ content, want string }{
		"no file":                        {"", ""},
		"one":                            {first, "2.1.80"},
		"the newest":                     {first + second, "2.1.160"},
		"without a line end":             {first + strings.TrimSpace(second), "2.1.160"},
		"then one without a version":     {first + `{"type":"last-prompt","lastPrompt":"x"}` + "\n", "2.1.80"},
		"then a torn one":                {first + second[:40], "2.1.80"},
		"then a torn one with a version": {first + strings.TrimSuffix(second, "}\n"), "2.1.80"},
		"a version that is only said":    {first + `{"type":"user","content":"\"version\":\"9.9.9\"","timestamp":"2026-11-20T10:00:05.000Z"}` + "\n", "2.1.80"},
		"a version of another type":      {first + `{"version":7,"timestamp":"2026-11-20T10:00:05.000Z"}` + "\n", "2.1.80"},
		"no time":                        {first + `{"version":"9.9.9","timestamp":"yesterday"}` + "\n", "2.1.80"},
		"garbage":                        {"\x00\xff[[[\n\n\n", ""},
		"behind much without a version":  {first + strings.Repeat(`{"type":"mode"}`+"\n", 10000), "2.1.80"},
		"behind a long record":           {first + record("2.1.160", 3, `,"x":"`+strings.Repeat("y", 200_000)+`"`), "2.1.160"},
		"behind one that is too long":    {first + `{"x":"` + strings.Repeat("y", longTail) + `"}` + "\n", ""},
	} {
		c := newClaude(t)
		if tc.content != "" {
			c.session("s", tc.content)
		}
		if r, ok := of(c, "s"); r.Version != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %+v, %v; want %q", name, r, ok, tc.want)
		}
	}
}

// A session is found even under another directory, but only by its id.
func TestSessionOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	c.write("projects/-elsewhere/s.jsonl", record("2.1.200", 1, ""))
	c.write("secret.jsonl", record("9.9.9", 1, ""))
	if r, ok := of(c, "s"); !ok || r.Version != "2.1.200" {
		t.Errorf("%+v, %v", r, ok)
	}
	for _, session := range []string{"", ".", "..", "../s", "../../secret", "-elsewhere/s", "other"} {
		if r, ok := of(c, session); ok {
			t.Errorf("%q: %+v", session, r)
		}
	}
}

// A transcript that is no regular file is not opened: that could wait forever.
func TestSessionThatIsNoFile(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	must(t, os.MkdirAll(filepath.Join(c.root, "projects", Slug(c.dir), "s.jsonl"), 0o700))
	if r, ok := of(c, "s"); ok {
		t.Errorf("%+v", r)
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	now := time.Now()
	for i, content := range []string{
		record("2.1.160", 1, `,"agentName":"bob","teamName":"blue"`),
		record("2.1.200", 2, `,"agentName":"bob","teamName":"blue"`) + record("2.1.200", 3, ""),
		record("2.1.280", 3, `,"agentName":"bob","teamName":"red"`),
		record("2.1.329", 4, `,"agentName":"ann","teamName":"blue"`),
		record("2.1.80", 5, ""),
	} {
		id := fmt.Sprint("s", i)
		c.session(id, content)
		at := now.Add(time.Duration(i-10) * time.Minute)
		must(t, os.Chtimes(filepath.Join(c.root, "projects", Slug(c.dir), id+".jsonl"), at, at))
	}
	for who, want := range map[[2]string]string{
		{"blue", "bob"}: "2.1.200", {"red", "bob"}: "2.1.280", {"blue", "ann"}: "2.1.329", {"red", "ann"}: "", {"blue", ""}: "", {"", ""}: "",
	} {
		if r, ok := ofAgent(c, who[0], who[1]); r.Version != want || ok != (want != "") {
			t.Errorf("%v: %+v, %v; want %q", who, r, ok, want)
		}
	}
}

func TestValidTime(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"2026-11-28T12:00:00Z": true, "1970-01-01T00:00:00Z": true, "9999-12-31T23:59:59Z": true,
		"9999-12-31T23:59:59-01:00": false, "0000-01-01T00:00:00+01:00": false, "0001-01-01T00:00:00Z": false,
	} {
		at, err := time.Parse(time.RFC3339, text)
		must(t, err)
		got := ValidTime(at)
		if _, err := json.Marshal(got); err != nil || got.IsZero() == valid || valid && !got.Equal(at) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
		r := Record{Timestamp: text}
		if !r.Time().Equal(got) {
			t.Errorf("of a record, %s is %v", text, r.Time())
		}
	}
	if cost := CostOf(json.RawMessage(`{"a":{"costUSD":1e308},"b":{"costUSD":2}}`)); len(cost) != 1 || cost["b"] != 2 {
		t.Errorf("the costs are %v", cost)
	}
}

func TestProcessOf(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	if p, ok := ProcessOf(c.root, "a"); ok {
		t.Errorf("no sessions: %+v", p)
	}
	c.write("sessions/1.json", `{"pid":1,"sessionId":"a","startedAt":5}`)
	c.write("sessions/2.json", `{"pid":2,"sessionId":"a","startedAt":6,"procStart":"77","version":"2.1.329","pidDomain":"linux:m:pid:[4]",
		"kind":"interactive","status":"waiting","waitingFor":"permission prompt","statusUpdatedAt":1795345750942}`)
	c.write("sessions/3.json", `{"pid":3,"sessionId":"b","startedAt":7}`)
	c.write("sessions/4.json", `{"pid":4,"sess`)
	c.write("sessions/5.json", `{"pid":-5,"sessionId":"e"}`)
	c.write("sessions/6.f.key", `{"pid":6,"sessionId":"a","startedAt":9}`)
	want := Process{PID: 2, Session: "a", StartedAt: 6, ProcStart: "77", Version: "2.1.329", Domain: "linux:m:pid:[4]",
		Interactive: true, Status: ProcessWaiting, WaitingFor: "permission prompt", Changed: time.UnixMilli(1795345750942).UTC(), Path: filepath.Join(c.root, "sessions", "2.json")}
	if p, ok := ProcessOf(c.root, "a"); !ok || p != want {
		t.Errorf("%+v, %v; want %+v", p, ok, want)
	}
	for _, session := range []string{"", "c", "e"} {
		if p, ok := ProcessOf(c.root, session); ok {
			t.Errorf("%q: %+v", session, p)
		}
	}
}
