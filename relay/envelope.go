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

// archive is what a relay needs of a [journal.Journal]. Tests make its calls fail.
type archive interface {
	RecordEnvelopes(context.Context, ...journal.Envelope) (recorded []bool, err error)
	LastEnvelope(ctx context.Context, key inbox.InboxKey, session string) (time.Time, error)
}

const (
	// maxEnvelopes is how many envelopes wait for the journal. What comes while there are as
	// many is read from the conversation later.
	maxEnvelopes = 1024

	// overlap is how much of what is recorded already is read again. The time at which a
	// line was printed and the time in its record differ by less.
	overlap = 5 * time.Minute

	// batchSize is how many envelopes of a conversation one commit records.
	batchSize = 200

	// journalWait is how long a relay waits for the journal before it starts an agent, and
	// when it ends. What is missing then is read later.
	journalWait = 5 * time.Second

	// conversationWait is how long it waits for a conversation before it starts an agent: a
	// runtime may have to start a program to read it. What is read later is recorded out of
	// order.
	conversationWait = 2 * time.Minute
)

// recorder brings what an agent tells into the journal, in order. What could not be recorded
// is read from the conversation, where the same envelopes have the same ids: the journal
// then takes those that it does not have. A nil recorder does nothing.
type recorder struct {
	relay  *Relay
	outbox *pipe.Outbox[told]
	cancel context.CancelFunc
	done   chan struct{} // closed when the outbox has stopped

	mu      sync.Mutex
	missing map[string]time.Time // by session: since when envelopes may be missing

	failing bool // the last one was not recorded; of the outbox's goroutine alone
}

// told is an envelope of a session.
type told struct {
	session string
	wire.Envelope
}

// newRecorder starts a recorder. It returns nil if nobody wants envelopes.
func newRecorder(r *Relay) (*recorder, error) {
	if r.archive == nil && r.opts.Envelope == nil {
		return nil, nil
	}
	c := &recorder{relay: r, done: make(chan struct{}), missing: map[string]time.Time{}}
	var err error
	if c.outbox, err = pipe.NewOutbox(pipe.OutboxOptions[told]{Send: c.send, Skipped: c.skipped, MaxItems: maxEnvelopes}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		_ = c.outbox.Run(ctx) // it ends when it is closed and empty, or was told to
	}()
	return c, nil
}

// end records what waits, and stops. No agent runs.
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

// resume records what the agent told an earlier relay, or nobody, as far as the journal does
// not have it. No agent runs.
func (c *recorder) resume(ctx context.Context, s ledger.Session) {
	if c == nil || c.relay.archive == nil {
		return
	}
	// A journal that cannot be written does not keep the agent from its work.
	brief, cancel := context.WithTimeout(ctx, journalWait)
	defer cancel()
	since, err := c.relay.archive.LastEnvelope(brief, c.relay.post, s.ID)
	if err != nil {
		c.relay.opts.Warn(fmt.Errorf("relay: %s: how much is recorded of what the agent told: %w", c.relay.opts.Member, err))
	}
	if since.IsZero() {
		since = s.At // when it was started
	}
	if since.IsZero() {
		return
	}
	drained := c.drain(brief)
	// Not before: what is sent last would read it as if the agent still ran.
	c.miss(s.ID, since.Add(-overlap))
	if drained {
		reading, cancel := context.WithTimeout(ctx, conversationWait)
		defer cancel()
		c.readMissing(reading, true)
	}
}

// drain waits until what was told before is recorded, or ctx ends.
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

// hear takes what the agent told.
func (c *recorder) hear(session string, e agent.Event) {
	if c == nil {
		return
	}
	if e.Missed {
		c.miss(session, e.At.Add(-overlap))
	}
	c.add(session, e.Envelopes)
}

func (c *recorder) add(session string, list []wire.Envelope) {
	for _, e := range list {
		if !c.put(told{session, e}) {
			return
		}
	}
}

// put reports whether the outbox has taken an envelope. A tool call is held for a moment,
// so that one that ends at once is seen as a whole.
func (c *recorder) put(t told) bool {
	put := c.outbox.Push
	switch event := t.Event.(type) {
	case *wire.ToolCallStart:
		put = func(t told) error { return c.outbox.Hold(t, event.Call) }
	case *wire.ToolCallEnd:
		c.outbox.Release(event.Call)
	}
	if err := put(t); err != nil {
		c.miss(t.session, timeOf(t.Envelope))
		return false
	}
	return true
}

// send records one envelope.
func (c *recorder) send(ctx context.Context, t told) error {
	if err := c.record(ctx, t); err != nil {
		return err
	}
	c.failing = false
	if c.outbox.Len() <= 1 { // this one
		c.readMissing(ctx, false)
	}
	return nil
}

// record records envelopes, and tells of those that are new.
func (c *recorder) record(ctx context.Context, list ...told) error {
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
		if recorded, err = c.relay.archive.RecordEnvelopes(ctx, entries...); err != nil {
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

// skipped notes that an envelope could not be recorded.
func (c *recorder) skipped(t told, err error) {
	c.miss(t.session, timeOf(t.Envelope))
	if !c.failing {
		c.relay.opts.Warn(fmt.Errorf("relay: %s: what the agent tells is not recorded for now: %w", c.relay.opts.Member, err))
	}
	c.failing = true
}

func (c *recorder) miss(session string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.missing[session]; !ok || since.Before(known) {
		c.missing[session] = since
	}
}

// readMissing records what may be missing, from the conversations. Nothing waits in the
// outbox. ended says that no agent runs.
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
				c.miss(session, since)
			}
			c.relay.opts.Warn(fmt.Errorf("relay: %s: some of what the agent told is not recorded: %w", c.relay.opts.Member, err))
		}
	}
}

func (c *recorder) read(ctx context.Context, session string, since time.Time, ended bool) error {
	var batch []told
	record := func() error {
		ctx, cancel := context.WithTimeout(ctx, journalWait)
		defer cancel()
		err := c.record(ctx, batch...)
		if err != nil {
			c.miss(session, timeOf(batch[0].Envelope)) // tried again later
		}
		batch = batch[:0]
		return err
	}
	for e, err := range c.relay.opts.Runtime.Conversation(ctx, session, since, ended) {
		if err != nil {
			return err
		}
		if batch = append(batch, told{session, e}); len(batch) == batchSize {
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

// Entry returns an envelope of a session as the journal keeps it. key is the agent's inbox.
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
		entry.Kind, entry.Text = "text", event.Text
	case *wire.Service:
		entry.Kind, entry.Text = "service", event.Text
	case *wire.ToolCallStart:
		entry.Kind, entry.Call, entry.Text = "tool-call-start", event.Call, event.Title
	case *wire.ToolCallEnd:
		entry.Kind, entry.Call = "tool-call-end", event.Call
	case *wire.File:
		entry.Kind, entry.Text = "file", event.Name
	case *wire.TurnStart:
		entry.Kind = "turn-start"
	case *wire.TurnEnd:
		entry.Kind = "turn-end"
	case *wire.Start:
		entry.Kind = "start"
	case *wire.Stop:
		entry.Kind = "stop"
	}
	if e.Role == wire.RoleUser {
		entry.Text = "" // searches are for what agents say
	}
	return entry, nil
}

// timeOf is the time of an envelope, to the millisecond.
func timeOf(e wire.Envelope) time.Time { return time.UnixMilli(int64(e.Time)).UTC() }
