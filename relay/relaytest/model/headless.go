package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/process"
)

// maxFrame bounds one line of stdout; frames of 3 MB were measured to arrive whole.
const maxFrame = 64 << 20

// Frame is one line that a headless Claude Code printed.
type Frame struct {
	// Time is when the line was read, UTC.
	Time time.Time
	// Line is the whole line without its newline; the other fields are those of the line, or empty.
	Line        json.RawMessage `json:"-"`
	Type        string          `json:"type"`
	Subtype     string          `json:"subtype"`
	UUID        string          `json:"uuid"`
	CommandUUID string          `json:"command_uuid"`
	State       string          `json:"state"`
	SessionID   string          `json:"session_id"`
	Result      string          `json:"result"`
	IsReplay    bool            `json:"isReplay"`
	Timestamp   string          `json:"timestamp"`
	// PermissionMode is the mode in system/init.
	PermissionMode string `json:"permissionMode"`
	IsError        bool   `json:"is_error"`
}

// Headless is Claude Code with -p and stream-json on its pipes. Safe for concurrent use.
type Headless struct {
	home   *Home
	child  *process.Child
	stderr process.Tail

	writing sync.Mutex // one line at a time, whole

	mu      sync.Mutex
	frames  []Frame
	changed chan struct{} // closed and replaced with every frame
	done    chan struct{} // closed when the process is gone and err is set
	err     error
}

// StartHeadless starts a Claude Code in the home, of which command is the program and its first arguments, with
//
//	-p --input-format stream-json --output-format stream-json --verbose --replay-user-messages --dangerously-skip-permissions
//
// and args behind. It does not wait: nothing is printed before the first prompt. Its caller calls [Headless.Close].
func StartHeadless(command []string, h *Home, args ...string) (*Headless, error) {
	command = slices.Concat(command, []string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--replay-user-messages", "--dangerously-skip-permissions",
	}, args)
	p := &Headless{home: h, stderr: process.Tail{Limit: 1 << 20}, changed: make(chan struct{}), done: make(chan struct{})}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = h.Work, h.Env()
	process.OwnGroup(cmd)
	var err error
	if p.child, err = process.Start(cmd, true); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	go func() {
		var reading sync.WaitGroup
		reading.Go(p.read)
		reading.Go(func() { _, _ = io.Copy(&p.stderr, p.child.Stderr) })
		p.err = p.child.Wait()
		p.child.Drain(5*time.Second, &reading) // a command of the Bash tool that outlives Claude holds stderr open for good
		_ = p.child.Stdin.Close()
		close(p.done)
	}()
	return p, nil
}

// Frames returns the lines that it has printed so far, and Count their number.
func (p *Headless) Frames() []Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames[:len(p.frames):len(p.frames)]
}

// Count is the number of [Headless.Frames].
func (p *Headless) Count() int { return len(p.Frames()) }

// read collects frames until stdout ends.
func (p *Headless) read() {
	for lines := process.NewLines(p.child.Stdout, maxFrame); ; {
		line, _, err := lines.Next()
		if len(line) > 0 {
			f := Frame{}
			// A line that is no JSON object is kept as a frame without a type.
			_ = json.Unmarshal(line, &f)
			f.Time, f.Line = time.Now().UTC(), bytes.Clone(line)
			p.mu.Lock()
			p.frames = append(p.frames, f)
			close(p.changed)
			p.changed = make(chan struct{})
			p.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// Pid is the process id, and that of its group.
func (p *Headless) Pid() int { return p.child.PID }

// Write writes one line to stdin as it is and ends it with a newline.
func (p *Headless) Write(line []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if _, err := p.child.Stdin.Write(append(bytes.Clone(line), '\n')); err != nil {
		return fmt.Errorf("model: write to headless Claude Code: %w; %s", err, p.Screen())
	}
	return nil
}

// Send writes a user's frame under a new uuid, which it returns, without waiting for anything.
func (p *Headless) Send(text string) (string, error) {
	id := uuid.NewString()
	return id, p.SendAs(id, text)
}

// SendAs is Send with a given uuid.
func (p *Headless) SendAs(id, text string) error {
	line, err := json.Marshal(object{"type": "user", "message": object{"role": "user", "content": text}, "uuid": id})
	if err != nil {
		return err
	}
	return p.Write(line)
}

// Prompt sends a user's frame and waits until its turn has ended: the lifecycle of its uuid is completed, or a result
// follows its echo, as in the outdated versions of lane taken, which print no lifecycle.
func (p *Headless) Prompt(ctx context.Context, text string) error {
	id, err := p.Send(text)
	if err != nil {
		return err
	}
	echoed := false
	_, err = p.Await(ctx, "the end of the turn", func(f Frame) bool {
		echoed = echoed || f.IsReplay && f.UUID == id
		return f.CommandUUID == id && f.State == "completed" || echoed && f.Type == "result"
	})
	return err
}

// Await returns the first frame, of those so far and to come, for which match is true; what describes it in errors. match
// sees every frame once, in order. It ends with an error when ctx does or the process has ended.
func (p *Headless) Await(ctx context.Context, what string, match func(Frame) bool) (Frame, error) {
	gone := false
	for next := 0; ; {
		p.mu.Lock()
		fresh, changed := p.frames[next:], p.changed
		p.mu.Unlock()
		next += len(fresh)
		for _, f := range fresh {
			if match(f) {
				return f, nil
			}
		}
		if gone {
			return Frame{}, fmt.Errorf("model: Claude Code ended before %s came: %s", what, p.Screen())
		}
		select {
		case <-changed:
		case <-p.done:
			gone = true // all frames are in the slice by now: look at the rest once more
		case <-ctx.Done():
			return Frame{}, fmt.Errorf("model: waiting for %s: %w; %s; API: %s", what, ctx.Err(), p.Screen(), p.home.API)
		}
	}
}

// End closes stdin and waits for the process, which finishes what it does and exits with 0.
func (p *Headless) End(ctx context.Context) error {
	p.writing.Lock()
	err := p.child.Stdin.Close()
	p.writing.Unlock()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return p.Exited(ctx)
}

// Exited waits for the end of the process and returns its *exec.ExitError, nil after exit code 0.
func (p *Headless) Exited(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("model: Claude Code still runs: %w", ctx.Err())
	}
}

// Kill ends the process and its group at once, as kill -9 does, and waits until it is gone.
func (p *Headless) Kill() error {
	if err := process.KillGroup(p.Pid()); err != nil {
		return err
	}
	p.home.Sweep() // a process that still has its stdout would keep it from ending for us
	<-p.done
	return nil
}

// Close ends the process in any case: by a request, so that it ends its own children, and by a kill when ctx ends.
func (p *Headless) Close(ctx context.Context) {
	select {
	case <-p.done:
	default:
		_ = process.TermGroup(p.Pid())
		select {
		case <-p.done:
		case <-ctx.Done():
			_ = p.Kill()
		}
	}
	p.home.Sweep()
}

// Stderr returns the end of its output there.
func (p *Headless) Stderr() string { return p.stderr.String() }

// Screen returns the last frames, cut short, and all of stderr, for failure messages.
func (p *Headless) Screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d frames", len(p.frames))
	for _, f := range p.frames[max(0, len(p.frames)-5):] {
		fmt.Fprintf(&b, "\n  %s %.1000s", f.Time.Format("15:04:05.000"), f.Line)
	}
	if text := p.stderr.String(); text != "" {
		fmt.Fprintf(&b, "\nstderr: %s", text)
	}
	return b.String()
}
