package teams

import (
	"path/filepath"
	"strings"

	"teambridge/teams/transcript"
)

// AgentProcess is a living process that an agent runs in, as sessions/<pid>.json describes
// it.
type AgentProcess struct {
	transcript.Process
	Shared bool // it is the lead's process, and the agent is a teammate in it
}

// Processes returns the process of each agent that is known to have one, by name.
func (t *Team) Processes(c *Config) map[string]AgentProcess {
	all, bySession := map[string]AgentProcess{}, map[string]transcript.Process{}
	lead, _ := c.Lead()
	for _, m := range c.Members {
		own, ok := c.ownProcess(m.Name)
		session := c.LeadSessionID
		if own {
			var path string
			path, ok = t.conversation(c, m.Name, own)
			session = strings.TrimSuffix(filepath.Base(path), ".jsonl")
		}
		if !ok {
			continue
		}
		p, seen := bySession[session]
		if !seen {
			if p, ok = transcript.ProcessOf(t.root.Path(), session); ok {
				if state, _ := sessionLiveness(p); state != Alive {
					p = transcript.Process{}
				}
			}
			bySession[session] = p
		}
		if p.PID != 0 {
			all[m.Name] = AgentProcess{p, !own && m.Name != lead.Name}
		}
	}
	return all
}
