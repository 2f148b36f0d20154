package api

import "time"

// UsageQuery selects the tokens to count.
type UsageQuery struct {
	Since time.Time `query:"since"`                                                  // from the hour that this is in; default: the beginning of the sixth day before today
	Until time.Time `query:"until"`                                                  // before the hour that this is in
	Team  string    `query:"team"`                                                   // only of this team; sessions is that of the sessions in no team
	By    []string  `query:"by" enum:"agent,team,day,model,project" default:"agent"` // what to count by; may be repeated. Days are those of the time zone of the machine
}

// What tokens can be counted by.
const (
	ByAgent   = "agent"
	ByTeam    = "team"
	ByDay     = "day" // of the time zone of the machine
	ByModel   = "model"
	ByProject = "project" // the directory in which the agent works
)

// Usage says how many tokens agents have used, and what that cost, as far as their programs say so.
type Usage struct {
	Since  time.Time  `json:"since"`
	By     []string   `json:"by"`
	Rows   []UsageRow `json:"rows"` // by day if they are counted by day, and those with the most tokens first
	Total  UsageRow   `json:"total"`
	Missed []string   `json:"missed,omitempty"` // what could not be read, and why
}

// UsageRow is what the agents with some properties have used. Only those are set that were counted by.
type UsageRow struct {
	Day     string `json:"day,omitempty" format:"date"` // YYYY-MM-DD
	Team    string `json:"team,omitempty"`
	Member  string `json:"member,omitempty"`  // the name or, of a session without one, the beginning of its id
	Session string `json:"session,omitempty"` // of a session in no team
	Project string `json:"project,omitempty"` // the directory in which the agent works
	Model   string `json:"model,omitempty"`   // as the program names it; absent if it does not

	Answers       int64 `json:"answers"` // of the models
	Input         int64 `json:"input"`   // tokens that were not in a cache
	CacheCreation int64 `json:"cacheCreation"`
	CacheRead     int64 `json:"cacheRead"`
	Output        int64 `json:"output"`

	// Cost is what Claude Code states, in US dollars; nil if it states nothing. It covers a whole process,
	// with its teammates, and with requests that are in no conversation.
	Cost *float64 `json:"costUSD,omitempty"`
	// Unstated is set if some of the tokens are not in Cost: a session in a terminal states it when it ends.
	Unstated bool `json:"unstated,omitempty"`
}

// Tokens is the sum of all tokens.
func (r *UsageRow) Tokens() int64 { return r.Input + r.CacheCreation + r.CacheRead + r.Output }
