package simsession

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/qwen"
	"teambridge/relay/relaytest/claudedir"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams/transcript"
)

// The tokens that a session of Qwen Code takes: that of its file, that of its children, and that of a controller.
const (
	QwenToken      = "peer"
	QwenChild      = "child"
	QwenController = "controller"
)

// StartQwen starts a session of Qwen Code in a directory. Its orders: "busy", "idle"; "hold" asks its person about
// messages with the token of its file; "allow" and "deny" answer; "drop" drops the next message; "move" counts it to
// the last conversation; "deaf" drops all until "usual"; "fail" makes the API fail until "usual", with retries;
// "clear" changes its id; "exit" begins its end, as by its person; "write NAME TEXT" writes to that name.
func StartQwen(t testing.TB, home, id string) *Session {
	t.Helper()
	return start(t, &Process{Root: home, ID: id, Name: Name, Qwen: true})
}

// qwenTexts is [Process.Texts] for a session of Qwen Code.
func qwenTexts(home string) (texts []string, err error) {
	paths, err := filepath.Glob(filepath.Join(home, "projects", "*", "chats", "*.jsonl"))
	for _, path := range paths {
		tail := transcript.Tail{Path: path}
		for line, lerr := range tail.Lines() {
			if lerr != nil {
				return nil, lerr
			}
			if e, ok := qwen.Parse(line); ok && e.Kind == qwen.Mail {
				text, _, _ := strings.Cut(e.Text, "\n</cross_session_message>")
				_, text, _ = strings.Cut(text, "] ")
				texts = append(texts, text)
			}
		}
	}
	return texts, err
}

// qwenProgram is the process of a session of Qwen Code.
type qwenProgram struct {
	mu sync.Mutex
	Process
	record  object
	path    string
	queue   []qwenIn
	held    []qwenIn
	settled map[string]string // the last notice of an id
	busy    bool
	hold    bool
	deaf    bool
	fails   bool
	drops   int
	moved   bool
	ending  bool
}

type qwenIn struct {
	ID      string `json:"msgId"`
	Type    string
	From    string
	Name    string `json:"fromName"`
	To      string `json:"toSessionId"`
	Token   string
	Message struct{ Content string }
}

// runQwen begins the session, and returns the function that obeys orders.
func runQwen(process Process) (obey func(string) error, err error) {
	self, err := simagent.CurrentProcess()
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	var space uint64
	if _, err := fmt.Sscanf(self.Space[strings.LastIndexByte(self.Space, '#')+1:], "pid:[%d]", &space); err != nil {
		return nil, err
	}
	p := &qwenProgram{Process: process, path: claudedir.ProcessFile(process.Root), settled: map[string]string{}}
	socket := filepath.Join(p.Dir(), "qwen-socks", fmt.Sprint(self.PID)+".sock")
	p.record = object{
		"schemaVersion": 1, "pid": self.PID, "procStart": strings.TrimSpace(string(boot)) + ":" + self.Start, "pidNs": space, "sessionId": p.ID, "cwd": p.Dir(),
		"name": p.Name, "startedAt": time.Now().UnixMilli(), "qwenVersion": "0.24.4", "kind": "tui", "ipcPath": socket, "ipcToken": QwenToken,
	}
	for _, d := range []string{filepath.Dir(socket), filepath.Dir(p.path)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := claudedir.Serve(socket, p.take); err != nil {
		return nil, err
	}
	return p.obey, p.save()
}

var strange = regexp.MustCompile(`[^a-zA-Z0-9]`)

func (p *qwenProgram) chat() string {
	return filepath.Join(p.Root, "projects", strange.ReplaceAllString(p.Dir(), "-"), "chats", fmt.Sprint(p.record["sessionId"])+".jsonl")
}

func (p *qwenProgram) save() error {
	data, err := json.Marshal(p.record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.path+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(p.path+".tmp", p.path)
}

func (p *qwenProgram) write(o object) {
	o["timestamp"] = time.Now().UTC()
	_ = claudedir.Append(p.chat(), o)
}

func said(text string) object { return object{"parts": []object{{"text": text}}} }

func (p *qwenProgram) obey(line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest, ok := strings.CutPrefix(line, "write "); ok {
		name, text, _ := strings.Cut(rest, " ")
		connect(listed(p.Root, name, "ipcPath"), object{
			"msgV": 1, "msgId": "5a000000-0000-4000-8000-" + fmt.Sprintf("%012x", len(text)), "type": "user", "from": p.record["ipcPath"], "fromName": p.record["name"],
			"message": object{"role": "user", "content": text},
		})
		return nil
	}
	switch line {
	case "busy":
		p.busy = true
		p.write(object{"type": "user", "provenance": "real_user", "message": said("a prompt")})
	case "idle":
		if p.busy {
			p.write(object{"type": "assistant", "message": said("done")})
		}
		p.busy = false
		p.turn()
	case "hold":
		p.hold = true
	case "allow", "deny":
		for _, f := range p.held {
			if line == "allow" {
				p.say(f, "delivered", "")
				p.queue = append(p.queue, f)
			} else {
				p.say(f, "denied", "")
			}
		}
		p.held, p.hold = nil, false
		p.turn()
	case "drop":
		p.drops = 1
	case "move":
		p.moved = true
	case "deaf":
		p.deaf = true
	case "fail":
		p.fails = true
	case "usual":
		p.deaf, p.fails = false, false
		p.turn()
	case "clear":
		p.record["sessionId"] = "5e55104e-0000-4000-8000-00000000000c"
		return p.save()
	case "exit":
		for _, f := range append(p.queue, p.held...) {
			p.say(f, "expired", "")
		}
		p.ending = true
	}
	return nil
}

func (p *qwenProgram) take(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var auth, f qwenIn
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &auth) != nil || json.Unmarshal([]byte(lines[1]), &f) != nil || f.Type != "user" || p.deaf {
		return
	}
	if auth.Token != QwenToken && auth.Token != QwenChild && auth.Token != QwenController {
		return
	}
	switch was := p.settled[f.ID]; {
	case p.drops > 0:
		p.drops--
		connect(f.From, object{"type": "control", "action": "delivery_status", "status": "dropped", "dropReason": "rate-limited", "droppedMsgIds": []string{f.ID}})
	case p.ending:
		p.say(f, "expired", "")
	case was != "":
		p.say(f, was, "")
	case f.To != p.record["sessionId"], p.moved:
		p.moved = false
		p.say(f, "misaddressed", "")
	case p.hold && auth.Token == QwenToken:
		p.held = append(p.held, f)
		p.say(f, "held", "")
	default:
		p.say(f, "delivered", "")
		p.queue = append(p.queue, f)
		p.turn()
	}
}

// turn gives the model the queued messages, unless it is busy: one in a turn.
func (p *qwenProgram) turn() {
	for len(p.queue) > 0 && !p.busy {
		f := p.queue[0]
		for range 3 {
			text := fmt.Sprintf("<cross_session_message from=%q name=%q>\n%s\n</cross_session_message>\n\nThis came from another session.", f.From, f.Name,
				strings.ReplaceAll(f.Message.Content, "<", "&lt;"))
			p.write(object{"type": "user", "provenance": "system", "subtype": "notification", "message": said(text)})
			if !p.fails {
				break
			}
			p.write(object{"type": "system", "subtype": "ui_telemetry", "systemPayload": object{"uiEvent": object{"event.name": "qwen-code.api_error"}}})
		}
		if p.fails {
			return
		}
		p.write(object{"type": "assistant", "message": object{"parts": []object{{"text": "thinking", "thought": true}, {"text": "done with " + f.ID}}}})
		p.queue = p.queue[1:]
	}
}

func (p *qwenProgram) say(f qwenIn, status, reason string) {
	p.settled[f.ID] = status
	connect(f.From, object{"type": "control", "action": "delivery_status", "status": status, "origMsgId": f.ID, "reason": reason})
}
