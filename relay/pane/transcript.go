package pane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/teams/transcript"
)

// progress is how far a transcript shows that a message came.
type progress struct {
	path        string
	given       bool   // the model was given it
	removed     bool   // a person took it out of the program's queue, to the prompt
	ended       bool   // a turn ended after that
	interrupted bool   // a person interrupted the turn after that
	final       bool   // another turn has begun since the turn ended
	answer      string // what the agent said last in the turn
}

// over reports whether the turn of the message came to an end. Unless it is final, a hook
// may make the agent go on.
func (s progress) over() bool { return s.ended || s.interrupted }

// conversation is a transcript that was read up to offset.
type conversation struct {
	path    string
	info    os.FileInfo
	offset  int64
	at      map[string]*progress // by nonce
	open    []*progress          // that are given and not final
	queue   []string             // what the program keeps until later: nonces, "" for what is not ours
	message string               // id of the last message of the agent, each block of which can be a record
	text    string               // what that says
	stopped stopped              // the last turn, if its end is near the end of the file
}

// stopped is the end of a turn.
type stopped struct {
	at   time.Time
	text string // what the agent said last
}

// tail is the end of a transcript in which ends of turns are looked for even if no message
// of ours is open.
const tail = 256 << 10

// record is the part of a line that tells what became of messages.
type record struct {
	Type        string          `json:"type"`
	Subtype     string          `json:"subtype"`
	Timestamp   time.Time       `json:"timestamp"`
	Operation   string          `json:"operation"`
	Content     json.RawMessage `json:"content"`
	IsSidechain bool            `json:"isSidechain"`
	IsMeta      bool            `json:"isMeta"`
	IsSummary   bool            `json:"isCompactSummary"`
	Attachment  struct {
		Type   string          `json:"type"`
		Prompt json.RawMessage `json:"prompt"`
	} `json:"attachment"`
	Message struct {
		ID      string          `json:"id"`
		Stop    string          `json:"stop_reason"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// marker is how a message begins in what a program takes.
//
// It is compiled when it is used first: every command links this package.
var marker = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[teambridge ([0-9a-f]{12})(?: from [^\]\n]*)?\] `)
})

// read reads what was added to the transcript.
func (c *conversation) read() error {
	info, err := os.Stat(c.path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if c.info == nil || !os.SameFile(c.info, info) || info.Size() < c.offset {
		*c = conversation{path: c.path, at: map[string]*progress{}}
	}
	if c.info = info; info.Size() == c.offset {
		return nil
	}
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(c.offset, io.SeekStart); err != nil {
		return err
	}
	for r := bufio.NewReaderSize(file, 1<<16); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // an incomplete line is read when it is complete
		} else if err != nil {
			return err
		}
		c.offset += int64(len(line))
		c.line(line, info.Size()-c.offset < tail)
	}
}

// line takes one record. late says that it is near the end of the file. Measured on 2.1.80
// to 2.1.329:
//
//   - At Enter, an idle program writes a user record, and a busy one a queue-operation
//     enqueue. That the model was given what was queued is shown by a user record, in a turn
//     of its own, or in mid-turn by an attachment. 2.1.80 writes no attachment, only that the
//     first of the queue was removed. With popAll, one for each entry, a person took the
//     queue to the prompt.
//   - What was queued can be given in one turn, in several user records.
//   - A turn ends with an assistant record, and from 2.1.160 on with turn_duration.
//   - If ESC is pressed before the agent has said anything, there is no record of that.
func (c *conversation) line(line []byte, late bool) {
	ours := bytes.Contains(line, []byte("[teambridge ")) || bytes.Contains(line, []byte(`"queue-operation"`))
	if !ours && len(c.open) == 0 && !late {
		return // most of a long conversation
	}
	var r record
	if json.Unmarshal(line, &r) != nil || r.IsSidechain {
		return
	}
	switch r.Type {
	case "queue-operation":
		c.queued(r.Operation, texts(r.Content, ""))
	case "attachment":
		if r.Attachment.Type == "queued_command" {
			c.given(nonces(texts(r.Attachment.Prompt, "")))
		}
	case "user":
		text := texts(r.Message.Content, "\n")
		switch {
		case strings.HasPrefix(text, "[Request interrupted by user"):
			for _, s := range c.open {
				s.interrupted = true
			}
			return
		case r.IsMeta || r.IsSummary || text == "":
			return
		}
		if !bytes.Contains(r.Message.Content, []byte(`"tool_result"`)) {
			c.begin()
		}
		c.given(nonces(text))
	case "assistant":
		c.said(&r)
	case "system":
		if r.Subtype == "stop_hook_summary" || r.Subtype == "turn_duration" {
			for _, s := range c.open {
				s.ended = true
			}
		}
		if r.Subtype == "turn_duration" {
			c.begin() // the hooks have let the turn end
		}
	}
}

// queued follows the queue of the program.
func (c *conversation) queued(operation, text string) {
	list := append(nonces(text), "")
	switch operation {
	case "enqueue":
		if list[0] != "" {
			c.of(list[0]).removed = false
		}
		c.queue = append(c.queue, list[0])
	case "dequeue", "remove", "popAll":
		i := 0
		if text != "" {
			i = max(slices.Index(c.queue, list[0]), 0)
		}
		if i == len(c.queue) {
			return // it was queued before the transcript began
		}
		switch nonce := c.queue[i]; {
		case nonce == "":
		case operation == "remove":
			c.given([]string{nonce})
		case operation == "popAll":
			c.of(nonce).removed = true
		}
		c.queue = slices.Delete(c.queue, i, i+1)
	}
}

// begin notes that a turn begins with a prompt, so that an earlier one is over.
func (c *conversation) begin() {
	c.open = slices.DeleteFunc(c.open, func(s *progress) bool {
		s.final = s.over()
		return s.final
	})
}

// said takes what the agent says.
func (c *conversation) said(r *record) {
	if text := texts(r.Message.Content, ""); r.Message.ID == "" || r.Message.ID != c.message {
		c.message, c.text = r.Message.ID, text
	} else {
		c.text += text
	}
	ends := false
	switch r.Message.Stop {
	case "", "tool_use", "pause_turn":
	default:
		ends = true
		c.stopped = stopped{r.Timestamp, c.text}
	}
	for _, s := range c.open {
		if c.text != "" {
			s.answer = c.text
		}
		s.ended = s.ended || ends
	}
}

func (c *conversation) of(nonce string) *progress {
	if c.at[nonce] == nil {
		c.at[nonce] = &progress{path: c.path}
	}
	return c.at[nonce]
}

func (c *conversation) given(list []string) {
	for _, nonce := range list {
		if s := c.of(nonce); !s.given {
			s.given = true
			c.open = append(c.open, s)
		}
	}
}

func nonces(text string) (list []string) {
	for _, m := range marker().FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// texts joins the texts of a content, which is a string or a list of blocks.
func texts(raw json.RawMessage, between string) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var list []string
	for _, b := range blocks {
		if b.Type == "text" {
			list = append(list, b.Text)
		}
	}
	return strings.Join(list, between)
}

// found looks for messages in transcripts.
func (p *Panes) found(paths ...string) map[string]progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]progress{}
	for _, path := range paths {
		c := p.files[path]
		if c == nil {
			c = &conversation{path: path}
			p.files[path] = c
		}
		// A transcript that cannot be read says nothing, as for package transcript.
		_ = c.read()
		for nonce, s := range c.at {
			if was, ok := all[nonce]; !ok || s.given && !was.given {
				all[nonce] = *s
			}
		}
	}
	return all
}

// lastStop returns the end of the last turn in a transcript.
func (p *Panes) lastStop(path string) stopped {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.files[path]; c != nil {
		return c.stopped
	}
	return stopped{}
}

// forget forgets the transcripts that nobody follows.
func (p *Panes) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.files)
}

// dir returns the working directory of the program in a pane, or "".
func (p *Panes) dir(ctx context.Context, of Pane) string {
	there, err := p.tmux.look(ctx, of.Ref)
	if err != nil {
		return "" // the session, if it is known, has a transcript anyway
	}
	return there.Path
}

// transcripts returns the files in which the program of a pane, which runs in dir, may record
// what it was sent since a time: that of its session, if its process is known, and those of
// its directory that have changed since.
func (p *Panes) transcripts(of Pane, dir string, since time.Time) (paths []string) {
	root := p.opts.Root.Path()
	if process := p.process(of.Ref.PID); process.PID != 0 {
		if path, ok := transcript.Session(root, dir, process.Session); ok {
			paths = append(paths, path)
		}
	}
	if dir == "" {
		return paths
	}
	// A file system may have coarse times.
	for _, path := range transcript.Recent(root, dir, since.Add(-2*time.Second)) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// process returns the agent in a pane whose first process is pid: the session of that
// process or, of its descendants, the nearest one.
func (p *Panes) process(pid int) (nearest transcript.Process) {
	const deepest = 16
	depth := deepest
	for _, s := range transcript.Processes(p.opts.Root.Path()) {
		for at, n := s.PID, 0; at > 1 && n < depth; at, n = p.tmux.parent(at), n+1 {
			if at == pid && p.tmux.parent(s.PID) != 0 {
				nearest, depth = s, n
				break
			}
		}
	}
	return nearest
}

// proof looks for one message.
type proof struct {
	panes *Panes
	of    Pane
	nonce string
	since time.Time
	dir   string // of the program; "" if it was not asked for yet
}

func (p *Panes) proof(of Pane, m ledger.PaneMessage) *proof {
	since := m.SentAt
	if since.IsZero() {
		since = time.Now()
	}
	return &proof{panes: p, of: of, nonce: Nonce(m.UUID), since: since}
}

// find returns what the transcripts say of the message, and whether they have it.
func (p *proof) find(ctx context.Context) (progress, bool) {
	if p.dir == "" {
		p.dir = p.panes.dir(ctx, p.of) // once: find is called several times a second
	}
	s, ok := p.panes.found(p.panes.transcripts(p.of, p.dir, p.since)...)[p.nonce]
	return s, ok
}

func (p *proof) holds(ctx context.Context) bool {
	_, ok := p.find(ctx)
	return ok
}

func (p *proof) submitted(ctx context.Context) (bool, error) { return p.holds(ctx), nil }
