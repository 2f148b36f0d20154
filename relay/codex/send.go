package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/coder/websocket"

	"teambridge/relay/delivery"
)

// MaxText is the largest size of a text, in bytes. The transcript keeps longer texts, but the model gets at most
// 3,000 tokens of 4 bytes: their middle is cut out.
const MaxText = 11_900

// namespace is the name of the tool that messages appear as output of.
const namespace = "teambridge"

// sendWithin limits the wait for the server's answer.
const sendWithin = 10 * time.Second

// socket returns the path on which the shared server listens.
func socket(home string) string {
	return filepath.Join(home, "app-server-control", "app-server-control.sock")
}

// Send sends a text to a thread through the shared server, as the output of a tool. An idle thread begins a turn with
// it, and a busy one gets it after its current call of the model or of a tool.
//
// Without an error, the server has the text, and no more: it is lost if the server is killed, or the turn is
// interrupted, before the transcript has it. The error is a [*delivery.UnsentError] if the server cannot have it.
func Send(ctx context.Context, home, thread, text string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	c, err := dial(ctx, home)
	if err != nil {
		return unsent("the shared server of Codex", err)
	}
	defer c.close()
	if err := c.initialize(ctx, map[string]any{}); err != nil {
		return unsent("the shared server of Codex", err)
	}
	err = c.call(ctx, "turn/start", map[string]any{
		"threadId": thread, "input": []any{}, "turnTrigger": namespace,
		"toolOutput": map[string]any{"name": "message", "namespace": namespace, "output": text, "retain": true},
	}, nil)
	if errors.As(err, new(*refusal)) {
		return unsent("the shared server of Codex", err)
	}
	if err != nil {
		return fmt.Errorf("the shared server of Codex: %w", err)
	}
	return nil
}

func unsent(by string, err error) error {
	return &delivery.UnsentError{Err: fmt.Errorf("%s: %w", by, err)}
}

// conn is a connection to a server of Codex. It speaks JSON-RPC without the version, one object per frame or line.
type conn struct {
	put   func(context.Context, []byte) error
	get   func(context.Context) ([]byte, error)
	close func()
	last  int
}

// maxAnswer limits the size of an answer.
const maxAnswer = 16 << 20

func dial(ctx context.Context, home string) (*conn, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket(home))
		},
	}}
	ws, _, err := websocket.Dial(ctx, "ws://localhost/", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxAnswer)
	return &conn{
		put: func(ctx context.Context, data []byte) error { return ws.Write(ctx, websocket.MessageText, data) },
		get: func(ctx context.Context) ([]byte, error) {
			_, data, err := ws.Read(ctx)
			return data, err
		},
		close: func() { _ = ws.CloseNow() }, // the protocol needs no close handshake
	}, nil
}

// initialize introduces this client, with its capabilities.
func (c *conn) initialize(ctx context.Context, capabilities map[string]any) error {
	err := c.call(ctx, "initialize", map[string]any{"clientInfo": map[string]any{"name": namespace, "version": "1"}, "capabilities": capabilities}, nil)
	if err != nil {
		return err
	}
	return c.write(ctx, map[string]any{"method": "initialized"})
}

func (c *conn) write(ctx context.Context, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.put(ctx, data)
}

// refusal is the server's error that it did not carry out a request.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Message, r.Code) }

// call sends a request, waits for the answer, and decodes it into result, if not nil. It ignores notifications, and
// leaves the server's own requests unanswered: they are for the person at the terminal.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	c.last++
	id := c.last
	if err := c.write(ctx, map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return err
	}
	for {
		data, err := c.get(ctx)
		if err != nil {
			return err
		}
		var answer struct {
			ID     json.RawMessage
			Method string
			Error  *refusal
			Result json.RawMessage
		}
		if err := json.Unmarshal(data, &answer); err != nil {
			return err
		}
		if answer.Method != "" || string(answer.ID) != fmt.Sprint(id) {
			continue
		}
		if answer.Error != nil {
			return answer.Error
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(answer.Result, result)
	}
}
