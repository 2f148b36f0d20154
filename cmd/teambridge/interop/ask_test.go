package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// asks runs ask with --json, and returns its answer.
func (u *user) asks(args ...string) api.Answered {
	u.t.Helper()
	var a api.Answered
	ended := false
	defer func() {
		if !ended {
			u.heard(args[len(args)-1])
		}
	}()
	out := u.must(append([]string{"ask", "--json", "--timeout", "40s"}, args...)...)
	ended = true
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		u.t.Fatalf("%v: %s", err, out)
	}
	return a
}

// heard logs what happened to a message: whether it waits, when the model was given it, and what the member has
// reported.
func (u *user) heard(text string) {
	u.t.Helper()
	u.trace(text)
	for _, name := range []string{u.team.Member, "team-lead", api.Guest} {
		rows, err := os.ReadFile(u.team.Inbox(name))
		u.t.Logf("inbox of %s (%v): %s", name, err, rows[max(0, len(rows)-1500):])
	}
	all, err := filepath.Glob(filepath.Join(u.team.Root, "projects", "*", "*", "subagents", "*.jsonl"))
	for _, path := range all {
		records, err := os.ReadFile(path)
		u.t.Logf("%s (%v): %s", path, err, records[max(0, len(records)-6000):])
	}
	if err != nil {
		u.t.Log(err)
	}
}

// busy gives the worker a turn of 3 s, and returns once the turn has begun.
func (u *user) busy(ctx context.Context, marker string) {
	u.t.Helper()
	u.must("send", "worker", "SLEEP:3\n"+marker)
	_, err := u.team.API.Wait(ctx, func(r standin.Request) bool {
		return r.Agent == u.team.Member && r.Has(marker) && r.Answered.IsZero()
	})
	must(u.t, err)
}

// replyCall makes an agent send a message to a person.
func replyCall(to, text string) string {
	return standin.CallLine("SendMessage", map[string]string{"to": to, "message": text, "summary": "an answer"})
}

// ask prints what a real agent answers, however the answer arrives. The model needs a second, as a real one does.
func TestAskRealAgent(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		const us = api.Guest

		a := u.asks("worker", "SLEEP:1\nwhat is it [q-1]\n"+replyCall(us, "it is this [a-1]"))
		if a.Text != "it is this [a-1]" || a.Via != api.ViaMessage || !a.Certain || a.Reply.Inbox != us || a.Sent.State != api.Consumed {
			t.Errorf("answered by a message: %+v", a)
		}
		if a := u.asks("worker", "SLEEP:1\nplainly [q-2]"); a.Text != "ACK: SLEEP:1 plainly [q-2]" || a.Via != api.ViaResult || !a.Certain ||
			a.Reply.Kind != "idle_notification" && a.Reply.Kind != "answer" { // from the transcript, if the report comes late
			t.Errorf("answered by a result: %+v", a)
		}
		if out := u.must("ask", "worker", "SLEEP:1\nfor a person [q-3]"); out != "ACK: SLEEP:1 for a person [q-3]\n" {
			t.Errorf("printed %q", out)
		}

		// The worker has another task: what it says about that is not the answer.
		u.busy(ctx, "another task [t-1]")
		question := "SLEEP:1\nin between [q-4]\n" + replyCall(us, "its own [a-4]")
		if a := u.asks("worker", question); a.Text != "its own [a-4]" || !a.Certain {
			t.Errorf("asked while busy: %+v", a)
		}
		u.busy(ctx, "one more task [t-2]")
		if a := u.asks("worker", "SLEEP:1\nin between [q-5]"); a.Text != "ACK: SLEEP:1 in between [q-5]" || a.Via != api.ViaResult || !a.Certain {
			t.Errorf("asked while busy: %+v", a)
		}
		for _, m := range []string{"[q-1]", "[t-1]", "[q-4]"} {
			u.count(m, 1)
		}
		u.clean()
	})
}

// ask reports the answer of an agent whose model answers at once without delay, and as certain. If the message
// arrives just as another turn ends, ask never reports the result of that turn. TEAMBRIDGE_ASK has the number of such
// turns.
func TestAskRealAgentThatIsFast(t *testing.T) {
	t.Parallel()
	u := newUser(t, standin.Newest(t))
	ctx := deadline(t, 10*time.Minute)
	fast := func(marker string) {
		t.Helper()
		// An answer that is not certain would take until the timeout.
		if a := u.asks("worker", "now "+marker); a.Text != "ACK: now "+marker || a.Via != api.ViaResult || !a.Certain {
			t.Errorf("%+v; want ACK: now %s, certain", a, marker)
		}
	}
	for i := range 3 {
		fast(fmt.Sprintf("[idle-%d]", i))
	}
	n := rounds(t, "TEAMBRIDGE_ASK", 12)
	for i := range n {
		u.must("send", "worker", fmt.Sprintf("SLEEP:0.3\n[before-%d]", i))
		r, err := u.team.API.Wait(ctx, func(r standin.Request) bool {
			return r.Agent == u.team.Member && r.Has(fmt.Sprintf("[before-%d]", i))
		})
		must(t, err)
		// From before the model has answered until after the agent has looked again.
		<-time.After(time.Until(r.Time.Add(300*time.Millisecond + time.Duration(120*i/n-60)*time.Millisecond)))
		fast(fmt.Sprintf("[after-%d]", i))
	}
	u.clean()
}
