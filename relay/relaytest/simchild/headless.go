package simchild

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/claudedir"
)

// child is a headless program. Its main goroutine does everything except reading.
type child struct {
	program
	model     string
	member    bool // it has the identity of a member of a team
	plans     bool // it has the tool that ends plan mode
	planAsked bool // its settings make it ask about that tool

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

// received has the used fields of a line.
type received struct {
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
			Behavior string          `json:"behavior"`
			Message  string          `json:"message"`
			Input    object          `json:"updatedInput"`
			Updates  json.RawMessage `json:"updatedPermissions"`
		} `json:"response"`
	} `json:"response"`
}

func runHeadless(script Script, args []string) int {
	c := &child{program: program{script: script}, model: "sim-model", plans: true, in: make(chan []byte)}
	c.wait = func(timer <-chan time.Time) (timeout, interrupted bool) { return c.next(timer, c.interrupt) }
	err := c.open(args, func(name, value string) {
		switch name {
		case "--model":
			if value != "default" {
				c.model = value
			}
		case "--agent-id":
			c.member = true
		case "--settings":
			c.planAsked = strings.Contains(value, `"ExitPlanMode"`)
		case "--disallowedTools":
			c.plans = c.plans && !slices.Contains(strings.Split(value, ","), "ExitPlanMode")
		}
	})
	if script.Mode != "" {
		c.mode = script.Mode
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.deaf, c.deafen = context.WithCancel(context.Background())
	defer c.deafen()
	return c.run(c.loop)
}

func (c *child) loop() int {
	c.fault(Start)
	go c.read(os.Stdin)
	for !c.inOver || len(c.queue) > 0 {
		if len(c.queue) == 0 {
			c.next(nil, nil)
			continue
		}
		// Frames that were written together arrive together, as far as they fit into the pipe.
		c.drain()
		c.turn()
	}
	if c.failed {
		return 1
	}
	c.lost()
	return 0
}

// lost reports records that did not go into the transcript, if any.
func (c *child) lost() {
	if c.memory.full {
		c.print(object{"type": "system", "subtype": "session_writes_lost", "error_code": "ENOSPC", "lost": []string{"transcript"},
			"transcript_session_ids": []string{c.memory.session}, "session_id": c.memory.session})
	}
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
	forever() // stdin has not ended, but is unread
}

// next takes one line, or returns true when the timer or a line at which it must stop comes first.
func (c *child) next(timer <-chan time.Time, stop func(received) bool) (timeout, stopped bool) {
	in := c.in
	if c.inOver {
		in = nil
	}
	select {
	case line, ok := <-in:
		return false, c.got(line, ok, stop)
	case <-timer:
		return true, false
	}
}

// drain takes the lines that are there without waiting for more.
func (c *child) drain() {
	for !c.inOver {
		select {
		case line, ok := <-c.in:
			c.got(line, ok, nil)
		default:
			return
		}
	}
}

// got takes a line, or the end of them, and reports whether it is one at which next must stop.
func (c *child) got(line []byte, ok bool, stop func(received) bool) bool {
	c.inOver = !ok
	if !ok || len(strings.TrimSpace(string(line))) == 0 {
		return false
	}
	var l received
	if err := json.Unmarshal(line, &l); err != nil {
		fmt.Fprintf(os.Stderr, "Error parsing streaming input line: %s: %v\n", line, err)
		panic(stopped(1))
	}
	if stop != nil && stop(l) {
		return true
	}
	switch l.Type {
	case "user":
		c.frame(frame{uuid: l.UUID, text: textOf(l.Message.Content)})
	case "control_request":
		c.control(l)
	}
	return false
}

// frame puts a frame into the queue, unless it is known.
func (c *child) frame(f frame) {
	c.current = f.text
	c.log(Entry{Kind: "read", UUIDs: []string{f.uuid}, Text: f.text})
	c.fault(Read)
	if !c.script.Mute && f.uuid != "" && c.memory.known[f.uuid] {
		c.echo(f, false)
		if !c.memory.known["here:"+f.uuid] {
			c.lifecycle(f, "completed") // only of one that an earlier process took
		}
		return
	}
	c.lifecycle(f, "queued")
	if f.uuid != "" {
		c.memory.known[f.uuid], c.memory.known["here:"+f.uuid] = true, true
	}
	c.queue = append(c.queue, f)
}

// control carries out a control request.
func (c *child) control(l received) {
	body := object{}
	switch l.Request.Subtype {
	case "interrupt": // nothing runs
		c.interrupt(l)
		return
	case "set_model":
		c.model = l.Request.Model
		c.print(object{"type": "user", "isReplay": true, "uuid": uuid.NewString(), "session_id": c.memory.session,
			"timestamp": claudedir.Now(),
			"message":   saidByUser("<local-command-stdout>Set model to " + c.model + "</local-command-stdout>")})
		body["model"] = c.model
	case "set_permission_mode":
		if slices.Contains(c.script.Refuse, l.Request.Mode) {
			c.refuse(l, "Invalid permission mode: "+l.Request.Mode)
			return
		}
		c.mode = l.Request.Mode
		body["mode"] = c.mode
		c.current = c.mode
		c.fault(Changed)
		defer c.status()
	default:
		c.refuse(l, "Unsupported control request subtype: "+l.Request.Subtype)
		return
	}
	c.respond(l, body)
}

// interrupt answers a line that is an interrupt.
func (c *child) interrupt(l received) bool {
	if l.Type != "control_request" || l.Request.Subtype != "interrupt" {
		return false
	}
	waiting := []string{}
	for _, f := range c.queue {
		waiting = append(waiting, f.uuid)
	}
	c.respond(l, object{"still_queued": waiting})
	return true
}

// status reports the permission mode, when that has changed.
func (c *child) status() {
	c.print(object{"type": "system", "subtype": "status", "status": nil, "permissionMode": c.mode, "session_id": c.memory.session})
}

func (c *child) respond(l received, body object) {
	response := object{"subtype": "success", "request_id": l.RequestID}
	if len(body) > 0 {
		response["response"] = body
	}
	c.print(object{"type": "control_response", "response": response})
}

func (c *child) refuse(l received, reason string) {
	c.print(object{"type": "control_response", "response": object{"subtype": "error", "request_id": l.RequestID, "error": reason}})
}

func (c *child) print(line object) {
	data, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simchild:", err)
		return
	}
	// A missing reader is no reason to stop.
	_, _ = os.Stdout.Write(append(data, '\n'))
}

// fault carries out the faults of a point.
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
		case Full:
			c.memory.full = true
		case Quit:
			c.lost()
			panic(stopped(0))
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
				// A real one reports the task right before its turn. An agent without any
				// idle time would be ended in between.
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
	for !c.exists(name) {
		time.Sleep(2 * time.Millisecond)
	}
}

// unasked prints the answer of a turn without a prompt.
func (c *child) unasked(text string) {
	c.say(uuid.NewString(), textBlock("ACK: "+text))
	c.result([]string{}, object{"subtype": "success", "is_error": false, "result": "ACK: " + text, "stop_reason": "end_turn"}, "completed")
}

// die kills this process as kill -9 does; the call returns before the end.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	forever()
}

// forever waits without a deadlock that the runtime would detect.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
