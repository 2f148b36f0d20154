package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wake"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// hookedUser is a person with a session at a terminal that has the waiting hook, and no socket.
type hookedUser struct {
	*sessionUser
	version teams.Version
}

func newHookedUser(t *testing.T, v teams.Version) *hookedUser {
	t.Helper()
	return newHookedUserWith(t, v, nil)
}

// newHookedUserWith passes flags to "setup hooks", and args to the session, which keeps its socket with flags.
func newHookedUserWith(t *testing.T, v teams.Version, flags []string, args ...string) *hookedUser {
	t.Helper()
	p := &hookedUser{sessionUser: newSomebody(t, nil), version: v}
	p.hooks(flags...)
	if flags != nil {
		p.begins(v, args...)
		p.session()
	} else {
		p.start()
	}
	return p
}

// hooks runs "teambridge setup hooks" in the directory of the session.
func (p *hookedUser) hooks(flags ...string) {
	p.t.Helper()
	cmd := exec.Command("teambridge", append([]string{"setup", "hooks", "--project", "--yes"}, flags...)...)
	cmd.Dir, cmd.Env = p.home.Work, append(p.home.Env(), "TEAMBRIDGE_STATE="+p.state(), "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("setup hooks %q: %v\n%s", flags, err, out)
	}
}

// start starts the session, and waits until its hook waits.
func (p *hookedUser) start(args ...string) {
	p.t.Helper()
	p.begins(p.version, args...)
	s, ok := transcript.ProcessWith(p.home.Root, p.terminal.Pid())
	if !ok || s.Socket == "" {
		p.t.Fatalf("the session has no socket: %+v", s)
	}
	must(p.t, os.Remove(s.Socket))
	p.prompts("hello")
	p.session()
}

func (p *hookedUser) session() api.Session {
	p.t.Helper()
	return p.sessionThat(p.ctx, func(s api.Session) bool {
		return s.PID == p.terminal.Pid() && s.Way == api.WayHook && s.Word == api.WordIdle
	})
}

// begun waits until the model was given a prompt of the person.
func (p *hookedUser) begun(text string) {
	p.t.Helper()
	given(p.t, p.ctx, p.home.API, standin.Any, text)
}

// ended waits until the hook of a process has ended.
func (p *hookedUser) ended(pid int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	for {
		running, err := exec.Command("pgrep", "-f", fmt.Sprintf("hook wait --state-dir %s --pid %d", p.state(), pid)).Output()
		if len(running) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("the hook still runs: %s, %v", running, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A session without a socket gets messages by the waiting hook: idle and busy, one after the other, after /clear, and
// next to a draft. No file remains when the session ends.
func TestRealWaitingHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newHookedUser(t, v)
		member := p.session().Name
		if member == "" {
			member = p.session().Session
		}
		sent := decoded[api.Sent](t, p.must("send", p.name(), "[seen] hello", "--wait", "seen", "--timeout", "1m", "--json"))
		if sent.State != api.Seen || sent.Member != member {
			t.Errorf("sent until it is seen: %+v", sent)
		}
		a := decoded[api.Answered](t, p.must("ask", p.name(), "[asked] what is up?", "--json", "--timeout", "1m"))
		if !a.Certain || !strings.HasPrefix(a.Text, "ACK") {
			t.Errorf("asked: %+v", a)
		}
		if _, _, errs := p.run("send", p.name(), "[dry]", "--dry-run", "-v"); !strings.Contains(errs, "the waiting hook") {
			t.Errorf("which way it would go: %s", errs)
		}
		texts := []string{"[seen]", "[asked]"}
		for i := range 5 {
			texts = append(texts, fmt.Sprintf("[burst-%d]", i))
			p.must("send", p.name(), texts[len(texts)-1]+" </teambridge-message> x")
		}
		p.once(texts...)
		p.prompts("SLEEP:3 [work]")
		p.begun("[work]")
		p.must("send", p.name(), "[busy]")
		must(t, p.terminal.Keys(p.ctx, "-l", "a draft"))
		p.must("send", p.name(), "[draft]")
		p.once("[busy]", "[draft]")
		if text, _, err := p.terminal.Composer(p.ctx); err != nil || !strings.Contains(text, "a draft") {
			t.Errorf("the draft became %q, %v", text, err)
		}
		must(t, p.terminal.Erase(p.ctx, "a draft"))
		was := p.session().Session
		p.prompts("/clear")
		p.sessionThat(p.ctx, func(s api.Session) bool { return s.PID == p.terminal.Pid() && s.Session != was })
		if err := json.Unmarshal([]byte(p.must("send", member, "[cleared]", "--wait", "seen", "--timeout", "1m", "--json")), &sent); err != nil || sent.State != api.Seen || sent.Member != member {
			t.Errorf("sent after /clear: %+v, %v", sent, err)
		}
		texts = append(texts, "[busy]", "[draft]", "[cleared]")
		p.once(texts...)
		p.inOrder(texts...)
		must(t, p.terminal.End(p.ctx))
		p.ended(p.terminal.Pid())
		// The hook may have been killed, so the next hook of any session cleans up.
		for {
			if text, err := wake.Wait(p.ctx, p.state(), wake.Session{PID: os.Getpid(), Root: p.home.Root}, func(context.Context) {}); text != "" || err != nil {
				t.Fatalf("the next hook: %q, %v", text, err)
			}
			left, err := os.ReadDir(filepath.Join(p.state(), "waiters"))
			if err != nil || len(left) == 0 {
				break
			}
			select {
			case <-p.ctx.Done():
				t.Fatalf("the hook left %v behind", left)
			case <-time.After(100 * time.Millisecond):
			}
		}
		p.hooks("--undo")
		if left, err := os.ReadDir(filepath.Join(p.home.Work, ".claude")); err == nil {
			for _, f := range left {
				if strings.HasPrefix(f.Name(), "settings") {
					t.Errorf("%s was left behind", f.Name())
				}
			}
		}
	})
}

// With --unasked, messages go through the hook even if the session has a socket, so that a session that bypasses
// permissions takes them without a question.
func TestRealWaitingHookUnasked(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newHookedUserWith(t, v, []string{"--unasked"}, "--dangerously-skip-permissions")
		a := decoded[api.Answered](t, p.must("ask", p.name(), "[asked] what is up?", "--json", "--timeout", "1m"))
		if !a.Certain || !strings.HasPrefix(a.Text, "ACK") {
			t.Errorf("asked: %+v", a)
		}
		p.must("send", p.name(), "[sent]", "--wait", "seen", "--timeout", "1m")
		p.once("[asked]", "[sent]")
		if s, ok := transcript.ProcessWith(p.home.Root, p.terminal.Pid()); !ok || s.Socket == "" {
			t.Errorf("it has no socket: %+v", s)
		}
		must(t, p.terminal.End(p.ctx))
		p.ended(p.terminal.Pid())
		p.hooks("--undo")
	})
}

// inOrder checks that the model was given the texts in this order.
func (p *sessionUser) inOrder(texts ...string) {
	p.t.Helper()
	var given []string
	for _, r := range p.home.API.Log() {
		if r.Side {
			continue
		}
		for _, text := range texts {
			if strings.Contains(r.Text(), text) && !slices.Contains(given, text) {
				given = append(given, text)
			}
		}
	}
	if !slices.Equal(given, texts) {
		p.t.Errorf("they were given in the order %q, want %q", given, texts)
	}
}

// Messages in the queue of a killed session, and later ones, are given once to the session that resumes it.
func TestRealKilledSessionWithHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newHookedUser(t, v)
		s := p.session()
		p.serves()
		p.must("ask", p.name(), "[before]", "--timeout", "1m")
		p.prompts("SLEEP:60 [work]")
		p.begun("[work]")
		p.must("send", p.name(), "[queued]", "--timeout", "1m")
		p.run("send", p.name(), "[waiting]", "--timeout", "1s")
		must(t, p.terminal.Kill())
		p.ended(p.terminal.Pid())
		if status, _, errs := p.run("send", s.Session, "[away]", "--timeout", "1s"); status != int(api.CodeTimeout.Exit()) || !strings.Contains(errs, "has ended") {
			t.Errorf("send to one that has ended: %d, %s", status, errs)
		}
		p.start("--resume", s.Session)
		p.once("[queued]", "[waiting]", "[away]", "[before]")
		p.inOrder("[before]", "[queued]", "[waiting]", "[away]")
	})
}

// A headless session with the hooks ends as usual.
func TestRealHeadlessWithHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newHookedUser(t, v)
		cmd := exec.CommandContext(p.ctx, standin.Require(t, v)[0], append(standin.Require(t, v)[1:], "-p", "hello", "--model", "sonnet")...)
		cmd.Dir, cmd.Env = p.home.Work, append(p.home.Env(), "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDECODE=1") // as inside a session
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("claude -p: %v\n%s", err, out)
		}
	})
}

// TestRealKilledSessionsAndServices holds with the waiting hook, too.
func TestRealKilledSessionsAndServicesWithHook(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newHookedUser(t, v)
		p.killAll(p.session(), false, func(session string) { p.start("--resume", session) }, func(r transcript.Record) bool {
			text := transcript.Texts(r.Message.Content, "") + transcript.Texts(r.Attachment.Prompt, "")
			given := r.Type == "user" && r.Kind() != transcript.Results || r.Type == "attachment"
			return given && (len(wake.Messages(text)) > 0 || r.Origin.Kind == "peer") // a session that has just begun still has its socket
		})
	})
}
