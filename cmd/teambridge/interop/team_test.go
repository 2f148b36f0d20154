package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

var tell = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`TELL (\S+) m-(\d+)`) })

// telling is a model that follows instructions: after "TELL worker m-1" it sends the message <M-1> to worker.
func telling(ctx context.Context, r standin.Request) standin.Answer {
	if len(r.Texts) > 0 && !r.Side {
		if m := tell().FindStringSubmatch(r.Texts[len(r.Texts)-1]); m != nil {
			input, err := json.Marshal(map[string]string{"to": m[1], "message": "<M-" + m[2] + ">", "summary": "a message"})
			if err != nil {
				panic(err) // strings
			}
			return standin.Answer{Calls: []standin.Call{{Name: "SendMessage", Input: input}}}
		}
	}
	return standin.Script(ctx, r)
}

// In a team that the service has made, two real headless agents write to each other, and each message arrives once,
// even after a kill of the service and of both agents. At the end the worker leaves, and the team is removed.
func TestRealHeadlessTeam(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, telling)
		ctx := deadline(t, patience)
		add := func(member string, flags ...string) {
			args := append([]string{"relay", "add", member + "@mine", "--dir", h.home.Work}, flags...)
			// As in the README: no flag that skips permissions is needed.
			h.must(append(append(args, "--"), append(standin.Require(t, v), "--model", "sonnet")...)...)
		}
		add("worker")
		add("lead", "--create-team")
		s := h.serve()
		n := 0
		// says makes an agent write to another, and waits until the other's model has the message.
		says := func(from, to string, meanwhile func()) {
			t.Helper()
			n++
			mark := fmt.Sprintf("<M-%d>", n)
			// Until the service has made the team, it has no members.
			for {
				status, _, errs := h.run("send", from+"@mine", fmt.Sprintf("TELL %s m-%d", to, n))
				if status == 0 {
					break
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					t.Fatalf("nothing is sent: %s\n%s", errs, h)
				}
			}
			if meanwhile != nil {
				meanwhile()
			}
			h.given(mark)
		}
		says("lead", "worker", nil)
		says("worker", "team-lead", nil)
		l := h.l
		h.settled(4)
		before := h.config()
		kill := func() {
			s.kill()
			sessions, err := l.Sessions.List(ctx, "")
			must(t, err)
			for _, a := range sessions {
				p := process.Predecessor{PID: a.PID, Group: a.Group, Start: a.Start}
				if alive, err := p.Alive(); err != nil || !alive {
					continue
				}
				if process, err := os.FindProcess(p.PID); err == nil {
					err = process.Kill()
					if err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Fatal(err)
					}
				}
				must(t, p.Wait(ctx))
			}
			s = h.serve()
		}
		kill()
		says("worker", "team-lead", nil)
		says("lead", "worker", func() {
			h.given(fmt.Sprintf("TELL worker m-%d", n))
		})
		h.done(8)
		for i := range n {
			once(t, h.home.API, fmt.Sprintf("<M-%d>", i+1))
		}
		for _, r := range h.asked() {
			for _, d := range r.Deliveries() {
				if d.Verified == "false" && d.From != "user" {
					t.Errorf("%s is not taken for a member: %+v", d.From, d)
				}
			}
		}
		if after := h.config(); after.Instance() != before.Instance() || len(after.Members) != 2 || after.Members[1] != before.Members[1] {
			t.Errorf("the team was %+v, and is %+v", before, after)
		}
		h.must("relay", "remove", "worker@mine")
		h.must("relay", "remove", "lead@mine", "--delete-team")
		for {
			if _, err := os.Stat(filepath.Join(h.home.Root, "teams", "mine")); errors.Is(err, fs.ErrNotExist) {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the team is not removed\n%s", h)
			}
		}
	})
}
