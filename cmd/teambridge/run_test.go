package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"teambridge/cmd/stdio"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/fleet"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/reply"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// running is a run with a simulated agent, whose input and output are pipes.
type running struct {
	t     *testing.T
	typed *io.PipeWriter
	lines *bufio.Scanner
	errs  strings.Builder
	ended chan int
}

// printed is a line of output of run with --output events.
type printed struct {
	Permission *struct{ ID, Digest, Tool string } `json:"permission"`
	Open       bool                               `json:"open"`
	Text       string                             `json:"text"`
	Result     string                             `json:"result"`
}

// startRun starts a run, with --exit-on-eof and more flags.
func startRun(t *testing.T, flags ...string) *running {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	errtest.Must(t, err)
	claudeDir := filepath.Join(dir, "claude")
	errtest.Must(t, os.Mkdir(claudeDir, 0o700))
	t.Setenv(simchild.Variable, "{}") // the agent gets it from this process
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	env := map[string]string{"HOME": dir, "CLAUDE_CONFIG_DIR": claudeDir, "TEAMBRIDGE_STATE": filepath.Join(dir, "state")}
	r := &running{t: t, ended: make(chan int, 1)}
	stdin, typed := io.Pipe()
	out, stdout := io.Pipe()
	r.typed, r.lines = typed, bufio.NewScanner(out)
	h := host{
		stdin: stdin, stdout: stdout, stderr: &r.errs,
		lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		cwd:    func() (string, error) { return dir, nil },
	}
	args := append([]string{"run", "--create-team", "--team", "t", "--output", "events", "--exit-on-eof"}, flags...)
	go func() {
		r.ended <- run(append(args, "--", os.Args[0]), h)
		stdout.Close()
	}()
	return r
}

// say types a line.
func (r *running) say(text string) {
	r.t.Helper()
	if _, err := fmt.Fprintln(r.typed, text); err != nil {
		r.t.Fatal(err)
	}
}

// next reads up to the next line that matches.
func (r *running) next(wanted func(printed) bool) printed {
	r.t.Helper()
	for r.lines.Scan() {
		var l printed
		if err := json.Unmarshal(r.lines.Bytes(), &l); err != nil {
			r.t.Fatalf("%s: %v", r.lines.Text(), err)
		}
		if wanted(l) {
			return l
		}
	}
	r.t.Fatalf("it ended with %v\n%s", r.lines.Err(), &r.errs)
	return printed{}
}

// result reads up to the end of the next turn.
func (r *running) result() printed {
	r.t.Helper()
	return r.next(func(l printed) bool { return l.Result != "" })
}

// end reads the rest, and waits for the end.
func (r *running) end() {
	r.t.Helper()
	for r.lines.Scan() {
	}
	if status := <-r.ended; status != 0 {
		r.t.Errorf("exit status %d\n%s", status, &r.errs)
	}
}

// With --exit-on-eof, a run ends after the answer to the last line of standard input, not to the line before it.
func TestRunAnswersTheLastLine(t *testing.T) {
	r := startRun(t)
	for i := range 5 {
		r.say(fmt.Sprint("line ", i))
		r.result()
	}
	r.say("the last")
	errtest.Must(t, r.typed.Close())
	if got := r.result(); got.Text != "ACK: the last" {
		t.Errorf("the agent says %q", got.Text)
	}
	r.end()
}

// A person is asked about the agent's tools and answers with a line, and is not asked after standard input has ended.
// The same holds if the other lines are payloads of the session protocol.
func TestRunAsksForPermission(t *testing.T) {
	for input, ask := range map[string]string{
		inLines: "ASK:Bash",
		inWire:  `{"role": "user", "content": {"type": "text", "text": "ASK:Bash"}}`,
	} {
		t.Run(input, func(t *testing.T) { asksForPermission(t, input, ask) })
	}
}

func asksForPermission(t *testing.T, input, ask string) {
	r := startRun(t, "--permissions", "ask", "--input", input)
	asked := func(l printed) bool { return l.Permission != nil && l.Open }

	for _, tc := range []struct{ answer, want string }{
		{`{"permit": %q, "digest": %q, "allow": true}`, "allowed"},
		{`{"permit": %q, "digest": %q, "allow": false, "reason": "not today"}`, "denied: not today"},
		{`{"permit": %q, "digest": %q}`, "denied: The person who was asked did not allow it."},
	} {
		r.say(ask)
		q := r.next(asked)
		if q.Permission.Tool != "Bash" {
			t.Errorf("asked for %q", q.Permission.Tool)
		}
		r.say(`{"permit": "another", "allow": true}`)
		r.say(fmt.Sprintf(tc.answer, q.Permission.ID, q.Permission.Digest))
		if got := r.result(); !strings.Contains(got.Text, tc.want) {
			t.Errorf("the agent says %q, want %q", got.Text, tc.want)
		}
	}
	r.say(ask)
	r.next(asked)
	errtest.Must(t, r.typed.Close())
	if got := r.result(); !strings.Contains(got.Text, "denied: There is no person any more") {
		t.Errorf("the agent says %q", got.Text)
	}
	r.end()
	if n := strings.Count(r.errs.String(), "there is no such question"); n != 3 {
		t.Errorf("%d warnings of answers to nothing, want 3: %s", n, &r.errs)
	}
}

// A person at a terminal is asked one question at a time, and answers with a letter.
func TestRunAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	asks := func(tool, input string) agent.Use {
		return claude.NewUse(fmt.Appendf(nil, `{"tool_name": %q, "input": %s, "permission_suggestions": [
			{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "echo *"}], "behavior": "allow"}, {"type": "setMode", "mode": "acceptEdits"}]}`, tool, input), "")
	}
	bash := asks("Bash", `{"command": "echo \u001b[31mhi"}`)
	colour := asks("AskUserQuestion", `{"questions": [{"question": "Which colour?"}]}`)
	for _, test := range []struct {
		use    agent.Use
		says   string // part of the question
		typed  string
		answer string // "": not an answer
	}{
		{bash, `Bash: echo \e[31mhi`, "y", "allow "},
		{asks("Bash", `{"command": "rm x\nallow it? n"}`), `Bash: rm x\nallow it? n`, "y", "allow "},
		{bash, "allow it? y, s (also Bash(echo *), until", "s", "allow Bash(echo *)"},
		{bash, "or n REASON", "n", "deny "},
		{bash, "or n REASON", " n not today ", "deny not today"},
		{bash, "", "yes", ""},
		{bash, "", "y ou", ""},
		{bash, "", "s o", ""},
		{bash, "", "", ""},
		{asks("ExitPlanMode", `{"plan": "1. a\n2. b"}`), "plan:\n1. a\n2. b\nallow it? y, n", "s", ""},
		{asks("ExitPlanMode", `{"plan": "1. a"}`), "plan:\n1. a\n", "y", "allow "},
		{colour, "y ANSWER", "y Blue or so", "allow Which colour? Blue or so"},
		{colour, "Which colour?", "n ask later", "deny ask later"},
	} {
		errs := new(strings.Builder)
		r := &agentRun{app: newApp(host{stderr: errs, keyboard: true}, &stdio.Output{}), opts: runOptions{input: inLines, output: outText}}
		r.errors = stdio.NewQueue(errs, nil, nil)
		r.prompter = fleet.NewPermissionPrompter(r.asked)
		ask := fleet.Policy{Ask: true}.Permission(r.prompter).Ask
		decided := make(chan agent.Decision, 1)
		synctest.Test(t, func(t *testing.T) {
			go func() { decided <- ask(t.Context(), test.use) }()
			synctest.Wait()
			if line := r.changeOpen(fleet.Question{ID: "x", Tool: "Later"}, true); line != nil {
				t.Errorf("two questions at once: %s", line)
			}
			a, ok := r.keyboardAnswer(test.typed)
			if ok != (test.answer != "") {
				t.Errorf("%q is an answer: %t", test.typed, ok)
			}
			if ok {
				must(r.prompter.Answer(a))
				synctest.Wait()
				d := <-decided
				got := "deny " + d.Reason
				if d.Allow {
					got = "allow " + d.Session
					for q, text := range d.Answers {
						got += q + " " + text
					}
				}
				if got != test.answer {
					t.Errorf("%q: %s, want %s", test.typed, got, test.answer)
				}
			}
			r.prompter.Close("over")
			synctest.Wait()
		})
		r.errors.Drain(t.Context())
		if said := errs.String(); !strings.Contains(said, test.says) || strings.Contains(said, "\x1b") {
			t.Errorf("it said %q, want %q", said, test.says)
		} else if !strings.Contains(said, "Later") {
			t.Errorf("the next question was not asked: %q", said)
		}
	}
}

// A question that cannot be shown, because the output is not read, is denied: otherwise it would stay open forever.
func TestRunAnswersAQuestionNobodySees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, output := range []string{outEvents, outText} {
			var errs strings.Builder
			unread, pipe := io.Pipe()
			full := stdio.NewQueue(pipe, func(stdio.Missing) []byte { return nil }, func(err error) { t.Error(err) })
			full.MaxBytes = 10
			r := &agentRun{app: newApp(host{stderr: &errs}, &stdio.Output{}), opts: runOptions{output: output}, output: full, errors: full}
			r.prompter = fleet.NewPermissionPrompter(r.asked)
			ask := fleet.Policy{Ask: true}.Permission(r.prompter).Ask

			// The first question has room, and stays open; the second has none.
			answered := make(chan agent.Decision, 1)
			go func() { answered <- ask(t.Context(), agent.Use{Tool: "Read", Input: []byte(`{}`)}) }()
			synctest.Wait()
			if open := r.prompter.Questions(); len(open) != 1 {
				t.Fatalf("%s: %d questions are open, want the first", output, len(open))
			}
			got := ask(t.Context(), agent.Use{Tool: "Bash", Input: []byte(`{}`)})
			if got.Allow || !strings.Contains(got.Reason, "does not read") {
				t.Errorf("%s: the answer is %+v", output, got)
			}
			if !strings.Contains(errs.String(), "Bash") {
				t.Errorf("%s: warned of %q", output, errs.String())
			}
			r.prompter.Close("over")
			if got := <-answered; got.Allow || got.Reason != "over" {
				t.Errorf("%s: the first was answered %+v", output, got)
			}
			go io.Copy(io.Discard, unread)
			full.Drain(t.Context())
			pipe.Close()
		}
	})
}

// A line of run's standard input is a text, or an object with the text. Invalid lines are refused with the reason.
func TestParseLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`hello`:             "hello",
		`  hello`:           "  hello",
		``:                  "",
		`{"text": "hello"}`: "hello",
		`  {"text": "x"}  `: "x",
		`{"text": "a\nb"}`:  "a\nb",
		`["no object"]`:     `["no object"]`,
	} {
		if l, err := parseLine([]byte(in)); err != nil || l.Text != want {
			t.Errorf("%s: %q, %v; want %q", in, l.Text, err, want)
		}
	}
	for in, want := range map[string]string{
		"a\xffb":                     "not valid UTF-8",
		"{\"text\": \"a\xffb\"}":     "not valid UTF-8",
		`{"text": "x \ud83d y"}`:     `"text" has half of a surrogate pair`,
		`{"text": "a", "text": "b"}`: `"text" occurs twice`,
		`{"text": "a", "Text": "b"}`: `"Text" occurs twice`,
		`{"permit": "q", "allow": false, "reason": "\ude00"}`: `"reason" has half of a surrogate pair`,
		"a\x00b":                      "NUL",
		`{"text": "a\u0000b"}`:        "NUL",
		`{"text": "hel`:               "cut off",
		`{`:                           "cut off",
		`{"text": "a"} {"text": "b"}`: "more than one",
		`{"text": "a"}}`:              "more than one",
		`{"text": 1}`:                 "cannot unmarshal",
		`{"txt": "a"}`:                "unknown field",
		`{"text": "a" "b"}`:           "invalid character",
		"\u007b" + strings.Repeat(`"text":{`, 20_000): "JSON",
	} {
		if l, err := parseLine([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want an error with %q", in, l, err, want)
		}
	}
}

// A run that gets a signal during its start ends, and relays nothing.
func TestRunIsEndedWhileItStarts(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	l, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	errtest.Must(t, err)
	defer l.Close()
	r := &agentRun{app: newApp(host{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}, &stdio.Output{}), ledger: l, opts: runOptions{input: inLines, output: outText}}
	r.prompter = fleet.NewPermissionPrompter(r.asked)
	r.relay, err = reply.New(t.Context(), relay.Options{
		Team: f.Team(teamstest.Newer), Member: "worker", State: f.State, Locker: f.Locker, Ledger: l, Runtime: claude.Runtime{Options: claude.Options{Command: []string{"nothing-there"}}}, Warn: func(error) {},
	})
	errtest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.serve(ctx); err != nil {
		t.Error(err)
	}
}
