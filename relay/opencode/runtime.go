package opencode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/process"
	"teambridge/relay/wire"
)

// keepReader is how long a server that only reads is kept for the next question.
const keepReader = 15 * time.Second

// Runtime starts agents, and knows what became of what they were sent. Make it with [New].
type Runtime struct {
	options Options

	mu     sync.Mutex
	live   []*Agent
	reader *server // reads conversations while no agent runs; nil if there is none
	using  int     // how many read with it
	expiry *time.Timer
	owed   map[string]bool // the conversations that were asked for and could not be read in time

	starting sync.Mutex // held while the reader is started
}

// New returns a runtime. It starts nothing.
func New(o Options) *Runtime { return &Runtime{options: o, owed: map[string]bool{}} }

// Command is what is started, or the URL of the server that is used, for people.
func (r *Runtime) Command() string {
	if r.options.URL != "" {
		return r.options.URL
	}
	return strings.Join(r.options.command(), " ")
}

// Unnamed returns the mode: no flag of OpenCode's sets any of it.
func (r *Runtime) Unnamed(m mode.Mode) mode.Mode { return m }

// MayPoll is false: no agent reads an inbox by itself.
func (r *Runtime) MayPoll() bool { return false }

// SendsMessages is false: an agent has no tool to write to the members of its team.
func (r *Runtime) SendsMessages() bool { return false }

// NeedsRestart reports whether only another server can work in another mode.
func (r *Runtime) NeedsRestart(from, to mode.Mode) bool {
	from.Model, to.Model = mode.Setting[string]{}, mode.Setting[string]{}
	return from.WithoutDefaults() != to.WithoutDefaults() && r.options.checkMode(to) == nil
}

// Start starts an agent that begins a conversation, or goes on with it if there is one.
// The end of ctx kills it.
func (r *Runtime) Start(ctx context.Context, session string, m mode.Mode) (agent.Agent, error) {
	a, err := r.start(ctx, session, m)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (r *Runtime) start(ctx context.Context, session string, m mode.Mode) (*Agent, error) {
	o := r.options
	if _, ok := UUID(SessionID(session)); !ok {
		return nil, fmt.Errorf("opencode: the session %.60q is no UUID", session)
	}
	if err := o.checkMode(m); err != nil {
		return nil, err
	}
	if o.Profile.Name != "" {
		p, err := o.Profile.Load()
		if err != nil {
			return nil, err
		}
		o.profile = *p
	}
	if o.Tools != nil {
		if o.URL != "" {
			return nil, fmt.Errorf("opencode: a server that runs already takes no list of tools: %w", agent.ErrRefused)
		}
		o.profile.Tools = o.Tools
	}
	a := &Agent{
		runtime: r, options: o, session: session, id: SessionID(session), mode: m, wake: make(chan struct{}, 1),
		idle: make(chan struct{}), heard: time.Now(), granted: map[string]bool{}, adapter: o.adapter(session),
	}
	a.life, a.over = context.WithCancel(context.Background())
	if err := a.connect(ctx); err != nil {
		a.over()
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		if a.server != nil {
			a.server.kill()
		}
		a.over()
		return nil, err
	}
	r.mu.Lock()
	r.live = append(r.live, a)
	r.mu.Unlock()
	context.AfterFunc(a.life, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.live = slices.DeleteFunc(r.live, func(o *Agent) bool { return o == a })
	})
	stop := context.AfterFunc(ctx, func() { _ = a.Kill() }) // Wait tells how it ended
	context.AfterFunc(a.life, func() { stop() })
	return a, nil
}

// connect starts a server, or uses the one that runs.
func (a *Agent) connect(ctx context.Context) error {
	o := a.options
	if o.URL != "" {
		a.client = newClient(o.URL, o.User, o.Password)
		var err error
		if a.version, err = a.health(ctx); err != nil {
			return fmt.Errorf("opencode: the server at %s cannot be used: %w", o.URL, err)
		}
		return o.checkVersion(ctx, a.client, a.version)
	}
	if err := o.sweep(ctx, a.session); err != nil {
		return err
	}
	dir, err := o.configDir(a.mode)
	if err != nil {
		return err
	}
	if a.server, err = o.startServer(ctx, a.session, dir); err != nil {
		return err
	}
	a.client, a.version = a.server.client, a.server.version
	go func() {
		<-a.server.done
		a.over()
	}()
	return nil
}

// open makes the session ready: the directory is loaded, and the session is there with the
// model and the agent of the mode.
func (a *Agent) open(ctx context.Context) error {
	if err := a.loaded(ctx); err != nil {
		return err
	}
	model, err := a.options.model(ctx, a.client, a.mode)
	if err != nil {
		return err
	}
	now, err := a.client.session(ctx, a.id)
	_, wanted := a.options.configOf(a.mode)
	if a.server == nil {
		wanted = "" // that of the server's user
	}
	if hasStatus(err, http.StatusNotFound) {
		if err := a.create(ctx, a.id, a.options.Dir, model, wanted); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else {
		if now.Location.Directory != a.options.Dir {
			return fmt.Errorf("opencode: session %s belongs to the directory %q, not to %q", a.session, now.Location.Directory, a.options.Dir)
		}
		if model.ID != "" && (now.Model.ID != model.ID || now.Model.Provider != model.Provider) {
			if err := a.setModel(ctx, a.id, model); err != nil {
				return err
			}
		}
		if wanted != "" && now.Agent != wanted && (now.Agent != "" || wanted != agentBuild) {
			if err := a.setAgent(ctx, a.id, wanted); err != nil {
				return err
			}
		}
	}
	if err := a.rest(ctx, a.id); err != nil {
		return err
	}
	return a.past(ctx)
}

// maxOwed is how many turns an agent tells again that nobody could read before it was started.
const maxOwed = 3

// past reads what was told before. That is the conversation's to tell, unless it was asked
// and took too long: then this tells the last turns first, so that their envelopes come
// before those that follow.
func (a *Agent) past(ctx context.Context) error {
	a.runtime.mu.Lock()
	owed := a.runtime.owed[a.session]
	delete(a.runtime.owed, a.session)
	a.runtime.mu.Unlock()
	var turns [][]wire.Envelope
	add := func(list []wire.Envelope) {
		for _, e := range list {
			if _, begins := e.Event.(*wire.TurnStart); begins || turns == nil {
				turns = append(turns[max(0, len(turns)-maxOwed+1):], nil)
			}
			turns[len(turns)-1] = append(turns[len(turns)-1], e)
		}
	}
	past := a.options.adapter(a.session)
	for rec, err := range a.history(ctx, a.id, 0) {
		if err != nil {
			return err
		}
		a.seen = max(a.seen, rec.Seq)
		if owed {
			add(past.event(rec.Event))
		}
	}
	if add(past.end(time.Time{})); len(turns) > 0 {
		a.pending = append(a.pending, agent.Event{At: time.Now().UTC(), Envelopes: slices.Concat(turns...)})
	}
	return nil
}

// loaded waits until the server has loaded the directory. A prompt before that would run
// without its model and its system prompt.
func (a *Agent) loaded(ctx context.Context) error {
	ask := func(ctx context.Context) error {
		agents, err := a.agents(ctx, a.options.Dir)
		if err != nil || agents == 0 {
			return errors.Join(errors.New("it has no agents"), err)
		}
		models, err := a.models(ctx, a.options.Dir)
		if err != nil || len(models) == 0 {
			return errors.Join(errors.New("it has no models"), err)
		}
		return nil
	}
	s := a.server
	if s == nil {
		s = &server{client: a.client}
	}
	return s.poll(ctx, callTimeout, "loaded "+a.options.Dir, ask)
}

// read calls do with a client that can read conversations, of an agent that runs or else
// of a server of its own.
func (r *Runtime) read(ctx context.Context, do func(*client) error) error {
	if r.options.URL != "" {
		c := newClient(r.options.URL, r.options.User, r.options.Password)
		defer c.close()
		return do(c)
	}
	r.mu.Lock()
	for _, a := range r.live {
		if a.life.Err() == nil {
			r.mu.Unlock()
			if err := do(a.client); err == nil || a.life.Err() == nil {
				return err
			}
			r.mu.Lock()
			break // it has ended meanwhile
		}
	}
	r.mu.Unlock()
	s, err := r.borrow(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	return do(s.client)
}

// borrow returns the server that only reads.
func (r *Runtime) borrow(ctx context.Context) (*server, error) {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	s := r.reader
	if s != nil {
		select {
		case <-s.gone():
			s, r.reader = nil, nil
		default:
			r.using++
		}
	}
	r.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := r.options.startServer(ctx, "", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader = s
	r.using++
	return s, nil
}

func (r *Runtime) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.using--
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.expiry = time.AfterFunc(keepReader, r.expire)
}

func (r *Runtime) expire() {
	r.mu.Lock()
	s := r.reader
	if r.using > 0 || s == nil {
		r.mu.Unlock()
		return
	}
	r.reader = nil
	r.mu.Unlock()
	s.kill()
}

// Close ends the server that only reads, if there is one. Agents go on.
func (r *Runtime) Close() error {
	r.mu.Lock()
	s := r.reader
	r.reader = nil
	r.mu.Unlock()
	if s != nil {
		s.kill()
	}
	return nil
}

// Turn tells what the conversation has of a message, even if no agent runs.
func (r *Runtime) Turn(ctx context.Context, session, uuid string) (agent.Turn, error) {
	var found agent.Turn
	err := r.read(ctx, func(c *client) error {
		id := MessageID(uuid)
		var t turn
		found = agent.Turn{}
		for rec, err := range c.history(ctx, SessionID(session), 0) {
			if hasStatus(err, http.StatusNotFound) {
				return nil // nothing was said
			} else if err != nil {
				return err
			}
			p, begins := rec.Data.(*Prompted)
			switch {
			case begins && found.Stored:
				return nil // the next turn
			case begins && p.MessageID == id:
				found.Stored = true
			case found.Stored:
				t.add(rec)
			}
			if found.Stored {
				found = t.after()
			}
		}
		return nil
	})
	if err != nil || !found.Stored {
		return found, err
	}
	if found.Finished {
		return found, nil
	}
	if stopped, err := r.options.marked(session, uuid); stopped || err != nil {
		return agent.Turn{Stored: true, Interrupted: true}, err
	}
	return found, nil
}

// Conversation gives what a conversation has of what its agent said and did since a time,
// or somewhat before. What the agent told in its events has the same ids. ended says that no
// agent works on it.
func (r *Runtime) Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		if id := SessionID(session); !isID(id) {
			yield(wire.Envelope{}, fmt.Errorf("opencode: %.120q is no id of a session", session))
			return
		}
		told, stopped := 0, false
		owe := func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.owed[session] = true
		}
		err := r.read(ctx, func(c *client) error {
			if r.options.URL != "" && ended {
				// A server that runs without us goes on when its relay is killed.
				active, err := c.active(ctx, SessionID(session))
				if err != nil {
					return err
				}
				if ended = !active; active {
					owe()
				}
			}
			a := r.options.adapter(session)
			known := told // a server that ended may have given a part
			for e, err := range a.conversation(c.history(ctx, SessionID(session), 0), since, ended) {
				if hasStatus(err, http.StatusNotFound) {
					return nil // nothing was said
				} else if err != nil {
					return err
				}
				if known--; known >= 0 {
					continue
				}
				told++
				if stopped = !yield(e, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && ended && ctx.Err() != nil {
			owe()
		}
		if err != nil && !stopped {
			yield(wire.Envelope{}, err)
		}
	}
}

// Predecessor is the server of an agent that may have outlived its relay.
type Predecessor struct {
	process.Predecessor
	options Options
}

// Predecessor finds the server of an agent that an earlier relay started.
func (r *Runtime) Predecessor(p agent.Process) agent.Predecessor {
	return Predecessor{process.Predecessor(p), r.options}
}

// serving is what is known of the server; ok is false if nobody knows how to ask it.
func (d Predecessor) serving() (s serving, ok bool, err error) {
	list, err := running(d.options.State)
	i := slices.IndexFunc(list, func(s serving) bool { return s.Predecessor == d.Predecessor })
	if i < 0 {
		return serving{}, false, err
	}
	return list[i], true, nil
}

// Wait waits until its session is not worked on any more, ends it, and returns nil, or the
// error of ctx. A server does not end by itself.
func (d Predecessor) Wait(ctx context.Context) error {
	s, ok, err := d.serving()
	if err != nil {
		return err
	} else if !ok {
		return d.Predecessor.Wait(ctx)
	}
	c := newClient(s.URL, s.User, s.Password)
	defer c.close()
	for {
		active, err := c.active(ctx, SessionID(s.Session))
		if err == nil && !active {
			// What its tools left running may stay.
			if err := d.Predecessor.End(ctx, 0); err != nil {
				return err
			}
			if err := os.Remove(serverFile(d.options.State, s.PID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("opencode: %w", err)
			}
			return nil
		}
		if alive, err := d.Alive(); !alive {
			return err
		}
		if err := pause(ctx, nil); err != nil {
			return fmt.Errorf("opencode: process %d still works: %w", d.PID, err)
		}
	}
}

// End ends it, by force after grace, with what its tools run.
func (d Predecessor) End(ctx context.Context, grace time.Duration) error {
	s, known, err := d.serving()
	if err != nil {
		return err
	}
	if err := d.Predecessor.End(ctx, grace); err != nil || !known {
		return err
	}
	killTools(s.Password)
	return nil
}
