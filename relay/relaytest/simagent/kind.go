package simagent

import "time"

// Lead is the name of the member that leads a team.
const Lead = "team-lead"

// interval returns how often an agent polls its inbox.
func interval(name string) time.Duration {
	if name == Lead {
		return time.Second
	}
	return 500 * time.Millisecond
}

// ways is how an agent treats inboxes.
type ways struct {
	marks bool // as in [Options]
}
