package query

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/process"
)

// Options say which programs to run as agents. The zero value is a good default.
type Options struct {
	Claude     []string  // the command of Claude Code; empty: claude
	ClaudeRoot string    // the directory of Claude Code; empty: $CLAUDE_CONFIG_DIR, else ~/.claude
	OpenCode   []string  // the command of OpenCode; empty: opencode
	ACP        []string  // the command of an agent of the Agent Client Protocol; empty: the default command of codex, gemini and qwen
	State      string    // our directory for files of agents other than Claude Code; empty: teambridge in the user's cache
	Env        []string  // the whole environment of agents, as "NAME=value"; nil: this process's
	Stderr     io.Writer // receives the standard error of agents; may be nil
}

// lookup is os.LookupEnv in the environment of agents.
func (o Options) lookup(name string) (string, bool) {
	if o.Env == nil {
		return os.LookupEnv(name)
	}
	return process.Lookup(o.Env, name)
}

// Client runs queries. It starts an agent for the first query of a session, and keeps it for later ones until
// Close; it keeps at most 8 idle agents. A client is safe for concurrent use.
type Client struct {
	options Options
	closing context.Context // ends with Close
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	sessions map[string]*session // by id
	idle     []*session          // sessions with an idle agent, the latest last
}

// session is a conversation of this client's queries.
type session struct {
	id    string
	turn  chan struct{} // holds one element while a query uses the session
	users int           // queries that use the session or wait for it
	idle  *running      // the agent, while no query uses it; nil if none runs
}

const (
	maxIdle = 8
	// interruptWait is how long an interrupted turn may take to end. The agent is ended in any case.
	interruptWait = 10 * time.Second
)

// grace is for an idle agent.
var grace = agent.Grace{EOF: 10 * time.Second, Term: 5 * time.Second}

// New returns a client. It starts nothing.
func New(options Options) *Client {
	c := &Client{options: options, sessions: map[string]*session{}}
	c.closing, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Query asks an agent. Each range over the returned sequence runs the query. The package comment describes
// the events.
//
// With in.StreamingInput the agent gets the messages of more, each after the turn of the one before; the
// query ends after the turn of the last one. more runs in its own goroutine, which ends when more returns or
// next yields a message. Otherwise, more is unused and may be nil.
//
// The end of ctx interrupts the turn and ends the agent; the result is then [Interrupted], with ctx's error.
func (c *Client) Query(ctx context.Context, in Input, more iter.Seq[Message]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q := &query{client: c, in: in, yield: yield, seen: map[string]bool{}}
		q.conclude(q.do(ctx, more))
	}
}

// Close interrupts running queries and ends idle agents. Later queries fail with [ErrClosed].
func (c *Client) Close() error {
	c.cancel(ErrClosed)
	c.mu.Lock()
	var agents []*running
	for _, s := range c.idle {
		agents = append(agents, s.idle)
		s.idle = nil
	}
	c.idle = nil
	c.mu.Unlock()
	errs := make([]error, len(agents))
	var all sync.WaitGroup
	for i, r := range agents {
		all.Go(func() { errs[i] = r.end(grace, nil) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// acquire waits for exclusive use of a session, and returns it with its agent; nil if none runs.
func (c *Client) acquire(ctx context.Context, id string) (*session, *running, error) {
	c.mu.Lock()
	s := c.sessions[id]
	if s == nil {
		s = &session{id: id, turn: make(chan struct{}, 1)}
		c.sessions[id] = s
	}
	s.users++
	c.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave(s)
		return nil, nil, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := s.idle
	s.idle = nil
	c.idle = slices.DeleteFunc(c.idle, func(other *session) bool { return other == s })
	return s, r, nil
}

// leave ends a use of a session, or the wait for it. The caller holds c.mu.
func (c *Client) leave(s *session) {
	if s.users--; s.users == 0 && s.idle == nil {
		delete(c.sessions, s.id)
	}
}

// release returns a session, with an agent for the next query, or nil. It ends the oldest idle agent if there
// are too many.
func (c *Client) release(s *session, r *running) error {
	c.mu.Lock()
	var extra *session
	var ending *running
	if r != nil && c.closing.Err() != nil {
		ending = r
	} else if r != nil {
		s.idle = r
		if c.idle = append(c.idle, s); len(c.idle) > maxIdle {
			extra = c.idle[0]
			select {
			case extra.turn <- struct{}{}: // no query resumes the session before its agent has ended
				c.idle, ending, extra.idle = c.idle[1:], extra.idle, nil
				extra.users++
			default: // a query is about to use the agent
				extra = nil
			}
		}
	}
	<-s.turn
	c.leave(s)
	c.mu.Unlock()
	if ending == nil {
		return nil
	}
	err := ending.end(grace, nil)
	if extra != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		<-extra.turn
		c.leave(extra)
	}
	return err
}
