// Package simcodex simulates the shared server of the Codex CLI for tests: the locks of its threads, their
// transcripts and its socket, as measured with 0.169.0.
package simcodex

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// Codex is a home of Codex and its shared server, which is this process. It may be used by several goroutines.
type Codex struct {
	Home string

	// Turn, if not nil, is called with a message before the server answers. The error is its answer; [ErrKilled] ends
	// the server first. By default the message is recorded and answered.
	Turn func(thread, text string) error

	t        testing.TB
	mu       sync.Mutex
	said     []string // methods, and "answer" for an answer
	locks    map[string]*os.File
	files    map[string]string // transcripts, by thread
	turns    int
	server   *http.Server
	listener net.Listener // of server
}

// ErrKilled is the answer of a server that is killed.
var ErrKilled = errors.New("killed")

// New makes a home, whose server runs until the test ends.
func New(t testing.TB) *Codex {
	t.Helper()
	dir, err := os.MkdirTemp("", "cx") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	c := &Codex{Home: dir, t: t, locks: map[string]*os.File{}, files: map[string]string{}}
	t.Cleanup(func() {
		c.Kill()
		_ = os.RemoveAll(dir)
	})
	for _, d := range []string{"thread-writer-locks", "app-server-control"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c.Serve()
	return c
}

// Serve starts the server.
func (c *Codex) Serve() {
	c.t.Helper()
	l, err := net.Listen("unix", filepath.Join(c.Home, "app-server-control", "app-server-control.sock"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.listener = &http.Server{Handler: http.HandlerFunc(c.connect)}, l
	go c.server.Serve(l)
}

// Kill ends the server, which releases its threads.
func (c *Codex) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, lock := range c.locks {
		_ = lock.Close()
		delete(c.locks, id)
	}
	if c.server != nil {
		_ = c.server.Close()
		_ = c.listener.Close() // the server does not have it yet if it is killed at once
		c.server = nil
	}
}

// Said returns the methods that were called, and "answer" for each answer to a request of the server.
func (c *Codex) Said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.said...)
}

// Thread begins a thread with a prompt, and returns its id.
func (c *Codex) Thread(source any) string {
	c.t.Helper()
	v7, err := uuid.NewV7()
	if err != nil {
		c.t.Fatal(err)
	}
	id, now := v7.String(), time.Now().UTC()
	path := filepath.Join(c.Home, "sessions", now.Format("2006"), now.Format("01"), now.Format("02"), "rollout-"+now.Format("2006-01-02T15-04-05")+"-"+id+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.files[id] = path
	c.mu.Unlock()
	c.write(id, "session_meta", map[string]any{"id": id, "cwd": "/home/ann/work", "cli_version": "0.169.0", "source": source, "timestamp": now})
	c.Event(id, map[string]any{"type": "task_started", "turn_id": "first"})
	c.Event(id, map[string]any{"type": "task_complete", "turn_id": "first", "last_agent_message": "hello"})
	c.Hold(id)
	return id
}

// Hold takes the lock of a thread.
func (c *Codex) Hold(id string) {
	c.t.Helper()
	lock, err := hold(filepath.Join(c.Home, "thread-writer-locks", id+".lock"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locks[id] = lock
}

// Release gives up the lock of a thread.
func (c *Codex) Release(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.locks[id].Close()
	delete(c.locks, id)
}

// Event writes an event into the transcript of a thread.
func (c *Codex) Event(thread string, payload map[string]any) { c.write(thread, "event_msg", payload) }

func (c *Codex) write(thread, kind string, payload any) {
	line, err := json.Marshal(map[string]any{"timestamp": time.Now().UTC(), "type": kind, "payload": payload})
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.files[thread], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// Record begins a turn with a message, and returns its id.
func (c *Codex) Record(thread, text string) (turn string) {
	c.mu.Lock()
	c.turns++
	turn = fmt.Sprintf("turn-%d", c.turns)
	c.mu.Unlock()
	c.Event(thread, map[string]any{"type": "task_started", "turn_id": turn})
	c.Put(thread, text)
	c.Event(thread, map[string]any{"type": "item_completed", "turn_id": turn, "item": map[string]any{"type": "FunctionCallOutput", "namespace": "teambridge", "output": text}})
	return turn
}

// queueFile has the durable queue of all threads, a row in each line.
const queueFile = "queue.ndjson"

// row is a message in the queue.
type row struct {
	ThreadID            string `json:"threadId"`
	ClientUserMessageID string `json:"clientUserMessageId"`
	Input               []struct {
		Text string `json:"text"`
	} `json:"input"`
}

// rows returns the queue of a home.
func rows(home string) (list []row) {
	data, _ := os.ReadFile(filepath.Join(home, queueFile))
	for line := range bytes.Lines(data) {
		var r row
		if json.Unmarshal(line, &r) == nil {
			list = append(list, r)
		}
	}
	return list
}

// Queued returns the ids of the messages in the queue of a thread.
func (c *Codex) Queued(thread string) (ids []string) {
	for _, r := range rows(c.Home) {
		if r.ThreadID == thread {
			ids = append(ids, r.ClientUserMessageID)
		}
	}
	return ids
}

// Take empties the queue, which must be of one thread, and returns the texts by their ids. It records nothing.
func (c *Codex) Take() map[string]string {
	texts := map[string]string{}
	for _, r := range rows(c.Home) {
		texts[r.ClientUserMessageID] = r.Input[0].Text
	}
	_ = os.Remove(filepath.Join(c.Home, queueFile))
	return texts
}

// Say begins a turn with a message from the queue, and returns its id.
func (c *Codex) Say(thread, id, text string) (turn string) {
	c.mu.Lock()
	c.turns++
	turn = fmt.Sprintf("turn-%d", c.turns)
	c.mu.Unlock()
	c.Event(thread, map[string]any{"type": "task_started", "turn_id": turn})
	content := []any{map[string]any{"type": "text", "text": text}}
	c.write(thread, "response_item", map[string]any{"type": "message", "role": "user", "content": content})
	c.Event(thread, map[string]any{"type": "item_completed", "turn_id": turn, "item": map[string]any{"type": "UserMessage", "client_id": id, "content": content}})
	return turn
}

// Main runs "codex app-server", and does not return, if a program of a test was started as that.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != "codex" || os.Args[1] != "app-server" {
		return
	}
	home := os.Getenv("CODEX_HOME")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			os.Exit(1)
		}
		var of row
		_ = json.Unmarshal(m.Params, &of)
		var result any = map[string]any{}
		switch m.Method {
		case "thread/queue/list":
			list := []row{}
			for _, r := range rows(home) {
				if r.ThreadID == of.ThreadID {
					list = append(list, r)
				}
			}
			result = map[string]any{"data": list, "nextCursor": nil}
		case "thread/queue/add":
			line, _ := json.Marshal(of)
			f, err := os.OpenFile(filepath.Join(home, queueFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.Write(append(line, '\n'))
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				os.Exit(1)
			}
		}
		if m.ID != nil {
			answer, _ := json.Marshal(map[string]any{"id": m.ID, "result": result})
			fmt.Printf("%s\n", answer)
		}
	}
	os.Exit(0)
}

// Put puts a message into the conversation of a thread, without the line that says that it is there.
func (c *Codex) Put(thread, text string) {
	c.write(thread, "response_item", map[string]any{"type": "function_call_output", "name": "message", "namespace": "teambridge", "output": text})
}

// Answer ends a turn with the agent's answer.
func (c *Codex) Answer(thread, turn, text string) {
	c.Event(thread, map[string]any{"type": "item_completed", "turn_id": turn, "item": map[string]any{"type": "AgentMessage"}})
	c.Event(thread, map[string]any{"type": "task_complete", "turn_id": turn, "last_agent_message": text})
}

// connect serves a connection.
func (c *Codex) connect(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ctx := context.Background()
	put := func(v any) {
		data, _ := json.Marshal(v)
		_ = ws.Write(ctx, websocket.MessageText, data)
	}
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ThreadID   string
				ToolOutput struct{ Output string }
			}
		}
		if json.Unmarshal(data, &m) != nil {
			return
		}
		c.mu.Lock()
		if m.Method == "" {
			m.Method = "answer"
		}
		c.said = append(c.said, m.Method)
		held, turn := c.locks[m.Params.ThreadID] != nil, c.Turn
		c.mu.Unlock()
		if m.ID == nil {
			continue
		}
		if m.Method == "turn/start" {
			// It asks all clients, and the person at the terminal answers.
			put(map[string]any{"id": m.ID, "method": "item/commandExecution/requestApproval", "params": map[string]any{}})
			if turn == nil {
				turn = func(thread, text string) error {
					c.Answer(thread, c.Record(thread, text), "done")
					return nil
				}
			}
			err := errors.New("thread not found: " + m.Params.ThreadID)
			if held {
				err = turn(m.Params.ThreadID, m.Params.ToolOutput.Output)
			}
			if errors.Is(err, ErrKilled) {
				c.Kill()
				return
			}
			if err != nil {
				put(map[string]any{"id": m.ID, "error": map[string]any{"code": -32600, "message": err.Error()}})
				continue
			}
		}
		put(map[string]any{"id": m.ID, "result": map[string]any{}})
	}
}
