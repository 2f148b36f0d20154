package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

// recipe is a command of the README, with its expected effect.
type recipe struct {
	command string // as in the README, without the comment
	says    string // the output must match this
	status  string // "" is 0
	skip    string // why the command is not run

	// until is set if the command does not end by itself. It is started in the background, and the next one runs once
	// its output matches. It is interrupted after the command that lists it in interrupts.
	until      string
	interrupts []string

	meanwhile func(*reader) // called again and again until then
	after     func(*reader) // called after its end
}

// curl's status when max-time has passed: streams do not end by themselves.
const streamEnded = "28"

// readmeRecipes has each command of the README, by section, in order.
var readmeRecipes = map[string][]recipe{
	"teambridge": {
		{command: "go run ./cmd/teambridge demo", says: `8 messages sent, 8 taken, each once, 5 answers; nothing left behind`},
		{command: "go run ./cmd/teambridge demo --keep", until: `http://127\.0\.0\.1:\d+/\?code=`, interrupts: []string{"go run ./cmd/teambridge demo --keep"}},
		{command: "go test ./...", skip: "this test is part of it"},
	},
	"Start": {
		{command: "CGO_ENABLED=0 go install ./cmd/teambridge", after: func(r *reader) {
			out, err := exec.Command(filepath.Join(r.home, "bin", "teambridge"), "version").CombinedOutput()
			if err != nil {
				r.t.Errorf("the installed teambridge: %v: %s", err, out)
			}
		}},
		{command: "teambridge", says: `(?m)^worker@session-2de3961d +member .* inbox (.*\n)+ +teambridge send `},
		{command: "teambridge setup", skip: "it changes the programs on this machine; TestRealSetup runs it"},
		{command: "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1 claude", skip: "it is interactive; relay/relaytest/standin starts it so in a terminal"},
		{command: "teambridge doctor", says: `no problems found`},
	},
	"Write to an interactive team": {
		{command: "teambridge teams", says: `session-2de3961d .*alive`},
		{command: `teambridge send worker "please review task 12"`, says: `sent +worker@session-2de3961d`},
		{command: `teambridge ask worker "is the build green?"`, says: `it is green`},
		{command: "teambridge status", says: `(?m)^worker +`},
		{command: "teambridge tasks", says: `no tasks`},
		{command: "teambridge inbox", says: `nothing needs you`}, // ask has shown the answer
		{command: `teambridge reply last "yes, go ahead"`, says: `sent +worker@session-2de3961d`},
		{command: `git diff | teambridge send lead - --summary "the diff"`, says: `sent +team-lead@session-2de3961d`},
		{command: "teambridge watch", until: `there is news`, interrupts: []string{"teambridge watch"}, meanwhile: func(r *reader) {
			if _, err := r.sim.Agent("worker").Send(r.t.Context(), simagent.Message{To: "operator", Text: "there is news"}); err != nil {
				r.t.Error(err)
			}
		}},
		{command: "teambridge history --with worker", says: `yes, go ahead`},
		{command: "teambridge search build", says: `is the build green\?`},
		{command: "teambridge usage --by day,team", says: `no agent has used any tokens`},
		{command: "teambridge setup plugin", skip: "the simulated claude has no such command; TestRealPlugin runs it"},
	},
	"Run a headless team": {
		{command: "teambridge run --create-team --team myteam -- claude --model sonnet", until: ""},
		{command: "teambridge run --as worker --team myteam -- claude --model sonnet", until: ""},
		{command: `teambridge send lead@myteam "ask worker to review task 12"`, says: `sent +team-lead@myteam`},
		{command: "teambridge status --team myteam", says: `(?m)^team-lead.*\n(.*\n)*worker`},
		{command: "teambridge history --team myteam", says: `ask worker to review task 12`, interrupts: []string{
			"teambridge run --create-team --team myteam -- claude --model sonnet",
			"teambridge run --as worker --team myteam -- claude --model sonnet",
		}, after: (*reader).teamGone},
	},
	"Run the service": {
		{command: "teambridge serve --listen unix:/tmp/tb.sock --listen 127.0.0.1:7420 &", says: `serving 127\.0\.0\.1:\d+`},
		{command: "teambridge relay add lead@myteam --create-team --permissions ask -- claude --model sonnet", says: `added .* lead@myteam|added .* team-lead@myteam`},
		{command: "teambridge relay add worker@myteam -- claude --model sonnet", says: `added .* worker@myteam`},
		{command: "teambridge relay list", says: `worker@myteam`},
		{command: `teambridge ask lead@myteam "what is left to do?"`, says: `what is left to do\?`},
		{command: "teambridge permit", says: `no agent waits for an answer`},
		{command: "teambridge ui --print", says: `http://127\.0\.0\.1:\d+/\?code=`},
		{command: "teambridge inbox --host ssh://box", skip: "there is no other machine; TestRealSSHD has one"},
		{command: `teambridge send worker@ci@build "please review task 12"`, skip: "there is no other machine; TestRealMachines has one"},
		{command: `tb() { curl -sS --unix-socket /tmp/tb.sock "$@"; }`},
		{command: "tb localhost/v1/teams", says: `"team":"myteam"`},
		{command: "tb localhost/v1/teams/myteam/status", says: `"member":"worker","state":`},
		{command: "tb localhost/v1/attention", says: `^\[`},
		{command: `tb localhost/v1/teams/myteam/members/worker/messages -H 'Idempotency-Key: review-12' \
   -H 'Content-Type: application/json' -d '{"text": "please review task 12"}'`, says: `"id":"review-12","state":"verified","deduplicated":false`},
		{command: "tb 'localhost/v1/teams/myteam/members/worker/receipt?id=review-12'", says: `"id":"review-12","state":"(verified|consumed)"`},
		{command: "tb 'localhost/v1/teams/myteam/messages?with=worker&limit=20'", says: `"text":"please review task 12"`},
		{command: "tb 'localhost/v1/history?q=review'", says: `"hits":\[\{"team":`},
		{command: "tb localhost/v1/relays", says: `"team":"myteam","member":"worker"`},
		{command: "tb -N localhost/v1/events", says: `event: snapshot\n`, status: streamEnded},
		{command: "token=$(cat ~/.local/state/teambridge/api.token)"},
		{command: `curl -sS -H "Authorization: Bearer $token" http://127.0.0.1:7420/v1/teams`, says: `"team":"myteam"`},
		{command: `curl -sS -N -H "Authorization: Bearer $token" 'http://127.0.0.1:7420/v1/events?team=myteam&after=0'`, says: `"text":"please review task 12"`, status: streamEnded},
		{command: "teambridge relay remove worker@myteam", says: `removed .* worker@myteam`},
		{command: "teambridge relay remove lead@myteam --delete-team", says: `removed .* (team-)?lead@myteam`, after: (*reader).teamGone},
	},
}

// readmeCommands returns the commands of each section of the README: its indented lines, without comments.
func readmeCommands(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	errtest.Must(t, err)
	commands := map[string][]string{}
	section, open := "", ""
	comment := regexp.MustCompile(` +# [^'"]*$`)
	for line := range strings.Lines(string(data)) {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			section = strings.TrimSpace(title)
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		// A fenced block could have commands that the test does not run.
		if strings.HasPrefix(line, "```") && strings.TrimSpace(line) != "```json" && strings.TrimSpace(line) != "```" {
			t.Errorf("a block of %s: commands are indented, and only JSON has a fence", strings.TrimSpace(line))
		}
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !ok {
			continue
		}
		open += comment.ReplaceAllString(line, "")
		if strings.HasSuffix(line, `\`) {
			open += "\n"
			continue
		}
		commands[section], open = append(commands[section], open), ""
	}
	return commands
}

// Each command of the README has a recipe here, or a reason why it is not run, and no other command has one.
func TestReadmeIsKnown(t *testing.T) {
	t.Parallel()
	commands := readmeCommands(t)
	for section, list := range readmeRecipes {
		var known []string
		for _, r := range list {
			known = append(known, r.command)
		}
		if !slices.Equal(known, commands[section]) {
			t.Errorf("the section %q has the commands\n%s\nand known are\n%s", section, strings.Join(commands[section], "\n"), strings.Join(known, "\n"))
		}
		delete(commands, section)
	}
	for section, list := range commands {
		t.Errorf("the section %q has commands that are not known: %q", section, list)
	}
}

// reader is a person who types the commands of the README into a shell.
type reader struct {
	t       *testing.T
	home    string
	root    string // the Claude directory
	sim     *simagent.Team
	replace *strings.Replacer // names that another person on this machine may use

	in    io.Writer
	lines *bufio.Reader
	jobs  map[string]*job
}

type job struct {
	pid string
	out string // a file with its output
}

// newReader starts a shell in a home directory.
func newReader(t *testing.T, home, root, work string, env []string) *reader {
	t.Helper()
	for _, name := range []string{"bash", "curl", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	errtest.Must(t, err)
	address := l.Addr().String()
	errtest.Must(t, l.Close())
	sockets, err := os.MkdirTemp("", "tb") // short enough for a socket
	errtest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	r := &reader{t: t, home: home, root: root, jobs: map[string]*job{},
		replace: strings.NewReplacer("/tmp/tb.sock", filepath.Join(sockets, "s"), "127.0.0.1:7420", address)}
	shell := exec.Command("bash")
	shell.Dir, shell.Env = work, env
	if r.in, err = shell.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, w := io.Pipe()
	shell.Stdout, shell.Stderr = w, w
	errtest.Must(t, shell.Start())
	over := time.AfterFunc(4*patience, func() { _ = shell.Process.Kill() })
	t.Cleanup(func() { over.Stop() })
	ended := make(chan error, 1)
	go func() {
		err := shell.Wait()
		_ = w.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		fmt.Fprintln(r.in, `kill $(jobs -p) 2>/dev/null; wait; exit 0`)
		_, _ = io.Copy(io.Discard, r.lines)
		if err := <-ended; err != nil {
			t.Errorf("the shell ended with %v", err)
		}
	})
	r.lines = bufio.NewReader(out)
	fmt.Fprintln(r.in, "set -m") // an interrupt must only reach the commands next to the shell
	return r
}

// until reads the output up to a line that matches.
func (r *reader) until(pattern string) (said string) {
	r.t.Helper()
	match := regexp.MustCompile(pattern)
	for {
		line, err := r.lines.ReadString('\n')
		said += line
		if err != nil {
			r.t.Fatalf("%v, waiting for %q: %s", err, pattern, said)
		}
		if match.MatchString(strings.TrimSuffix(line, "\n")) {
			return said
		}
	}
}

// shell runs a line, and returns its output and its status.
func (r *reader) shell(line string) (said, status string) {
	r.t.Helper()
	fmt.Fprintln(r.in, line)
	fmt.Fprintln(r.in, `s=$?; echo; echo "ended with $s "`)
	said = r.until(`^ended with \d+ $`)
	said, status, _ = strings.Cut(strings.TrimSuffix(said, " \n"), "\nended with ")
	return said, status
}

// run runs the commands of a section.
func (r *reader) run(section string) {
	r.t.Helper()
	for _, c := range readmeRecipes[section] {
		if c.skip != "" {
			r.t.Logf("not run: %s: %s", c.command, c.skip)
			continue
		}
		r.t.Logf("runs: %s", c.command)
		line := r.replace.Replace(c.command)
		if strings.Contains(line, "go ") && strings.Contains(line, "./cmd/teambridge") {
			top, err := filepath.Abs(filepath.Join("..", ".."))
			errtest.Must(r.t, err)
			line = "(cd '" + top + "' && " + line + ")"
		}
		limit := patience
		if c.status == streamEnded {
			limit = 15 * time.Second
		}
		errtest.Must(r.t, os.WriteFile(filepath.Join(r.home, ".curlrc"), fmt.Appendf(nil, "max-time = %d\n", int(limit.Seconds())), 0o600))
		lasts := c.until != "" || strings.HasPrefix(c.command, "teambridge run ")
		if lasts {
			r.begin(c, line)
		}
		switch {
		case lasts:
			r.printed(c)
		case strings.HasSuffix(line, "&"):
			fmt.Fprintln(r.in, line)
			r.until(c.says)
		default:
			said, status := r.shell(line)
			want := c.status
			if want == "" {
				want = "0"
			}
			if status != want || !regexp.MustCompile(c.says).MatchString(said) {
				r.t.Errorf("%s\nsays\n%s\nand ends with %s; want %q, %s", line, said, status, c.says, want)
			}
		}
		for _, command := range c.interrupts {
			r.interrupt(command)
		}
		if c.after != nil {
			c.after(r)
		}
	}
}

// begin starts a command that does not end.
func (r *reader) begin(c recipe, line string) {
	r.t.Helper()
	j := &job{out: filepath.Join(r.home, fmt.Sprintf("out-%d", len(r.jobs)))}
	// Its standard input does not end, as at a terminal.
	said, _ := r.shell(fmt.Sprintf(`mkfifo %[1]s.in; exec %[2]d<>%[1]s.in; { %[3]s; } <%[1]s.in >%[1]s 2>&1 & echo "pid $!"`, j.out, 20+len(r.jobs), line))
	j.pid = regexp.MustCompile(`pid (\d+)`).FindStringSubmatch(said)[1]
	r.jobs[c.command] = j
}

// printed waits until a command has printed the expected text, or serves its agent.
func (r *reader) printed(c recipe) {
	r.t.Helper()
	j := r.jobs[c.command]
	ready := func() bool {
		data, err := os.ReadFile(j.out)
		return err == nil && regexp.MustCompile(c.until).Match(data)
	}
	if c.until == "" {
		ready = func() bool { return r.idle(c.command) }
	}
	next := time.Now()
	r.wait(func() bool {
		if c.meanwhile != nil && time.Now().After(next) {
			c.meanwhile(r)
			next = time.Now().Add(time.Second)
		}
		return ready()
	}, func() string {
		data, _ := os.ReadFile(j.out)
		return fmt.Sprintf("%s printed\n%s\nwant %q", c.command, data, c.until)
	})
}

// idle reports whether the agent of a "teambridge run" waits, without messages that wait for it.
func (r *reader) idle(command string) bool {
	r.t.Helper()
	member := "team-lead"
	if strings.Contains(command, "--as worker") {
		member = "worker"
	}
	out, _ := r.shell("teambridge relay list --relays --json")
	return regexp.MustCompile(`"team":"myteam","member":"` + member + `",[^}]*"state":"idle","running":true,"queue":0,`).MatchString(out)
}

// wait waits until a condition holds.
func (r *reader) wait(so func() bool, otherwise func() string) {
	r.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal(otherwise())
		}
	}
}

// interrupt presses Ctrl+C, and waits until the command has ended.
func (r *reader) interrupt(command string) {
	r.t.Helper()
	j := r.jobs[command]
	if strings.HasPrefix(command, "teambridge run ") { // otherwise the turn is interrupted
		r.wait(func() bool { return r.idle(command) }, func() string { return "the agent is never idle" })
	}
	said, status := r.shell("kill -INT -- -" + j.pid + "; wait " + j.pid)
	if status != "0" && status != "130" && !(strings.HasPrefix(command, "go run ") && status == "1") { // the status of the go command
		data, _ := os.ReadFile(j.out)
		r.t.Errorf("%s: interrupted, it ended with %s: %s\n%s", command, status, said, data)
	}
}

// teamGone waits until the headless team is removed.
func (r *reader) teamGone() {
	r.t.Helper()
	r.wait(func() bool {
		_, err := os.Stat(filepath.Join(r.root, "teams", "myteam"))
		return errors.Is(err, fs.ErrNotExist)
	}, func() string { return "the team is not removed" })
}

// repository makes a git repository with a change, for "git diff".
func repository(t *testing.T, home string) string {
	t.Helper()
	dir := filepath.Join(home, "work")
	script := `git init -q "$0" && cd "$0" && echo one > file && git add file && echo two > file`
	cmd := exec.Command("sh", "-c", script, dir)
	cmd.Env = append(os.Environ(), "HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// Each command of the README, run as written and in order in an empty home directory with a simulated team, has the
// expected effect. The port and the socket in the README are replaced by free ones.
func TestReadme(t *testing.T) {
	t.Parallel()
	if os.Getenv(standin.EnvInterop) == "" {
		t.Skip("bash, curl and git are not used: " + standin.EnvInterop + " is not set")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	errtest.Must(t, err)
	root := filepath.Join(home, ".claude")
	work := repository(t, home)
	sim, err := simagent.Create(t.Context(), simagent.TeamOptions{
		Root: root, SessionID: "2de3961d-0000-4000-8000-000000000000", Cwd: work,
		Members: []simagent.Member{{Name: "worker", Handle: func(_ context.Context, turn simagent.Turn) (reply simagent.Reply) {
			for _, row := range turn.Rows {
				if row.Kind() == "message" && row.From == "operator" { // newer versions cannot write to user
					reply.Messages = append(reply.Messages, simagent.Message{To: row.From, Text: "it is green"})
				}
			}
			return reply
		}}},
	})
	errtest.Must(t, err)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	env := []string{"HOME=" + home, "GOBIN=" + filepath.Join(home, "bin"), "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0"}
	kept := []string{"PATH", "TMPDIR", "LANG"}
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CGO_ENABLED").Output()
	errtest.Must(t, err)
	for i, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CGO_ENABLED"} {
		env = append(env, name+"="+strings.Split(string(out), "\n")[i])
	}
	for _, name := range kept {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	r := newReader(t, home, root, work, env)
	r.sim = sim
	for _, section := range []string{"teambridge", "Start", "Write to an interactive team", "Run a headless team", "Run the service"} {
		r.run(section)
	}
	if len(readmeRecipes) != 5 {
		t.Errorf("the README has %d sections with commands, and 5 were run", len(readmeRecipes))
	}
}

// The commands for headless teams have the same effect with the real Claude Code.
func TestRealReadme(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home := standin.NewHome(t, nil)
		bin := filepath.Join(home.Dir, "bin")
		errtest.Must(t, os.Mkdir(bin, 0o700))
		quoted := make([]string, 0, 2)
		for _, word := range standin.Require(t, v) {
			quoted = append(quoted, "'"+word+"'")
		}
		standin.WriteProgram(t, filepath.Join(bin, "claude"), "#!/bin/sh\nexec "+strings.Join(quoted, " ")+` "$@"`+"\n")
		env := []string{"TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0"}
		for _, v := range home.Env() {
			if path, ok := strings.CutPrefix(v, "PATH="); ok {
				v = "PATH=" + bin + ":" + path
			}
			env = append(env, v)
		}
		r := newReader(t, home.Dir, home.Root, home.Work, env)
		r.run("Run a headless team")
		r.run("Run the service")
	})
}
