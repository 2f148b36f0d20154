package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// Two real agents that answer each other for ever, each with a relay of its own: what
// one of them wrote is held after some 20 messages each way, and is said when it is
// released. That of a person is said meanwhile.
func TestRealEndlessTalkIsHeld(t *testing.T) {
	t.Parallel()
	for _, v := range []teams.Version{standin.Oldest(t), standin.Newest(t)} {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			ctx := deadline(t, patience)
			lead := newHeadless(t, v, func(ctx context.Context, r standin.Request) standin.Answer {
				for _, d := range r.Deliveries() {
					if d.From == "user" || r.Side {
						continue
					}
					input, err := json.Marshal(map[string]string{"to": d.From, "message": "and you?", "summary": "a question"})
					if err != nil {
						t.Error(err)
					}
					return standin.Answer{Calls: []standin.Call{{Name: "SendMessage", Input: input}}}
				}
				return standin.Script(ctx, r)
			})
			lead.start()
			lead.up()
			addMember(t, filepath.Join(lead.home.Root, "teams", "mine", "config.json"), "worker")
			worker := newHeadlessIn(t, lead.home, lead.command...)
			worker.start("--team", "mine", "--as", "worker")
			worker.up()
			l := lead.l
			lead.must("send", "team-lead@mine", "shall we?", "--from", "worker")
			told := func() map[string]int {
				n := map[string]int{}
				for _, d := range lead.deliveries() {
					if d.State.Ended() {
						n[d.Inbox+" of "+d.From]++
					}
				}
				return n
			}
			until := func(what string, holds func() bool) {
				t.Helper()
				until(t, ctx, func() bool { return holds() }, func() string { return fmt.Sprintf("never %s: %v\nlead: %s\nworker: %s", what, told(), lead, worker) })
			}
			held := func() (member, sender string) {
				all, err := l.Holds.List(ctx, "")
				if err != nil {
					t.Fatal(err)
				}
				if len(all) == 0 {
					return "", ""
				}
				return all[0].Inbox, all[0].Sender
			}
			until("held", func() bool { member, _ := held(); return member != "" })
			member, sender := held()
			before := told()
			for _, way := range []string{"team-lead of worker", "worker of team-lead"} {
				if n := before[way]; n < 15 || n > 21 {
					t.Errorf("%s: %d messages, want about 20", way, n)
				}
			}
			if out := lead.must("relay", "list", "--relays"); !strings.Contains(out, "answered each other 20 times within 1m0s") {
				t.Errorf("relay list says\n%s", out)
			}
			lead.must("send", member+"@mine", "<m-1>")
			until("a person is heard", func() bool { return told()[member+" of user"] == 1 })
			once(t, lead.home.API, "<m-1>")
			if now := told()[member+" of "+sender]; now > before[member+" of "+sender]+1 {
				t.Errorf("%d more messages of %s were said while they were held", now-before[member+" of "+sender], sender)
			}
			before = told()
			lead.must("relay", "release", member+"@mine", sender)
			until("what was held is said", func() bool { return told()[member+" of "+sender] > before[member+" of "+sender] })
			// They begin again, and are held again.
			until("held again", func() bool { member, _ := held(); return member != "" })
			worker.kill()
			lead.kill()
		})
	}
}

// addMember makes an agent a member of a team.
func addMember(t *testing.T, config, name string) {
	t.Helper()
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	members, _ := c["members"].([]any)
	c["members"] = append(members, map[string]any{
		"agentId": name + "@mine", "name": name, "agentType": "general-purpose", "model": "sonnet", "joinedAt": time.Now().UnixMilli(),
		"tmuxPaneId": "", "cwd": filepath.Dir(config), "subscriptions": []string{}, "backendType": "in-process",
	})
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
