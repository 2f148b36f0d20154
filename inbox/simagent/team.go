package simagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/teams"
)

// ErrRunning says that a team runs already.
var ErrRunning = errors.New("the team runs already")

// TeamOptions says what team [Create] makes.
type TeamOptions struct {
	Root        string        // a Claude root directory; made if missing
	Version     teams.Version // of the lead, and of members that have none of their own
	Name        string        // "": "session-" and 8 characters of the session id; needed before 2.1.178
	SessionID   string        // the lead's; "": a new uuid
	Description string        // written before 2.1.178
	Process     Process       // written from 2.1.311 on; zero: [CurrentProcess]

	Lead    Member // its Name, Color, AgentType and Prompt are not used
	Members []Member

	Cwd    string           // of members that have none of their own; "": the working directory
	Poll   time.Duration    // as in [Options], for all agents
	Now    func() time.Time // as in [Options]
	Report func(error)      // as in [Options]
}

// Member is an agent to be in a team.
type Member struct {
	Name      string
	Prompt    string
	Color     string // "": the next of the eight that Claude Code gives
	Model     string // "": the version's own
	AgentType string // written before 2.1.178; "": general-purpose
	Cwd       string
	Handle    Handler
	Version   teams.Version // zero: the team's

	// Absent makes an entry in config.json and an inbox, and nobody who reads
	// it: an agent that crashed, or one that somebody else plays.
	Absent bool
}

// Team is a team directory with the agents that play its members. Its methods
// may be used from any goroutine.
type Team struct {
	opts   TeamOptions
	kind   kind // of the lead, which writes config.json
	dir    string
	config *config

	mu      sync.Mutex
	members map[string]*played
	colors  int
	start   func(*played) // nil unless Run runs
}

// played is a member with what is needed to end it alone.
type played struct {
	agent  *Agent
	absent bool
	cancel context.CancelFunc // nil until it was started
	done   chan struct{}      // closed when its Run has returned
}

// Create makes a team directory below <root>/teams in the form of its
// version: config.json, and an empty inbox for each member. It starts no
// agent. It fails if there is such a directory already, and leaves none behind
// if it fails.
func Create(ctx context.Context, opts TeamOptions) (*Team, error) {
	kind, err := kindOf(opts.Version)
	if err != nil {
		return nil, err
	}
	opts.Now = clock(opts.Now)
	if opts.SessionID == "" {
		opts.SessionID = uuid.NewString()
	}
	if opts.Name == "" && kind.atStart {
		opts.Name = "session-" + opts.SessionID[:min(8, len(opts.SessionID))]
	}
	if err := checkName(opts.Name); err != nil {
		return nil, fmt.Errorf("simagent: create team: %w", err)
	}
	if kind.leadProcess && opts.Process == (Process{}) {
		process, err := CurrentProcess()
		if err != nil {
			return nil, err
		}
		opts.Process = process
	}
	if opts.Cwd == "" {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("simagent: create team %s: %w", opts.Name, err)
		}
		opts.Cwd = cwd
	}

	teams := filepath.Join(opts.Root, "teams")
	if err := os.MkdirAll(teams, 0o700); err != nil {
		return nil, fmt.Errorf("simagent: create team %s: %w", opts.Name, err)
	}
	t := &Team{opts: opts, kind: kind, dir: filepath.Join(teams, opts.Name), members: make(map[string]*played)}
	t.config = newConfig(t.dir, kind, opts.Now)
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("simagent: create team %s: %w", opts.Name, err)
	}
	if err := t.fill(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	return t, nil
}

func (t *Team) fill(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(t.dir, "inboxes"), 0o700); err != nil {
		return fmt.Errorf("simagent: create team %s: %w", t.opts.Name, err)
	}
	lead := t.opts.Lead
	lead.Name, lead.Color, lead.Prompt = Lead, "", ""
	if _, err := t.play(lead); err != nil {
		return err
	}
	if err := t.writeConfig(); err != nil {
		return err
	}
	for _, m := range t.opts.Members {
		if _, err := t.Spawn(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (t *Team) writeConfig() error {
	now := t.opts.Now()
	var entry any
	if t.kind.atStart {
		entry = leadOfSession{
			AgentID:       t.agentID(Lead),
			Name:          Lead,
			AgentType:     Lead,
			JoinedAt:      now.UnixMilli(),
			TmuxPaneID:    "leader",
			Cwd:           cmp.Or(t.opts.Lead.Cwd, t.opts.Cwd),
			Subscriptions: []string{},
			BackendType:   inProcess,
		}
	} else {
		entry = leadOfTool{
			AgentID:       t.agentID(Lead),
			Name:          Lead,
			AgentType:     Lead,
			Model:         cmp.Or(t.opts.Lead.Model, "claude-sonnet-4-6"),
			JoinedAt:      now.UnixMilli(),
			TmuxPaneID:    "",
			Cwd:           cmp.Or(t.opts.Lead.Cwd, t.opts.Cwd),
			Subscriptions: []string{},
		}
	}
	raw, err := encode(entry)
	if err != nil {
		return err
	}
	top := configFile{
		Name:          t.opts.Name,
		CreatedAt:     now.UnixMilli(),
		LeadAgentID:   t.agentID(Lead),
		LeadSessionID: t.opts.SessionID,
		Members:       []json.RawMessage{raw},
	}
	if !t.kind.atStart {
		top.Description = t.opts.Description
	}
	if t.kind.leadProcess {
		claimed := t.opts.Process.Claimed
		if claimed.IsZero() {
			claimed = now
		}
		top.LeadProcess = &leadProcess{
			PID:       t.opts.Process.PID,
			PIDSpace:  t.opts.Process.Space,
			ClaimedAt: claimed.UnixMilli(),
			ProcStart: t.opts.Process.Start,
		}
	}
	data, err := encode(top)
	if err != nil {
		return err
	}
	return t.config.write(data)
}

// Spawn adds a member to config.json, makes its inbox and, if the team runs,
// starts its agent. A name that is in config.json is refused with
// [ErrMember]; that of a member who left may be used again.
func (t *Team) Spawn(ctx context.Context, m Member) (*Agent, error) {
	if err := checkName(m.Name); err != nil {
		return nil, fmt.Errorf("simagent: spawn: %w", err)
	}
	if m.Color == "" {
		m.Color = t.nextColor()
	}
	entry, err := encode(t.teammate(m))
	if err != nil {
		return nil, err
	}
	if err := t.config.add(ctx, m.Name, entry); err != nil {
		return nil, err
	}
	return t.play(m)
}

func (t *Team) teammate(m Member) any {
	now := t.opts.Now().UnixMilli()
	cwd := cmp.Or(m.Cwd, t.opts.Cwd)
	if !t.kind.atStart {
		return teammateOfTool{
			AgentID:       t.agentID(m.Name),
			Name:          m.Name,
			AgentType:     cmp.Or(m.AgentType, "general-purpose"),
			Model:         cmp.Or(m.Model, "claude-opus-4-6"),
			Prompt:        m.Prompt,
			Color:         m.Color,
			JoinedAt:      now,
			TmuxPaneID:    inProcess,
			Cwd:           cwd,
			Subscriptions: []string{},
			BackendType:   inProcess,
		}
	}
	return teammateOfSession{
		AgentID:       t.agentID(m.Name),
		Name:          m.Name,
		Color:         m.Color,
		JoinedAt:      now,
		TmuxPaneID:    inProcess,
		Subscriptions: []string{},
		Model:         cmp.Or(m.Model, "sonnet"),
		Prompt:        m.Prompt,
		Cwd:           cwd,
		BackendType:   inProcess,
	}
}

func (t *Team) agentID(name string) string { return name + "@" + t.opts.Name }

func (t *Team) nextColor() string {
	colors := [...]string{"blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red"}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.colors++
	return colors[(t.colors-1)%len(colors)]
}

// play makes the agent of a member that is in config.json.
func (t *Team) play(m Member) (*Agent, error) {
	version := cmp.Or(m.Version, t.opts.Version)
	kind, err := kindOf(version)
	if err != nil {
		return nil, err
	}
	agent, err := newAgent(Options{
		Dir:     t.dir,
		Name:    m.Name,
		Version: version,
		Color:   m.Color,
		Handle:  m.Handle,
		Prompt:  m.Prompt,
		Poll:    t.opts.Poll,
		Now:     t.opts.Now,
		Report:  t.opts.Report,
	}, kind, t.config)
	if err != nil {
		return nil, err
	}
	if err := create(agent.Inbox()); err != nil {
		return nil, err
	}
	p := &played{agent: agent, absent: m.Absent}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.members[m.Name] = p
	if t.start != nil {
		t.start(p)
	}
	return agent, nil
}

// Run runs the agents of all members who are not absent, and of those who are
// spawned later, until ctx ends; then it returns nil, when all have ended.
// Without [TeamOptions.Report] the first failure ends it and is returned. The
// directory stays, as after a crash: see End.
func (t *Team) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var agents sync.WaitGroup
	var once sync.Once
	var failure error
	start := func(p *played) { // called with t.mu held
		if p.absent {
			return
		}
		own, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		p.cancel, p.done = stop, done
		agents.Go(func() {
			defer close(done)
			defer stop()
			if err := p.agent.Run(own); err != nil {
				once.Do(func() { failure = err })
				cancel()
			}
		})
	}

	t.mu.Lock()
	if t.start != nil {
		t.mu.Unlock()
		return fmt.Errorf("simagent: run team %s: %w", t.opts.Name, ErrRunning)
	}
	t.start = start
	for _, p := range t.members {
		start(p)
	}
	t.mu.Unlock()

	<-ctx.Done()
	t.mu.Lock()
	t.start = nil
	t.mu.Unlock()
	agents.Wait()
	return failure
}

// Kill ends a member's agent at once, in mid-turn too, and waits for it. Its
// entry in config.json and its inbox stay, as after a crash; a later Run of the
// team does not run it again. Not to be called from the member's own handler,
// for which it would wait.
func (t *Team) Kill(name string) error {
	t.mu.Lock()
	p := t.members[name]
	if p == nil {
		t.mu.Unlock()
		return fmt.Errorf("simagent: end %s in team %s: %w", name, t.opts.Name, ErrMember)
	}
	p.absent = true
	cancel, done := p.cancel, p.done
	t.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	return nil
}

// Remove ends a member's agent and takes it out of config.json. Its inbox stays.
func (t *Team) Remove(ctx context.Context, name string) error {
	if err := t.Kill(name); err != nil {
		return err
	}
	return t.config.remove(ctx, name)
}

// End deletes the team directory, as the end of the lead's session does. Call
// it when Run has returned: an agent that still runs would find its team gone.
func (t *Team) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start != nil {
		return fmt.Errorf("simagent: end team %s: %w", t.opts.Name, ErrRunning)
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("simagent: end team %s: %w", t.opts.Name, err)
	}
	return nil
}

// Dir returns the path of the team's directory.
func (t *Team) Dir() string { return t.dir }

// Name returns the team's name.
func (t *Team) Name() string { return t.opts.Name }

// Agent returns the agent who plays a member, also when it is absent or has
// ended, and nil if there never was one of that name.
func (t *Team) Agent(name string) *Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.members[name]; p != nil {
		return p.agent
	}
	return nil
}
