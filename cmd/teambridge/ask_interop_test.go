package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"teambridge/relay/claude/claudetest"
	"teambridge/status/api"
)

// asks runs ask with --json and returns what it says.
func (u *user) asks(args ...string) answered {
	u.t.Helper()
	var a answered
	out := u.must(append([]string{"ask", "--json", "--timeout", "40s"}, args...)...)
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		u.t.Fatalf("%v: %s", err, out)
	}
	return a
}

// busy gives the worker a turn that lasts 3 s, and returns when it is in it.
func (u *user) busy(ctx context.Context, marker string) {
	u.t.Helper()
	u.must("send", "worker", "SLEEP:3\n"+marker)
	_, err := u.team.API.Wait(ctx, func(r claudetest.Request) bool {
		return r.Agent == u.team.Member && r.Has(marker) && r.Answered.IsZero()
	})
	if err != nil {
		u.t.Fatal(err)
	}
}

// replyCall makes an agent write to a person.
func replyCall(g claudetest.Generation, to, text string) string {
	input := map[string]string{"to": to, "message": text, "summary": "an answer"}
	if g == claudetest.G1 {
		input["type"], input["recipient"], input["content"] = "message", to, text
	}
	return claudetest.CallLine("SendMessage", input)
}

// What a real agent answers is what ask prints, by whichever way it comes. Its
// model takes the second that one takes.
func TestAskRealAgent(t *testing.T) {
	t.Parallel()
	for _, g := range []claudetest.Generation{claudetest.G1, claudetest.G2} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			u := newUser(t, g)
			ctx := deadline(t, 2*time.Minute)
			us := "user"
			if g == claudetest.G2 {
				us = defaultGuest
			}

			a := u.asks("worker", "SLEEP:1\nwhat is it [q-1]\n"+replyCall(g, us, "it is this [a-1]"))
			if a.Text != "it is this [a-1]" || a.Via != viaMessage || !a.Certain || a.Reply.Inbox != us || a.Sent.State != api.Consumed {
				t.Errorf("answered by a message: %+v", a)
			}
			if g == claudetest.G2 {
				if a := u.asks("worker", "SLEEP:1\nplainly [q-2]"); a.Text != "ACK: SLEEP:1 plainly [q-2]" || a.Via != viaResult || !a.Certain || a.Reply.Kind != "idle_notification" {
					t.Errorf("answered by a result: %+v", a)
				}
				if out := u.must("ask", "worker", "SLEEP:1\nfor a person [q-3]"); out != "ACK: SLEEP:1 for a person [q-3]\n" {
					t.Errorf("printed %q", out)
				}
			}

			// At work on something else: what it says of that is not the answer.
			u.busy(ctx, "another task [t-1]")
			question := "SLEEP:1\nin between [q-4]\n" + replyCall(g, us, "its own [a-4]")
			if a := u.asks("worker", question); a.Text != "its own [a-4]" || !a.Certain {
				t.Errorf("asked while busy: %+v", a)
			}
			if g == claudetest.G2 {
				u.busy(ctx, "one more task [t-2]")
				if a := u.asks("worker", "SLEEP:1\nin between [q-5]"); a.Text != "ACK: SLEEP:1 in between [q-5]" || a.Via != viaResult || !a.Certain {
					t.Errorf("asked while busy: %+v", a)
				}
			}
			for _, m := range []string{"[q-1]", "[t-1]", "[q-4]"} {
				u.count(m, 1)
			}
			u.clean()
		})
	}
}

// An agent that says nothing is waited for in vain.
func TestAskRealAgentThatIsSilent(t *testing.T) {
	t.Parallel()
	u := newUser(t, claudetest.G1)
	status, out, errs := u.run("ask", "worker", "say nothing [q-1]", "--timeout", "2s")
	if status != exitTimeout || out != "" || !strings.Contains(errs, "worker did not answer within 2s") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	u.count("[q-1]", 1)
}
