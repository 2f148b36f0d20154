package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"teambridge/teams/transcript"
)

// version is the version of Claude Code that the agents report.
const version = "2.1.332"

// scene is a scripted turn of the playground's lead: it calls tools in order and then writes a text. The tools do
// nothing.
type scene struct {
	match  string // texts that start it; "": all
	calls  []call
	say    string
	denied string // the text after a call that was not allowed; the reason follows
}

type call struct {
	tool   string
	input  object
	result string
	rule   string // a rule for the session, which its request for permission offers; "": no request
}

// lead is a headless agent that speaks Claude Code's stream-json. It repeats each message, or plays a scene
// if one matches.
type lead struct {
	scenes  []scene
	session string
	path    string // the transcript's
	model   string
	mode    string // the permission mode
	last    any    // uuid of the last record in the transcript
	in      *bufio.Reader
	queue   []frame
	answer  *control // to the last question
	asked   int
	err     error // the first error of the transcript
}

type frame struct{ id, text string }

// control is a line of stdin.
type control struct {
	Type    string `json:"type"`
	UUID    string `json:"uuid"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
		Model   string `json:"model"`
		Mode    string `json:"mode"`
	} `json:"request"`
	Response struct {
		RequestID string `json:"request_id"`
		Response  struct {
			Behavior string `json:"behavior"`
			Message  string `json:"message"`
		} `json:"response"`
	} `json:"response"`
}

// playLead plays the lead, until the end of stdin.
func playLead(claude string, scenes []scene) (err error) {
	if slices.Contains(os.Args, "--version") {
		fmt.Println(version, "(simulated)")
		return nil
	}
	l := &lead{scenes: scenes, session: uuid.NewString(), model: "sim-model", mode: "default", in: bufio.NewReader(os.Stdin)}
	for i, arg := range os.Args[:len(os.Args)-1] {
		switch value := os.Args[i+1]; arg {
		case "--session-id", "--resume":
			l.session = value
		case "--permission-mode":
			l.mode = value
		case "--model":
			l.model = value
		}
	}
	if l.path, err = transcriptOf(claude, l.session); err != nil {
		return err
	}
	for l.read() {
		for len(l.queue) > 0 && l.err == nil {
			f := l.queue[0]
			l.queue = l.queue[1:]
			l.turn(f)
		}
	}
	return l.err
}

// read reads a line of stdin, and reports whether there was one.
func (l *lead) read() bool {
	line, err := l.in.ReadBytes('\n')
	if err != nil || l.err != nil {
		return false
	}
	var c control
	if err := json.Unmarshal(line, &c); err != nil {
		return true
	}
	switch c.Type {
	case "user":
		l.queue = append(l.queue, frame{c.UUID, transcript.Texts(c.Message.Content, "\n")})
		l.lifecycle(c.UUID, "queued")
	case "control_request":
		l.obey(c)
	case "control_response":
		l.answer = &c
	}
	return true
}

func (l *lead) obey(c control) {
	response, body := object{"subtype": "success", "request_id": c.RequestID}, object{}
	switch c.Request.Subtype {
	case "interrupt":
		body["still_queued"] = []string{}
	case "set_model":
		l.model = c.Request.Model
		body["model"] = l.model
	case "set_permission_mode":
		l.mode = c.Request.Mode
		body["mode"] = l.mode
	default:
		response["subtype"], response["error"] = "error", "Unsupported control request subtype: "+c.Request.Subtype
	}
	response["response"] = body
	l.print("control_response", object{"response": response})
	if c.Request.Subtype == "set_permission_mode" {
		l.print("system", object{"subtype": "status", "status": nil, "permissionMode": l.mode})
	}
}

func (l *lead) turn(f frame) {
	l.lifecycle(f.id, "started")
	l.print("system", object{
		"subtype": "init", "model": l.model, "permissionMode": l.mode, "agents": []string{"general-purpose"}, "claude_code_version": version,
		"user_message_uuids": []string{f.id}, "uuid": uuid.NewString(),
	})
	l.keep("user", f.id, object{"message": saidByUser(f.text)})
	if !strings.HasPrefix(f.text, "<teammate-message") { // Claude Code does not echo these
		l.print("user", object{"isReplay": true, "uuid": f.id, "parent_tool_use_id": nil, "timestamp": now(), "message": saidByUser(f.text)})
	}
	answer := "ACK: " + f.text
	if i := slices.IndexFunc(l.scenes, func(s scene) bool { return strings.Contains(f.text, s.match) }); i >= 0 {
		answer = l.play(l.scenes[i])
	}
	l.says("end_turn", object{"type": "text", "text": answer})
	l.print("result", object{
		"subtype": "success", "is_error": false, "result": answer, "stop_reason": "end_turn", "num_turns": 1, "terminal_reason": "completed",
		"user_message_uuids": []string{f.id}, "uuid": uuid.NewString(),
	})
	l.lifecycle(f.id, "completed")
}

// play calls the tools of a scene, and returns its closing text.
func (l *lead) play(s scene) string {
	for _, c := range s.calls {
		id := "toolu_" + uuid.NewString()
		l.says("tool_use", object{"type": "tool_use", "id": id, "name": c.tool, "input": c.input})
		result := object{"type": "tool_result", "tool_use_id": id, "content": c.result}
		kept, printed := object{}, object{}
		reason, allowed := "", true
		if c.rule != "" {
			if reason, allowed = l.ask(c, id); !allowed {
				result["content"], result["is_error"] = reason, true
				kept["toolDenialKind"] = "permission-rule"
				printed["tool_result_meta"] = []object{{"id": id, "non_execution_kind": "permission-rule"}}
			}
		}
		message := saidByUser([]object{result})
		kept["message"], printed["message"], printed["uuid"] = message, message, uuid.NewString()
		l.keep("user", printed["uuid"].(string), kept)
		l.print("user", printed)
		if !allowed {
			return s.denied + " " + reason
		}
	}
	return s.say
}

// ask requests permission for a tool, and waits for the answer.
func (l *lead) ask(c call, id string) (reason string, allowed bool) {
	l.asked++
	request := "ask-" + strconv.Itoa(l.asked)
	l.print("control_request", object{"request_id": request, "request": object{
		"subtype": "can_use_tool", "tool_name": c.tool, "display_name": c.tool, "input": c.input, "tool_use_id": id,
		"permission_suggestions": []object{{
			"type": "addRules", "behavior": "allow", "destination": "session", "rules": []object{{"toolName": c.tool, "ruleContent": c.rule}},
		}},
	}})
	for l.answer = nil; l.answer == nil || l.answer.Response.RequestID != request; {
		if !l.read() {
			return "stdin was closed", false
		}
	}
	r := l.answer.Response.Response
	return r.Message, r.Behavior == "allow"
}

// says prints a text of the model, and records it.
func (l *lead) says(stop string, block object) {
	id := uuid.NewString()
	message := func(stop any) object {
		return object{"role": "assistant", "stop_reason": stop, "content": []object{block}}
	}
	l.keep("assistant", id, object{"message": message(stop)})
	l.print("assistant", object{"uuid": id, "parent_tool_use_id": nil, "message": message(nil)})
}

func saidByUser(content any) object { return object{"role": "user", "content": content} }

func (l *lead) lifecycle(frame, state string) {
	l.print("command_lifecycle", object{"command_uuid": frame, "state": state, "uuid": uuid.NewString()})
}

func (l *lead) print(kind string, line object) {
	line["type"], line["session_id"] = kind, l.session
	_, _ = os.Stdout.Write(append(encoded(line), '\n')) // the lead continues without a reader
}

// keep appends a record to the transcript.
func (l *lead) keep(kind, id string, record object) {
	record["parentUuid"], l.last = l.last, id
	record["type"], record["uuid"], record["sessionId"], record["timestamp"], record["isSidechain"] = kind, id, l.session, now(), false
	if err := appendTo(l.path, record); l.err == nil {
		l.err = err
	}
}
