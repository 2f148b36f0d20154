package teams

import (
	"sync"
	"time"

	"teambridge/teams/transcript"
)

// Agent inspects the Claude Code of a member. One team can have agents of several versions.
type Agent struct {
	Name string

	team   *Team
	config *Config
}

// inProcess is the pane and the backend of a teammate in the lead's process.
const inProcess = "in-process"

// Agent returns the agent of the member called name. For a person or an unknown name, its methods return
// unknown values.
func (t *Team) Agent(c *Config, name string) Agent { return Agent{Name: name, team: t, config: c} }

// Version returns the version of the agent, or the zero Version if unknown. It reads the agent's session file
// and transcript.
func (a Agent) Version() Version {
	own, ok := a.config.ownProcess(a.Name)
	if !ok {
		return Version{}
	}
	told := ""
	// Ask the process first: another version may have resumed the session without writing a record yet.
	if !own {
		p, _ := a.team.leads().leader(a.config)
		told = p.Version
	}
	if path, ok := a.transcript(own); ok && told == "" {
		r, _ := transcript.Newest(path)
		told = r.Version
	}
	v, _ := ParseVersion(told)
	return v
}

// Versions returns the known versions of the team's agents, by name.
func (t *Team) Versions(c *Config) map[string]Version {
	all := map[string]Version{}
	var led *Version // the version of the lead's process
	for _, m := range c.Members {
		own, ok := c.ownProcess(m.Name)
		if !ok {
			continue
		}
		var v Version
		if own || led == nil {
			v = t.Agent(c, m.Name).Version()
		} else {
			v = *led
		}
		if !own {
			led = &v
		}
		if v.Known() {
			all[m.Name] = v
		}
	}
	return all
}

// ownProcess reports whether an agent has its own process, and does not share the lead's. ok is false if
// there is no such agent.
func (c *Config) ownProcess(name string) (own, ok bool) {
	m, ok := c.Member(name)
	lead, led := c.Lead()
	switch {
	case led && m.Name == lead.Name:
		return false, ok
	case !ok || m.Guest():
		return false, false
	}
	return m.TmuxPaneID != inProcess && m.BackendType != inProcess, true
}

// transcript returns that of the process that the agent runs in: its own, or the lead's.
func (a Agent) transcript(own bool) (path string, ok bool) {
	if own {
		m, _ := a.config.Member(a.Name)
		return transcript.Agent(a.team.root.Path(), m.Cwd, a.config.address(), m.Name)
	}
	lead, _ := a.config.Lead()
	return transcript.Session(a.team.root.Path(), lead.Cwd, a.team.leads().session(a.config))
}

// process returns the agent's own process, alive or not.
func (a Agent) process() (transcript.Process, bool) {
	path, _ := a.transcript(true)
	return transcript.ProcessOf(a.team.root.Path(), transcript.SessionOf(path))
}

// MayKeepRows reports whether the agent may keep rows that it takes, and only mark them. A missing row then
// does not prove that the agent took it. A current agent removes the rows. marked means that its inbox has
// had marked rows.
func (a Agent) MayKeepRows(marked bool) bool {
	v := a.Version()
	return v.Outdated() || !v.Known() && marked
}

// leaderPane is the pane of a lead whose team was made at the start of its session.
const leaderPane = "leader"

// atStart reports whether the team was made at the start of the lead's session.
func (c *Config) atStart() bool {
	lead, _ := c.Lead()
	return c.LeadProcess != nil || lead.TmuxPaneID == leaderPane
}

// recent is the age up to which the newest record of a conversation proves that its process is alive. Few
// turns go longer without a record.
const recent = 5 * time.Minute

// LeadState reports whether the process that leads the team is alive. It checks leadProcess, or else the
// lead's session file, or else whether its transcript has a record of the last 5 minutes.
func (t *Team) LeadState(c *Config, now time.Time) Liveness {
	if state, looked := t.processState(c); looked {
		return state
	}
	lead, _ := c.Lead()
	if path, ok := t.Agent(c, lead.Name).transcript(false); ok {
		if r, ok := transcript.Newest(path); ok && now.Sub(r.Time()) < recent {
			return Alive
		}
	}
	return Unknown
}

// AgentState reports whether an agent's process is alive. It checks the session file or, on Linux, the
// command line of an agent with its own process; for other agents it is [Team.LeadState].
func (t *Team) AgentState(c *Config, name string, now time.Time) Liveness {
	own, _ := c.ownProcess(name)
	if !own {
		return t.LeadState(c, now)
	}
	return t.Agent(c, name).state(t.commands(c), now)
}

// Ended returns the agents whose own processes have ended.
func (t *Team) Ended(c *Config, now time.Time) map[string]bool {
	ended := map[string]bool{}
	var commands func(id string) Liveness
	for _, m := range c.Members {
		if own, _ := c.ownProcess(m.Name); !own {
			continue
		}
		if commands == nil {
			commands = t.commands(c)
		}
		if t.Agent(c, m.Name).state(commands, now) == Gone {
			ended[m.Name] = true
		}
	}
	return ended
}

// state reports whether the agent's own process is alive.
func (a Agent) state(commands func(id string) Liveness, now time.Time) Liveness {
	state := Unknown
	if p, ok := a.process(); ok {
		state, _ = sessionLiveness(p)
	}
	// A teammate that Claude Code has started in a pane has no session file. The pane can be one of another tmux server.
	m, _ := a.config.Member(a.Name)
	if state == Alive || m.TmuxPaneID == "" || m.AgentID == "" {
		return state
	}
	switch by := commands(m.AgentID); {
	case by == Alive, by == Gone && now.Sub(m.JoinedAt) >= begins:
		return by
	}
	return state
}

// begins is how long a teammate may take to start once it is in config.json.
const begins = 10 * time.Second

// commands returns a function that reports whether any process has an agent's id in its command line. The
// function scans the processes at its first call.
func (t *Team) commands(c *Config) func(id string) Liveness {
	find := sync.OnceValues(func() (map[string]bool, bool) {
		lead, state := t.Leader(c)
		if state != Alive {
			return nil, false // the lead may run elsewhere, with its teammates
		}
		return commandIDs(lead)
	})
	return func(id string) Liveness {
		switch ids, ok := find(); {
		case !ok:
			return Unknown
		case ids[id]:
			return Alive
		}
		return Gone
	}
}

// leadLiveness reports whether a process leads a team. A process that only displays a session, or is kept in
// reserve, has a team but does not read its files.
func (r *Root) leadLiveness(lead *LeadProcess) Liveness {
	state := lead.Liveness()
	if state == Alive {
		if p, ok := transcript.ProcessWith(r.Path(), lead.PID); ok && p.ProcStart == lead.ProcStart && (p.Spare || p.IsViewer()) {
			return Gone
		}
	}
	return state
}

// processState is the part of LeadState that checks processes. looked is false if there is no process to
// check.
func (t *Team) processState(c *Config) (state Liveness, looked bool) {
	if c.LeadProcess != nil {
		return t.root.leadLiveness(c.LeadProcess), true
	}
	if p, ok := t.leads().leader(c); ok {
		return sessionLiveness(p)
	}
	return Unknown, false
}

// ReadsInbox reports whether a lead at a terminal reads its inbox. If its team was made at the start of its
// session, it reads the inbox only once it has spawned a teammate; after a resume, only once it has spawned
// another one. For leads of other teams, such as those of [Root.Create], the answer is Unsure.
func (c *Config) ReadsInbox() Answer {
	lead, _ := c.Lead()
	if lead.TmuxPaneID != leaderPane {
		return Unsure
	}
	for _, m := range c.Members {
		switch {
		case m.Name == lead.Name, m.Guest():
		case c.LeadProcess == nil, !m.JoinedAt.Before(c.LeadProcess.ClaimedAt):
			return Yes
		} // otherwise an earlier process spawned it
	}
	return No
}
