package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/relay/process"
)

const (
	// lineLimit is the size of the longest line that is read, in bytes.
	lineLimit = 64 << 20
	// writeTimeout limits how long an agent may leave its input unread.
	writeTimeout = time.Minute
)

// errEnded means that the agent has ended.
var errEnded = errors.New("the agent has ended")

// conn is JSON-RPC with an agent, one message a line.
type conn struct {
	child    *process.Tree
	told     func(method string, params json.RawMessage)                     // handles a notification
	asked    func(id json.RawMessage, method string, params json.RawMessage) // handles a request, which must be answered
	tooLarge func(size int64)                                                // handles a line over lineLimit
	timeout  time.Duration                                                   // after the end of its output, it is killed

	writing sync.Mutex

	mu    sync.Mutex
	last  int
	calls map[int]func(json.RawMessage, error) // handlers of answers, by call; nil once the agent has ended
	noise string                               // the first line that does not belong to the protocol
	mute  bool                                 // it was killed because it had closed its output
}

// read reads lines until the agent has ended. It calls the handlers of notifications, requests and answers in
// the order of the lines.
func (c *conn) read() {
	for lines := process.NewLines(c.child.Stdout, lineLimit); ; {
		line, size, err := lines.Next()
		if size > int64(len(line)) {
			c.tooLarge(size)
		} else if line = bytes.TrimSpace(line); len(line) > 0 {
			c.take(line)
		}
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, answer := range calls {
		answer(nil, errEnded)
	}
	if !c.child.Within(context.Background(), c.timeout) {
		c.mu.Lock()
		c.mute = true
		c.mu.Unlock()
		c.child.Signal(process.KillGroup) // the next agent finds out what became of the message
	}
}

func (c *conn) take(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		c.mu.Lock()
		if c.noise == "" {
			c.noise = fmt.Sprintf("%.300s", line)
		}
		first := c.last == 1 // the call is initialize
		c.mu.Unlock()
		if first && line[0] == '<' {
			c.answer(1, nil, errors.New("no answer"))
		}
		return
	}
	switch {
	case m.Method != "" && len(m.ID) > 0:
		c.asked(bytes.Clone(m.ID), m.Method, m.Params)
	case m.Method != "":
		c.told(m.Method, m.Params)
	default:
		var refused error
		if m.Error != nil {
			refused = m.Error
		}
		id, _ := strconv.Atoi(string(m.ID)) // the id 0 belongs to no call
		c.answer(id, m.Result, refused)
	}
}

func (c *conn) answer(id int, result json.RawMessage, err error) {
	c.mu.Lock()
	answer := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if answer != nil {
		answer(result, err)
	}
}

// start makes a call, and passes the answer to a function. If start fails, there is no answer.
func (c *conn) start(method string, params any, answer func(json.RawMessage, error)) error {
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return errEnded
	}
	c.last++
	id := c.last
	c.calls[id] = answer
	c.mu.Unlock()
	err := c.write(message{ID: json.RawMessage(strconv.Itoa(id))}, method, params)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, waits := c.calls[id]; !waits {
			return nil // it was answered before
		}
		delete(c.calls, id)
	}
	return err
}

// call makes a call and waits for the answer.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	done := make(chan error, 1)
	err := c.start(method, params, func(data json.RawMessage, err error) {
		if err == nil && result != nil && len(data) > 0 {
			if err = json.Unmarshal(data, result); err != nil {
				err = fmt.Errorf("its answer cannot be read: %w", err)
			}
		}
		done <- err
	})
	if err == nil {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// write writes a message, with the method and its parameters if they are not empty.
func (c *conn) write(m message, method string, params any) error {
	return c.writeIf(func() error { return nil }, m, method, params)
}

// writeIf is write if check, which is called once nothing else can be written before the message, returns nil.
func (c *conn) writeIf(check func() error, m message, method string, params any) (err error) {
	m.JSONRPC, m.Method = "2.0", method
	if params != nil {
		if m.Params, err = json.Marshal(params); err != nil {
			return err
		}
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := check(); err != nil {
		return err
	}
	_ = c.child.Stdin.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every system supports it
	if _, err := c.child.Stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the agent: %w", err)
	}
	return nil
}

// reply answers a request of the agent.
func (c *conn) reply(id json.RawMessage, result any, refused *CallError) {
	m := message{ID: id, Error: refused}
	if refused == nil {
		var err error
		if m.Result, err = json.Marshal(result); err != nil {
			return
		}
	}
	_ = c.write(m, "", nil) // an agent that does not read has ended, or is about to be ended
}

// said describes the output outside the protocol, for an error; "" if there was none.
func (c *conn) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute {
		return "it closed its output, and lived on"
	}
	if c.noise == "" {
		return ""
	}
	what := "it printed"
	if strings.HasPrefix(c.noise, "<") {
		what = "it printed a web page"
	}
	return fmt.Sprintf("%s, which is not the Agent Client Protocol: %.200q; many programs speak it only with a word like acp or a flag like --acp", what, c.noise)
}
