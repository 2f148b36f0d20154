package pane

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/codex"
	"teambridge/relay/peer"
	"teambridge/relay/qwen"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams"
	"teambridge/teams/excerpt"
	"teambridge/teams/transcript"
)

// progress is how far a message has come, as a transcript shows it.
type progress struct {
	path        string
	queuedAt    time.Time // when the program queued it last; zero if it is not known
	given       bool      // the model was given it
	at          time.Time // when that was; zero if it is not known
	kept        bool      // it is in the conversation, even after the end of the process
	turn        string    // of Codex: the id of the turn in which the model was given it
	removed     bool      // a person took it out of the program's queue, to the prompt
	refused     string    // the text of the hook that kept it from the model, if one did
	ended       bool      // a turn ended after that
	endedAt     time.Time // when that was, or when the turn was interrupted; zero if it is not known
	interrupted bool      // a person interrupted the turn after that
	final       bool      // another turn has begun since the turn ended
	answer      string    // the agent's last text in the turn
	saidAt      time.Time // when the agent wrote the answer; zero if it is not known
	texts       []string  // its text as recorded behind its marker; several records may differ
}

// over reports whether the turn of the message came to an end. Unless that is final, a hook
// may make the agent continue.
func (s progress) over() bool { return s.ended || s.interrupted }

// altered reports whether the recorded texts all differ from the text that was sent. A message that arrives on a
// socket is not compared: its text and its id come in the same bytes.
func (s progress) altered(sent string) bool {
	return len(s.texts) > 0 && !slices.ContainsFunc(s.texts, func(text string) bool { return tmux.Arrived(text, sent) })
}

// conversation is a transcript, as far as it was read.
type conversation struct {
	tail    transcript.Tail
	at      map[string]*progress // by nonce
	open    []*progress          // that are given and not final
	queue   transcript.Queue
	said    transcript.Said // the agent's last text
	stopped stopped         // the last turn, if its end is near the end of the file

	prompted bool   // it has a prompt
	dequeued string // the text that last left the program's queue for a turn

	recorded []string // of Codex and Qwen Code: nonces of messages that are in the conversation, and not given yet
}

// stopped is the end of a turn.
type stopped struct {
	at   time.Time
	said transcript.Said // the agent's last text
}

// nearEnd is the size of the end of a transcript that is searched for ends of turns even if
// no message of ours is open.
const nearEnd = 256 << 10

// marker matches the beginning of a message in the input of a program.
//
// It is compiled at the first use, since every command links this package.
var marker = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[teambridge ([0-9a-f]{12})(?: from [^\]\n]*)?\] `)
})

func newConversation(path string) *conversation {
	c := &conversation{tail: transcript.Tail{Path: path}}
	c.tail.Begin = func(io.ReaderAt, int64) int64 {
		c.at, c.open, c.queue, c.said, c.stopped, c.prompted = map[string]*progress{}, nil, nil, transcript.Said{}, stopped{}, false
		c.recorded, c.dequeued = nil, ""
		return 0
	}
	return c
}

// line processes one record. late means that it is near the end of the file.
//
//   - At Enter, an idle program writes a user record, and a busy one queues the message: see
//     [transcript.Queue]. When the model is given a queued message, a user record shows that
//     for a turn of its own, and an attachment for the middle of a turn.
//   - Several queued messages can be given in one turn, in several user records.
//   - A turn ends with an assistant record, and then turn_duration.
//   - A busy program can write the first prompt of a session after the whole turn with it (measured on 2.1.257).
//   - A message of another session is queued first even if the program is idle, and is given as a user record whose
//     origin has its id. While the program asks its person whether to accept the message, there is neither record.
//   - A message from the waiting hook is queued first, too, as text in a reminder. The user record that gives it to
//     the model is like that of a notification.
//   - If ESC is pressed before the agent's first text, there is no record of that.
func (c *conversation) line(line []byte, late bool) {
	prompted := c.prompted
	c.prompted = prompted || bytes.Contains(line, []byte(`"type":"user"`)) && !bytes.Contains(line, []byte(`"type":"tool_result"`))
	ours := bytes.Contains(line, []byte("[teambridge ")) || bytes.Contains(line, []byte(`"queue-operation"`)) || bytes.Contains(line, []byte(`"kind":"peer"`)) ||
		bytes.Contains(line, []byte(wake.Tag)) || bytes.Contains(line, []byte(transcript.Refused))
	if !ours && len(c.open) == 0 && !late {
		return // most of a long conversation
	}
	r, ok := transcript.Parse(line)
	if !ok || r.Sidechain {
		return
	}
	step := r.Step()
	switch r.Type {
	case "queue-operation":
		c.queued(&r)
	case "attachment":
		switch origin := r.Attachment.Origin; {
		case origin.Kind == "peer" && origin.ID != "": // in the middle of a turn, at the end of a tool
			c.given([]string{Nonce(origin.ID)}, r.Time())
		case r.Attachment.Type == "queued_command":
			c.given(c.has(transcript.Texts(r.Attachment.Prompt, "")), r.Time())
		}
	case "user":
		if step == transcript.Begins {
			c.begin()
		}
		switch {
		case step == transcript.Interrupts:
			for _, s := range c.open {
				s.interrupted, s.endedAt = true, r.Time()
			}
			return
		case r.Origin.Kind == "peer":
			if r.Origin.ID != "" {
				c.given([]string{Nonce(r.Origin.ID)}, r.Time())
			}
		case step == transcript.Begins, r.Kind() == transcript.Results:
			c.given(c.has(transcript.Texts(r.Message.Content, "\n")), r.Time())
		default:
			return
		}
		if !prompted {
			for _, s := range c.open {
				s.ended, s.endedAt = !c.stopped.at.IsZero(), c.stopped.at
				s.answer, s.saidAt = c.stopped.said.Text, c.stopped.said.At
			}
		}
	case "assistant":
		if step != transcript.Within {
			c.answered(&r, step == transcript.Stops || step == transcript.Fails)
		}
	case "system":
		c.refused(transcript.Texts(r.Content, ""))
		if step == transcript.Hooks || step == transcript.Ends {
			for _, s := range c.open {
				if !s.ended {
					s.ended, s.endedAt = true, r.Time()
				}
			}
		}
		if step == transcript.Ends {
			c.begin()
		}
	}
}

// refused takes a text that may report that a hook has refused a prompt. The model is not given such a prompt.
func (c *conversation) refused(text string) {
	why, prompt, ok := transcript.RefusedBy(text, c.dequeued)
	if !ok {
		return
	}
	var list []string
	if id, ok := peer.Queued(prompt); ok && prompt == c.dequeued {
		list = []string{Nonce(id)}
	} else if at := marker().FindStringIndex(prompt); at != nil && at[0] == 0 {
		list = c.has(prompt)[:1]
	}
	for _, nonce := range list {
		c.of(nonce).refused = excerpt.Line(why, 200)
	}
}

// queued processes a record of the program's queue.
func (c *conversation) queued(r *transcript.Record) {
	left, _ := c.queue.Add(r)
	switch r.Operation {
	case "dequeue":
		c.dequeued = left.Text
	case "enqueue":
		text := transcript.Texts(r.Content, "")
		var list []string
		if id, ok := peer.Queued(text); ok {
			list = []string{Nonce(id)}
		} else {
			list = c.has(text)
		}
		for _, nonce := range list {
			s := c.of(nonce)
			s.queuedAt, s.removed = r.Time(), false
		}
	case "remove":
		if _, ok := peer.Queued(left.Text); !ok { // otherwise its origin proves it, which nobody can type
			c.given(c.has(left.Text), r.Time())
		}
	case "popAll":
		for _, nonce := range nonces(left.Text) {
			c.of(nonce).removed = true
		}
	}
}

// begin notes that a turn begins with a prompt, so that earlier turns that have ended are final.
func (c *conversation) begin() {
	c.open = slices.DeleteFunc(c.open, func(s *progress) bool {
		s.final = s.over()
		return s.final
	})
}

// answered takes a text of the agent; stops means that the agent stops after it.
func (c *conversation) answered(r *transcript.Record, stops bool) {
	c.said.Add(r)
	if stops {
		c.stopped = stopped{r.Time(), c.said}
	}
	for _, s := range c.open {
		if c.said.Text != "" {
			s.answer, s.saidAt = c.said.Text, c.said.At
		}
		if stops { // the last stop counts: a hook can make the agent continue
			s.ended, s.endedAt = true, r.Time()
		}
	}
}

func (c *conversation) of(nonce string) *progress {
	if c.at[nonce] == nil {
		c.at[nonce] = &progress{path: c.tail.Path}
	}
	return c.at[nonce]
}

func (c *conversation) given(list []string, at time.Time) {
	for _, nonce := range list {
		if s := c.of(nonce); !s.given {
			s.given, s.at = true, at
			c.open = append(c.open, s)
		}
	}
}

// has returns the nonces of the messages in a text, and keeps the text of each.
func (c *conversation) has(text string) (list []string) {
	for _, m := range messages(text) {
		c.came(m.nonce, m.text)
		list = append(list, m.nonce)
	}
	return list
}

// came keeps a text of a message. A message is recorded several times, and other texts can quote its marker.
func (c *conversation) came(nonce, text string) {
	const most = 8
	if s := c.of(nonce); len(s.texts) < most && !slices.Contains(s.texts, text) {
		s.texts = append(s.texts, text)
	}
}

// named is a message found in a text: its nonce, and the text behind its marker.
type named struct{ nonce, text string }

func messages(text string) (list []named) {
	for _, at := range marker().FindAllStringSubmatchIndex(text, -1) {
		list = append(list, named{text[at[2]:at[3]], text[at[1]:]})
	}
	for _, m := range wake.Messages(text) {
		list = append(list, named{Nonce(m.ID), m.Text})
	}
	return list
}

func nonces(text string) (list []string) {
	for _, m := range messages(text) {
		list = append(list, m.nonce)
	}
	return list
}

// found returns the progress of the messages in transcripts, by nonce.
func (tr *transcripts) found(paths ...string) map[string]progress {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	all := map[string]progress{}
	for _, path := range paths {
		c := tr.files[path]
		if c == nil {
			c = newConversation(path)
			tr.files[path] = c
		}
		for line, err := range c.tail.Lines() {
			if err != nil {
				break // a transcript that cannot be read shows nothing
			}
			switch {
			case codex.IsRollout(path):
				c.rollout(line)
			case qwen.IsChat(path):
				c.chat(line)
			default:
				c.line(line, c.tail.Left() < nearEnd)
			}
		}
		for nonce, s := range c.at {
			was, ok := all[nonce]
			texts := slices.Concat(was.texts, s.texts)
			if !ok || !was.given && (s.given || s.queuedAt.After(was.queuedAt)) {
				was = *s
			}
			was.texts = texts
			all[nonce] = was
		}
	}
	return all
}

// lastStop returns the end of the last turn in a transcript.
func (tr *transcripts) lastStop(path string) stopped {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if c := tr.files[path]; c != nil {
		return c.stopped
	}
	return stopped{}
}

// forget drops all transcripts. It is called when no message is open.
func (tr *transcripts) forget() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	clear(tr.files)
}

// dir returns the working directory of the program in a pane, or "".
func (tr *transcripts) dir(ctx context.Context, of Pane) string {
	if of.Team == ledger.SessionTeam {
		return of.Cwd
	}
	there, err := tr.tmux.look(ctx, of.Ref)
	if err != nil {
		return "" // the transcript of a known session is found without it
	}
	return there.Path
}

// paths returns the files in which the program of a pane, which runs in dir, may record
// messages that were sent since a time: the transcript of its session, if its process is
// known, and those of its directory that have changed since.
func (tr *transcripts) paths(of Pane, dir string, since time.Time) (paths []string) {
	root := tr.opts.Root.Path()
	if program := tr.opts.Homes.of(of.Profile); program != nil {
		return program.transcripts(of, since)
	}
	if of.Team == ledger.SessionTeam {
		if path, ok := transcript.Session(root, dir, of.Ref.ID); ok {
			paths = append(paths, path)
		}
	} else if process := tr.views.process(of.Ref.PID); process.PID != 0 {
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

// Written returns when the transcript of the session in a view was last written; zero if that is
// not known.
func (vs *Views) Written(v View) (at time.Time) {
	if path, ok := vs.conversation(v); ok {
		if info, err := os.Stat(path); err == nil {
			at = transcript.ValidTime(info.ModTime())
		}
	}
	return at
}

// Asked returns the use of a tool about which an agent asks its person, if its transcript shows that use.
func (vs *Views) Asked(v View) (call transcript.Block, ok bool) {
	if path, found := vs.conversation(v); found {
		call, ok = transcript.Asked(path)
	}
	return call, ok
}

// conversation returns the path of the transcript of the agent in a pane or a session.
func (vs *Views) conversation(v View) (path string, ok bool) {
	id, dir := v.Process.Session, v.Process.Cwd
	if v.Pane.IsSession() && id == "" {
		id, dir = v.Pane.Ref.ID, v.Pane.Cwd
	}
	if id == "" || vs.opts.Homes.of(v.Pane.Profile) != nil { // other programs write elsewhere
		return "", false
	}
	return transcript.Session(vs.opts.Root.Path(), dir, id)
}

// process returns the agent in a pane whose first process is pid: the session of that process or of its nearest
// descendant that has one. If that process only shows a session, the shown session's process is returned.
func (vs *Views) process(pid int) (nearest transcript.Process) {
	const deepest = 16
	depth := deepest
	root := vs.opts.Root.Path()
	look := func(all []transcript.Process) {
		for _, s := range all {
			for at, n := s.PID, 0; at > 1 && n < depth; at, n = vs.tmux.parent(at), n+1 {
				if at == pid && vs.tmux.parent(s.PID) != 0 {
					nearest, depth = s, n
					break
				}
			}
		}
	}
	if look(transcript.Processes(root)); nearest.PID != 0 {
		return nearest
	}
	if look(transcript.Viewers(root)); nearest.PID != 0 {
		_, _, nearest = teams.Moved(root, nearest.Session)
	}
	return nearest
}

// proof looks for one message in the transcripts.
type proof struct {
	in    *transcripts
	of    Pane
	nonce string
	text  string
	since time.Time
	dir   string // of the program; "" if it was not asked for yet
}

func (tr *transcripts) proof(of Pane, m ledger.PaneMessage) *proof {
	since := m.SentAt
	if since.IsZero() {
		since = time.Now()
	}
	return &proof{in: tr, of: of, nonce: Nonce(m.UUID), text: string(m.Raw), since: since}
}

// find returns the progress of the message, and whether the transcripts have it.
func (p *proof) find(ctx context.Context) (progress, bool) {
	if p.dir == "" {
		p.dir = p.in.dir(ctx, p.of) // once: find is called several times a second
	}
	s, ok := p.in.found(p.in.paths(p.of, p.dir, p.since)...)[p.nonce]
	return s, ok
}

// has returns the facts that the transcripts show of the message.
func (p *proof) has(ctx context.Context) facts { return p.known(p.find(ctx)) }

// shown is has, but a record of the queue from before the message was sent does not count: an earlier process queued
// the message then, and its queue ended with it.
func (p *proof) shown(ctx context.Context) facts {
	s, ok := p.find(ctx)
	before := !s.queuedAt.IsZero() && s.queuedAt.Before(p.since.Truncate(time.Millisecond)) // the transcripts' precision
	return p.known(s, ok && (s.given || s.kept || !before))
}

func (p *proof) known(s progress, ok bool) (f facts) {
	if !ok {
		return f
	}
	f = facts{shown: true, altered: s.altered(p.text), task: ledger.TaskSent, transcript: s.path}
	if s.given {
		f.task = ledger.TaskGiven
	}
	return f
}
