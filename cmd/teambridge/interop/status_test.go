package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

// command is a running command line.
type command struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // of its stdout
	ended  chan int    // its exit status
	stderr bytes.Buffer
	ready  chan struct{} // closed when it prints, with -v, that it watches
	once   sync.Once     // it can print the same for its records
}

// Write takes its output to stderr.
func (c *command) Write(b []byte) (int, error) {
	n, err := c.stderr.Write(b)
	if bytes.HasSuffix(b, []byte("watching\n")) {
		c.once.Do(func() { close(c.ready) })
	}
	return n, err
}

// start runs one command line until it ends by itself.
func (u *user) start(args ...string) *command {
	u.t.Helper()
	c := &command{
		t: u.t, cmd: program(u.home, u.home, u.team.Root, args),
		lines: make(chan string, 1000), ended: make(chan int, 1), ready: make(chan struct{}),
	}
	r, w := io.Pipe()
	c.cmd.Stdout, c.cmd.Stderr = w, c
	must(u.t, c.cmd.Start())
	u.t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // it may have ended
	go func() {
		_ = c.cmd.Wait() // its status is in ProcessState
		w.Close()
		c.ended <- c.cmd.ProcessState.ExitCode()
	}()
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c
}

// line returns the next line for which match is true.
func (c *command) line(ctx context.Context, match func(string) bool) string {
	c.t.Helper()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("it ended before that\n%s", c.stderr.String())
			}
			if match(line) {
				return line
			}
		case <-ctx.Done():
			c.t.Fatalf("no such line: %v", ctx.Err())
		}
	}
}

// end waits until the command has ended with success.
func (c *command) end(ctx context.Context) {
	c.t.Helper()
	select {
	case status := <-c.ended:
		if status != api.ExitOK {
			c.t.Errorf("exit status %d\n%s", status, c.stderr.String())
		}
	case <-ctx.Done():
		c.t.Fatalf("it did not end: %v", ctx.Err())
	}
}

var requestID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`shutdown-[0-9]+@worker`) })

// obliging is Script, except that a teammate that is asked to shut down does.
func obliging(ctx context.Context, r standin.Request) standin.Answer {
	id := requestID().FindString(r.Text())
	if r.Agent == standin.Worker && !r.Side && len(r.Results) == 0 && id != "" {
		r.Texts = []string{standin.CallLine("SendMessage", map[string]any{"to": "team-lead",
			"message": map[string]any{"type": "shutdown_response", "request_id": id, "approve": true}})}
	}
	return standin.Script(ctx, r)
}

// A real agent that shuts down on request is TERMINATED, even after it has left the team. A watching command sees
// that, and the end of the team.
func TestStatusOfARealShutdown(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		home := standin.NewHome(t, standin.StartAPI(t, obliging))
		u := &user{t: t, team: standin.StartTeam(t, v, home), home: t.TempDir()}
		ctx := deadline(t, patience)
		is := func(state string) func(string) bool {
			return func(line string) bool {
				var i api.Status
				if err := json.Unmarshal([]byte(line), &i); err != nil {
					t.Errorf("%v: %s", err, line)
				}
				return i.Member == "worker" && i.State == state
			}
		}
		following := u.start("status", "--watch", "--json")
		following.line(ctx, is(api.StateActive))
		waiting := u.start("wait", "--for", "terminated", "--member", "worker")

		call := standin.CallLine("SendMessage", map[string]any{"to": "worker",
			"message": map[string]any{"type": "shutdown_request", "reason": "bye"}})
		prompts(t, ctx, u.team.Lead, call)
		if line := following.line(ctx, is(api.StateTerminated)); !strings.Contains(line, `"kind":"shutdown_approved"`) {
			t.Errorf("the evidence: %s", line)
		}
		waiting.line(ctx, func(line string) bool {
			return strings.HasPrefix(line, "worker") && strings.Contains(line, "ended (it has shut down)")
		})
		waiting.end(ctx)
		if _, err := standin.WaitFile(ctx, u.team.Dir()+"/config.json", func(data []byte) bool {
			return json.Valid(data) && !bytes.Contains(data, []byte(`"name": "worker"`))
		}); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := u.run("ask", "worker", "are you there"); status != api.ExitNotFound || !strings.Contains(errs, "nobody can answer") {
			t.Errorf("ask: exit status %d\n%s", status, errs)
		}
		if out := u.must("status", "worker"); !strings.Contains(out, "ended (it has shut down)") {
			t.Errorf("after its end:\n%s", out)
		}

		must(t, u.team.Lead.End(ctx))
		must(t, os.RemoveAll(u.team.Dir()))
		following.end(ctx)
		if errs := following.stderr.String(); !strings.Contains(errs, "has ended") && errs != "" {
			t.Errorf("at the end of the team: %s", errs)
		}
	})
}

// Between two tasks an agent reports that it is idle, although it is not.
func TestWaitForARealAgentToBeIdle(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		u.busy(ctx, "the first [t-1]")
		u.must("send", "worker", "SLEEP:3\nthe second [t-2]")
		u.must("wait", "--for", "idle", "--member", "worker", "--timeout", "2m")
		for _, m := range []string{"[t-1]", "[t-2]"} {
			if n := u.team.API.Turns("worker", m); n != 1 {
				t.Errorf("%s: %d turns have ended, want 1", m, n)
			}
		}
		// It is idle, but was just given a task about which it has not reported anything.
		u.must("send", "worker", "SLEEP:3\nthe third [t-3]", "--wait", "consumed")
		u.must("wait", "--for", "all-idle", "--timeout", "2m")
		if n := u.team.API.Turns("worker", "[t-3]"); n != 1 {
			t.Errorf("all-idle: %d turns have ended, want 1", n)
		}
	})
}

// agree checks that "status" and "wait --for idle" agree about a member, and returns its status.
func (u *user) agree(member string) api.Status {
	u.t.Helper()
	look := func() (s api.Status) {
		list := decoded[[]api.Status](u.t, u.must("status", member, "--json"))
		if len(list) != 1 {
			u.t.Fatalf("status: %+v", list)
		}
		return list[0]
	}
	for {
		s := look()
		within := "2s"
		if status.Rests(s) { // it must rest for some time
			within = "30s"
		}
		code, out, errs := u.run("wait", "--for", "idle", "--member", member, "--timeout", within)
		if after := look(); after.Word != s.Word || after.Unread != s.Unread {
			continue // it has changed in between
		}
		if idle := code == api.ExitOK; idle != status.Rests(s) || !idle && code != api.ExitTimeout {
			u.t.Errorf("status says %s (%s), with %d unread, by its %s; wait: exit status %d\n%s%s", s.Word, s.Why, s.Unread, s.Basis, code, out, errs)
		}
		return s
	}
}

// A lead in a terminal is idle, works, or waits for its person, as its process says, and a wait for the idle lead
// follows that. In all versions "status" and "wait" agree, about a teammate, too.
func TestRealStatusInATerminal(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		u := newUser(t, v)
		ctx := deadline(t, patience)
		u.agree("worker")
		u.must("send", "worker", "SLEEP:4\nwork [w-1]")
		given(t, ctx, u.team.API, standin.Any, "[w-1]")
		if s := u.agree("worker"); s.Word == api.WordIdle && u.team.API.Turns("worker", "[w-1]") == 0 {
			t.Errorf("it works, and is %+v", s)
		}
		u.must("wait", "--for", "idle", "--member", "worker", "--timeout", "2m")
		if s := u.agree("worker"); s.Word != api.WordIdle {
			t.Errorf("it has finished, and is %+v", s)
		}
		u.lead(ctx)
	})
}

// lead checks the reported states of the lead, by its process.
func (u *user) lead(ctx context.Context) {
	t := u.t
	following := u.start("status", "team-lead", "--watch", "--json")
	until := func(word, why string) {
		t.Helper()
		following.line(ctx, func(line string) bool {
			var s api.Status
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			return s.Word == word && s.Why == why && s.Basis == api.BasisProcess && s.PID == u.team.Lead.Pid()
		})
	}
	until(api.WordIdle, "")
	prompts(t, ctx, u.team.Lead, "SLEEP:8\nthink [t-1]")
	until(api.WordWorking, "")
	u.must("wait", "--for", "idle", "--member", "team-lead", "--timeout", "2m")
	if n := u.team.API.Turns(standin.Main, "[t-1]"); n != 1 {
		t.Errorf("it was idle when %d turns had ended, want 1", n)
	}
	until(api.WordIdle, "")
	u.agree("team-lead")
	option := func(label string) map[string]any { return map[string]any{"label": label, "description": label} }
	// Only after some time: typing a prompt can end with a second Enter, which would answer.
	if err := u.team.Lead.Prompt(ctx, "SLEEP:5\n"+standin.CallLine("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
		"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": []any{option("Blue"), option("Red")},
	}}})); err != nil {
		t.Fatal(err)
	}
	following.line(ctx, func(line string) bool { return strings.Contains(line, `"word":"waiting for you"`) })
	s := u.agree("team-lead")
	t.Logf("%s: it waits for %q", u.member, s.Why)
	if out := u.must("status", "team-lead"); s.Basis != api.BasisProcess || !strings.Contains(out, "waiting for you") {
		t.Errorf("it waits for its person: %+v\n%s", s, out)
	}
	if out := u.must("inbox", "--team", u.team.Name); !strings.Contains(out, "Waiting at their terminal\nteam-lead@") {
		t.Errorf("inbox:\n%s", out)
	}
}
