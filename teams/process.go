package teams

import "teambridge/teams/transcript"

// AgentProcess is a living process of an agent, as sessions/<pid>.json describes it.
type AgentProcess struct {
	transcript.Process
	Shared bool // the process is the lead's, and the agent is a teammate in it
}

// Processes returns the known living processes of agents, by the agents' names.
func (t *Team) Processes(c *Config) map[string]AgentProcess {
	all := map[string]AgentProcess{}
	lead, _ := c.Lead()
	leader, led := t.leads().leader(c)
	for _, m := range c.Members {
		own, ok := c.ownProcess(m.Name)
		if !ok {
			continue
		}
		p, found := leader, led
		if own {
			p, found = t.Agent(c, m.Name).process()
		}
		if state, _ := sessionLiveness(p); found && state == Alive {
			all[m.Name] = AgentProcess{p, !own && m.Name != lead.Name}
		}
	}
	return all
}
