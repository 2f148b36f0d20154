package teams

import (
	"sync"
	"time"

	"teambridge/teams/transcript"
)

// Conversations reads agents' transcripts as they grow, and each part only once. The zero value is ready to
// use. It is safe for concurrent use.
type Conversations struct {
	mu  sync.Mutex
	all map[conversationKey]*Conversation
}

type conversationKey struct{ root, session, address, name string }

// mostConversations limits the remembered conversations.
const mostConversations = 256

// Of returns the conversation of an agent since a time.
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

// Conversation finds in an agent's transcripts when the model received a message. It is safe for concurrent
// use.
type Conversation struct {
	agent Agent

	mu     sync.Mutex
	index  *transcript.Index
	paths  []string
	looked time.Time // when paths was last updated
	pause  time.Duration
	news   int
}

// Conversation returns the messages that a's model received since a time. It reads nothing yet.
func (a Agent) Conversation(since time.Time) *Conversation {
	return &Conversation{agent: a, index: transcript.NewIndex(since)}
}

// The pauses between two searches for an agent's transcripts. searchAgain is the pause if there are some. If
// there are none, the pause grows from searchFirst to searchLast; each is twice the one before.
const (
	searchAgain = time.Second
	searchFirst = searchAgain / 4
	searchLast  = 30 * time.Second
)

// Expect means that the agent has just taken a message, and so is about to write a transcript. If none was
// found yet, the search becomes as frequent as at first.
func (c *Conversation) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.paths) == 0 {
		c.pause = 0
	}
}

// Read reads additions to the transcripts. news counts the reads so far that found additions. found is false
// if there is no transcript.
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

// Given returns when the model received a message, in UTC and in order, as far as the transcripts have been
// read. It ignores records of versions before [Oldest], in which a message can look like another one.
func (c *Conversation) Given(from, summary, text string) (at []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.index.Find(transcript.EscapeName(from), transcript.EscapeText(text)) {
		if v, _ := ParseVersion(g.Version); !v.Outdated() && g.Summarized(transcript.EscapeName(summary)) {
			at = append(at, g.At)
		}
	}
	return at
}

// Transcripts returns the files with the agent's conversation, the last written first. A teammate in the
// lead's process has one for each session of the lead in which it was woken.
func (a Agent) Transcripts() []string {
	own, ok := a.config.ownProcess(a.Name)
	if !ok {
		return nil
	}
	if lead, _ := a.config.Lead(); !own && a.Name != lead.Name {
		return a.shared(lead)
	}
	if path, ok := a.transcript(own); ok {
		return []string{path}
	}
	return nil
}

// shared returns the transcripts of a teammate in the lead's process. After /clear they are in another
// directory than before.
func (a Agent) shared(lead Member) (paths []string) {
	sessions := []string{a.team.leads().session(a.config)}
	if first := a.config.LeadSessionID; sessions[0] != "" && sessions[0] != first {
		sessions = append(sessions, first)
	}
	for _, session := range sessions {
		paths = append(paths, transcript.Teammate(a.team.root.Path(), lead.Cwd, session, a.config.Team, a.Name)...)
	}
	return paths
}
