package simchild_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/errtest"
)

func TestMain(m *testing.M) {
	simchild.MainTerminal()
	simchild.Main()
	os.Exit(m.Run())
}

const session = "aaaaaaaa-0000-4000-8000-000000000000"

type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    chan string // lines
	stderr strings.Builder
}

var must = errtest.Must

func start(t *testing.T, s simchild.Script, dir string, args ...string) *child {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), program, args...), out: make(chan string, 1000)}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = dir, append(os.Environ(), s.Env(), "GORACE=atexit_sleep_ms=0"), &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	go func() {
		defer close(c.out)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			c.out <- lines.Text()
		}
	}()
	return c
}

func (c *child) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) line() string {
	c.t.Helper()
	select {
	case line, ok := <-c.out:
		if !ok {
			return "end"
		}
		return line
	case <-time.After(2 * time.Minute):
		c.t.Fatal("no line in 30 s")
		return ""
	}
}

// exit closes stdin and returns the exit code.
func (c *child) exit() int {
	c.t.Helper()
	must(c.t, c.in.Close())
	for range c.out {
	}
	var code *exec.ExitError
	if err := c.cmd.Wait(); errors.As(err, &code) {
		return code.ExitCode()
	} else if err != nil {
		c.t.Fatal(err)
	}
	return 0
}

// shape returns the kind of a line, and its frame.
func shape(line string) string {
	var l struct {
		Type, Subtype, UUID, State, Timestamp string
		IsReplay                              bool
		IsError                               bool   `json:"is_error"`
		CommandUUID                           string `json:"command_uuid"`
		Reason                                string `json:"terminal_reason"`
		Message                               struct{ Content json.RawMessage }
		Response                              struct {
			Subtype   string
			RequestID string `json:"request_id"`
			Response  map[string]any
		}
	}
	if json.Unmarshal([]byte(line), &l) != nil {
		return line
	}
	switch {
	case l.Type == "command_lifecycle":
		return l.State + " " + l.CommandUUID
	case l.IsReplay && strings.Contains(string(l.Message.Content), "local-command-stdout"):
		return "echo of a command"
	case l.IsReplay && l.Timestamp != "":
		return "echo with a timestamp " + l.UUID
	case l.IsReplay:
		return "echo " + l.UUID
	case l.Type == "result" && l.IsError:
		return "result " + l.Subtype + " is an error " + l.Reason
	case l.Type == "result":
		return "result " + l.Subtype + " " + l.Reason
	case l.Type == "control_response":
		_, queued := l.Response.Response["still_queued"]
		_, model := l.Response.Response["model"]
		text := "answer " + l.Response.RequestID + " " + l.Response.Subtype
		if queued {
			text += " with what is queued"
		}
		if model {
			text += " with the model"
		}
		return text
	}
	return l.Type + " " + l.Subtype
}

// TestIsLikeTheCaptured: with the same input, the child answers line for line like the real one. The last turn, in
// which that used a tool, is left out.
func TestIsLikeTheCaptured(t *testing.T) {
	t.Parallel()
	s, dir := simchild.Script{State: t.TempDir()}, t.TempDir()
	for _, run := range []struct {
		file string
		args []string
	}{{"stream.jsonl", []string{"--session-id", session}}, {"stream-resume.jsonl", []string{"--resume", session}}} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "claude-2.1.329", run.file))
		must(t, err)
		c := start(t, s, dir, run.args...)
		compared, waits := 0, false
		for line := range strings.Lines(string(data)) {
			var d struct {
				Dir  string
				Line json.RawMessage
			}
			must(t, json.Unmarshal([]byte(line), &d))
			if d.Dir == "exit" || strings.Contains(string(d.Line), "CALL:") {
				break
			}
			if d.Dir == "stdin" {
				waits = waits || strings.Contains(string(d.Line), "SLEEP:3")
				c.write(strings.NewReplacer("SLEEP:3", "WAIT:go", "SLEEP:6", "WAIT:never").Replace(string(d.Line)))
				continue
			}
			want := shape(string(d.Line))
			if waits && strings.HasPrefix(want, "echo ") { // lines that came meanwhile are in its queue
				waits = false
				must(t, os.WriteFile(filepath.Join(s.State, "go"), nil, 0o600))
			}
			if got := shape(c.line()); got != want {
				t.Fatalf("%s, line %d of output: got %q, want %q", run.file, compared+1, got, want)
			}
			compared++
		}
		if compared == 0 {
			t.Fatalf("%s: nothing was compared", run.file)
		}
		t.Logf("%s: %d lines are alike", run.file, compared)
		if code := c.exit(); code != 0 {
			t.Errorf("exit code: got %d, want 0; %s", code, c.stderr.String())
		}
	}
}

// TestOnlyTheLastOfJoinedFramesIsRemembered: the child has the fault that one frame at a time avoids.
func TestOnlyTheLastOfJoinedFramesIsRemembered(t *testing.T) {
	t.Parallel()
	s, dir := simchild.Script{State: t.TempDir()}, t.TempDir()
	frame := func(id, text string) string {
		return `{"type":"user","message":{"role":"user","content":"` + text + `"},"uuid":"` + id + `"}`
	}
	c := start(t, s, dir, "--session-id", session)
	c.write(frame("a", "WAIT:go"))
	for shape(c.line()) != "system init" {
	}
	c.write(frame("b", "second"))
	c.write(frame("c", "third"))
	for shape(c.line()) != "queued c" {
	}
	must(t, os.WriteFile(filepath.Join(s.State, "go"), nil, 0o600))
	if code := c.exit(); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	c = start(t, s, dir, "--resume", session)
	c.write(frame("c", "third"))
	if got := shape(c.line()); got != "echo c" {
		t.Errorf("the last of them: got %q, want it known", got)
	}
	c.line()
	c.write(frame("b", "second"))
	if got := shape(c.line()); got != "queued b" {
		t.Errorf("the other: got %q, want it run again", got)
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, c.stderr.String())
	}
	works, err := simchild.Works(s.State)
	if err != nil || works["second\nthird"] != 1 || works["second"] != 1 {
		t.Errorf("works: got %v, %v, want both turns", works, err)
	}
}
