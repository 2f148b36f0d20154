package opencode

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// keepReader is how long an idle read-only server is kept.
const keepReader = 15 * time.Second

// read calls do with a client that can read conversations: that of a running agent, or else of a read-only
// server.
func (r *Runtime) read(ctx context.Context, do func(*client) error) error {
	if r.options.URL != "" {
		c := newClient(r.options.URL, r.options.User, r.options.Password)
		defer c.close()
		return do(c)
	}
	r.mu.Lock()
	for _, a := range r.live {
		if a.life.Err() == nil {
			r.mu.Unlock()
			if err := do(a.client); err == nil || a.life.Err() == nil {
				return err
			}
			r.mu.Lock()
			break // the agent has just ended
		}
	}
	r.mu.Unlock()
	s, err := r.borrow(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	return do(s.client)
}

// borrow returns the read-only server.
func (r *Runtime) borrow(ctx context.Context) (*server, error) {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	s := r.reader
	if s != nil {
		select {
		case <-s.gone():
			s, r.reader = nil, nil
		default:
			r.using++
		}
	}
	r.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := r.options.startServer(ctx, "", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reader = s
	r.using++
	return s, nil
}

func (r *Runtime) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.using--
	if r.expiry != nil {
		r.expiry.Stop()
	}
	r.expiry = time.AfterFunc(keepReader, r.expire)
}

func (r *Runtime) expire() {
	r.mu.Lock()
	s := r.reader
	if r.using > 0 || s == nil {
		r.mu.Unlock()
		return
	}
	r.reader = nil
	r.mu.Unlock()
	s.kill()
}

// Close ends the read-only server, if any. Agents continue.
func (r *Runtime) Close() error {
	r.mu.Lock()
	s := r.reader
	r.reader = nil
	r.mu.Unlock()
	if s != nil {
		s.kill()
	}
	return nil
}

// Turn returns the state of a message's turn in the conversation, even if no agent runs.
func (r *Runtime) Turn(ctx context.Context, session, uuid string) (agent.Turn, error) {
	var found agent.Turn
	err := r.read(ctx, func(c *client) error {
		id := MessageID(uuid)
		var t turn
		found = agent.Turn{}
		for rec, err := range c.history(ctx, SessionID(session), 0) {
			if hasStatus(err, http.StatusNotFound) {
				return nil // the conversation does not exist yet
			} else if err != nil {
				return err
			}
			p, begins := rec.Data.(*Prompted)
			switch {
			case begins && found.Stored:
				return nil // the next turn begins
			case begins && p.MessageID == id:
				found.Stored = true
			case found.Stored:
				t.add(rec)
			}
			if found.Stored {
				found = t.after()
			}
		}
		return nil
	})
	if err != nil || !found.Stored {
		return found, err
	}
	if found.Finished {
		return found, nil
	}
	if stopped, err := r.options.marked(session, uuid); stopped || err != nil {
		return agent.Turn{Stored: true, Interrupted: true}, err
	}
	return found, nil
}

// Conversation yields the envelopes of a conversation since a time, or somewhat earlier. They have the same
// ids as in the agent's events. ended means that no agent runs.
func (r *Runtime) Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		if id := SessionID(session); !isID(id) {
			yield(wire.Envelope{}, fmt.Errorf("opencode: %.120q is not the id of a session", session))
			return
		}
		told, stopped := 0, false
		owe := func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.owed[session] = true
		}
		err := r.read(ctx, func(c *client) error {
			if r.options.URL != "" && ended {
				// A shared server may still work on a session whose relay was killed.
				active, err := c.active(ctx, SessionID(session))
				if err != nil {
					return err
				}
				if ended = !active; active {
					owe()
				}
			}
			a := r.options.adapter(session)
			known := told // an earlier server may have yielded some of them
			for e, err := range a.conversation(c.history(ctx, SessionID(session), 0), since, ended) {
				if hasStatus(err, http.StatusNotFound) {
					return nil // the conversation does not exist yet
				} else if err != nil {
					return err
				}
				if known--; known >= 0 {
					continue
				}
				told++
				if stopped = !yield(e, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && ended && ctx.Err() != nil {
			owe()
		}
		if err != nil && !stopped {
			yield(wire.Envelope{}, err)
		}
	}
}
