// Package simsession simulates a session of Claude Code in no team that listens on a socket, for tests of its
// senders. It has no model and no screen: it queues messages, and gives them to the model in a turn when it is idle.
package simsession

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/claudedir"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// env is the [Process] that a process simulates, as JSON.
const env = "TEAMBRIDGE_SIMSESSION"

// Environment variables of a hook.
const (
	envHook = env + "_HOOK" // the process of the session
	envRoot = env + "_ROOT" // the Claude directory
)

// Name is the name of sessions in tests.
const Name = "work"

type object = claudedir.Object

// Main runs the session of [Begin] or [Start] in its process, and returns in others. It belongs first in TestMain.
func Main() {
	data := os.Getenv(env)
	if data == "" {
		return
	}
	var p Process
	err := json.Unmarshal([]byte(data), &p)
	var obey func(string) error
	if err == nil {
		if p.Qwen {
			obey, err = runQwen(p)
		} else {
			obey, err = run(p)
		}
	}
	if err == nil {
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); err == nil && in.Scan(); {
			err = obey(in.Text())
			fmt.Println("done")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "session:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a session in a process of its own, which can be killed. It ends with the one that has started it.
type Process struct {
	Root, ID, Name string
	Version        string // in its file; "": [teams.Oldest]; "unknown": none
	Hooked         bool   // its socket is switched off, and it has hooks: see [HookOf]
	Qwen           bool   // it is one of Qwen Code: see [StartQwen]
	Job            string // it is in the background, and this is its key
	Spare          bool   // the same, and it has no person yet

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// Begin starts a session with an id, a name and a [Process.Version] below a Claude directory. Its sockets and its
// working directory are next to that.
func Begin(root, id, name, version string) (*Process, error) {
	p := &Process{Root: root, ID: id, Name: name, Version: version}
	return p, p.begin()
}

func (p *Process) begin() (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	plays, err := json.Marshal(p)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(exe)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env+"="+string(plays)), os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.stdout = bufio.NewReader(stdout)
	if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
		p.End()
		return fmt.Errorf("simsession: the session says %q, %v", line, err)
	}
	return nil
}

// End kills its process, if it is there.
func (p *Process) End() { _, _ = p.cmd.Process.Kill(), p.cmd.Wait() }

// PID is the id of its process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Dir is its working directory.
func (p *Process) Dir() string { return filepath.Dir(p.Root) }

// Texts returns the texts that the models of the sessions below its Claude directory got, in order, by transcripts.
func (p *Process) Texts() (texts []string, err error) {
	if p.Qwen {
		return qwenTexts(p.Root)
	}
	paths, err := filepath.Glob(filepath.Join(p.Root, "projects", "*", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		tail := transcript.Tail{Path: path}
		for line, err := range tail.Lines() {
			if err != nil {
				return nil, err
			}
			if r, ok := transcript.Parse(line); ok && (r.Type == "user" && r.Origin.Kind != "" || r.Attachment.Origin.Kind != "") {
				for _, text := range strings.Split(transcript.Texts(r.Message.Content, "")+transcript.Texts(r.Attachment.Prompt, ""), "-message from=")[1:] {
					_, text, _ = strings.Cut(text, "\n")
					text, _, _ = strings.Cut(text, "\n</")
					texts = append(texts, text)
				}
			}
		}
	}
	return texts, nil
}

// Session is the session of a test.
type Session struct {
	*Process
	t testing.TB
}

// Start starts a session as Begin does, called [Name], until the end of the test.
func Start(t testing.TB, root, id string) *Session {
	t.Helper()
	return start(t, &Process{Root: root, ID: id, Name: Name})
}

// StartHooked starts a session that has hooks, and no socket.
func StartHooked(t testing.TB, root, id string) *Session {
	t.Helper()
	return start(t, &Process{Root: root, ID: id, Name: Name, Hooked: true})
}

// StartJob starts a session in the background, whose key is the beginning of its id. A spare one has no person yet.
func StartJob(t testing.TB, root, id string, spare bool) *Session {
	t.Helper()
	return start(t, &Process{Root: root, ID: id, Name: Name, Job: id[:8], Spare: spare})
}

func start(t testing.TB, p *Process) *Session {
	t.Helper()
	s := &Session{Process: p, t: t}
	s.Start()
	return s
}

// HookOf returns the process whose hook this one is, which runs next to it with asyncRewake, and the Claude
// directory; ok is false in other processes. TestMain calls it.
func HookOf() (root string, pid int, ok bool) {
	pid, err := strconv.Atoi(os.Getenv(envHook))
	return os.Getenv(envRoot), pid, err == nil
}

// Start starts its process again, which continues the session.
func (s *Session) Start() {
	s.t.Helper()
	if err := s.begin(); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.cmd
	s.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
}

// Tell gives it an order, and returns when it has obeyed. "busy" begins a turn of its person, in which messages wait,
// "tool" gives them in the turn, and "idle" ends it. "hold" asks its person about the next message; "allow", "allow
// slowly" and "deny" answer. "drop" drops the next message, and "deaf" all until "usual". "lose" ignores the next
// hook that ends with a message; "clear" changes its id; "move ID" continues its conversation in the background, by
// [StartJob]; "mute" leaves the state out of its file, as headless 2.1.257 does; "leave" begins its end: it is not
// found, but still writes its transcript; "version VERSION" sets the version in its file. "say TEXT" and "write NAME
// TEXT" make its agent write to the last sender, and to the one listed under a name.
func (s *Session) Tell(line string) {
	s.t.Helper()
	if err := s.Do(line); err != nil {
		s.t.Fatal(err)
	}
}

// Do is [Session.Tell].
func (p *Process) Do(line string) error {
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		return err
	}
	if said, err := p.stdout.ReadString('\n'); said != "done\n" {
		return fmt.Errorf("told to %q, the session says %q, %w", line, said, err)
	}
	return nil
}

// Kill kills its process.
func (s *Session) Kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait() // says that it was killed
}

// Given returns the texts that the model got, in all transcripts, in order.
func (s *Session) Given() []string {
	s.t.Helper()
	texts, err := s.Texts()
	if err != nil {
		s.t.Fatal(err)
	}
	return texts
}

// program is the process of a session.
type program struct {
	Process
	mu     sync.Mutex
	record object // sessions/<pid>.json
	file   string // its transcript
	queue  []frameIn
	held   []frameIn
	busy   bool
	hold   bool
	deaf   bool
	drops  int
	recent map[string]bool // texts
	from   string          // the last sender
	lose   bool
	left   bool
	mute   bool      // it does not report its state
	asked  []frameIn // requests to report when it is idle
}

type frameIn struct {
	ID      string `json:"msg_id"`
	Type    string
	From    string
	Token   string
	Action  string
	Message struct{ Content string }
}

// run begins the session, and returns the function that obeys orders.
func run(process Process) (obey func(string) error, err error) {
	self, err := simagent.CurrentProcess()
	if err != nil {
		return nil, err
	}
	p := &program{Process: process, recent: map[string]bool{}}
	socket := filepath.Join(p.Dir(), "socks", strconv.Itoa(self.PID)+".sock")
	p.record = object{
		"pid": self.PID, "sessionId": p.ID, "cwd": p.Dir(), "startedAt": time.Now().UnixMilli(), "procStart": self.Start, "version": cmp.Or(p.Version, teams.Oldest.String()),
		"kind": "interactive", "entrypoint": "cli", "messagingSocketPath": socket, "name": p.Name, "status": "idle",
	}
	if p.Job != "" {
		p.record["kind"], p.record["jobId"] = "bg", p.Job
	}
	if p.Spare {
		p.record["spare"] = true
	}
	if p.record["version"] == (teams.Version{}).String() {
		delete(p.record, "version")
	}
	p.transcript(p.ID)
	if p.Hooked {
		delete(p.record, "messagingSocketPath")
	} else if err := claudedir.Listen(p.Root, socket, "secret", p.take); err != nil {
		return nil, err
	}
	p.save()
	p.hook()
	return func(line string) error { p.obey(line); return nil }, nil
}

func (p *program) transcript(session string) {
	p.file = claudedir.Transcript(p.Root, p.Dir(), session)
}

func (p *program) save() {
	if p.left {
		return
	}
	record := maps.Clone(p.record)
	if p.mute {
		delete(record, "status")
	}
	_ = claudedir.WriteProcess(p.Root, record)
}

func (p *program) write(o object) {
	o["timestamp"] = claudedir.Now()
	_ = claudedir.Append(p.file, o)
}

func (p *program) obey(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to, text, says := p.from, "", false
	if text, says = strings.CutPrefix(line, "say "); !says {
		if name, ok := strings.CutPrefix(line, "write "); ok {
			name, text, says = strings.Cut(name, " ")
			to = "uds:" + listed(p.Root, name, "messagingSocketPath")
		}
	}
	if says {
		connect(to, object{
			"msgV": 1, "msg_id": "5a000000-0000-4000-8000-" + fmt.Sprintf("%012x", len(text)), "type": "user",
			"message": object{"role": "user", "content": "<cross-session-message from=\"uds:x\" from-name=\"" + fmt.Sprint(p.record["name"]) + "\">\n" + text + "\n</cross-session-message>"},
		})
		return
	}
	if version, ok := strings.CutPrefix(line, "version "); ok {
		p.record["version"] = version
	}
	if id, ok := strings.CutPrefix(line, "move "); ok {
		p.write(object{"type": "continued-in", "sessionId": p.record["sessionId"], "continuedInSessionId": id})
		p.record["parkedJobId"], p.deaf, p.queue = id[:8], true, nil
	}
	switch line {
	case "busy":
		p.busy, p.record["status"] = true, "busy" // a hook waits already
	case "idle":
		p.busy, p.record["status"] = false, "idle"
		p.turn()
		p.tellIdle()
	case "tool": // ends: waiting messages are given in the middle of the turn
		for _, f := range p.queue {
			p.write(object{"type": "queue-operation", "operation": "remove", "content": f.Message.Content})
			p.write(object{"type": "attachment", "attachment": object{"type": "queued_command", "prompt": f.Message.Content, "origin": object{"kind": "peer", "msg_id": f.ID}}})
		}
		p.queue = nil
	case "ask": // shows a dialog
		p.record["status"], p.record["waitingFor"], p.record["statusUpdatedAt"] = "waiting", "permission prompt", time.Now().UnixMilli()
	case "answered":
		p.record["status"], p.record["statusUpdatedAt"] = "busy", time.Now().UnixMilli()
		delete(p.record, "waitingFor")
	case "hold":
		p.hold = true
	case "allow slowly": // its transcript has it later
		held := p.held
		for _, f := range held {
			p.tell(f, "delivered", "")
		}
		p.held, p.hold, p.record["status"] = nil, false, "idle"
		time.AfterFunc(700*time.Millisecond, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, f := range held {
				p.enqueue(f)
			}
			p.turn()
		})
	case "deny", "allow":
		for _, f := range p.held {
			if line == "allow" {
				p.enqueue(f)
				p.tell(f, "delivered", "")
			} else {
				p.tell(f, "denied", "")
			}
		}
		p.held, p.hold, p.record["status"] = nil, false, "idle"
		p.turn()
	case "drop":
		p.drops = 1
	case "lose":
		p.lose = true
	case "deaf":
		p.deaf = true
	case "usual":
		p.deaf = false
	case "mute":
		p.mute = true
	case "leave":
		p.left = true
		_, _ = os.Remove(claudedir.ProcessFile(p.Root)), os.Remove(fmt.Sprint(p.record["messagingSocketPath"]))
	case "clear":
		p.record["sessionId"] = "5e55104e-0000-4000-8000-00000000000c"
		p.transcript("5e55104e-0000-4000-8000-00000000000c")
		p.hook()
	}
	p.save()
}

// take takes the lines of a connection.
func (p *program) take(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var auth, f frameIn
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &auth) != nil || auth.Token != "secret" || json.Unmarshal([]byte(lines[1]), &f) != nil {
		return
	}
	if f.Action == "notify_when_idle" {
		if p.asked = append(p.asked, f); !p.busy {
			p.tellIdle()
		}
	}
	if f.Type != "user" {
		return
	}
	p.from = f.From
	switch {
	case p.deaf:
	case p.hold:
		p.held = append(p.held, f)
		p.record["status"], p.record["waitingFor"] = "waiting", "permission prompt"
		p.save()
		p.tell(f, "held", "")
	case p.drops > 0:
		p.drops--
		p.tell(f, "dropped", "rate-limited")
	case p.recent[f.Message.Content]:
		p.tell(f, "dropped", "duplicate")
	default:
		p.recent[f.Message.Content] = true
		p.enqueue(f)
		if !p.busy {
			p.turn()
		}
	}
}

func (p *program) enqueue(f frameIn) {
	p.queue = append(p.queue, f)
	p.write(object{"type": "queue-operation", "operation": "enqueue", "content": f.Message.Content})
}

// turn gives the model the queued messages.
func (p *program) turn() {
	for _, f := range p.queue {
		origin := object{"kind": "peer", "msg_id": f.ID}
		if f.Type == "hook" {
			origin = object{"kind": "task-notification"}
		}
		p.write(object{"type": "user", "isMeta": f.Type != "hook", "origin": origin, "message": object{"content": f.Message.Content}})
		p.write(object{
			"type":    "assistant",
			"message": object{"id": f.ID, "model": "m", "usage": object{"input_tokens": 10, "output_tokens": 5}, "stop_reason": "end_turn", "content": []object{{"type": "text", "text": "done with " + f.ID}}},
		})
		p.write(object{"type": "system", "subtype": "turn_duration"})
	}
	p.queue = nil
	p.hook()
}

// hook runs the hook in the background. The hook wakes the session if it exits with 2.
func (p *program) hook() {
	if !p.Hooked {
		return
	}
	var said strings.Builder
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"=", envHook+"="+strconv.Itoa(os.Getpid()), envRoot+"="+p.Root)
	cmd.Stderr = &said // a pipe, whose reader ends with us
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "session: start the hook:", err)
		return
	}
	go func() {
		_ = cmd.Wait() // the status is all that counts
		p.mu.Lock()
		defer p.mu.Unlock()
		if cmd.ProcessState.ExitCode() != 2 {
			return
		}
		if p.lose {
			p.lose = false
			p.hook()
			return
		}
		f := frameIn{Type: "hook"}
		_, id, _ := strings.Cut(said.String(), `message-id="`)
		f.ID, _, _ = strings.Cut(id, `"`)
		f.Message.Content = "<task-notification>\n<summary>Stop hook feedback</summary>\n</task-notification>\n<system-reminder>\nStop hook blocking error from command \"Stop\": " + said.String() + "</system-reminder>"
		p.enqueue(f)
		if !p.busy {
			p.turn()
		}
	}()
}

func (p *program) tell(f frameIn, status, reason string) {
	connect(f.From, object{"type": "control", "action": "peer_message_status", "orig_msg_id": f.ID, "status": status, "drop_reason": reason, "reason": "as its person says"})
}

// tellIdle reports to the requesters that it is idle.
func (p *program) tellIdle() {
	for _, f := range p.asked {
		connect(f.From, object{"type": "control", "action": "peer_idle_notice", "orig_msg_id": f.ID, "state": "idle"})
	}
	p.asked = nil
}

// listed returns the socket of the process that is listed under a name. key is the field of its file with the socket.
func listed(root, name, key string) (socket string) {
	files, _ := filepath.Glob(filepath.Join(root, "sessions", "*.json"))
	for _, path := range files {
		var r object
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &r) == nil && r["name"] == name {
			socket, _ = r[key].(string)
			break
		}
	}
	return socket
}

func connect(to string, o object) {
	c, err := net.Dial("unix", strings.TrimPrefix(to, "uds:"))
	if err != nil {
		return
	}
	defer c.Close()
	data, _ := json.Marshal(o)
	_, _ = c.Write(append(data, '\n'))
}
