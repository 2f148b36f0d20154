package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/relay/sim/standin"
	"teambridge/status/api"
	"teambridge/status/mcp"
	"teambridge/teams"
)

// Two sessions of Claude Code on two machines, each with its own Claude directory and service, write
// to each other and answer. The person at one of them can do the same.
func TestRealMachines(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		dir := t.TempDir()
		h, err := hub.Open(t.Context(), hub.Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error, 1)
		go func() { over <- h.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
		machine := func(name string) (p *sessionUser, card string) {
			home := standin.NewHome(t, nil)
			home.Extra = append(home.Extra, "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=")
			state := filepath.Join(t.TempDir(), ".local", "state", "teambridge")
			var stderr lockedBuffer
			serve(t, home, state, &stderr)
			p = newAgentUser(t, v, home, state)
			card = strings.TrimSpace(p.must("link", "card", "--name", name))
			parsed, err := nats.ParseCard(card)
			if err == nil {
				err = hub.Add(t.Context(), dir, parsed, hub.AddOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			p.must("link", "hub", "nats://"+h.Addr().String())
			return p, card
		}
		ann, annCard := machine("laptop")
		ben, benCard := machine("build")
		ann.must("link", "add", benCard, "--share", "sessions")
		ben.must("link", "add", annCard, "--share", "sessions")
		benIs := ben.session().Name + "@sessions@build"

		// The person asks over there, and gets what the session says at the end of its turn.
		answer := ann.must("ask", benIs, "(asked by the person)", "--timeout", "2m")
		if !strings.Contains(answer, "(asked by the person)") {
			t.Errorf("the answer is %q", answer)
		}
		if out := ann.must("send", benIs, "(told by the person)", "--wait", "seen", "--timeout", "2m"); !strings.HasPrefix(out, "seen ") {
			t.Errorf("%q", out)
		}

		// The agent writes to the other one, which answers by the id of the message.
		sent := answerOf[mcp.Sent](t, ann.calls("[tells]", "send_message", map[string]any{"to": benIs, "text": "(told)", "wait": "seen"}))
		if sent.State != api.Seen {
			t.Errorf("told: %+v", sent)
		}
		given, err := ben.home.API.Wait(ben.ctx, func(r standin.Request) bool {
			return !r.Side && r.Has("(told)") && strings.Contains(r.Text(), "<cross-session-message ")
		})
		if err != nil {
			t.Fatal(err)
		}
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
