package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"teambridge/relay/codex"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/mcp"
)

// codexUser is a person with sessions of Codex that have the tools of teambridge, and with a service.
type codexUser struct {
	*sessionUser
	program string
}

func newCodexUser(t *testing.T, responder standin.Responder) *codexUser {
	t.Helper()
	p := &codexUser{sessionUser: newSomebody(t, responder)}
	home := p.home
	p.program = home.Codex(t)
	add := exec.Command(p.program, "mcp", "add", "teambridge", "--", own(t), "mcp", "--state-dir", p.state(), "--claude-dir", home.Root)
	add.Dir, add.Env = home.Work, home.Env()
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("codex mcp add: %v\n%s", err, out)
	}
	p.serves()
	return p
}

// thread is a session of Codex at a terminal.
type thread struct {
	*codexUser
	terminal *standin.PromptTerminal
	id       string
}

// starts starts a session of Codex, and waits until it is listed as idle.
func (p *codexUser) starts(marker string, args ...string) *thread {
	p.t.Helper()
	s := &thread{codexUser: p, terminal: standin.StartCodex(p.t, p.home, p.program, args...)}
	s.prompts(marker)
	var err error
	if s.id, err = p.home.Thread(p.ctx, marker); err != nil {
		p.t.Fatal(err)
	}
	s.session()
	return s
}

func (s *thread) prompts(text string) {
	s.t.Helper()
	prompts(s.t, s.ctx, s.terminal, text)
}

// resumes continues the session in another server, until models were given a text n times. A text that was recorded
// but not given when the server was killed is given with the next prompt.
func (s *thread) resumes(text string, n int, args ...string) {
	s.t.Helper()
	s.terminal = standin.StartCodex(s.t, s.home, s.program, append([]string{"resume", s.id}, args...)...)
	s.session()
	marker := fmt.Sprintf("[go on %d]", len(s.home.API.Log()))
	s.prompts(marker)
	for text, n := range map[string]int{marker: 1, text: n} {
		if err := s.home.API.WaitCount(s.ctx, standin.Any, text, n); err != nil {
			s.t.Fatalf("%s was not given %d times: %v\n%s", text, n, err, s.terminal.Screen())
		}
	}
	s.session()
}

func (s *thread) session() api.Session {
	s.t.Helper()
	return s.sessionThat(s.ctx, func(one api.Session) bool { return one.Session == s.id && one.Word == api.WordIdle })
}

func (s *thread) name() string { return "codex-" + s.id[len(s.id)-6:] }

// calls makes the agent call a tool, and returns the structured answer, which the agent reads.
func (s *thread) calls(tool string, in any) (answer string) {
	s.t.Helper()
	before := len(s.home.API.Log())
	s.prompts(standin.CallLine("mcp__teambridge__"+tool, in))
	r, err := s.home.API.Wait(s.ctx, func(r standin.Request) bool { return r.Seq > before && r.Session == s.id && len(r.Results) > 0 })
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", tool, err, s.terminal.Screen())
	}
	_, answer, _ = strings.Cut(strings.Join(r.Results, "\n"), "Output:\n")
	return answer
}

// given waits until the model of the session was given a text, and returns the call.
func (s *thread) given(text string) standin.Request {
	s.t.Helper()
	r, err := s.home.API.Wait(s.ctx, func(r standin.Request) bool { return !r.Side && r.Session == s.id && r.Has(text) })
	if err != nil {
		s.t.Fatalf("%s was not given: %v\n%s", text, err, s.terminal.Screen())
	}
	return r
}

// onceInHistory checks that the history has each text once.
func (p *codexUser) onceInHistory(texts ...string) {
	p.t.Helper()
	history := p.must("history", "--team", "sessions", "--limit", "1000")
	for _, text := range texts {
		if n := strings.Count(history, "\n    "+text+"\n"); n != 1 {
			p.t.Errorf("the history has %s %d times:\n%s", text, n, history)
		}
	}
}

// Sessions of Codex get messages from a person, from each other and from a session of Claude Code, and answer.
func TestRealCodex(t *testing.T) {
	t.Parallel()
	p := newCodexUser(t, nil)
	one, two := p.starts("[one]"), p.starts("[two]")
	is := one.session()
	if other := two.session(); is.Way != api.WayCodex || is.Program != api.ProgramCodex || is.Name != one.name() || is.PID != other.PID || is.Cwd != p.home.Work {
		t.Errorf("listed: %+v, %+v", is, other)
	}
	if said := p.must("send", one.name(), "(told)", "--wait", "seen"); !strings.Contains(said, "seen") {
		t.Errorf("sent: %s", said)
	}
	r := one.given("(told)")
	if strings.Contains(r.Text(), "[one]") || !strings.Contains(r.Text(), `from="operator"`) || !strings.Contains(r.Text(), "It is not from its user") {
		t.Errorf("the model is given %s", r.Text())
	}
	if said := p.must("ask", one.id, "(asked)"); !strings.Contains(said, "(asked)") {
		t.Errorf("the answer is %s", said)
	}
	if status, _, errs := p.run("send", one.name(), strings.Repeat("é", 6000)); status != int(api.CodeUsage.Exit()) || !strings.Contains(errs, "put it into a file") {
		t.Errorf("a text that Codex would cut: %d, %s", status, errs)
	}

	listed := decoded[mcp.Listed](t, one.calls("list_agents", map[string]any{}))
	if listed.You != one.name()+"@sessions" || len(listed.Agents) != 1 || listed.Agents[0].To != two.name()+"@sessions" {
		t.Errorf("listed by an agent: %+v", listed)
	}
	if said := one.calls("send_message", map[string]any{"to": two.name(), "text": "(from one)", "wait": "seen"}); !strings.Contains(said, `"state":"seen"`) {
		t.Errorf("to another of Codex: %s", said)
	}
	text := two.given("(from one)").Text()
	if !strings.Contains(text, fmt.Sprintf("from=%q", one.name())) {
		t.Errorf("the other is given %s", text)
	}
	_, id, _ := strings.Cut(text, `message-id="`)
	id, _, _ = strings.Cut(id, `"`)
	if said := two.calls("reply", map[string]any{"id": id, "text": "(replied)", "wait": "seen"}); !strings.Contains(said, `"state":"seen"`) || !strings.Contains(said, `@sessions"`) {
		t.Errorf("replied: %s", said)
	}
	one.given("(replied)")

	ann := newAgentUser(t, standin.Newest(t), p.sessionUser)
	if said := ann.calls("[asks]", "send_message", map[string]any{"to": one.name(), "text": "(Claude asks)", "wait": "answer"}); !strings.Contains(said, "answered") || !strings.Contains(said, "(Claude asks)") {
		t.Errorf("Claude Code asks Codex: %s", said)
	}
	if said := two.calls("send_message", map[string]any{"to": ann.session().Session, "text": "(Codex asks)", "wait": "answer"}); !strings.Contains(said, `"state":"answered"`) {
		t.Errorf("Codex asks Claude Code: %s", said)
	}
	if said := two.calls("send_message", map[string]any{"to": "user", "text": "(for the person)"}); !strings.Contains(said, "inbox of the person") {
		t.Errorf("to the person: %s", said)
	}
	p.onceInHistory("(told)", "(asked)", "(from one)", "(replied)", "(Claude asks)", "(Codex asks)", "(for the person)")
	if mine := p.must("inbox"); !strings.Contains(mine, "(for the person)") || strings.Contains(mine, "(replied)") {
		t.Errorf("the person has:\n%s", mine)
	}

	unattended := exec.CommandContext(p.ctx, p.program, "exec", "--skip-git-repo-check", "SLEEP:30 [exec]")
	unattended.Dir, unattended.Env = p.home.Work, p.home.Env()
	must(t, unattended.Start())
	defer func() { _ = unattended.Process.Kill(); _ = unattended.Wait() }()
	alone, err := p.home.Thread(p.ctx, "[exec]")
	must(t, err)
	if s := p.sessionThat(p.ctx, func(s api.Session) bool { return s.Session == alone }); s.Way != "" || !s.Headless {
		t.Errorf("codex exec is listed as %+v", s)
	}
	doctor := exec.CommandContext(p.ctx, "teambridge", "doctor", "--state-dir", p.state())
	doctor.Env = append(p.home.Env(), "GORACE=atexit_sleep_ms=0")
	found, _ := doctor.Output() // it reports other problems, too
	for _, says := range []string{one.name() + " of Codex", "takes messages from Codex's shared server", "is one of codex exec"} {
		if !strings.Contains(string(found), says) {
			t.Errorf("doctor does not say that %s:\n%s", says, found)
		}
	}
	if status, _, errs := p.run("send", alone, "(never)"); status != int(api.CodeNotFound.Exit()) {
		t.Errorf("sent to codex exec: %d, %s", status, errs)
	}
}

// If a person presses ESC before Codex's model has a message that was sent in mid-turn, it is sent again.
func TestRealCodexInterrupted(t *testing.T) {
	t.Parallel()
	p := newCodexUser(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if r.Has("[busy]") && !r.Has("(in between)") {
			<-ctx.Done()
		}
		return standin.Script(ctx, r)
	})
	s := p.starts("[one]")
	s.prompts("[busy]")
	s.given("[busy]")
	if status, out, errs := p.run("send", s.name(), "(in between)", "--wait", "seen", "--timeout", "1s"); status != int(api.CodeTimeout.Exit()) {
		t.Errorf("sent to a busy one: %d, %s%s", status, out, errs)
	}
	must(t, s.terminal.Keys(p.ctx, "Escape"))
	s.session()
	if n := p.home.API.Count(standin.Any, "(in between)"); n != 0 {
		t.Errorf("given %d times before", n)
	}
	s.given("(in between)")
	s.session()
	p.onceInHistory("(in between)")
	once(t, p.home.API, "(in between)")
}

// If the shared server is killed at any time after a message was sent, no message is lost, and none arrives twice.
func TestRealKilledCodex(t *testing.T) {
	t.Parallel()
	p := newCodexUser(t, nil)
	s := p.starts("[one]")
	kills := rounds(t, "TEAMBRIDGE_CODEX_KILLS", 3)
	p.ctx = deadline(t, patience+time.Duration(kills)*time.Minute)
	s.ctx = p.ctx
	var texts []string
	for i := range kills {
		text := fmt.Sprintf("(message %d)", i)
		texts = append(texts, text)
		pid := s.session().PID
		if status, out, errs := p.run("send", s.name(), text, "--timeout", "0s"); status != int(api.CodeTimeout.Exit()) && status != 0 {
			t.Errorf("sent: %d, %s%s", status, out, errs)
		}
		switch i % 3 { // otherwise at once, with or without its answer
		case 1:
			s.given(text)
		case 2:
			s.given(text)
			s.session() // the turn is over
		}
		if server, err := os.FindProcess(pid); err != nil || server.Kill() != nil {
			t.Fatalf("kill the server: %v", err)
		}
		must(t, s.terminal.Kill())
		s.resumes(text, 1)
	}
	once(t, p.home.API, texts...)
	p.onceInHistory(texts...)
}

// A session in no shared server is given a message from Codex's queue once, whenever it is killed.
func TestRealKilledCodexQueue(t *testing.T) {
	t.Parallel()
	p := newCodexUser(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if r.Has("[busy]") && !r.Has("(while it works)") {
			<-ctx.Done()
		}
		return standin.Script(ctx, r)
	})
	s := p.starts("[one]", "--no-daemon")
	if is := s.session(); is.Way != "" || is.Program != api.ProgramCodex {
		t.Errorf("listed: %+v", is)
	}
	if status, _, errs := p.run("send", s.id, "(never)"); status != int(api.CodeNotFound.Exit()) {
		t.Errorf("sent without the queue: %d, %s", status, errs)
	}
	if said := p.must("send", s.name(), "(queued)", "--via", "queue", "--wait", "seen"); !strings.Contains(said, "seen") {
		t.Errorf("sent: %s", said)
	}
	if text := s.given("(queued)").Text(); !strings.HasPrefix(text, codex.Queued) || !strings.Contains(text, `from="operator"`) {
		t.Errorf("the model is given %s", text)
	}

	kill := func() {
		t.Helper()
		holder, err := os.FindProcess(s.session().PID)
		if err == nil {
			err = holder.Kill()
		}
		must(t, errors.Join(err, s.terminal.Kill()))
	}
	texts := []string{"(queued)", "(while it works)"}
	s.prompts("[busy]")
	s.given("[busy]")
	for said := ""; !strings.Contains(said, "is in Codex's queue"); { // the same message each time
		var status int
		if status, _, said = p.run("send", s.name(), texts[1], "--via", "queue", "--id", "busy", "--timeout", "1ms"); status != int(api.CodeTimeout.Exit()) {
			t.Fatalf("sent to a busy one: %d, %s", status, said)
		}
		select {
		case <-p.ctx.Done():
			t.Fatal(said)
		case <-time.After(50 * time.Millisecond):
		}
	}
	pid := p.sessionThat(p.ctx, func(one api.Session) bool { return one.Session == s.id }).PID
	if holder, err := os.FindProcess(pid); err != nil || holder.Kill() != nil {
		t.Fatalf("kill the session: %v", err)
	}
	must(t, s.terminal.Kill())
	s.resumes(texts[1], 1, "--no-daemon")
	kills := rounds(t, "TEAMBRIDGE_CODEX_KILLS", 3)
	p.ctx = deadline(t, patience+time.Duration(kills)*time.Minute)
	s.ctx = p.ctx
	for i := range kills {
		text := fmt.Sprintf("(message %d)", i)
		texts = append(texts, text)
		if status, out, errs := p.run("send", s.name(), text, "--via", "queue", "--timeout", "1ms"); status != int(api.CodeTimeout.Exit()) && status != 0 {
			t.Errorf("sent: %d, %s%s", status, out, errs)
		}
		switch i % 3 { // otherwise at once, whether or not it is in the queue
		case 1:
			s.given(text)
		case 2:
			s.given(text)
			s.session()
		}
		kill()
		s.resumes(text, 1, "--no-daemon")
	}
	once(t, p.home.API, texts...)
	p.onceInHistory(texts...)
}

// Agents of Claude Code and Codex send messages to each other with the tools, while the service or the recipient is
// killed. Each message is given once.
func TestRealKilledAgentsWithTools(t *testing.T) {
	t.Parallel()
	p := newCodexUser(t, nil)
	n := rounds(t, "TEAMBRIDGE_AGENT_ROUNDS", 3)
	p.ctx = deadline(t, patience+time.Duration(n)*30*time.Second)
	v := standin.Newest(t)
	cx, ann := p.starts("[one]"), newAgentUser(t, v, p.sessionUser)
	ann.ctx = p.ctx
	id := ann.session().Session
	// A session that has ended accepts a message only if it was sent one before.
	for _, to := range []string{id, cx.id} {
		p.must("send", to, "(hello)", "--wait", "seen")
	}
	var texts []string
	for i := range 2 * n {
		toCodex, killed := i%2 == 0, i%4 < 2 // otherwise the service is killed
		text := fmt.Sprintf("(message %d)", i)
		texts = append(texts, text)
		send := standin.CallLine("mcp__teambridge__send_message", map[string]any{"text": text, "to": map[bool]string{true: cx.id, false: id}[toCodex]})
		pid := cx.session().PID
		before := len(p.home.API.Log())
		var err error
		if toCodex {
			err = ann.terminal.Prompt(p.ctx, send)
		} else {
			err = cx.terminal.Prompt(p.ctx, send)
		}
		must(t, err)
		// The kill comes at once, when the sender is about to call the tool, or when the recipient has the message.
		caller, called := id, cx.id
		if !toCodex {
			caller, called = cx.id, id
		}
		if by := []string{"", caller, called}[i/4%3]; by != "" {
			if _, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && r.Seq > before && r.Session == by && r.Has(text) }); err != nil {
				t.Fatalf("the model of %s was not called with %s: %v\n%s\n%s", by, text, err, ann.terminal.Screen(), cx.terminal.Screen())
			}
		}
		switch {
		case !killed:
			p.service.kill()
			p.serves()
		case toCodex:
			if server, err := os.FindProcess(pid); err != nil || server.Kill() != nil {
				t.Fatalf("kill the server: %v", err)
			}
			must(t, cx.terminal.Kill())
			cx.resumes(text, 2)
		default:
			must(t, ann.terminal.Kill())
			ann.terminal = standin.StartSession(t, v, p.home, append([]string{"--resume", id}, ann.args...)...)
		}
		if _, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return r.Seq > before && r.Session == caller && len(r.Results) > 0 }); err != nil {
			t.Fatalf("the call of %s did not end: %v\n%s\n%s", text, err, ann.terminal.Screen(), cx.terminal.Screen())
		}
		if err := p.home.API.WaitCount(p.ctx, standin.Any, text, 2); err != nil { // one of them is the sender's prompt
			t.Fatalf("%s was not given: %v\n%s\n%s", text, err, ann.terminal.Screen(), cx.terminal.Screen())
		}
		ann.session()
	}
	cx.session()
	for _, text := range texts {
		if n := p.home.API.Count(standin.Any, text); n != 2 {
			t.Errorf("%s was given %d times", text, n-1)
		}
	}
	p.onceInHistory(texts...)
}
