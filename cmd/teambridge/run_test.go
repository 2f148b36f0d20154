package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/claude/simchild"
)

// A person is asked what the agent may use, answers by a line, and is not asked
// any more once there is nobody to answer.
func TestRunAsksForPermission(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	claudeDir := filepath.Join(dir, "claude")
	if err := os.Mkdir(claudeDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(simchild.Variable, "{}") // the agent has it of us
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	env := map[string]string{"HOME": dir, "CLAUDE_CONFIG_DIR": claudeDir, "TEAMBRIDGE_STATE": filepath.Join(dir, "state")}
	stdin, typed := io.Pipe()
	out, printed := io.Pipe()
	var errs strings.Builder
	h := host{
		stdin: stdin, stdout: printed, stderr: &errs,
		lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		cwd:    func() (string, error) { return dir, nil },
	}
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"run", "--create-team", "--team", "t", "--permissions", "ask", "--output", "events", "--exit-on-eof", "--", os.Args[0]}, h)
		printed.Close()
	}()
	lines := bufio.NewScanner(out)
	type line struct {
		Permission *struct{ ID, Tool string } `json:"permission"`
		Open       bool                       `json:"open"`
		Text       string                     `json:"text"`
		Result     string                     `json:"result"`
	}
	next := func(wanted func(line) bool) line {
		t.Helper()
		for lines.Scan() {
			var l line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			if wanted(l) {
				return l
			}
		}
		t.Fatalf("it ended with %v\n%s", lines.Err(), &errs)
		return line{}
	}
	say := func(text string) {
		t.Helper()
		if _, err := fmt.Fprintln(typed, text); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(l line) bool { return l.Permission != nil && l.Open }
	result := func(l line) bool { return l.Result != "" }

	for _, tc := range []struct{ answer, want string }{
		{`{"permit": %q, "allow": true}`, "allowed"},
		{`{"permit": %q, "allow": false, "reason": "not today"}`, "denied: not today"},
		{`{"permit": %q}`, "denied: The person who was asked did not allow it."},
	} {
		say("ASK:Bash")
		q := next(asked)
		if q.Permission.Tool != "Bash" {
			t.Errorf("asked for %q", q.Permission.Tool)
		}
		say(`{"permit": "another", "allow": true}`)
		say(fmt.Sprintf(tc.answer, q.Permission.ID))
		if got := next(result); !strings.Contains(got.Text, tc.want) {
			t.Errorf("the agent says %q, want %q", got.Text, tc.want)
		}
	}
	say("ASK:Bash")
	next(asked)
	if err := typed.Close(); err != nil {
		t.Fatal(err)
	}
	if got := next(result); !strings.Contains(got.Text, "denied: Nobody is there any more") {
		t.Errorf("the agent says %q", got.Text)
	}
	for lines.Scan() { // to its end
	}
	if status := <-ended; status != 0 {
		t.Errorf("exit status %d\n%s", status, &errs)
	}
	if n := strings.Count(errs.String(), "no such question is open"); n != 3 {
		t.Errorf("%d warnings of answers to nothing, want 3: %s", n, &errs)
	}
}
