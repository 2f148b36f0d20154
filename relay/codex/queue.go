package codex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Queued begins a text in a queue, since the model takes such a text for the words of the user.
const (
	Queued     = queuedMark + " The user of this session has not typed it.]\n"
	queuedMark = "[Put into the queue by teambridge."
)

// queueWithin limits the time to add to a queue, which includes the start of a server.
const queueWithin = 30 * time.Second

// Enqueue adds a text under an id to the durable queue of a thread outside the shared server, unless the queue or, by
// recorded, the transcript has it. An idle holder takes it within seconds, and records it with the id.
//
// Without an error, the queue has or had the text. If the holder is killed, the text waits until the thread is
// resumed, but between taking and recording it is lost. After a [*delivery.UnsentError], this call has added nothing.
//
// An app server of our own, run with the holder's program, adds the text. It does not take over the thread.
func Enqueue(ctx context.Context, home string, holder int, thread, id, text string, recorded func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, queueWithin)
	defer cancel()
	c, err := start(ctx, home, holder)
	if err != nil {
		return unsent("an app server of Codex", err)
	}
	defer c.close()
	err = c.initialize(ctx, map[string]any{"experimentalApi": true})
	if err != nil {
		return unsent("an app server of Codex", err)
	}
	// Check twice: a text that moves from the queue into the transcript must not be missed in between.
	for range 2 {
		there, err := c.queued(ctx, thread, id)
		if err != nil {
			return unsent("the queue of Codex", err)
		}
		if there || recorded() {
			return nil
		}
	}
	err = c.call(ctx, "thread/queue/add", map[string]any{
		"threadId": thread, "clientUserMessageId": id, "input": []any{map[string]any{"type": "text", "text": Queued + text}},
	}, nil)
	if errors.As(err, new(*refusal)) {
		return unsent("the queue of Codex", err)
	}
	if err != nil {
		return fmt.Errorf("the queue of Codex: %w", err)
	}
	return nil
}

// queued reports whether the queue of a thread has a text with that id.
func (c *conn) queued(ctx context.Context, thread, id string) (bool, error) {
	for cursor := ""; ; {
		params := map[string]any{"threadId": thread}
		if cursor != "" {
			params["cursor"] = cursor
		}
		var page struct {
			Data       []struct{ ClientUserMessageID string }
			NextCursor string
		}
		if err := c.call(ctx, "thread/queue/list", params, &page); err != nil {
			return false, err
		}
		for _, row := range page.Data {
			if row.ClientUserMessageID == id {
				return true, nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return false, nil
		}
	}
}

// start starts an app server. It ends when its input is closed.
func start(ctx context.Context, home string, holder int) (*conn, error) {
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/exe", holder), "app-server") // even if it was replaced
	cmd.Args[0] = "codex"
	cmd.Dir, cmd.Env = home, append(os.Environ(), "CODEX_HOME="+home)
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	return &conn{
		put: func(_ context.Context, data []byte) error {
			_, err := in.Write(append(data, '\n'))
			return err
		},
		get: func(context.Context) ([]byte, error) { return lines.ReadBytes('\n') }, // the end of ctx kills the server
		close: func() {
			_ = in.Close()
			time.AfterFunc(time.Second, func() { _ = cmd.Process.Kill() }) // if it hangs
			_ = cmd.Wait()
		},
	}, nil
}

// input is the record of a user's words, or of a text from a queue.
type input struct {
	Role     string // of response_item
	ClientID string `json:"client_id"` // of the item
	Content  json.RawMessage
}

// queued sets e to Mail if the line is a user's words, and they are a text of ours from a queue.
func (e *Event) queued(in input, is bool) {
	var content []struct{ Text string }
	if is && json.Unmarshal(in.Content, &content) == nil && len(content) == 1 && strings.HasPrefix(content[0].Text, Queued) {
		e.Kind, e.Text = Mail, content[0].Text
	}
}
