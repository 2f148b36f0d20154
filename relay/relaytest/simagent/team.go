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
)

// ErrRunning says that a team runs already.
var ErrRunning = errors.New("the team runs already")

// TeamOptions configures [Create].
type TeamOptions struct {
	Root      string  // a Claude root directory; made if missing
	Name      string  // "": "session-" and 8 characters of the session id
	SessionID string  // the lead's; "": a new uuid
	Process   Process // leadProcess; zero: [CurrentProcess]
	NoProcess bool    // there is no leadProcess, as up to 2.1.310
	Marks     bool    // as in [Options], for all agents

	Lead    Member // its Name, Color and Prompt are not used
	Members []Member

	Cwd    string           // of members that have none of their own; "": the working directory
	Poll   time.Duration    // as in [Options], for all agents
	Rest   time.Duration    // as in [Options], for all agents
	Now    func() time.Time // as in [Options]
	Report func(error)      // as in [Options]
}

// Member is an agent to be in a team.
type Member struct {
	Name   string
	Prompt string
	Color  string // "": the next of the eight that Claude Code gives
	Model  string // "": sonnet
	Cwd    string
	Handle Handler

	// Absent makes an entry in config.json and an inbox without a reader: an
	// agent that crashed, or one that another process simulates.
	Absent bool
}

// Team is a team directory with the agents that play its members. Its methods
// may be used from any goroutine.
type Team struct {
	opts   TeamOptions
	dir    string
	config *config

	mu      sync.Mutex
	members map[string]played
	colors  int
	start   func(played) // nil unless Run runs
}

// played is a member, and whether it is absent.
type played struct {
	agent  *Agent
	absent bool
}

// Create makes a team directory below <root>/teams: config.json, and an empty inbox for each
// member. It starts no
// agent. It fails if there is such a directory already, and leaves none behind
// if it fails.
func Create(ctx context.Context, opts TeamOptions) (*Team, error) {
	opts.Now = clock(opts.Now)
	if opts.SessionID == "" {
		opts.SessionID = uuid.NewString()
	}
	if opts.Name == "" {
		opts.Name = "session-" + opts.SessionID[:min(8, len(opts.SessionID))]
	}
	if err := checkName(opts.Name); err != nil {
		return nil, fmt.Errorf("simagent: create team: %w", err)
	}
	if !opts.NoProcess && opts.Process == (Process{}) {
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

	dir := filepath.Join(opts.Root, "teams")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("simagent: create team %s: %w", opts.Name, err)
	}
	t := &Team{opts: opts, dir: filepath.Join(dir, opts.Name), members: make(map[string]played)}
	t.config = newConfig(t.dir, opts.Now)
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

// writeConfig writes the first config.json, with the lead alone, in the key order of Claude Code.
func (t *Team) writeConfig() error {
	now := t.opts.Now()
	id, cwd := t.agentID(Lead), cmp.Or(t.opts.Lead.Cwd, t.opts.Cwd)
	lead, err := newObject("agentId", id, "name", Lead, "agentType", Lead, "joinedAt", now.UnixMilli(), "tmuxPaneId", "leader",
		"cwd", cwd, "subscriptions", []string{}, "backendType", inProcess)
	if err != nil {
		return err
	}
	pairs := []any{"name", t.opts.Name, "createdAt", now.UnixMilli(), "leadAgentId", id, "leadSessionId", t.opts.SessionID}
	if p := t.opts.Process; !t.opts.NoProcess {
		if p.Claimed.IsZero() {
			p.Claimed = now
		}
		process, err := newObject("pid", p.PID, "pidSpace", p.Space, "claimedAt", p.Claimed.UnixMilli(), "procStart", p.Start)
		if err != nil {
			return err
		}
		pairs = append(pairs, "leadProcess", process)
	}
	data, err := newObject(append(pairs, "members", []json.RawMessage{lead})...)
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
	entry, err := t.teammate(m)
	if err != nil {
		return nil, err
	}
	if err := t.config.add(ctx, m.Name, entry); err != nil {
		return nil, err
	}
	return t.play(m)
}

// teammate is the entry of a member, in the key order of Claude Code.
func (t *Team) teammate(m Member) (json.RawMessage, error) {
	id, now, cwd := t.agentID(m.Name), t.opts.Now().UnixMilli(), cmp.Or(m.Cwd, t.opts.Cwd)
	return newObject("agentId", id, "name", m.Name, "color", m.Color, "joinedAt", now, "tmuxPaneId", inProcess,
		"subscriptions", []string{}, "model", cmp.Or(m.Model, "sonnet"), "prompt", m.Prompt, "planModeRequired", false,
		"cwd", cwd, "backendType", inProcess)
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
	agent, err := newAgent(Options{
		Dir:    t.dir,
		Name:   m.Name,
		Marks:  t.opts.Marks,
		Color:  m.Color,
		Handle: m.Handle,
		Prompt: m.Prompt,
		Poll:   t.opts.Poll,
		Rest:   t.opts.Rest,
		Now:    t.opts.Now,
		Report: t.opts.Report,
	}, t.config)
	if err != nil {
		return nil, err
	}
	if err := create(agent.Inbox()); err != nil {
		return nil, err
	}
	p := played{agent: agent, absent: m.Absent}
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
// directory stays, as after a crash.
func (t *Team) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var agents sync.WaitGroup
	var once sync.Once
	var failure error
	start := func(p played) { // called with t.mu held
		if p.absent {
			return
		}
		agents.Go(func() {
			if err := p.agent.Run(ctx); err != nil {
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

// Dir returns the path of the team's directory.
func (t *Team) Dir() string { return t.dir }

// Name returns the team's name.
func (t *Team) Name() string { return t.opts.Name }

// Agent returns the agent who plays a member, even if it is absent or has
// ended, and nil if there never was one of that name.
func (t *Team) Agent(name string) *Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members[name].agent
}
