package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/mcp"
	"teambridge/teams"
)

// Two sessions of Claude Code on two machines, each with its own Claude directory and service, send messages to each
// other and answer. The person at one machine can do the same.
func TestRealMachines(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		address, add := runHub(t)
		machine := func(name string) (p *sessionUser, card string) {
			p = newSomebody(t, nil)
			p.serves()
			p = newAgentUser(t, v, p)
			card = strings.TrimSpace(p.must("link", "card", "--name", name))
			add(card)
			p.must("link", "hub", "nats://"+address)
			return p, card
		}
		ann, annCard := machine("laptop")
		ben, benCard := machine("build")
		ann.must("link", "add", benCard, "--share", "sessions")
		ben.must("link", "add", annCard, "--share", "sessions")
		benIs := ben.session().Name + "@sessions@build"

		// The person asks the other session, and gets the text at the end of its turn.
		answer := ann.must("ask", benIs, "(asked by the person)", "--timeout", "2m")
		if !strings.Contains(answer, "(asked by the person)") {
			t.Errorf("the answer is %q", answer)
		}
		if out := ann.must("send", benIs, "(told by the person)", "--wait", "seen", "--timeout", "2m"); !strings.HasPrefix(out, "seen ") {
			t.Errorf("%q", out)
		}

		// The agent writes to the other session, which answers with the id of the message.
		sent := answerOf[mcp.Sent](t, ann.calls("[tells]", "send_message", map[string]any{"to": benIs, "text": "(told)", "wait": "seen"}))
		if sent.State != api.Seen {
			t.Errorf("told: %+v", sent)
		}
		given, err := ben.home.API.Wait(ben.ctx, func(r standin.Request) bool {
			return !r.Side && r.Has("(told)") && strings.Contains(r.Text(), "<cross-session-message ")
		})
		must(t, err)
		text := given.Text()[strings.LastIndex(given.Text()[:strings.Index(given.Text(), "(told)")], "<cross-session-message "):]
		_, id, _ := strings.Cut(text, `message-id="`)
		id, _, _ = strings.Cut(id, `"`)
		sent = answerOf[mcp.Sent](t, ben.calls("[replies]", "reply", map[string]any{"id": id, "text": "(replied)", "wait": "seen"}))
		if sent.State != api.Seen || !strings.HasSuffix(sent.To, "@sessions@laptop") {
			t.Errorf("replied to %s: %+v", id, sent)
		}
		if _, err := ann.home.API.Wait(ann.ctx, func(r standin.Request) bool { return !r.Side && r.Has("(replied)") }); err != nil {
			t.Fatal(err)
		}
		for text, p := range map[string]*sessionUser{"(asked by the person)": ben, "(told by the person)": ben, "(told)": ben, "(replied)": ann} {
			given := 0
			for _, r := range p.home.API.Log() {
				if !r.Side {
					given = max(given, strings.Count(r.Text(), text))
				}
			}
			if given != 1 {
				t.Errorf("a model was given %s %d times", text, given)
			}
		}
	})
}

// runHub runs a hub until the test ends. add admits a machine.
func runHub(t *testing.T) (address string, add func(card string)) {
	t.Helper()
	dir := t.TempDir()
	must(t, build(dir, "teambridge-hub"))
	program := filepath.Join(dir, "teambridge-hub")
	hub := exec.Command(program, "run", "--dir", dir, "--listen", "127.0.0.1:0")
	var said lockedBuffer
	hub.Stderr = &said
	must(t, hub.Start())
	t.Cleanup(func() {
		if err := hub.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := hub.Wait(); err != nil {
			t.Errorf("the hub ended with %v: %s", err, said.String())
		}
	})
	var card struct {
		Address string `json:"address"`
	}
	for end := time.Now().Add(2 * time.Minute); card.Address == ""; time.Sleep(10 * time.Millisecond) {
		if data, err := os.ReadFile(filepath.Join(dir, "hub.json")); err == nil {
			_ = json.Unmarshal(data, &card) // it may be incomplete
		}
		if time.Now().After(end) {
			t.Fatalf("the hub does not run: %s", said.String())
		}
	}
	return card.Address, func(card string) {
		t.Helper()
		if out, err := exec.Command(program, "add", "--dir", dir, card).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
