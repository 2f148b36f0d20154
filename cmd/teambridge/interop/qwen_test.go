package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/cmd/setup"
	"teambridge/relay/process"
	"teambridge/relay/qwen"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/shell"
	"teambridge/status/api"
)

// qwenUser is a person with a session of Qwen Code at a terminal, and with a service.
type qwenUser struct {
	*sessionUser
	command []string
	screen  *standin.PromptTerminal
	id      string
}

// newQwenUser starts a session, with or without the tools of teambridge, and without a prompt yet.
func newQwenUser(t *testing.T, tools bool, responder standin.Responder, args ...string) *qwenUser {
	t.Helper()
	standin.RequireQwen(t)
	p := &qwenUser{sessionUser: newSomebody(t, responder)}
	p.args = args
	home := p.home
	settings := map[string]any{"permissions": map[string]any{"allow": []string{"send_message"}}}
	if tools {
		settings["mcpServers"] = map[string]any{"teambridge": map[string]any{
			"command": own(t), "args": []string{"mcp", "--state-dir", p.state(), "--claude-dir", home.Root}, "trust": true,
		}}
	}
	p.command = home.Qwen(t, settings)
	p.serves()
	p.starts()
	return p
}

// starts starts or resumes the session, and waits until it is listed as idle.
func (p *qwenUser) starts() {
	p.t.Helper()
	args := p.args
	if p.id != "" {
		args = append([]string{"--resume", p.id}, args...)
	}
	p.screen = standin.StartQwen(p.t, p.home, p.command, args...)
	p.id = p.session().Session
}

func (p *qwenUser) session() api.Session {
	p.t.Helper()
	return p.sessionThat(p.ctx, func(s api.Session) bool { return s.Program == api.ProgramQwen && s.Way != "" && s.Word == api.WordIdle })
}

func (p *qwenUser) prompts(text string) {
	p.t.Helper()
	prompts(p.t, p.ctx, p.screen, text)
}

func (p *qwenUser) given(text string) standin.Request {
	p.t.Helper()
	r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && r.Has(text) })
	if err != nil {
		p.t.Fatalf("%s was not given: %v\n%s", text, err, p.screen.Screen())
	}
	return r
}

// calls makes the agent call a tool, and returns the answer.
func (p *qwenUser) calls(tool string, in any) string {
	p.t.Helper()
	before := len(p.home.API.Log())
	p.prompts(standin.CallLine(tool, in))
	r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return r.Seq > before && len(r.Results) > 0 })
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", tool, err, p.screen.Screen())
	}
	return strings.Join(r.Results, "\n")
}

// once checks that the transcripts and the history have each text once.
func (p *qwenUser) once(texts ...string) {
	p.t.Helper()
	history := p.must("history", "--team", "sessions", "--limit", "1000")
	conversation := p.conversation()
	for _, text := range texts {
		if n := strings.Count(conversation, text); n != 1 {
			p.t.Errorf("%s is in the conversation %d times", text, n)
		}
		if n := strings.Count(history, "\n    "+text+"\n"); n != 1 {
			p.t.Errorf("the history has %s %d times:\n%s", text, n, history)
		}
	}
}

// A session without our tools asks its person about each message, tells the sender, and gets the allowed ones.
func TestRealQwenAsksItsPerson(t *testing.T) {
	t.Parallel()
	p := newQwenUser(t, false, nil)
	s := p.session()
	if s.Way != api.WaySession || !s.Socket || s.Cwd != p.home.Work || s.Version == "" || s.Headless {
		t.Errorf("listed: %+v", s)
	}
	// answers opens the list of held messages as the person, and allows or denies all.
	answers := func(answer, shown string) {
		t.Helper()
		p.prompts("/peers")
		if err := p.screen.Shows(p.ctx, func(screen string) bool {
			return strings.Contains(screen, shown) && strings.Contains(screen, "minutes left")
		}); err != nil {
			t.Fatal(err)
		}
		p.prompts("/peers " + answer + " all")
	}
	held := func(text string) {
		t.Helper()
		for {
			_, out, errs := p.run("send", s.Name, text, "--id", text, "--timeout", "2s")
			if strings.Contains(out+errs, "/peers") {
				return
			}
			if p.ctx.Err() != nil {
				t.Fatalf("it is not held: %s%s\n%s", out, errs, p.screen.Screen())
			}
		}
	}
	held("allowed")
	answers("accept", "allowed")
	if said := p.must("send", s.Name, "allowed", "--id", "allowed", "--wait", "seen"); !strings.Contains(said, "seen") {
		t.Errorf("what was allowed: %s", said)
	}
	held("denied")
	answers("deny", "denied")
	if status, out, errs := p.run("send", s.Name, "denied", "--id", "denied"); status == 0 || !strings.Contains(out+errs, "its person did not allow it") {
		t.Errorf("what was denied: %d, %s%s", status, out, errs)
	}
	if status := p.must("status", s.Name+"@sessions", "--json"); !strings.Contains(status, `"program":"qwen"`) {
		t.Errorf("the status is %s", status)
	}
	p.once("allowed")
}

// Sessions of Qwen Code get messages like others, from a person and from an agent of Claude Code, answer, and write
// themselves. With our tools they do not ask their person.
func TestRealQwen(t *testing.T) {
	t.Parallel()
	p := newQwenUser(t, true, nil)
	name := p.session().Name
	if said := p.must("send", name, "(told)", "--wait", "seen"); !strings.Contains(said, "seen") {
		t.Errorf("sent before the first prompt: %s", said)
	}
	text := p.given("(told)").Text()
	if !strings.Contains(text, `name="operator" origin="own-process"`) || !strings.Contains(text, "not from your user") {
		t.Errorf("the model is given %s", text)
	}
	if said := p.must("ask", p.id, "(asked)"); !strings.Contains(said, "ACK") {
		t.Errorf("the answer is %s", said)
	}
	if said := p.calls("mcp__teambridge__list_agents", map[string]any{}); !strings.Contains(said, name+"@sessions") {
		t.Errorf("listed by the agent: %s", said)
	}
	ann := newAgentUser(t, standin.Newest(t), p.sessionUser)
	if said := ann.calls("[asks]", "send_message", map[string]any{"to": name, "text": "(Claude asks)", "wait": "answer"}); !strings.Contains(said, "answered") {
		t.Errorf("Claude Code asks Qwen Code: %s", said)
	}
	if said := p.calls("mcp__teambridge__send_message", map[string]any{"to": ann.session().Session, "text": "(Qwen asks)", "wait": "answer"}); !strings.Contains(said, "answered") {
		t.Errorf("Qwen Code asks Claude Code: %s", said)
	}
	// Qwen Code leaves out sessions that do not answer it within 250 ms, as on a busy machine.
	for unknown := true; unknown; {
		said := p.calls("send_message", map[string]any{"to": "operator", "message": "(for the person)"})
		unknown = strings.Contains(said, "no reachable session")
	}
	p.once("(told)", "(asked)", "(Claude asks)")
	if history := p.must("history", "--team", "sessions", "--limit", "1000"); strings.Count(history, "\n    (Qwen asks)\n") != 1 {
		t.Errorf("the history is\n%s", history)
	}
	mine := p.must("inbox")
	for !strings.Contains(mine, "(for the person)") && p.ctx.Err() == nil { // the tool does not wait until it is recorded
		mine = p.must("inbox")
	}
	if !strings.Contains(mine, name) {
		t.Errorf("the person has:\n%s", mine)
	}
	list := exec.CommandContext(p.ctx, p.command[0], p.command[1], "sessions", "ps")
	list.Dir, list.Env = p.home.Work, p.home.Env()
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "operator") {
		t.Errorf("Qwen Code lists %s, %v", out, err)
	}
}

// A message from the person counts as the person's own only between their consent and its revocation.
func TestRealQwenController(t *testing.T) {
	t.Parallel()
	p := newQwenUser(t, false, nil)
	bin := t.TempDir()
	script := "#!/bin/sh\nexec env -i"
	for _, v := range p.home.Env() {
		script += " " + shell.Quote(v)
	}
	standin.WriteProgram(t, filepath.Join(bin, "qwen"), script+" "+strings.Join(p.command, " ")+` "$@"`)
	set := &setup.Setup{Root: p.home.Root, Qwen: filepath.Join(p.home.Dir, ".qwen"), State: p.state(), Program: "/bin/true", Path: bin}
	list := set.Look(p.ctx)
	if len(list) != 2 || list[1].Name != setup.Rights || list[1].State != setup.Missing {
		t.Fatalf("the steps are %+v", list)
	}
	for _, st := range list {
		if set.Do(p.ctx, st); st.State != setup.Done {
			t.Fatalf("%+v", *st)
		}
	}
	if said := p.must("send", p.id, "(mine)", "--wait", "seen"); !strings.Contains(said, "seen") {
		t.Errorf("sent: %s", said)
	}
	if text := p.given("(mine)").Text(); !strings.Contains(text, `origin="controller" controller="teambridge"`) {
		t.Errorf("the model is given %s", text)
	}
	made, err := set.Made(p.ctx)
	if err != nil || len(made) != 2 {
		t.Fatalf("done is %+v, %v", made, err)
	}
	for _, st := range made {
		if set.Do(p.ctx, st); st.State != setup.Missing {
			t.Errorf("undone: %+v", *st)
		}
	}
	if status, out, errs := p.run("send", p.id, "(not mine)", "--timeout", "10s"); status == 0 || !strings.Contains(out+errs, "/peers") {
		t.Errorf("after it was revoked: %d, %s%s", status, out, errs)
	}
	p.once("(mine)")
}

// A message that waits in a busy session is given after its turn, and is not lost if the person interrupts the turn.
func TestRealQwenBusy(t *testing.T) {
	t.Parallel()
	p := newQwenUser(t, true, func(ctx context.Context, r standin.Request) standin.Answer {
		if r.Has("[busy]") {
			<-ctx.Done()
		}
		return standin.Script(ctx, r)
	})
	p.prompts("[busy]")
	p.given("[busy]")
	name := p.sessionThat(p.ctx, func(s api.Session) bool { return s.Session == p.id && s.Word == api.WordWorking }).Name
	for {
		status, out, errs := p.run("send", name, "(in between)", "--id", "between", "--wait", "seen", "--timeout", "2s")
		if status != int(api.CodeTimeout.Exit()) || p.ctx.Err() != nil {
			t.Fatalf("sent to a busy one: %d, %s%s", status, out, errs)
		}
		if strings.Contains(errs, "the session has it, and works") {
			break
		}
	}
	if n := p.home.API.Count(standin.Any, "(in between)"); n != 0 {
		t.Errorf("given %d times before", n)
	}
	must(t, p.screen.Keys(p.ctx, "Escape"))
	p.given("(in between)")
	p.session()
	p.once("(in between)")
}

// If the session or the service is killed after a message was sent, no message is lost, and none arrives twice.
func TestRealKilledQwen(t *testing.T) {
	t.Parallel()
	p := newQwenUser(t, true, nil)
	n := rounds(t, "TEAMBRIDGE_QWEN_KILLS", 3)
	p.ctx = deadline(t, patience+time.Duration(n)*time.Minute)
	p.must("send", p.id, "(hello)", "--wait", "seen")
	var texts []string
	for i := range n {
		text := fmt.Sprintf("(message %d)", i)
		texts = append(texts, text)
		pid := p.session().PID
		if i%2 == 1 { // the message waits in the session
			p.prompts(fmt.Sprintf("SLEEP:2 [works %d]", i))
			p.given(fmt.Sprintf("[works %d]", i))
		}
		if status, out, errs := p.run("send", p.id, text, "--timeout", "0s"); status != int(api.CodeTimeout.Exit()) && status != 0 {
			t.Errorf("sent: %d, %s%s", status, out, errs)
		}
		time.Sleep(time.Duration(i*37%400) * time.Millisecond) // a different moment each time
		if i%3 == 2 {
			p.service.kill()
			p.serves()
		} else {
			session, err := os.FindProcess(pid)
			if err != nil || session.Kill() != nil {
				t.Fatalf("kill the session: %v", err)
			}
			must(t, process.Identify(pid).Wait(p.ctx))
			must(t, p.screen.Kill())
			p.starts()
		}
		p.settled(text)
	}
	p.once(texts...)
}

// settled waits until a message is answered, or until its session has ended with the message in the conversation.
func (p *qwenUser) settled(text string) {
	p.t.Helper()
	for {
		out := p.must("history", "--team", "sessions", "--limit", "1000", "--json")
		for line := range strings.Lines(out) {
			if strings.Contains(line, text) && (strings.Contains(line, `"ended"`) || strings.Contains(line, `"done"`)) {
				return
			}
		}
		select {
		case <-p.ctx.Done():
			p.t.Fatalf("%s: %v\n%s\n%s", text, p.ctx.Err(), out, p.screen.Screen())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// conversation returns the messages of other processes in all transcripts.
func (p *qwenUser) conversation() string {
	p.t.Helper()
	paths, err := filepath.Glob(filepath.Join(p.home.Dir, ".qwen", "projects", "*", "chats", "*.jsonl"))
	if err != nil || len(paths) == 0 {
		p.t.Fatalf("the transcripts are %q, %v", paths, err)
	}
	var all strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		must(p.t, err)
		for line := range strings.Lines(string(data)) {
			if e, ok := qwen.Parse([]byte(line)); ok && e.Kind == qwen.Mail {
				all.WriteString(e.Text)
			}
		}
	}
	return all.String()
}
