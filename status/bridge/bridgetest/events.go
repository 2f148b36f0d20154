package bridgetest

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// events are the cases of events.
var events = map[string]func(*world){
	// The first events have the present state, and later ones the changes.
	"events": func(w *world) {
		next, stop := w.events("", "")
		defer stop()
		shot := next().Snapshot
		if shot == nil || len(shot.Teams) != 2 || len(shot.Status) != 4 {
			w.Fatalf("first comes %+v", shot)
		}
		sent, err := w.b.Send(w.Context(), older, "worker", "", api.NewMessage{Text: "hello"})
		w.must(err)
		// The sender or the watcher may record first.
		var message *api.MessageEvent
		var receipt *api.Receipt
		for message == nil || receipt == nil {
			switch v := next(); {
			case v.Message != nil:
				message = v.Message
			case v.Receipt != nil:
				receipt = v.Receipt
			}
		}
		if message.Change != api.Appeared || message.Message.ID != sent.ID || message.Message.Text != "hello" {
			w.Errorf("the message is %+v", message)
		}
		if receipt.ID != sent.ID || receipt.State != api.Verified || receipt.Member != "worker" {
			w.Errorf("the receipt is %+v", receipt)
		}
		_, err = w.Inbox(older, "worker").MarkRead(w.Context(), sent.ID) // as an older agent does
		w.must(err)
		for read, taken := false, !w.recorded(); !read || !taken; { // without a service, the message is not followed
			switch v := next(); {
			case v.Message != nil:
				read = v.Message.Change == api.Read && v.Message.Message.ID == sent.ID && v.Message.Message.Read
			case v.Receipt != nil:
				taken = v.Receipt.State == api.Consumed && v.Receipt.ConsumedAt != nil
			}
		}
		w.said(older)
		w.stepped(older)
		w.Send(older, "worker", "team-lead", "back again")
		// Records come in their order, and states as of each look.
		var envelope *api.Envelope
		var step *api.RelayEvent
		for active := false; envelope == nil || step == nil || !active; {
			switch v := next(); {
			case v.Envelope != nil:
				envelope = v.Envelope
			case v.Relay != nil:
				step = v.Relay
			case v.Snapshot != nil:
				active = slices.ContainsFunc(v.Snapshot.Status, func(s api.Status) bool { return s.Team == older && s.Member == "worker" && s.State == api.StateActive })
			}
		}
		if envelope.Team != older || envelope.Member != "worker" || envelope.Record == nil || envelope.Record.Text != "I test it." {
			w.Errorf("the envelope is %+v", envelope)
		}
		if step.Team != older || step.Member != "worker" || step.State != "done" || step.Delivery != "d" {
			w.Errorf("the step is %+v", step)
		}
		w.must(os.RemoveAll(w.Path(newer))) // a team that is deleted
		w.until(next, func(v api.Event) bool { return v.Snapshot != nil && len(v.Snapshot.Teams) == 1 })
	},
	"events of one team": func(w *world) {
		next, stop := w.events(newer, "")
		defer stop()
		if shot := next().Snapshot; shot == nil || len(shot.Teams) != 1 || shot.Teams[0].Team != newer || len(shot.Status) != 2 {
			w.Errorf("first comes %+v", shot)
		}
		w.Send(older, "worker", "user", "not for us")
		w.Send(newer, "worker", "team-lead", "for us")
		first := w.until(next, func(v api.Event) bool { return v.Message != nil })
		w.Send(newer, "worker", "team-lead", "for us, too")
		second := w.until(next, func(v api.Event) bool { return v.Message != nil })
		if first.Message.Message.Text != "for us" || second.Message.Message.Text != "for us, too" || second.Seq <= first.Seq {
			w.Errorf("then come %+v and %+v", first, second)
		}
		again, stop := w.events(newer, first.ID)
		defer stop()
		if v := w.until(again, func(v api.Event) bool { return v.Message != nil }); v.ID != second.ID || v.Message.Message.Text != "for us, too" {
			w.Errorf("after the first of them comes %+v", v)
		}
	},
}

// events starts a stream of events.
func (w *world) events(team, after string) (next func() api.Event, stop func()) {
	w.Helper()
	pull, stop := iter.Pull2(w.b.Events(w.Context(), team, after))
	read := func() api.Event {
		w.Helper()
		v, err, ok := pull()
		if err != nil || !ok {
			w.Fatalf("the events ended: %v", err)
		}
		return v
	}
	first := []api.Event{read()} // so that the stream has started
	return func() (v api.Event) {
		w.Helper()
		if len(first) == 0 {
			return read()
		}
		v, first = first[0], nil
		return v
	}, stop
}

// until reads events up to the first one that matches.
func (w *world) until(next func() api.Event, want func(api.Event) bool) api.Event {
	w.Helper()
	for {
		if v := next(); want(v) {
			return v
		}
	}
}

// journal opens the journal as another process does.
func (w *world) journal() *journal.Journal {
	w.Helper()
	j, err := journal.Open(w.Context(), filepath.Join(w.State, "journal.db"))
	w.must(err)
	w.Cleanup(func() { _ = j.Close() })
	return j
}

// said records a text of worker's agent.
func (w *world) said(team string) {
	w.Helper()
	c, err := w.Team(team).Config(w.Context())
	w.must(err)
	_, err = w.journal().Envelopes.Record(w.Context(), journal.Envelope{
		InboxKey: inbox.Key(w.Root.Path(), c.Instance(), "worker"), ID: "e", Session: "s", Turn: "t", Kind: "text", Role: "agent", At: time.Now(),
		Raw: []byte(`{"id":"e","time":1,"role":"agent","turn":"t","ev":{"t":"text","text":"I test it."}}`),
	})
	w.must(err)
}

// stepped records that worker's agent has finished a message.
func (w *world) stepped(team string) {
	w.Helper()
	c, err := w.Team(team).Config(w.Context())
	w.must(err)
	_, err = w.journal().RelayEvents.CopyEvents(w.Context(), nil, ledger.Event{
		N: 1, InboxKey: inbox.Key(w.Root.Path(), c.Instance(), "worker"), At: time.Now(), Delivery: "d", ID: "m", From: "user", State: ledger.Done,
	})
	w.must(err)
}
