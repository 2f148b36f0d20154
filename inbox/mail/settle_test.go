package mail_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
)

// killed is the memory of a sender that is killed after it has written its message, before that is recorded.
type killed struct{ ledger.Sends }

func (killed) Written(context.Context, inbox.SendKey, time.Time) error { return nil }

// A message whose sender was killed, or that was found lost, is not written a second time, not even by force, if
// anything shows that it was written or taken.
func TestSentAgainAfterEvidence(t *testing.T) {
	t.Parallel()
	lose := func(l *looking) {
		l.write(l.rows()[:2]...)
		if fate, err := fateOf(l.T, l.sender, l.d); fate != inbox.Lost {
			l.Fatalf("it is %s, %v", fate, err)
		}
	}
	kill := func(l *looking, rest ...json.RawMessage) { // job-2
		l.write(rest...)
		_, err := l.d.Inbox.Append(l.Context(), inbox.Message{ID: "job-2", From: "user", DefaultFrom: true, Text: told},
			inbox.AppendOptions{Memory: killed{l.opts.Ledger.Sends}})
		if err != nil {
			l.Fatal(err)
		}
		l.d.ID = "job-2"
	}
	verified := func(j journal.Receipts, ctx context.Context, key inbox.SendKey, at time.Time) (journal.Receipt, error) {
		return j.Verified(ctx, key, at)
	}
	receipt := func(l *looking, update func(journal.Receipts, context.Context, inbox.SendKey, time.Time) (journal.Receipt, error)) {
		if _, err := update(l.journal.Receipts, l.Context(), l.sender.Key(l.d), time.Now()); err != nil {
			l.Fatal(err)
		}
	}
	unknown := func(j journal.Receipts, ctx context.Context, key inbox.SendKey, at time.Time) (journal.Receipt, error) {
		return j.Unknown(ctx, key, at, "its sender ended")
	}
	announce := func(l *looking, row json.RawMessage) { // as the history gets it from the ledger, a minute after the intent
		if _, err := l.journal.RelayEvents.CopyEvents(l.Context(), nil, ledger.Event{
			N: 1, InboxKey: l.sender.Key(l.d).InboxKey, At: time.Now(), Row: row, Sent: ledger.SentUnknown,
		}); err != nil {
			l.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		then func(l *looking)
		once bool
	}{
		"lost":                   {lose, false},
		"lost, and then taken":   {func(l *looking) { lose(l); receipt(l, journal.Receipts.Consumed) }, true},
		"lost, and seen as read": {func(l *looking) { r := l.rows(); lose(l); l.write(r[0], r[1], l.marked(r[2], "")); l.observe() }, true},
		"lost, and seen to be":   {func(l *looking) { l.observe(); lose(l); l.observe() }, false},
		"lost, and then given": {func(l *looking) {
			receipt(l, verified)
			lose(l)
			receipt(l, unknown)
			receipt(l, journal.Receipts.Seen)
		}, true},
		"killed, and nobody saw": {func(l *looking) { kill(l) }, false},
		"killed, and observed":   {func(l *looking) { kill(l); l.observe() }, true},
		"killed, and seen to go": {func(l *looking) { kill(l); l.observe(); l.write(); l.observe() }, true},
		"killed, and announced":  {func(l *looking) { kill(l); announce(l, l.rows()[0]) }, false},
		"killed, observed, and announced": {func(l *looking) {
			kill(l)
			row := l.rows()[0]
			l.observe()
			l.write()
			l.observe()
			announce(l, row)
		}, true},
		"killed, and then taken":         {func(l *looking) { kill(l); receipt(l, journal.Receipts.Consumed) }, true},
		"killed, and claimed by a relay": {func(l *looking) { kill(l); l.claim(true, nil) }, true},
		"killed, and an earlier copy was seen": {func(l *looking) {
			l.d.ID = "job-1"
			l.observe()
			rest := l.rows()[:2]
			lose(l)
			if _, err := l.d.Inbox.Append(l.Context(), inbox.Message{ID: "job-1", From: "user", DefaultFrom: true, Text: told, Time: time.Now().Add(time.Second)},
				inbox.AppendOptions{Memory: killed{l.opts.Ledger.Sends}, Force: true}); err != nil {
				l.Fatal(err)
			}
			l.write(rest...)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := look(t)
			tc.then(l)
			l.write()
			m := mail.Message{ID: l.d.ID, Text: told}
			d, err := l.sender.Put(t.Context(), "worker", m, inbox.AppendOptions{})
			if tc.once != (err == nil && d.Deduplicated) || !tc.once && !errors.Is(err, inbox.ErrUnknown) {
				t.Errorf("sent again: %+v, %v", d, err)
			}
			d, err = l.sender.Put(t.Context(), "worker", m, inbox.AppendOptions{Force: true})
			if err != nil || d.Deduplicated != tc.once || (len(l.rows()) == 0) != tc.once {
				t.Errorf("sent again by force: %+v, %v, %d rows", d, err, len(l.rows()))
			}
			m.Text = "another text"
			if _, err := l.sender.Put(t.Context(), "worker", m, inbox.AppendOptions{Force: true}); !errors.Is(err, inbox.ErrIDTaken) {
				t.Errorf("another text under this id: %v", err)
			}
		})
	}
}
