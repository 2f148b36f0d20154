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

// Queued begins a text that was put into a queue: the model takes it for the words of the user.
const (
	Queued     = queuedMark + " The user of this session has not typed it.]\n"
	queuedMark = "[Put into the queue by teambridge."
)

// queueWithin is how long it may take to put something into a queue: a server is started for that.
const queueWithin = 30 * time.Second

// Enqueue puts a text into the durable queue of a thread that no shared server has, under an id, unless it is there, or in the transcript, as
// recorded tells. The process that holds the thread takes it out within seconds once it is idle, and records it with the id.
//
// That there is no error means that it is in the queue, or was. It stays there if the holder is killed, until the thread is resumed, and
// is lost if the holder is killed between taking it out and recording it. The error is a [*delivery.UnsentError] if this call has put nothing there.
//
// An app server of our own does it, which is the program of the holder. It is not given the thread.
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
	// What is in neither was not there at one moment only if the queue is looked at twice: it goes from there into the transcript.
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

// queued reports whether something is in the queue of a thread.
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

// start starts an app server, which ends with its input.
func start(ctx context.Context, home string, holder int) (*conn, error) {
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/exe", holder), "app-server") // even if the file was replaced since
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
			time.AfterFunc(time.Second, func() { _ = cmd.Process.Kill() }) // if it does not end
			_ = cmd.Wait()
		},
	}, nil
}

// input is what is recorded of the words of a user, and of what was in a queue.
type input struct {
	Role     string // of response_item
	ClientID string `json:"client_id"` // of the item
	Content  json.RawMessage
}

// queued takes the words of a user that were in a queue, if they are ours.
func (e *Event) queued(in input, is bool) {
	var content []struct{ Text string }
	if is && json.Unmarshal(in.Content, &content) == nil && len(content) == 1 && strings.HasPrefix(content[0].Text, Queued) {
		e.Kind, e.Text = Mail, content[0].Text
	}
}
