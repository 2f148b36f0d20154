package simchild

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/claudedir"
)

// turn runs the next frame, or all waiting ones up to a command.
func (c *child) turn() {
	frames := c.queue[:1]
	if !c.script.Mute && !slash(frames[0]) {
		for len(frames) < len(c.queue) && !slash(c.queue[len(frames)]) {
			frames = c.queue[:len(frames)+1]
		}
	}
	c.queue = c.queue[len(frames):]
	last := frames[len(frames)-1]
	var texts, uuids []string
	for _, f := range frames {
		texts, uuids = append(texts, f.text), append(uuids, f.uuid)
	}
	whole := frame{uuid: last.uuid, text: strings.Join(texts, "\n")}
	c.current = whole.text
	c.log(Entry{Kind: "begin", UUIDs: uuids, Text: whole.text, Model: c.model, Mode: c.mode})
	if slash(whole) {
		c.command(whole)
		return
	}

	for _, f := range frames[:len(frames)-1] {
		c.echo(f, false)
	}
	for _, f := range frames {
		c.lifecycle(f, "started")
	}
	c.begin(uuids)
	c.store("user", whole.uuid, object{"message": saidByUser(whole.text)})
	c.fault(Stored)
	if c.pause(sleepLine(), whole.text) || c.await(whole.text) {
		c.interrupted(whole, frames, uuids, false)
		return
	}
	c.fault(Began)
	c.echo(whole, true)
	c.fault(Echoed)
	if toolLine().MatchString(whole.text) && c.tool(whole, uuids) {
		c.interrupted(whole, frames, uuids, true)
		return
	}
	answer, stop := "ACK: "+whole.text, "end_turn"
	if i := slices.IndexFunc(c.script.Scenes, func(s Scene) bool { return strings.Contains(whole.text, s.Match) }); i >= 0 {
		answer = c.script.Scenes[i].Say
	}
	if m := askLine().FindStringSubmatch(whole.text); m != nil {
		answer = c.ask(m[1], m[2])
	}
	for _, m := range callLine().FindAllStringSubmatch(whole.text, -1) {
		answer = c.call(m[1], m[2])
	}
	if m := asksLine().FindStringSubmatch(whole.text); m != nil {
		answer = c.askAll(m[1])
	}
	if m := useLine().FindStringSubmatch(whole.text); m != nil {
		c.say(uuid.NewString(), object{"type": "tool_use", "id": "toolu_" + uuid.NewString(), "name": m[1], "input": json.RawMessage(cmp.Or(m[2], "{}"))})
	}
	if leaveLine().MatchString(whole.text) && c.mode == "plan" && c.plans && (c.member && !c.planAsked || c.ask("ExitPlanMode", "") == "allowed") {
		c.mode = "default"
		c.status()
	}
	c.failed = failLine().MatchString(whole.text)
	if c.failed {
		answer, stop = "API Error: 400 simulated", "stop_sequence"
	}
	c.log(Entry{Kind: "work", UUIDs: uuids, Text: whole.text, Mode: c.mode})
	c.fault(Worked)
	fields := object{"message": saidByModel(stop, textBlock(answer))}
	if c.failed {
		fields["isApiErrorMessage"] = true
	}
	id := uuid.NewString()
	c.store("assistant", id, fields)
	c.fault(Finished)
	if !c.script.Mute {
		c.say(id, textBlock(answer))
	}
	reason, state := "completed", "completed"
	if c.failed {
		reason, state = "api_error", "cancelled"
	}
	c.result(uuids, object{"subtype": "success", "is_error": c.failed, "result": answer, "stop_reason": stop}, reason)
	c.fault(Answered)
	for _, f := range frames {
		c.lifecycle(f, state)
	}
	c.fault(Ended)
}

func slash(f frame) bool { return strings.HasPrefix(strings.TrimSpace(f.text), "/") }

// command runs a turn of a text that begins with "/".
func (c *child) command(f frame) {
	c.lifecycle(f, "started")
	name, _, _ := strings.Cut(strings.TrimSpace(f.text), " ")
	answer := ""
	switch {
	case name == "/compact":
		c.compact()
	case name == "/clear":
		c.memory = c.another()
	default:
		answer = "Unknown skill: " + strings.TrimPrefix(name, "/")
	}
	c.begin([]string{f.uuid})
	c.fault(Began)
	c.store("user", f.uuid, object{"turnAttributionKey": f.uuid, "message": saidByUser("<command-name>" + name + "</command-name>")})
	c.store("system", uuid.NewString(), object{"subtype": "local_command", "content": "<local-command-stdout>" + answer + "</local-command-stdout>"})
	c.echo(f, true)
	c.log(Entry{Kind: "work", UUIDs: []string{f.uuid}, Text: f.text})
	c.failed = false
	c.result([]string{f.uuid}, object{"subtype": "success", "is_error": false, "result": answer, "stop_reason": nil}, "")
	c.lifecycle(f, "completed")
	c.fault(Ended)
}

// compact puts a boundary and a summary into the transcript. Known frames stay known.
func (c *child) compact() {
	before := c.memory.last
	c.store("system", uuid.NewString(), object{"subtype": "compact_boundary", "parentUuid": nil, "logicalParentUuid": before})
	c.store("user", uuid.NewString(), object{"isCompactSummary": true,
		"message": saidByUser("This session is being continued from a previous conversation.")})
}

func (c *child) begin(uuids []string) {
	if c.script.Mute {
		return
	}
	c.print(object{"type": "system", "subtype": "init", "session_id": c.memory.session, "model": c.model, "user_message_uuids": uuids,
		"permissionMode": c.mode, "agents": agents(), "claude_code_version": c.script.Version.String(), "uuid": uuid.NewString()})
}

var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^name: (.+)$`) })

// agents returns the names of the profiles in the working directory and in that of the user, and of a built-in one.
func agents() []string {
	found := []string{"general-purpose"}
	for _, dir := range []string{".claude", os.Getenv("CLAUDE_CONFIG_DIR")} {
		files, _ := filepath.Glob(filepath.Join(dir, "agents", "*.md")) // the pattern is valid
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				if m := agentName().FindSubmatch(data); m != nil {
					found = append(found, string(m[1]))
				}
			}
		}
	}
	return found
}

// tool calls a tool that takes the time in the text. It reports whether the turn was interrupted meanwhile.
func (c *child) tool(f frame, uuids []string) bool {
	call := c.use("Bash", object{"command": "sleep"})
	c.log(Entry{Kind: "tool", UUIDs: uuids, Text: f.text})
	c.fault(Called)
	if c.pause(toolLine(), f.text) {
		return true
	}
	c.used(call, "done", "")
	return false
}

// call calls a tool with an input, a JSON object, if it is allowed to. One with a key "fails" fails.
func (c *child) call(tool, with string) (answer string) {
	input := object{}
	if err := json.Unmarshal([]byte(with), &input); with != "" && err != nil {
		return "CALL: " + err.Error()
	}
	id := c.use(tool, input)
	answer = c.question(tool, input, object{"tool_use_id": id})
	switch reason, denied := strings.CutPrefix(answer, "denied: "); {
	case denied && c.inOver:
		c.used(id, "Tool permission request failed: Error: Tool permission stream closed before response received", "permission-rule")
	case denied:
		c.used(id, reason, "permission-rule")
	case input["fails"] != nil:
		c.used(id, "Exit code 1", "error")
	default:
		c.used(id, "done", "")
	}
	return answer
}

// use prints that a tool is called, and returns the id of the call.
func (c *child) use(tool string, input object) (call string) {
	use, call := uuid.NewString(), "toolu_"+uuid.NewString()
	block := object{"type": "tool_use", "id": call, "name": tool, "input": input}
	c.store("assistant", use, object{"message": saidByModel("tool_use", block)})
	if !c.script.Mute {
		c.say(use, block)
	}
	return call
}

// used prints the result of a call. failure is empty, "error", or the mark of a denial.
func (c *child) used(call, result, failure string) {
	block := object{"type": "tool_result", "tool_use_id": call, "content": result}
	kept, printed := object{}, object{}
	if failure != "" {
		block["is_error"] = true
	}
	if failure != "" && failure != "error" {
		kept["toolDenialKind"] = failure
		printed["tool_result_meta"] = []object{{"id": call, "non_execution_kind": failure}}
	}
	id, message := uuid.NewString(), saidByUser([]object{block})
	kept["message"] = message
	c.store("user", id, kept)
	if !c.script.Mute {
		printed["type"], printed["uuid"], printed["session_id"], printed["message"] = "user", id, c.memory.session, message
		c.print(printed)
	}
}

// interrupted ends a stopped turn: before the model's first output, or after the frame was echoed.
func (c *child) interrupted(whole frame, frames []frame, uuids []string, echoed bool) {
	if !echoed {
		c.echo(whole, true)
	}
	id, note := uuid.NewString(), saidByUser([]object{textBlock(interruption)})
	c.store("user", id, object{"message": note})
	if !c.script.Mute {
		c.print(object{"type": "user", "uuid": id, "session_id": c.memory.session, "timestamp": claudedir.Now(),
			"message": note})
	}
	c.failed = false
	c.result(uuids, object{"subtype": "error_during_execution", "is_error": true, "stop_reason": nil}, "aborted_streaming")
	for _, f := range frames {
		c.lifecycle(f, "cancelled")
	}
	c.fault(Ended)
}

// ask asks whether a tool may be used with an input, a JSON object, and waits for the answer. An empty input is
// replaced by one for the tool.
func (c *child) ask(tool, with string) string {
	request, input := object{}, object{"command": "echo hi"}
	switch tool {
	case "AskUserQuestion":
		input = object{"questions": []object{{"question": "Which colour?", "header": "Colour", "multiSelect": false,
			"options": []object{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}}}}}
	case "ExitPlanMode":
		input = object{"plan": "# Plan\n1. echo hi\n"}
	default:
		request["description"], request["blocked_path"] = "say hi", "/hi"
		request["permission_suggestions"] = []object{
			{"type": "addRules", "rules": []object{{"toolName": tool, "ruleContent": "echo *"}}, "behavior": "allow", "destination": "localSettings"},
			{"type": "setMode", "mode": "acceptEdits", "destination": "session"}}
	}
	if with != "" {
		input = nil // not to be merged with
		if err := json.Unmarshal([]byte(with), &input); err != nil {
			return "ASK: " + err.Error()
		}
	}
	return c.question(tool, input, request)
}

// question asks whether a tool may be used with an input, and waits for the answer. request
// has the other fields of the question.
func (c *child) question(tool string, input, request object) string {
	c.asks++
	id := "ask-" + strconv.Itoa(c.asks)
	request["subtype"], request["tool_name"], request["display_name"] = "can_use_tool", tool, tool
	if request["input"] = input; request["tool_use_id"] == nil {
		request["tool_use_id"] = "toolu_" + id
	}
	c.print(object{"type": "control_request", "request_id": id, "request": request})
	answer := "denied: stdin was closed"
	for !c.inOver {
		if _, answered := c.next(nil, func(l received) bool {
			if l.Response.RequestID != id {
				return false
			}
			r := l.Response.Response
			answer = "denied: " + r.Message
			if r.Behavior == "allow" {
				answer = "allowed"
				if answers := r.Input["answers"]; answers != nil {
					answer += fmt.Sprint(", answered ", answers)
					delete(r.Input, "answers")
				}
				if got, want := fmt.Sprint(r.Input), fmt.Sprint(plain(input)); got != want {
					answer += ", with another input: " + got
				}
				if r.Updates != nil {
					answer += ", with " + string(r.Updates)
				}
			}
			return true
		}); answered {
			break
		}
	}
	return answer
}

// plain returns o as it is after it was written and read again.
func plain(o object) (read object) {
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil { // it is made of strings, lists and objects
		panic(err)
	}
	return read
}

// askAll asks n questions at once, each with 2 KiB of input, and reads nothing before that.
func (c *child) askAll(n string) string {
	count, _ := strconv.Atoi(n) // digits
	for range count {
		c.asks++
		id := "ask-" + strconv.Itoa(c.asks)
		c.print(object{"type": "control_request", "request_id": id, "request": object{
			"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "toolu_" + id,
			"input": object{"command": strings.Repeat("x", 2<<10)}}})
	}
	answered := 0
	for answered < count && !c.inOver {
		if _, answer := c.next(nil, func(l received) bool { return l.Type == "control_response" }); answer {
			answered++
		}
	}
	return strconv.Itoa(answered) + " answers"
}

// echo prints a frame back: with a timestamp when its turn has begun, without one if it is known. One that begins with a
// teammate's message is not printed when its turn begins.
func (c *child) echo(f frame, begun bool) {
	if c.script.Mute {
		return
	}
	if begun && f.uuid != "" {
		// It is known from now on, printed or not.
		c.check(c.memory.echoed(f.uuid))
	}
	if begun && strings.HasPrefix(f.text, "<teammate-message") {
		return
	}
	line := object{"type": "user", "isReplay": true, "uuid": f.uuid, "session_id": c.memory.session, "parent_tool_use_id": nil,
		"message": saidByUser(f.text)}
	if begun {
		line["timestamp"] = claudedir.Now()
	}
	c.print(line)
}

func (c *child) lifecycle(f frame, state string) {
	if c.script.Mute {
		return
	}
	c.print(object{"type": "command_lifecycle", "command_uuid": f.uuid, "state": state, "uuid": uuid.NewString(), "session_id": c.memory.session})
}

func (c *child) result(uuids []string, fields object, reason string) {
	line := object{"type": "result", "session_id": c.memory.session, "uuid": uuid.NewString(), "num_turns": 1}
	maps.Copy(line, fields)
	if !c.script.Mute {
		line["user_message_uuids"] = uuids
		if reason != "" {
			line["terminal_reason"] = reason
		}
	}
	c.print(line)
}

// say prints a block of the model's output.
func (c *child) say(id string, block object) {
	c.print(object{"type": "assistant", "uuid": id, "session_id": c.memory.session, "parent_tool_use_id": nil, "message": saidByModel(nil, block)})
}

// textOf returns the text of a content: a string, or the texts of a list of blocks.
func textOf(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}
