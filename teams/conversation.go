package teams

import (
	"slices"
	"sync"
	"time"

	"teambridge/teams/transcript"
)

// Conversations reads the transcripts of agents as they grow, each part once. The zero
// value is ready to use, by several goroutines.
type Conversations struct {
	mu  sync.Mutex
	all map[conversationKey]*Conversation
}

type conversationKey struct{ root, session, address, name string }

// mostConversations is how many are remembered.
const mostConversations = 256

// Of returns the conversation of an agent from a time on.
func (c *Conversations) Of(a Agent, since time.Time) *Conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := conversationKey{a.team.root.Path(), a.config.LeadSessionID, a.config.address(), a.Name}
	found := c.all[key]
	if found == nil {
		if c.all == nil || len(c.all) >= mostConversations {
			c.all = map[conversationKey]*Conversation{}
		}
		found = a.Conversation(since)
		c.all[key] = found
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if since.Before(found.index.Since()) {
		found.index = transcript.NewIndex(since)
	}
	return found
}

// Conversation tells when the model of one agent was given which message, by its
// transcripts. It may be used by several goroutines.
type Conversation struct {
	agent Agent

	mu     sync.Mutex
	index  *transcript.Index
	paths  []string
	looked time.Time // when paths were looked for
	pause  time.Duration
	news   int
}

// Conversation returns what a's model was given at since or later. It reads nothing yet.
func (a Agent) Conversation(since time.Time) *Conversation {
	return &Conversation{agent: a, index: transcript.NewIndex(since)}
}

// The pauses between two searches for the transcripts of an agent: if there are some, and, if
// there are none, the first one and the longest one. Each is twice as long as the one before.
const (
	searchAgain = time.Second
	searchFirst = searchAgain / 4
	searchLast  = 30 * time.Second
)

// Expect says that the agent has just taken a message. If no transcript of it was found until now,
// it is looked for as often as at first, since the agent must be about to write one.
func (c *Conversation) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.paths) == 0 {
		c.pause = 0
	}
}

// Read reads what was added to the transcripts. news counts the looks that found more.
// Without a transcript, found is false.
func (c *Conversation) Read() (news int, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > c.pause {
		c.looked = time.Now()
		if c.paths = c.agent.Transcripts(); len(c.paths) > 0 {
			c.pause = searchAgain
		} else {
			c.pause = min(max(2*c.pause, searchFirst), searchLast)
		}
	}
	if c.index.Read(c.paths...) {
		c.news++
	}
	return c.news, len(c.paths) > 0
}

// A Given is one time that the model was given a message.
type Given struct {
	At    time.Time // in UTC
	Alone bool      // no other message was given with it

	// Sure is set if no other message can look like it. That is so if Claude Code escapes
	// what it gives to the model.
	Sure bool
	// AnySummary is set if the model was not given the summary.
	AnySummary bool
}

// Given returns when the model was given a message, in the order of time, as far as
// transcripts have been read.
func (c *Conversation) Given(from, summary, text string) (list []Given) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(from, summary, text string, escaped bool) {
		for _, g := range c.index.Find(from, text) {
			v, _ := ParseVersion(g.Version)
			escapes := v.Has(EscapesGiven)
			omitted := escapes == No && g.Summarized("") // by leads
			if escaped == (escapes == Yes) && (omitted || g.Summarized(summary)) {
				list = append(list, Given{At: g.At, Alone: g.Alone, Sure: escaped, AnySummary: omitted})
			}
		}
	}
	add(transcript.EscapeName(from), transcript.EscapeName(summary), transcript.EscapeText(text), true)
	add(from, summary, text, false)
	if from == "user" {
		for _, g := range c.index.Find("", text) {
			if v, _ := ParseVersion(g.Version); v.Has(WrapsUser) != Yes {
				list = append(list, Given{At: g.At, Alone: true, AnySummary: true})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Given) int { return a.At.Compare(b.At) })
	return list
}

// Transcripts returns the files with the agent's conversation, the last written first: older
// versions begin another one, with a copy, whenever a teammate in the lead's process wakes up.
func (a Agent) Transcripts() []string {
	own, ok := a.config.ownProcess(a.Name)
	if !ok {
		return nil
	}
	if lead, _ := a.config.Lead(); !own && a.Name != lead.Name {
		return a.shared(lead)
	}
	if path, ok := a.team.conversation(a.config, a.Name, own); ok {
		return []string{path}
	}
	return nil
}

// shared returns the transcripts of a teammate in the lead's process. After /clear they are in
// another folder than before.
func (a Agent) shared(lead Member) (paths []string) {
	sessions := []string{a.team.session(a.config)}
	if first := a.config.LeadSessionID; sessions[0] != "" && sessions[0] != first {
		sessions = append(sessions, first)
	}
	for _, session := range sessions {
		paths = append(paths, transcript.Teammate(a.team.root.Path(), lead.Cwd, session, a.config.Team, a.Name, a.config.startedWith(a.Name))...)
	}
	return paths
}

// startedWith returns the prompt of a teammate in the lead's process; empty if another one
// was started with the same.
func (c *Config) startedWith(name string) string {
	m, _ := c.Member(name)
	for _, o := range c.Members {
		if o.Name != name && o.Prompt == m.Prompt {
			return ""
		}
	}
	return string(m.Prompt)
}
