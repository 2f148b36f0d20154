package acp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/process"
	"teambridge/relay/wire"
	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
)

const (
	// startTimeout limits the start of an agent and the loading of its session.
	startTimeout = 3 * time.Minute
)

// envMark is an environment variable that an agent and all its descendants have.
const envMark = "TEAMBRIDGE_AGENT_MARK"

// running is the content of a file next to the record. It identifies an agent to later processes.
type running struct {
	process.Predecessor
	Mark string `json:"mark"` // see [process.Tree]
}

func (o Options) runningFile(session string) string { return filepath.Join(o.dir(session), "process") }

// clear ends the remains of a session's earlier agent, and waits until they are gone. From then on, the
// agent's record cannot change.
func (o Options) clear(ctx context.Context, session string) error {
	file := o.runningFile(session)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("acp: %w", err)
	}
	var left running
	if err := json.Unmarshal(data, &left); err != nil {
		return fmt.Errorf("acp: %s: %w", file, err)
	}
	if left.PID != 0 {
		if err := left.End(ctx, 0); err != nil && !errors.Is(err, process.ErrUnverified) {
			return err
		}
	}
	if err := endMarked(left.Mark); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("acp: %w", err)
	}
	return nil
}

// endMarked kills all processes with a mark, and waits until they are gone.
func endMarked(mark string) error {
	if mark == "" {
		return nil
	}
	if left := process.KillByEnv(mark); len(left) > 0 {
		return fmt.Errorf("acp: processes %d of an earlier agent of this session cannot be ended; end them, then try again", left)
	}
	return nil
}

// spawn starts the process of an agent, once no other process uses the session.
func (r *Runtime) spawn(ctx context.Context, session string, m mode.Mode) (_ *Agent, err error) {
	o := r.options
	if o.State == "" || len(o.Command) == 0 {
		return nil, errors.New("acp: an agent needs a command and a state directory")
	}
	if err := os.MkdirAll(o.dir(session), 0o700); err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	unlock, ok, err := flock.TryLock(filepath.Join(o.dir(session), "lock"))
	if err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	} else if !ok {
		return nil, fmt.Errorf("acp: another process works on session %s", session)
	}
	a := &Agent{
		runtime: r, options: o, program: programOf(o.Command, ""), session: session, mode: m, held: unlock,
		events: pipe.NewStream[agent.Event](maxPending), idle: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			if a.record != nil {
				a.record.close()
			}
			_ = unlock()
		}
	}()
	if err := o.clear(ctx, session); err != nil {
		return nil, err
	}
	if a.record, err = openRecord(o.recordFile(session)); err != nil {
		return nil, err
	}
	mark := envMark + "=" + rand.Text()
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Dir, cmd.Env = o.Dir, append(slices.Clone(o.env()), mark)
	if a.program.env != nil {
		more, err := a.program.env(o, permissionOf(m))
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, more...)
	}
	process.OwnGroup(cmd)
	// The file comes before the process, so that later processes know the mark even if this one is killed
	// now.
	if err := o.writeFile(session, running{Mark: mark}); err != nil {
		return nil, err
	}
	started, err := process.Start(cmd, true)
	if err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	child := process.NewTree(started, mark, o.runningFile(session))
	a.life, a.over = context.WithCancel(context.Background())
	a.alive, a.died = context.WithCancel(a.life)
	a.conn = &conn{child: child, told: a.notified, asked: a.request, tooLarge: a.tooLarge, timeout: cmp.Or(o.closed, 30*time.Second), calls: map[int]func(json.RawMessage, error){}}
	go a.run()
	if err := o.writeFile(session, running{child.Predecessor, mark}); err != nil {
		_ = a.Kill()
		return nil, err
	}
	return a, nil
}

// writeFile writes the file of [running].
func (o Options) writeFile(session string, r running) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(o.runningFile(session), data)
	}
	if err != nil {
		return fmt.Errorf("acp: %w", err)
	}
	return nil
}

// run reads the agent's output until the agent has ended.
func (a *Agent) run() {
	err := a.child.Run(a.options.Stderr, a.read, func() {
		a.died()
		a.closeStdin()
	})
	a.record.close()
	_ = a.held()
	a.err = a.ended(err)
	a.over() // first: Turn may be asked as soon as there are no more events
	a.events.End()
}

// tooLarge handles a line that was not read. While a session is loaded, such a line makes the load fail.
func (a *Agent) tooLarge(size int64) {
	a.mu.Lock()
	loading := a.replay
	a.mu.Unlock()
	if loading != nil {
		loading.failed = fmt.Errorf("its recorded conversation cannot be read: a line has %d bytes, over %d", size, lineLimit)
		return
	}
	a.tell(agent.Event{Missed: true})
}

// open makes the session ready. If look is true, it only loads the session and records which messages the
// agent has.
func (a *Agent) open(ctx context.Context, look bool) error {
	var hello initialized
	p := initializeParams{ProtocolVersion: version, ClientInfo: implementation{Name: "teambridge", Version: "1"}}
	if err := a.call(ctx, methodInitialize, p, &hello); err != nil {
		return err
	}
	if hello.ProtocolVersion != version {
		return fmt.Errorf("it speaks version %d of the Agent Client Protocol, and teambridge speaks version %d", hello.ProtocolVersion, version)
	}
	if !hello.AgentCapabilities.LoadSession {
		return errors.New("it cannot load a session, so its messages would be unknown after a crash")
	}
	a.program = programOf(a.options.Command, hello.AgentInfo.Name)
	loaded, err := a.load(ctx)
	if err != nil {
		return err
	}
	if !loaded {
		if look {
			return nil
		}
		a.opened = opened{}
		if err := a.call(ctx, methodNew, openParams{Cwd: a.options.Dir, MCPServers: []struct{}{}}, &a.opened); err != nil {
			return err
		}
		if a.opened.SessionID == "" {
			return errors.New("its new session has no id")
		}
		if err := a.record.add(entry{Session: a.opened.SessionID}); err != nil {
			return err
		}
	}
	if look {
		return nil
	}
	a.usual = cmp.Or(a.opened.choice("model").current, "default")
	if err := a.setPermission(ctx, a.mode); err != nil {
		return err
	}
	if model, ok := a.mode.Model.Value(); ok {
		return a.setModel(ctx, model)
	}
	return nil
}

// load loads the session, and records which of the open messages the agent has. It returns false if there is
// no session to load: none was made, or the agent did not keep it, for example because it was killed with its
// first message.
func (a *Agent) load(ctx context.Context) (bool, error) {
	r := a.record
	if r.session == "" {
		return false, nil
	}
	if next := r.created.Truncate(time.Minute).Add(time.Minute); a.program.afterMinute {
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	seen := &replay{ids: map[string]bool{}, last: r.turn}
	a.mu.Lock()
	a.replay = seen
	a.mu.Unlock()
	err := a.call(ctx, methodLoad, openParams{r.session, a.options.Dir, []struct{}{}}, &a.opened)
	a.mu.Lock()
	a.replay = nil
	a.mu.Unlock()
	// Next to a failed message, one that is still open may have been taken before the session was forgotten.
	if open := len(r.open()); unknownSession(err) && r.empty() && (open == 0 || open == len(r.begun)) {
		return false, nil
	}
	if err = cmp.Or(err, seen.failed); err != nil {
		return false, err
	}
	seen.flush()
	for _, id := range r.open() {
		if !seen.ids[id] {
			continue
		}
		e := entry{Found: id}
		if a.program.finished != nil && !r.stopping[id] {
			if answer, ok := a.program.finished(a.options, r.session, id); ok {
				e = entry{Ended: &ending{Message: id, State: agent.Done, Text: strings.TrimSpace(answer)}}
			}
		}
		if err := r.add(e); err != nil {
			return false, err
		}
	}
	if turn := r.turn; turn != "" {
		if what, known := r.answer(turn); known && what.Stored {
			a.finish(seen)
		} // otherwise the message is sent again
	}
	return true, nil
}

// unknownSession reports whether an agent does not know a session. The agents' errors differ in code and
// text. It returns false if another thing was not found, such as a model.
func unknownSession(err error) bool {
	refused, ok := errors.AsType[*CallError](err)
	return ok && (refused.Code == codeNotFound || noSession().MatchString(refused.Error()))
}

var noSession = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(no|unknown)( previous)? (session|conversation|thread)s?\b|\b(session|conversation|thread)\b.*\bnot (be )?found\b`)
})

// finish reports the end of a turn that an earlier process left open. Before that, it reports the parts of
// the turn that the agent has recorded and that were not reported yet. The recorded outcome of a tool is not
// reliable: some agents call a killed tool completed.
func (a *Agent) finish(seen *replay) {
	r := a.record
	turn := r.turn
	if turn == "" {
		return
	}
	end, ended := r.ended[turn]
	finished := ended && end.State == agent.Done
	var list []wire.Envelope
	emit := func(e wire.Envelope) {
		if v, ok := e.Event.(*wire.ToolCallEnd); ok && !finished && v.Outcome == wire.OutcomeDone {
			v.Outcome = wire.OutcomeCut
		}
		if !r.hasTold(e.ID) {
			a.keep(entry{Envelope: &e})
			list = append(list, e)
		}
	}
	f := newFold(turn, emit)
	for _, u := range seen.tail {
		f.update(&u)
	}
	status := wire.TurnFailed
	switch {
	case finished:
		status = wire.TurnCompleted
	case r.stopping[turn]:
		status = wire.TurnCancelled
	}
	f.close(r, status, nil)
	a.tell(agent.Event{Envelopes: list})
}

// replay collects the updates that an agent sends while it loads a session.
type replay struct {
	last string // the message whose turn is still open
	ids  map[string]bool
	tail []Update // the updates after the last message
	at   string   // the last message
	user strings.Builder

	failed error // why the session could not be read
}

func (p *replay) add(u *Update) {
	if u.Kind == userChunk {
		text := u.text()
		if strings.HasPrefix(text, envelopeStart) {
			p.flush() // the turn before had no output
		}
		p.user.WriteString(text)
		return
	}
	p.flush()
	if p.at != "" && p.at == p.last {
		p.tail = append(p.tail, *u)
	}
}

// flush processes the user's message that has arrived. An agent may have added text of its own to it.
func (p *replay) flush() {
	text := p.user.String()
	p.user.Reset()
	for _, m := range envelope().FindAllStringSubmatch(text, -1) {
		p.ids[m[1]] = true
		p.at, p.tail = m[1], nil
	}
}
