package teams

// Deliverability tells whether an agent or a person will read a message in an inbox, or why not. It is a hint
// for people: nothing is refused because of it.
type Deliverability string

// The results of [Config.Deliverability]. Only a caller can find Unread and Outdated, by the rows of the
// inbox and the version of the agent.
const (
	Reachable  Deliverability = "reachable"
	NotMember  Deliverability = "not-a-member" // shut down, or never a member
	LeadGone   Deliverability = "lead-gone"    // the lead's process has ended
	AgentGone  Deliverability = "agent-gone"   // the agent's own process has ended
	NoRelay    Deliverability = "no-relay"     // headless without a relay: it never reads its inbox itself
	NoTeammate Deliverability = "no-teammate"  // a lead that does not read its inbox before it spawns a teammate
	AtTerminal Deliverability = "at-terminal"  // a person has the session at a terminal: rows wait until the relay has it, and user prompts move it there
	Unread     Deliverability = "unread"       // rows have been waiting for minutes
	Outdated   Deliverability = "outdated"     // its Claude Code is older than [Oldest]: nothing proves whether it takes a message
)

// Facts are facts about a member that are not in config.json.
type Facts struct {
	Headless bool // it has no terminal, so only a relay can deliver to it
	Relayed  bool // a relay for its inbox is running

	AtTerminal bool // the relay has moved the session to a person's terminal

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
		return NoRelay // it needs a relay, even if the lead is alive
	case alive == Gone:
		return LeadGone
	case f.Agent == Gone:
		return AgentGone
	case name == lead.Name && c.ReadsInbox() == No:
		return NoTeammate
	}
	return Reachable
}
