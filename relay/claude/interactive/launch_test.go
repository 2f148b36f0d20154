package interactive

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// start makes a launch in directories of the test.
func start(t *testing.T, o Options) *Launch {
	t.Helper()
	home := t.TempDir()
	if o.Root == "" {
		o.Root = filepath.Join(home, "claude")
	}
	o.Dir, o.State = home, filepath.Join(home, "state")
	if o.Command == nil {
		o.Command = []string{"claude"}
	}
	if o.Session == "" {
		o.Session = session
	}
	l, err := New(o)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(l.files); err == nil {
			t.Errorf("%s is there after Close", l.files)
		}
	})
	return l
}

func TestCommand(t *testing.T) {
	t.Parallel()
	plan := mode.Mode{PermissionMode: mode.Set("plan"), Model: mode.Set("opus")}
	for _, test := range []struct {
		name string
		Options
		want []string
	}{
		{"new", Options{Command: []string{"claude", "--ide"}}, []string{"claude", "--ide", "--session-id", session}},
		{"resumed", Options{Resume: true}, []string{"claude", "--resume", session}},
		{"prefill", Options{Prefill: " -p\x1b[31m\r\ntwo \n"}, []string{"claude", "--session-id", session, "--prefill=-p[31m\ntwo"}},
		{"own settings", Options{Command: []string{"claude", "--settings", "{}"}}, []string{"claude", "--session-id", session, "--settings={}"}},
		{"mode", Options{Command: []string{"claude", "--dangerously-skip-permissions"}, Mode: plan}, []string{"claude", "--session-id", session, "--model=opus", "--permission-mode=plan"}},
	} {
		if l := start(t, test.Options); !slices.Equal(l.Cmd().Args, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, l.Cmd().Args, test.want)
		}
	}
	if l := start(t, Options{}); !slices.Contains(l.Cmd().Env, noAgentView+"=1") {
		t.Error("← moves the conversation to the background")
	}
	if l := start(t, Options{Env: []string{noAgentView + "=0"}}); !slices.Contains(l.Cmd().Env, noAgentView+"=0") || slices.Contains(l.Cmd().Env, noAgentView+"=1") {
		t.Error("what the person has set is not kept")
	}
	if l := start(t, Options{Prefill: strings.Repeat("x", maxPrefill+1)}); len(l.Paste()) != maxPrefill+1 || len(l.Cmd().Args) != 3 {
		t.Errorf("a long prefill: %d bytes to paste, %d arguments", len(l.Paste()), len(l.Cmd().Args))
	}
}

func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-p"}, {"--print"}, {"--continue"}, {"-c"}, {"--resume"}, {"--fork-session"}, {"--no-session-persistence"},
		{"--output-format", "stream-json"}, {"--input-format=stream-json"}, {"--bg"}, {"--from-pr", "1"},
		{"--model", "opus", "fix it"}, {"--verbose", "mcp"}, {"--", "x"},
		{"--settings", "{}", "--settings={}"}, {"--settings", "missing.json"}, {"--settings", "[]"}, {"--settings", `{"env":{"VISUAL":"x"}`},
	} {
		state := t.TempDir()
		_, err := New(Options{Command: append([]string{"claude"}, args...), Root: t.TempDir(), Dir: t.TempDir(), State: state, Session: session})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", args, err)
		}
		if left, err := os.ReadDir(filepath.Join(state, "local")); err != nil || len(left) > 0 {
			t.Errorf("%q: %v was left, %v", args, left, err)
		}
	}
}

// settings returns the settings in --settings of a launch.
func settings(t *testing.T, l *Launch) (value struct {
	Model string
	Env   map[string]string
	Hooks map[string][]struct {
		Hooks []struct{ Type, Command string }
	}
}) {
	t.Helper()
	for _, arg := range l.Cmd().Args {
		if path, ok := strings.CutPrefix(arg, "--settings="); ok {
			data, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(data, &value)
			}
			must(t, err)
			return value
		}
	}
	t.Fatalf("no --settings in %q", l.Cmd().Args)
	return value
}

func TestSettingsAreMerged(t *testing.T) {
	t.Parallel()
	own := `{"model":"opus","env":{"EDITOR":"ed","A":"b"},"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"own"}]}],"Stop":[]}}`
	l := start(t, Options{Command: []string{"claude", "--settings", own}})
	got := settings(t, l)
	if got.Model != "opus" || got.Env["A"] != "b" || got.Env["EDITOR"] != l.editor() || got.Env["VISUAL"] != l.editor() {
		t.Errorf("got %+v, want the person's settings and our editor", got)
	}
	if len(got.Hooks["SessionStart"]) != 1 {
		t.Errorf("hooks: got %+v, want the person's", got.Hooks)
	}
	if info, err := os.Stat(l.files); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("files: got %v, %v, want mode 0700", info.Mode(), err)
	}
}

// takeDraft asks for the draft and runs the editor as Claude Code would.
func takeDraft(t *testing.T, l *Launch, name string, drafts ...string) (string, bool) {
	t.Helper()
	n := 0
	text, ok, err := l.TakeDraft(t.Context(), func() error {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, drafts[min(n, len(drafts)-1)])
		n++
		out, err := exec.Command(l.editor(), path).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	})
	must(t, err)
	return text, ok
}

func TestDraft(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	l := start(t, Options{})
	for _, test := range []struct{ stale, file, want string }{
		{"fir", "first\n\n  second 漢字 ", "first\n\n  second 漢字"},
		{"", "", ""},
		{"x", "with\a bell", "with bell"},
		{"", "# ─── Claude's last response (for reference; removed on save) ───\n# # ─── Write your reply\n# ─── Write your reply below this line ───\n\nmine", "mine"},
		{"", "# ─── Claude's last response", "# ─── Claude's last response"},
	} {
		if got, ok := takeDraft(t, l, "claude-prompt-1.md", test.stale, test.file); !ok || got != test.want {
			t.Errorf("%q: got %q, %t, want %q", test.file, got, ok, test.want)
		}
	}
}

// Without a request, and for files of other programs, the person's own editor runs, with its arguments.
func TestOwnEditor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	own := filepath.Join(t.TempDir(), "own")
	standin.WriteProgram(t, own, "#!/bin/sh\necho \"$@\"\n")
	l := start(t, Options{Env: append(os.Environ(), "VISUAL=", "EDITOR="+own+" --wait")})
	run := func(file string) string {
		out, err := exec.Command(l.editor(), file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := run("/tmp/claude-prompt-1.md"); got != "--wait /tmp/claude-prompt-1.md" {
		t.Errorf("not asked: got %q", got)
	}
	must(t, l.askDraft())
	if got := run("/tmp/COMMIT_EDITMSG"); got != "--wait /tmp/COMMIT_EDITMSG" {
		t.Errorf("asked, of another program: got %q", got)
	}
	old := l.started.Add(-2 * lateEditor)
	must(t, os.Chtimes(l.askFile(), old, old))
	if _, err := l.Look(1); err != nil {
		t.Fatal(err)
	}
	if got := run("/tmp/claude-prompt-1.md"); got != "--wait /tmp/claude-prompt-1.md" {
		t.Errorf("long after it was asked: got %q", got)
	}
}

// An editor cannot be in a directory with a space in its path.
func TestStateWithSpaces(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "my state")
	l, err := New(Options{Command: []string{"claude"}, Root: t.TempDir(), State: state, Session: session})
	must(t, err)
	defer l.Close()
	if strings.Contains(l.editor(), " ") {
		t.Errorf("got %q, want a path without spaces", l.editor())
	}
}

// The files of a killed launcher are removed, those of a living one are not.
func TestLeftFiles(t *testing.T) {
	t.Parallel()
	ended := exec.Command(os.Args[0], "-test.run=^$")
	must(t, ended.Run())
	l := start(t, Options{})
	left := filepath.Join(filepath.Dir(l.files), strconv.Itoa(ended.Process.Pid)+"-1")
	must(t, os.Mkdir(left, 0o700))
	next, err := New(Options{Command: []string{"claude"}, Root: t.TempDir(), State: filepath.Dir(filepath.Dir(l.files)), Session: session})
	must(t, err)
	defer next.Close()
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed launcher left is there")
	}
	if _, err := os.Stat(l.editor()); err != nil {
		t.Errorf("the files of a living launcher: %v", err)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "sessions"), 0o700))
	const other = "99999999-2222-4333-8444-555555555555"
	file := filepath.Join(root, "sessions", "77.json")
	l := start(t, Options{Root: root})
	for _, test := range []struct {
		file string
		want State
	}{
		{``, State{Session: session}}, // it may still be in a dialog
		{`{"pid":77,"sessionId":"` + other + `","status":"idle"}`, State{Status: Idle, Session: other}},
		{`{"pid":77,"sessionId":"` + other + `","status":"busy","version":"2.1.257"}`, State{Status: Busy, Session: other}},
		{`{"pid":77,"status":"waiting","waitingFor":"permission prompt"}`, State{Status: Waiting, For: "permission prompt", Session: session}},
		{`{"pid":77,"status":"shell"}`, State{Status: Shell, Session: session}},
		{`{"pid":77,"status":"a word of later versions"}`, State{Status: Busy, Session: session}},
		{`{"pid":77,"sta`, State{Session: session}},
	} {
		write(t, file, test.file)
		if got, err := l.Look(77); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v, want %+v", test.file, got, err, test.want)
		}
	}
	write(t, file, `{"pid":77,"status":"idle","version":"2.1.256"}`)
	if got, err := l.Look(77); !errors.As(err, new(*teams.OutdatedError)) {
		t.Errorf("an outdated version: got %+v, %v", got, err)
	}
}

func TestElsewhere(t *testing.T) {
	t.Parallel()
	root, us := t.TempDir(), process.Identify(os.Getpid())
	for _, dir := range []string{"sessions", "projects/p"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	ended := exec.Command(os.Args[0], "-test.run=^$")
	must(t, ended.Run())
	start, _, _ := strings.Cut(us.Start, "@")
	for _, test := range []struct {
		name, session, start string
		pid                  int
		ours                 agent.Process
		want                 int
	}{
		{"it runs", session, start, us.PID, agent.Process{}, us.PID},
		{"without a start", session, "", us.PID, agent.Process{}, us.PID},
		{"it is ours", session, start, us.PID, agent.Process(us), 0},
		{"another session", "other", start, us.PID, agent.Process{}, 0},
		{"it has ended", session, "1", ended.Process.Pid, agent.Process{}, 0},
	} {
		write(t, filepath.Join(root, "sessions", "1.json"), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q,"status":"idle"}`, test.pid, test.session, test.start))
		if got := Elsewhere(root, session, test.ours); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
	write(t, filepath.Join(root, "sessions", "1.json"), fmt.Sprintf(`{"pid":%d,"sessionId":"0a2fe69c-1","procStart":%q,"kind":"bg","jobId":"0a2fe69c"}`, us.PID, start))
	write(t, filepath.Join(root, "projects", "p", session+".jsonl"), fmt.Sprintf(`{"type":"continued-in","sessionId":%q,"continuedInSessionId":"0a2fe69c-1"}`, session)+"\n")
	if got := Elsewhere(root, session, agent.Process{}); got != us.PID {
		t.Errorf("its conversation was moved to the background: got %d, want %d", got, us.PID)
	}
	if start == "" {
		return // this system does not report when a process started
	}
	write(t, filepath.Join(root, "sessions", "1.json"), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":"1","status":"idle"}`, us.PID, session))
	if got := Elsewhere(root, session, agent.Process{}); got != 0 {
		t.Errorf("another process has the id: got %d, want 0", got)
	}
}

// A session has ended if no process has it. Outdated versions may not report their session.
func TestEnded(t *testing.T) {
	t.Parallel()
	root, us := t.TempDir(), process.Identify(os.Getpid())
	start, _, _ := strings.Cut(us.Start, "@")
	for _, dir := range []string{"sessions", "projects/p"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	at := filepath.Join(root, "projects", "p", session+".jsonl")
	for _, test := range []struct {
		name, version, has string
		want               bool
	}{
		{"it has the session", "2.1.329", session, false},
		{"it has another one", "2.1.329", "other", true},
		{"it is outdated", "2.1.256", "other", false},
		{"it does not say what it is", "", "other", true},
	} {
		write(t, filepath.Join(root, "sessions", "1.json"), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"procStart":%q}`, us.PID, test.has, start))
		write(t, at, fmt.Sprintf(`{"type":"user","version":%q,"timestamp":"2026-11-20T18:00:00Z"}`, test.version)+"\n")
		if got := Ended(root, session); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
	if Ended(root, "other") {
		t.Error("a session without a transcript has ended")
	}
}

func TestObstacle(t *testing.T) {
	t.Parallel()
	f := teamstest.New(t)
	f.Make("crew", 1, "team-lead", "worker")
	config := f.Path("crew", "config.json")
	say := func(lead, members string) {
		write(t, config, `{"name":"crew","createdAt":1,"leadAgentId":"team-lead@crew","leadSessionId":"`+lead+`","members":[{"agentId":"team-lead@crew","name":"team-lead","agentType":"team-lead"}`+members+`]}`)
	}
	const worker = `,{"agentId":"worker@crew","name":"worker","agentType":"general-purpose"}`
	const guest = `,{"agentId":"ann@crew","name":"ann","tmuxPaneId":""}`
	root := f.Team("crew").Root()
	check := func(what, own, want string) {
		t.Helper()
		got, err := Obstacle(t.Context(), root, own, session)
		if err != nil || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: got %q, %v, want %q", what, got, err, want)
		}
	}
	for _, dir := range []string{"sessions", "projects/p"} {
		must(t, os.MkdirAll(filepath.Join(root.Path(), dir), 0o700))
	}
	moved := filepath.Join(root.Path(), "sessions", "1.json")
	write(t, moved, fmt.Sprintf(`{"pid":%d,"sessionId":%q,"kind":"interactive","parkedJobId":"0a2fe69c"}`, os.Getpid(), session))
	check("a conversation in the background", "", "claude stop 0a2fe69c")
	must(t, os.Remove(moved))
	say(session, worker)
	check("a teammate", "", "teammate worker of team crew")
	check("our own team", "crew", "")
	say("99999999-2222-4333-8444-555555555555", worker)
	check("the team of another session", "", "")
	say(session, guest)
	check("a guest", "", "")
	f.Send("crew", "ann", "team-lead", "read me")
	check("an unread row", "", "unread messages for team-lead in team crew")
	write(t, f.Path("crew", "inboxes", "team-lead.json"), `[{"from":"ann","text":"x","timestamp":"2026-11-22T22:00:00.000Z","read":true}]`)
	check("a row that was read", "", "")
	write(t, config, "{")
	check("a broken file", "", "")
}
