package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/pipe"
	"teambridge/relay/wire"
)

// archive is the part of [journal.Journal] that a relay needs. Tests make its calls fail.
type archive interface {
	Record(context.Context, ...journal.Envelope) (recorded []bool, err error)
	Last(ctx context.Context, key inbox.InboxKey, session string) (time.Time, error)
}

const (
	// maxEnvelopes is how many envelopes may wait for the journal. Any more are read from the conversation
	// later.
	maxEnvelopes = 1024

	// overlap is how far before the last recorded envelope a conversation is read again. A line's printed
	// time and its recorded time differ by less.
	overlap = 5 * time.Minute

	// batchSize is the number of envelopes that one commit records.
	batchSize = 200

	// journalWait limits the wait for the journal when an agent starts and when the relay ends. Missing
	// envelopes are read later.
	journalWait = 5 * time.Second

	// conversationWait limits the wait for a conversation before an agent starts: a runtime may need a
	// program to read it. Envelopes that are read later are recorded out of order.
	conversationWait = 2 * time.Minute
)

// recorder writes an agent's output to the journal, in order. What it could not record it reads from the
// conversation, where the same envelopes have the same ids, so that the journal adds only the missing ones. A
// nil recorder does nothing.
type recorder struct {
	relay  *Relay
	outbox *pipe.Outbox[sessionEnvelope]
	cancel context.CancelFunc
	done   chan struct{} // closed when the outbox has stopped

	mu      sync.Mutex
	missing map[string]time.Time // by session: the time from which envelopes may be missing

	failing bool // the last envelope was not recorded; used only by the outbox's goroutine
}

// sessionEnvelope is an envelope and the session that it belongs to.
type sessionEnvelope struct {
	session string
	wire.Envelope
}

// newRecorder starts a recorder. It returns nil if there is no journal and no listener.
func newRecorder(r *Relay) (*recorder, error) {
	if r.archive == nil && r.opts.Envelope == nil {
		return nil, nil
	}
	c := &recorder{relay: r, done: make(chan struct{}), missing: map[string]time.Time{}}
	var err error
	if c.outbox, err = pipe.NewOutbox(pipe.OutboxOptions[sessionEnvelope]{Send: c.send, Skipped: c.failed, MaxItems: maxEnvelopes}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		_ = c.outbox.Run(ctx) // it ends when it is closed and empty, or ctx ends
	}()
	return c, nil
}

// end records all waiting envelopes, and stops. No agent may run.
func (c *recorder) end() {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), journalWait)
	defer cancel()
	c.outbox.Close()
	select {
	case <-c.done:
		c.readMissing(ctx, true)
	case <-ctx.Done():
	}
	c.cancel()
	<-c.done
}

// resume records the output of earlier agents that the journal lacks. No agent may run.
func (c *recorder) resume(ctx context.Context, s ledger.Session) {
	if c == nil || c.relay.archive == nil {
		return
	}
	// A journal that cannot be written must not stop the agent's work.
	brief, cancel := context.WithTimeout(ctx, journalWait)
	defer cancel()
	since, err := c.relay.archive.Last(brief, c.relay.post, s.ID)
	if err != nil {
		c.relay.opts.Warn(fmt.Errorf("relay: %s: how much is recorded of what the agent told: %w", c.relay.opts.Member, err))
	}
	if since.IsZero() {
		since = s.At // when the agent was started
	}
	if since.IsZero() {
		return
	}
	drained := c.drain(brief)
	// Not earlier: a concurrent send would read the session as if the agent still ran.
	c.markMissing(s.ID, since.Add(-overlap))
	if drained {
		reading, cancel := context.WithTimeout(ctx, conversationWait)
		defer cancel()
		c.readMissing(reading, true)
	}
}

// drain waits until all earlier envelopes are recorded, or ctx ends.
func (c *recorder) drain(ctx context.Context) bool {
	c.outbox.Flush()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for c.outbox.Len() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// observe queues the envelopes of an event.
func (c *recorder) observe(session string, e agent.Event) {
	if c == nil {
		return
	}
	if e.Missed {
		c.markMissing(session, e.At.Add(-overlap))
	}
	c.add(session, e.Envelopes)
}

func (c *recorder) add(session string, list []wire.Envelope) {
	for _, e := range list {
		if !c.put(sessionEnvelope{session, e}) {
			return
		}
	}
}

// put reports whether the outbox accepted an envelope. A tool call is delayed briefly, so that a call that
// ends at once appears as one whole.
func (c *recorder) put(t sessionEnvelope) bool {
	put := c.outbox.Push
	switch event := t.Event.(type) {
	case *wire.ToolCallStart:
		put = func(t sessionEnvelope) error { return c.outbox.Hold(t, event.Call) }
	case *wire.ToolCallEnd:
		c.outbox.Release(event.Call)
	}
	if err := put(t); err != nil {
		c.markMissing(t.session, timeOf(t.Envelope))
		return false
	}
	return true
}

// send records one envelope.
func (c *recorder) send(ctx context.Context, t sessionEnvelope) error {
	if err := c.record(ctx, t); err != nil {
		return err
	}
	c.failing = false
	if c.outbox.Len() <= 1 { // this one
		c.readMissing(ctx, false)
	}
	return nil
}

// record writes envelopes, and reports the new ones.
func (c *recorder) record(ctx context.Context, list ...sessionEnvelope) error {
	recorded := slices.Repeat([]bool{true}, len(list))
	if c.relay.archive != nil {
		var entries []journal.Envelope
		for _, t := range list {
			e, err := Entry(c.relay.post, t.session, t.Envelope)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		var err error
		if recorded, err = c.relay.archive.Record(ctx, entries...); err != nil {
			return err
		}
	}
	if c.relay.opts.Envelope != nil {
		for i, t := range list {
			if recorded[i] {
				c.relay.opts.Envelope(t.Envelope)
			}
		}
	}
	return nil
}

// failed notes that an envelope could not be recorded.
func (c *recorder) failed(t sessionEnvelope, err error) {
	c.markMissing(t.session, timeOf(t.Envelope))
	if !c.failing {
		c.relay.opts.Warn(fmt.Errorf("relay: %s: what the agent tells is not recorded for now: %w", c.relay.opts.Member, err))
	}
	c.failing = true
}

func (c *recorder) markMissing(session string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.missing[session]; !ok || since.Before(known) {
		c.missing[session] = since
	}
}

// readMissing records, from the conversations, envelopes that may be missing. The outbox must be empty. ended
// means that no agent runs.
func (c *recorder) readMissing(ctx context.Context, ended bool) {
	c.mu.Lock()
	missing := c.missing
	c.missing = map[string]time.Time{}
	c.mu.Unlock()
	if c.relay.archive == nil {
		return
	}
	for session, since := range missing {
		if err := c.read(ctx, session, since, ended); err != nil {
			if ctx.Err() != nil {
				c.markMissing(session, since)
			}
			c.relay.opts.Warn(fmt.Errorf("relay: %s: some of what the agent told is not recorded: %w", c.relay.opts.Member, err))
		}
	}
}

func (c *recorder) read(ctx context.Context, session string, since time.Time, ended bool) error {
	var batch []sessionEnvelope
	record := func() error {
		ctx, cancel := context.WithTimeout(ctx, journalWait)
		defer cancel()
		err := c.record(ctx, batch...)
		if err != nil {
			c.markMissing(session, timeOf(batch[0].Envelope)) // tried again later
		}
		batch = batch[:0]
		return err
	}
	for e, err := range c.relay.opts.Runtime.Conversation(ctx, session, since, ended) {
		if err != nil {
			return err
		}
		if batch = append(batch, sessionEnvelope{session, e}); len(batch) == batchSize {
			if err := record(); err != nil {
				return err
			}
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return record()
}

// Entry converts an envelope of a session for the journal. key is the agent's inbox.
func Entry(key inbox.InboxKey, session string, e wire.Envelope) (journal.Envelope, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return journal.Envelope{}, fmt.Errorf("relay: envelope %s: %w", e.ID, err)
	}
	entry := journal.Envelope{InboxKey: key, ID: e.ID, Session: session, Role: string(e.Role), At: timeOf(e), Raw: raw}
	if e.Turn != nil {
		entry.Turn = *e.Turn
	}
	if e.Subagent != nil {
		entry.Subagent = *e.Subagent
	}
	switch event := e.Event.(type) {
	case *wire.Text:
		entry.Kind = "text"
	case *wire.Service:
		entry.Kind = "service"
	case *wire.ToolCallStart:
		entry.Kind, entry.Call = "tool-call-start", event.Call
	case *wire.ToolCallEnd:
		entry.Kind, entry.Call = "tool-call-end", event.Call
	case *wire.File:
		entry.Kind = "file"
	case *wire.TurnStart:
		entry.Kind = "turn-start"
	case *wire.TurnEnd:
		entry.Kind = "turn-end"
	case *wire.Start:
		entry.Kind = "start"
	case *wire.Stop:
		entry.Kind = "stop"
	}
	return entry, nil
}

// timeOf returns an envelope's time, to the millisecond.
func timeOf(e wire.Envelope) time.Time { return time.UnixMilli(int64(e.Time)).UTC() }
