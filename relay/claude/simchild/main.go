package simchild

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Main is the simulated child if the environment says so, and then ends the process. Else it returns at once. It belongs
// at the beginning of TestMain, or of main.
func Main() {
	data, ok := os.LookupEnv(Variable)
	if !ok {
		return
	}
	script, err := ParseScript(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if slices.Contains(os.Args, "--version") {
		fmt.Println(script.Version, "(simulated)")
		os.Exit(0)
	}
	// The real ones go on, and finish their turn, when nobody reads their output any more.
	signal.Ignore(syscall.SIGPIPE)
	if script.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	os.Exit(run(script, os.Args[1:]))
}

// child is a running one. Its main goroutine owns everything but reading.
type child struct {
	script    Script
	kind      kind
	memory    *Memory
	model     string
	mode      string
	member    bool // it has the identity of a member of a team
	plans     bool // it has the tool that ends plan mode
	planAsked bool // its settings say that it asks about that tool

	in      chan []byte // lines; closed at the end of stdin
	deaf    context.Context
	deafen  context.CancelFunc
	inOver  bool
	queue   []frame
	asks    int
	failed  bool   // the last turn had an error
	current string // the text of the turn, for faults
}

type frame struct {
	uuid, text string
}

// stopped is the exit code of a child that must end now; it is thrown as a panic and caught in run.
type stopped int

func run(script Script, args []string) (code int) {
	c := &child{script: script, kind: kindOf(script.Version), model: "sim-model", mode: "default", plans: true, in: make(chan []byte)}
	if !c.kind.late {
		c.model = "sim-model-1"
	}
	session, resume := "", false
	for i := 0; i < len(args); i++ {
		name, value, inside := strings.Cut(args[i], "=")
		if !inside && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--session-id":
			session = value
		case "--resume", "-r":
			session, resume = value, true
		case "--model":
			if value != "default" {
				c.model = value
			}
		case "--permission-mode":
			c.mode = value
		case "--agent-id":
			c.member = true
		case "--settings":
			c.planAsked = strings.Contains(value, `"ExitPlanMode"`)
		case "--disallowedTools":
			c.plans = c.plans && !slices.Contains(strings.Split(value, ","), "ExitPlanMode")
		}
	}
	if script.Mode != "" {
		c.mode = script.Mode
	}
	if session == "" {
		session = uuid.NewString()
	}
	m, found, err := remember(script.State, session, c.kind)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "simchild:", err)
		return 2
	case script.Mute:
	case resume && m.last == "": // nothing is in it, perhaps because its process was killed
		if !c.kind.late {
			c.print(object{"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": session,
				"errors": []string{"No conversation found with session ID: " + session}})
		}
		fmt.Fprintln(os.Stderr, "No conversation found with session ID: "+session)
		return 1
	case !resume && found:
		fmt.Fprintln(os.Stderr, "Error: Session ID "+session+" is already in use.")
		return 1
	}
	c.memory = m
	c.log(Entry{Kind: "start"})
	defer func() {
		switch stop := recover().(type) {
		case nil:
		case stopped:
			code = int(stop)
		default:
			panic(stop)
		}
		c.log(Entry{Kind: "exit"})
	}()
	c.deaf, c.deafen = context.WithCancel(context.Background())
	defer c.deafen()
	c.fault(Start)

	go c.read(os.Stdin)
	for !c.inOver || len(c.queue) > 0 {
		if len(c.queue) == 0 {
			c.wait(nil, nil)
			continue
		}
		// What was written together has arrived together, as far as the pipe had it.
		c.drain()
		c.turn()
	}
	if c.failed {
		return 1
	}
	return 0
}

// read hands lines on until the end of stdin, or until the child is deaf.
func (c *child) read(stdin io.Reader) {
	defer close(c.in)
	lines := bufio.NewReader(stdin)
	for c.deaf.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			select {
			case c.in <- line:
			case <-c.deaf.Done():
			}
		}
		if err != nil {
			return
		}
	}
	forever() // not at its end, only unread
}

// wait takes one line, or returns true when the timer or the answer comes first.
func (c *child) wait(timer <-chan time.Time, stop func(line []byte) bool) (timeout, stopped bool) {
	in := c.in
	if c.inOver {
		in = nil
	}
	select {
	case line, ok := <-in:
		if !ok {
			c.inOver = true
			return false, false
		}
		if stop != nil && stop(line) {
			return false, true
		}
		c.take(line)
	case <-timer:
		return true, false
	}
	return false, false
}

// drain takes what is there without waiting for more.
func (c *child) drain() {
	for {
		select {
		case line, ok := <-c.in:
			if !ok {
				c.inOver = true
				return
			}
			c.take(line)
		default:
			return
		}
	}
}

// take does with a line what does not need a turn.
func (c *child) take(line []byte) {
	var l struct {
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
	}
	if c.kind.late && len(strings.TrimSpace(string(line))) == 0 {
		return
	}
	if err := json.Unmarshal(line, &l); err != nil {
		fmt.Fprintf(os.Stderr, "Error parsing streaming input line: %s: %v\n", line, err)
		panic(stopped(1))
	}
	switch l.Type {
	case "user":
		f := frame{uuid: l.UUID, text: textOf(l.Message.Content)}
		c.current = f.text
		c.log(Entry{Kind: "read", UUIDs: []string{f.uuid}, Text: f.text})
		c.fault(Read)
		switch {
		case c.script.Mute:
		case f.uuid != "" && c.memory.known[f.uuid]:
			c.echo(f, false)
			if !c.memory.known["here:"+f.uuid] {
				c.lifecycle(f, "completed") // only of one that an earlier process took
			}
			return
		default:
			c.lifecycle(f, "queued")
		}
		if f.uuid != "" {
			c.memory.known[f.uuid], c.memory.known["here:"+f.uuid] = true, true
		}
		c.queue = append(c.queue, f)
	case "control_request":
		body := object{}
		switch l.Request.Subtype {
		case "interrupt": // nothing runs
			if c.kind.listsQueued {
				body["still_queued"] = []string{}
			}
		case "set_model":
			c.model = l.Request.Model
			c.print(object{"type": "user", "isReplay": true, "uuid": uuid.NewString(), "session_id": c.memory.session,
				"timestamp": time.Now().UTC().Format(stamp),
				"message":   object{"role": "user", "content": "<local-command-stdout>Set model to " + c.model + "</local-command-stdout>"}})
			if c.kind.namesModel {
				body["model"] = c.model
			}
		case "set_permission_mode":
			if slices.Contains(c.script.Refuse, l.Request.Mode) {
				c.print(object{"type": "control_response", "response": object{"subtype": "error", "request_id": l.RequestID,
					"error": "Invalid permission mode: " + l.Request.Mode}})
				return
			}
			c.mode = l.Request.Mode
			body["mode"] = c.mode
			c.current = c.mode
			c.fault(Changed)
			defer c.status()
		default:
			c.print(object{"type": "control_response", "response": object{"subtype": "error", "request_id": l.RequestID,
				"error": "Unsupported control request subtype: " + l.Request.Subtype}})
			return
		}
		c.respond(l.RequestID, body)
	}
}

// status tells the permission mode, when that has changed.
func (c *child) status() {
	c.print(object{"type": "system", "subtype": "status", "status": nil, "permissionMode": c.mode, "session_id": c.memory.session})
}

func (c *child) respond(id string, body object) {
	response := object{"subtype": "success", "request_id": id}
	if len(body) > 0 {
		response["response"] = body
	}
	c.print(object{"type": "control_response", "response": response})
}

func (c *child) print(line object) {
	data, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simchild:", err)
		return
	}
	// Nobody reading is no reason to stop.
	_, _ = os.Stdout.Write(append(data, '\n'))
}

func (c *child) log(e Entry) {
	e.Session = c.memory.session
	if err := Append(c.script.State, e); err != nil {
		fmt.Fprintln(os.Stderr, "simchild:", err)
	}
}

// fault does what goes wrong at a point.
func (c *child) fault(at Point) {
	for i, f := range c.script.Faults {
		if f.At != at || !strings.Contains(c.current, f.Match) || !c.script.strike(i) {
			continue
		}
		switch f.Do {
		case Die:
			die()
		case Exit:
			fmt.Fprintln(os.Stderr, "simchild: told to exit at", at)
			panic(stopped(1))
		case Hang:
			if c.deafen != nil {
				c.deafen()
			}
			forever()
		case Deaf:
			c.deafen()
		case Flood:
			filler := strings.Repeat("x", 1000)
			for n := 0; n < f.Size; n += len(filler) {
				c.print(object{"type": "noise", "filler": filler})
			}
		case Noise:
			fmt.Println("this is no JSON")
			fmt.Println(`["neither an object"]`)
			c.print(object{"type": "noise", "filler": strings.Repeat("x", f.Size)})
		case Widen:
			c.mode = "bypassPermissions"
			c.status()
		case Hold:
			c.log(Entry{Kind: "hold", Text: c.current})
			c.until(f.Name)
		case Task:
			id, text := "task-"+strconv.Itoa(i), c.current
			task := func(subtype string) {
				c.print(object{"type": "system", "subtype": subtype, "task_id": id, "task_type": "local_bash", "session_id": c.memory.session})
			}
			task("task_started")
			go func() {
				c.until(f.Name)
				// A real one tells of the task right before its turn. An agent that may
				// be idle for no time at all would be ended in between.
				c.begin([]string{})
				task("task_notification")
				c.until(f.Name + ".end")
				c.unasked(text)
			}()
		case Other:
			c.begin([]string{})
			c.unasked(c.current)
		case Torn:
			fmt.Print(`{"type":"result","subtype":"succ`)
			die()
		}
	}
}

// until waits until the file of that name is in the State.
func (c *child) until(name string) {
	for {
		if _, err := os.Stat(filepath.Join(c.script.State, name)); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// unasked prints the answer of a turn that nobody asked for.
func (c *child) unasked(text string) {
	c.print(object{"type": "assistant", "uuid": uuid.NewString(), "session_id": c.memory.session, "parent_tool_use_id": nil,
		"message": object{"role": "assistant", "stop_reason": nil, "content": []object{{"type": "text", "text": "ACK: " + text}}}})
	c.result([]string{}, object{"subtype": "success", "is_error": false, "result": "ACK: " + text, "stop_reason": "end_turn"}, "completed")
}

// die is kill -9 of oneself, which returns before it has worked.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	forever()
}

// forever waits in a way that the runtime does not take for a deadlock, which it would end.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
