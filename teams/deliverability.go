package teams

// Deliverability is whether somebody will read a message in an inbox, or why not. It is a hint for people:
// nothing is refused because of it.
type Deliverability string

// The results of [Config.Deliverability], and Unread and Outdated, which only a caller that reads the inbox
// and checks the agent's version can find.
const (
	Reachable  Deliverability = "reachable"
	NotMember  Deliverability = "not-a-member" // shut down, or never there
	LeadGone   Deliverability = "lead-gone"    // the process that ran the team has ended
	AgentGone  Deliverability = "agent-gone"   // the process of the agent, which has one of its own, has ended
	NoRelay    Deliverability = "no-relay"     // headless: it never reads its inbox by itself
	NoTeammate Deliverability = "no-teammate"  // a lead that reads its inbox only once it has spawned a teammate
	AtTerminal Deliverability = "at-terminal"  // a person has the session at a terminal: rows wait until its relay has it, user prompts bring it there
	Unread     Deliverability = "unread"       // rows have been waiting for minutes
	Outdated   Deliverability = "outdated"     // its Claude Code is older than [Oldest]: nothing proves what it does with a message
)

// Facts is information about a member that is not in config.json.
type Facts struct {
	Headless bool // it has no terminal, so that only a relay can reach it
	Relayed  bool // a relay for its inbox is running

	AtTerminal bool // that relay has lent the session to a person's terminal

	Lead  Liveness // [Team.LeadState]; if Unknown, leadProcess decides
	Agent Liveness // [Team.AgentState]
}

// Deliverability reports whether a relay, an agent or a person will read the inbox of name.
func (c *Config) Deliverability(name string, f Facts) Deliverability {
	m, member := c.Member(name)
	lead, _ := c.Lead()
	alive := f.Lead
	if alive == Unknown {
		alive = c.LeadProcess.Liveness()
	}
	switch {
	case f.AtTerminal:
		return AtTerminal
	case f.Relayed, member && m.Guest():
		return Reachable
	case !member:
		return NotMember
	case f.Headless:
		return NoRelay // whoever leads, it needs a relay
	case alive == Gone:
		return LeadGone
	case f.Agent == Gone:
		return AgentGone
	case name == lead.Name && c.ReadsInbox() == No:
		return NoTeammate
	}
	return Reachable
}
