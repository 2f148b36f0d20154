// Package simacp is a simulated agent of the Agent Client Protocol, for tests. It keeps the records that real ones
// were measured to keep: the text of a prompt before its model has it, no id of the prompt, and the answer before the
// prompt is answered. A prompt that comes twice is worked on twice. It has no model: a turn does what its text says.
//
// It is the program that it is linked into, run again with an environment variable: call [Main] at the beginning of
// TestMain, and give a command [Script.Env].
//
//	SLEEP:0.5      this time passes before the prompt is recorded; a cancellation ends that
//	TOOL:0.5       calls a tool that takes this time, after that
//	ASK:execute    asks for permission to use a tool of that kind, and prints the answer; a cancellation waits for it
//	WIDEN:mode     changes its mode by itself
//	CLOSE          closes its standard output, and lives on
//	[held]         waits until a file "go" is in the State
//	FAIL           the model fails, or the turn does when it is cancelled
//
// Everything else is answered with "ACK: " and the text.
//
// It shares no code with what it tests.
package simacp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Script has the directory of an agent's files, and its faults.
type Script struct {
	State string // its sessions, and its log
	// Late records a prompt only when its model has it, as Qwen Code does.
	Late bool
	// Finishes makes it finish a turn after its standard input is closed, as Gemini CLI does. Others end at once.
	Finishes bool
	// Die are moments at which it kills itself, each once: "taken", before it has recorded a prompt; "recorded", after that;
	// "answered", when the answer is in its record, and "said", when the record says that the turn is over, and the prompt is
	// not answered. Only with a text that has Match in it.
	Die   []string
	Match string
	// Print is printed before anything else.
	Print string
	// Version is the version of the protocol; 0 is 1. NoLoad: it cannot load sessions.
	Version int
	NoLoad  bool
	// Qwen is a directory in which it also keeps Qwen Code's record; its name is then that of Qwen Code.
	Qwen string
}

const variable = "SIMACP_SCRIPT"

// Env is the entry of the environment that makes the program an agent.
func (s Script) Env() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return variable + "=" + string(data)
}

// Main runs the agent, and then ends the process, if the environment has a script. Otherwise it returns at once.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	a := &agent{cancelled: make(chan struct{}), answers: map[string]chan json.RawMessage{}, mode: "auto", model: "sonnet"}
	if err := json.Unmarshal([]byte(text), &a.Script); err != nil {
		panic(err)
	}
	fmt.Print(a.Print)
	a.log("start", "")
	a.serve()
	os.Exit(0)
}

// Entry is a line of the log.
type Entry struct {
	PID  int
	Kind string // start; read: a prompt came; work: its model has it; tool; hold; done; known modes: mode
	Text string
}

// Message is a line of the record of a session.
type Message struct{ Role, Text string }

// Log returns what agents did, in order.
func Log(state string) []Entry { return lines[Entry](filepath.Join(state, "log")) }

// Messages returns the records of all sessions.
func Messages(state string) (list []Message) {
	files, _ := filepath.Glob(filepath.Join(state, "*.jsonl"))
	for _, file := range files {
		list = append(list, lines[Message](file)...)
	}
	return list
}

func lines[T any](path string) (list []T) {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		var v T
		if json.Unmarshal([]byte(line), &v) == nil {
			list = append(list, v)
		}
	}
	return list
}

func appendLine(path string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, err = f.Write(append(data, '\n'))
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simacp:", err)
		os.Exit(2)
	}
}

type object map[string]any

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string
		Prompt    []struct{ Text string }
		ModeID    string
		ConfigID  string
		Value     string
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

type agent struct {
	Script
	writing sync.Mutex
	turns   sync.WaitGroup

	mu        sync.Mutex
	mode      string
	model     string
	cancelled chan struct{} // closed by a cancellation of the running turn
	works     bool
	asked     int
	answers   map[string]chan json.RawMessage
}

func (a *agent) log(kind, text string) {
	appendLine(filepath.Join(a.State, "log"), Entry{os.Getpid(), kind, text})
}

func (a *agent) file(session string) string {
	return filepath.Join(a.State, filepath.Base(session)+".jsonl")
}

func (a *agent) say(m object) {
	m["jsonrpc"] = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	_, _ = os.Stdout.Write(append(data, '\n'))
}

func (a *agent) update(session string, u object) {
	a.say(object{"method": "session/update", "params": object{"sessionId": session, "update": u}})
}

func chunk(kind, text string) object {
	return object{"sessionUpdate": kind, "content": object{"type": "text", "text": text}}
}

func (a *agent) serve() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if a.Finishes {
				a.turns.Wait()
			}
			return
		} else if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "" {
			a.mu.Lock()
			if c := a.answers[string(m.ID)]; c != nil {
				c <- m.Result
			}
			a.mu.Unlock()
			continue
		}
		a.serveOne(m)
	}
}

func (a *agent) serveOne(m message) {
	p := m.Params
	answer := func(result object) { a.say(object{"id": m.ID, "result": result}) }
	refuse := func(code int, text string) {
		a.say(object{"id": m.ID, "error": object{"code": code, "message": text}})
	}
	switch m.Method {
	case "initialize":
		version := 1
		if a.Version != 0 {
			version = a.Version
		}
		name := "simacp"
		if a.Qwen != "" {
			name = "qwen-code"
		}
		answer(object{"protocolVersion": version, "agentCapabilities": object{"loadSession": !a.NoLoad}, "agentInfo": object{"name": name, "version": "1"}})
	case "session/new":
		// Without a first prompt, nothing is recorded.
		answer(a.state(object{"sessionId": fmt.Sprintf("s-%d-%d", os.Getpid(), time.Now().UnixNano())}))
	case "session/load":
		list := lines[Message](a.file(p.SessionID))
		if len(list) == 0 {
			refuse(-32002, "Resource not found: "+p.SessionID)
			return
		}
		for _, said := range list {
			a.update(p.SessionID, chunk(said.Role+"_message_chunk", said.Text))
		}
		answer(a.state(object{}))
	case "session/set_mode":
		a.mu.Lock()
		a.mode = p.ModeID
		a.mu.Unlock()
		a.log("mode", p.ModeID)
		answer(object{})
	case "session/set_config_option":
		a.model = p.Value
		answer(object{"configOptions": a.options()})
	case "session/cancel":
		a.mu.Lock()
		if a.works {
			a.works = false
			close(a.cancelled)
		}
		a.mu.Unlock()
	case "session/prompt":
		a.mu.Lock()
		if a.works {
			a.mu.Unlock()
			refuse(-32603, "busy")
			return
		}
		a.works, a.cancelled = true, make(chan struct{})
		a.mu.Unlock()
		a.turns.Go(func() {
			stop := a.turn(p.SessionID, p.Prompt[0].Text)
			a.mu.Lock()
			a.works = false
			a.mu.Unlock()
			if stop == "" {
				refuse(-32603, "the model failed")
			} else {
				answer(object{"stopReason": stop, "usage": object{"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}})
			}
		})
	default:
		refuse(-32601, "no such method")
	}
}

func (a *agent) options() []object {
	return []object{{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": a.model, "options": []object{
		{"value": "sonnet", "name": "Sonnet"}, {"value": "opus", "name": "Opus"},
	}}}
}

func (a *agent) state(o object) object {
	var list []object
	for _, m := range []string{"plan", "default", "acceptEdits", "auto", "bypassPermissions"} {
		list = append(list, object{"id": m, "name": m})
	}
	o["modes"], o["configOptions"] = object{"currentModeId": a.mode, "availableModes": list}, a.options()
	return o
}

// die ends the process at a moment, once.
func (a *agent) die(moment, text string) {
	if !slices.Contains(a.Die, moment) || !strings.Contains(text, a.Match) {
		return
	}
	f, err := os.OpenFile(filepath.Join(a.State, "died-"+moment), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // it has died there before
	}
	_ = f.Close()
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(syscall.SIGKILL)
	}
	select {}
}

var (
	sleepLine = regexp.MustCompile(`(?m)^[ \t]*SLEEP:([0-9.]+)`)
	toolLine  = regexp.MustCompile(`(?m)^[ \t]*TOOL:([0-9.]+)`)
	askLine   = regexp.MustCompile(`(?m)^[ \t]*ASK:(\w+)`)
	widenLine = regexp.MustCompile(`(?m)^[ \t]*WIDEN:(\w+)`)
)

// pause waits for the time in the text, and reports whether the turn was cancelled.
func (a *agent) pause(line *regexp.Regexp, text string) bool {
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		seconds, _ := strconv.ParseFloat(m[1], 64)
		select {
		case <-time.After(time.Duration(seconds * float64(time.Second))):
		case <-a.cancelled:
			return true
		}
	}
	return false
}

// chat appends to the record of Qwen Code.
func (a *agent) chat(session string, line object) {
	if a.Qwen == "" {
		return
	}
	cwd, _ := os.Getwd()
	folder := filepath.Join(a.Qwen, "projects", regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllString(cwd, "-"), "chats")
	_ = os.MkdirAll(folder, 0o700) // on failure, the line cannot be written
	line["timestamp"] = time.Now().UTC()
	appendLine(filepath.Join(folder, session+".jsonl"), line)
}

// turn works on a prompt, and returns why it ended; empty: the model failed.
func (a *agent) turn(session, text string) string {
	a.log("read", text)
	cancelled := a.pause(sleepLine, text)
	a.die("taken", text)
	if a.Late {
		a.log("asked", text)
		a.die("asked", text)
	}
	appendLine(a.file(session), Message{"user", text})
	a.chat(session, object{"type": "user", "message": object{"parts": []object{{"text": text}}}})
	a.die("recorded", text)
	switch {
	case cancelled && strings.Contains(text, "FAIL"):
		return ""
	case cancelled:
		return "cancelled"
	}
	a.log("work", text)
	a.update(session, chunk("agent_thought_chunk", "Hm."))
	if strings.Contains(text, "[held]") {
		a.log("hold", text)
		for {
			if _, err := os.Stat(filepath.Join(a.State, "go")); err == nil {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-a.cancelled:
				return "cancelled"
			}
		}
	}
	if strings.Contains(text, "FAIL") {
		return ""
	}
	if m := widenLine.FindStringSubmatch(text); m != nil {
		a.update(session, object{"sessionUpdate": "current_mode_update", "currentModeId": m[1]})
	}
	if strings.Contains(text, "CLOSE") {
		_ = os.Stdout.Close()
		select {}
	}
	answer := "ACK: " + text
	if toolLine.MatchString(text) {
		a.update(session, object{"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "sleep", "kind": "execute", "status": "pending"})
		a.update(session, object{"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "in_progress", "rawInput": object{"command": "sleep"}})
		a.log("tool", text)
		if a.pause(toolLine, text) {
			return "cancelled"
		}
		a.update(session, object{"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"})
	}
	for i, m := range askLine.FindAllStringSubmatch(text, -1) {
		answer = "it was " + a.ask(session, fmt.Sprintf("ask%d", i), m[1])
		select {
		case <-a.cancelled:
			return "cancelled"
		default:
		}
	}
	for _, part := range []string{answer[:3], answer[3:]} {
		a.update(session, chunk("agent_message_chunk", part))
	}
	appendLine(a.file(session), Message{"agent", answer})
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	a.chat(session, object{"uuid": id, "type": "assistant", "message": object{"parts": []object{{"text": answer}}}})
	a.die("answered", text)
	a.chat(session, object{"type": "system", "subtype": "branch_checkpoint", "systemPayload": object{"assistantRecordUuid": id}})
	a.log("done", text)
	a.die("said", text)
	return "end_turn"
}

// ask asks for permission, and returns the option that was chosen.
func (a *agent) ask(session, call, kind string) string {
	a.mu.Lock()
	a.asked++
	id := strconv.Itoa(a.asked)
	c := make(chan json.RawMessage, 1)
	a.answers[id] = c
	a.mu.Unlock()
	a.say(object{"id": a.asked, "method": "session/request_permission", "params": object{
		"sessionId": session,
		"toolCall":  object{"toolCallId": call, "title": "rm -r x", "kind": kind, "status": "pending", "rawInput": object{"command": "rm -r x"}},
		"options": []object{
			{"optionId": "for-ever", "name": "Always", "kind": "allow_always"}, {"optionId": "once", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"},
		},
	}})
	var result struct {
		Outcome struct{ Outcome, OptionID string }
	}
	_ = json.Unmarshal(<-c, &result)
	status := "failed"
	if result.Outcome.OptionID == "once" {
		status = "completed"
	}
	a.update(session, object{"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status})
	return result.Outcome.Outcome + " " + result.Outcome.OptionID
}
