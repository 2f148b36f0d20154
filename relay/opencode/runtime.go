package opencode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// Runtime starts agents, and finds the outcome of their messages. Make it with [New].
type Runtime struct {
	options Options

	mu     sync.Mutex
	live   []*Agent
	reader *server // the read-only server, for times when no agent runs; nil if there is none
	using  int     // number of current users of reader
	expiry *time.Timer
	owed   map[string]bool // conversations whose last turns must be reported again: see past

	starting sync.Mutex // held while the reader is started
}

// New returns a runtime. It starts nothing.
func New(o Options) *Runtime { return &Runtime{options: o, owed: map[string]bool{}} }

// Command returns the command line, or the URL of the shared server, to show to people.
func (r *Runtime) Command() string {
	if r.options.URL != "" {
		return r.options.URL
	}
	return strings.Join(r.options.command(), " ")
}

// Unnamed returns the mode unchanged, because no flag of OpenCode sets a mode.
func (r *Runtime) Unnamed(m mode.Mode) mode.Mode { return m }

// SendsMessages returns false: the agents have no tool to write to members of a team.
func (r *Runtime) SendsMessages() bool { return false }

// NeedsRestart reports whether the change of mode needs a new server.
func (r *Runtime) NeedsRestart(from, to mode.Mode) bool {
	from.Model, to.Model = mode.Setting[string]{}, mode.Setting[string]{}
	return from.WithoutDefaults() != to.WithoutDefaults() && r.options.checkMode(to) == nil
}

// Start starts an agent that begins or continues a conversation. The end of ctx kills the agent.
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
		return nil, fmt.Errorf("opencode: the session %.60q is not a UUID", session)
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
			return nil, fmt.Errorf("opencode: a server that is already running takes no list of tools: %w", agent.ErrRefused)
		}
		o.profile.Tools = o.Tools
	}
	a := &Agent{
		runtime: r, options: o, session: session, id: SessionID(session), mode: m, wake: make(chan struct{}, 1),
		idle: make(chan struct{}), heard: time.Now(), adapter: o.adapter(session),
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
	stop := context.AfterFunc(ctx, func() { _ = a.Kill() }) // Wait returns its exit error
	context.AfterFunc(a.life, func() { stop() })
	return a, nil
}

// connect starts a server, or connects to the shared one.
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

// open prepares the session: it loads the directory, and creates or updates the session with the model and
// the agent of the mode.
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
		wanted = "" // the server's own configuration decides
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

// maxOwed is the limit of turns that an agent reports again after its start.
const maxOwed = 3

// past reads the earlier events. Normally, Conversation has already yielded their envelopes. If it ran out of
// time, past reports the last turns itself, so that their envelopes precede later ones.
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

// loaded waits until the server has loaded the directory. Before that, a prompt would run without its model
// and system prompt.
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

// Predecessor is the server of an agent that may have outlived its relay.
type Predecessor struct {
	process.Predecessor
	options Options
}

// Predecessor returns the server of an agent that an earlier relay started.
func (r *Runtime) Predecessor(p agent.Process) agent.Predecessor {
	return Predecessor{process.Predecessor(p), r.options}
}

// serving returns the recorded access to the server; ok is false if none is recorded.
func (d Predecessor) serving() (s serving, ok bool, err error) {
	list, err := running(d.options.State)
	i := slices.IndexFunc(list, func(s serving) bool { return s.Predecessor == d.Predecessor })
	if i < 0 {
		return serving{}, false, err
	}
	return list[i], true, nil
}

// Wait waits until the session is idle. It then ends the server, which never exits on its own. It returns
// nil, or the error of ctx.
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
			// Processes that the server's tools started may stay.
			if err := d.Predecessor.End(ctx, endGrace); err != nil {
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

// End ends the server and the processes of its tools, by force after grace.
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
