package teams

import (
	"time"

	"teambridge/teams/transcript"
)

// Agent is the Claude Code behind a member, which answers questions about what it
// does. In one team agents of several versions can work: each is asked for itself.
type Agent struct {
	Name    string
	Version Version // zero if it is not known

	config *Config
}

// inProcess is what pane and backend of a teammate in the lead's process say.
const inProcess = "in-process"

// Agent returns the Claude Code behind the member called name, with its version, if
// its transcript or its session tells it. That reads a few files.
func (t *Team) Agent(c *Config, name string) Agent {
	a := Agent{Name: name, config: c}
	root := t.root.Path()
	m, ok := c.Member(name)
	lead, led := c.Lead()
	var told string
	switch {
	case !ok || m.Guest() && m.Name != lead.Name:
		return a
	case led && m.Name == lead.Name, m.TmuxPaneID == inProcess, m.BackendType == inProcess:
		// The process first: a session can be resumed by another version, which
		// has not written a record yet.
		if p, ok := transcript.ProcessOf(root, c.LeadSessionID); ok && p.Version != "" {
			told = p.Version
		} else if r, ok := transcript.Of(root, lead.Cwd, c.LeadSessionID); ok {
			told = r.Version
		}
	default:
		if r, ok := transcript.OfAgent(root, m.Cwd, c.address(), m.Name); ok {
			told = r.Version
		}
	}
	if v, err := ParseVersion(told); err == nil {
		a.Version = v
	}
	return a
}

// KeepsRows says whether the agent leaves the rows it took in its inbox, marked as
// read. marked says that rows which it marked were seen there.
func (a Agent) KeepsRows(marked bool) Answer {
	switch removes := a.Version.Has(RemovesTaken); {
	case removes == Yes:
		return No
	case removes == No, marked:
		return Yes
	}
	return Unsure
}

// ReachesUser says whether the agent can write to "user", the name of a person who
// has not joined. One that cannot is told that there is no such agent. Where that is
// not known, joining is the careful way: it works with every version.
func (a Agent) ReachesUser() Answer {
	switch refuses := a.Version.Has(RefusesUser); {
	case refuses == Yes:
		return No
	case refuses == No:
		return Yes
	}
	reaches := a.config.ReachesUser()
	if m, _ := a.config.Member(a.Name); reaches == Yes && m.BackendType != "" && m.BackendType != inProcess {
		return Unsure // it is a process of its own, perhaps of another version
	}
	return reaches
}

// leaderPane is the pane of a lead whose team was made when its session started.
const leaderPane = "leader"

// ReachesUser says whether agents of the lead's process can write to "user", by what
// its version wrote into the file: it is No from the version on that makes a team at
// start, a little earlier than it would have to be.
func (c *Config) ReachesUser() Answer {
	if c.atStart() {
		return No
	}
	return Yes
}

// atStart reports whether the team was made when the lead's session started.
func (c *Config) atStart() bool {
	lead, _ := c.Lead()
	return c.LeadProcess != nil || lead.TmuxPaneID == leaderPane
}

// recent is how old the newest record of a conversation may be for its process to
// count as alive: the longest that a turn goes on without one, or nearly.
const recent = 5 * time.Minute

// LeadState says whether the process that leads the team is there: by leadProcess,
// else by the process that has the lead's session, else it is alive if something was
// written into its conversation in the last 5 minutes before now.
func (t *Team) LeadState(c *Config, now time.Time) Liveness {
	state := t.processState(c)
	if state != Unknown || c.LeadProcess != nil {
		return state
	}
	lead, _ := c.Lead()
	if r, ok := transcript.Of(t.root.Path(), lead.Cwd, c.LeadSessionID); ok && now.Sub(r.At) < recent {
		return Alive
	}
	return Unknown
}

// processState is the part of it that looks at processes.
func (t *Team) processState(c *Config) Liveness {
	if c.LeadProcess != nil {
		return c.LeadProcess.Liveness()
	}
	if p, ok := transcript.ProcessOf(t.root.Path(), c.LeadSessionID); ok {
		return sessionLiveness(p)
	}
	return Unknown
}

// ReadsInbox says whether the lead, if it has a terminal, has begun to read its inbox.
// One whose team is made at start does when it spawns its first teammate; after a
// resume, that has to happen again. It is Unsure of older ones.
func (c *Config) ReadsInbox() Answer {
	if !c.atStart() {
		return Unsure
	}
	lead, _ := c.Lead()
	for _, m := range c.Members {
		switch {
		case m.Name == lead.Name, m.Guest():
		case c.LeadProcess == nil, !m.JoinedAt.Before(c.LeadProcess.ClaimedAt):
			return Yes
		} // else it is of an earlier process
	}
	return No
}
