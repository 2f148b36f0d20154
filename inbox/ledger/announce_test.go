package ledger

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox/sqlite"
)

func events(t *testing.T, l *Ledger) []Event {
	t.Helper()
	must(t, l.Sends.Announce(t.Context()))
	list, err := l.Events.After(t.Context(), 0, 1000)
	must(t, err)
	return list
}

// sent returns the events of sends, such as "written one".
func sent(t *testing.T, l *Ledger) []string {
	t.Helper()
	list := []string{}
	for _, e := range events(t, l) {
		if e.Sent != "" {
			list = append(list, string(e.Sent)+" "+string(e.Row))
		}
	}
	return list
}

func withRow(id, row string) Send {
	s := aSend(id)
	s.Row = []byte(row)
	return s
}

// later makes all pending sends as old as if their senders had died some time ago.
func later(t *testing.T, l *Ledger) {
	t.Helper()
	must(t, l.db.Do(t.Context(), "test", func(c *sqlite.Conn) error {
		_, err := c.Exec("UPDATE pending SET at=at-?", (2 * unknownAfter).Microseconds())
		return err
	}))
}

// A written message has one event, with its row. A withdrawn one has none. If a sender never comes back, its message
// gets the event "unknown" after some time.
func TestEventsOfSends(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, tc := range map[string]struct {
		do    func(l *Ledger) // on a message with id 1
		want  []string
		after []string // once its sender would have given up long ago
	}{
		"written": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{"written a"}, after: []string{"written a"},
		},
		"written, said twice": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{"written a"}, after: []string{"written a"},
		},
		"withdrawn": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				must(t, l.Sends.Withdraw(ctx, aKey("1")))
			},
			want: []string{}, after: []string{},
		},
		"its sender was killed": {
			do:   func(l *Ledger) { must(t, l.Sends.Intend(ctx, withRow("1", "a"))) },
			want: []string{}, after: []string{"unknown a"},
		},
		"its sender was killed, and it is sent again into the same file": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				must(t, l.Sends.Intend(ctx, withRow("1", "b")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{"written b"}, after: []string{"written b"},
		},
		"its sender was killed, and it is sent again by force": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				again := withRow("1", "b")
				again.Before = "size 13"
				must(t, l.Sends.Intend(ctx, again))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{"written b"}, after: []string{"written b", "unknown a"},
		},
		"its sender was killed, and sending it again by force fails": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				again := withRow("1", "b")
				again.Before = "size 13"
				must(t, l.Sends.Intend(ctx, again))
				must(t, l.Sends.Intend(ctx, aSend("1"))) // restores the state before
			},
			want: []string{}, after: []string{"unknown a"},
		},
		"found in the file after all": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				later(t, l)
				sent(t, l)
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{"unknown a", "written a"}, after: []string{"unknown a", "written a"},
		},
		"lost and sent again": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, withRow("1", "a")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
				must(t, l.Sends.MarkUnknown(ctx, aKey("1")))
				must(t, l.Sends.Intend(ctx, withRow("1", "b")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday.Add(time.Second)))
			},
			want: []string{"written a", "written b"}, after: []string{"written a", "written b"},
		},
		"without a row": {
			do: func(l *Ledger) {
				must(t, l.Sends.Intend(ctx, aSend("1")))
				must(t, l.Sends.Written(ctx, aKey("1"), tuesday))
			},
			want: []string{}, after: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			tc.do(l)
			for range 2 {
				if diff := cmp.Diff(tc.want, sent(t, l)); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
			}
			later(t, l)
			if diff := cmp.Diff(tc.after, sent(t, l)); diff != "" {
				t.Errorf("sent, much later (-want +got):\n%s", diff)
			}
		})
	}
}

// The event of a send has the whole message, and another process adds no second event.
func TestEventOfASend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, other := mustOpen(t, path), mustOpen(t, path)
	must(t, l.Sends.Intend(t.Context(), withRow("1", "a")))
	must(t, l.Sends.Written(t.Context(), aKey("1"), tuesday))
	got := append(events(t, other), events(t, l)...)
	key := aKey("1")
	want := Event{
		N: 1, InboxKey: key.InboxKey, At: tuesday,
		Sent: SentWritten, Row: []byte("a"),
	}
	if diff := cmp.Diff([]Event{want, want}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A message is forgotten with its events, and its number is not used again while another process may know it.
func TestPruneForgetsSent(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	send := func(id string) {
		t.Helper()
		must(t, l.Sends.Intend(t.Context(), withRow(id, id)))
		must(t, l.Sends.Written(t.Context(), aKey(id), time.Now()))
	}
	send("1")
	must(t, l.Sends.Intend(t.Context(), withRow("open", "open")))
	send("2")
	sent(t, l)
	_, err := l.Prune(t.Context(), time.Now().Add(-time.Hour))
	must(t, err)
	if diff := cmp.Diff([]string{"written 1", "written 2"}, sent(t, l)); diff != "" {
		t.Errorf("young ones (-want +got):\n%s", diff)
	}
	_, err = l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	if got := events(t, l); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	send("3")
	later(t, l)
	if diff := cmp.Diff([]string{"written 3", "unknown open"}, sent(t, l)); diff != "" {
		t.Errorf("after all were forgotten (-want +got):\n%s", diff)
	}
	if n, err := number(l, "SELECT max(message) FROM messages"); err != nil || n != 4 {
		t.Errorf("the last number is %d, %v; want 4", n, err)
	}
}
