package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// sentAt returns the event that a message was sent.
func sentAt(n int64, clock float64, row string) ledger.Event {
	return ledger.Event{N: n, InboxKey: inbox.Key(root, blue(), "bob"), At: at(clock), Sent: ledger.SentWritten, Row: []byte(row)}
}

func unknownAt(n int64, clock float64, row string) ledger.Event {
	e := sentAt(n, clock, row)
	e.Sent = ledger.SentUnknown
	return e
}

// A message that is sent after the clock was set back is one message, and is there.
func TestSentAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.now = func() time.Time { return at(20) }
	ours := row("ours", `"messageId":"ours"`)
	observe(t, j, look(t, 5000, row("theirs")))
	_, err := j.RelayEvents.CopyEvents(t.Context(), nil, sentAt(1, 10, ours))
	must(t, err)
	observe(t, j, look(t, 15, row("theirs"), ours))
	list, err := j.Messages.Changes(t.Context(), 0, 100)
	must(t, err)
	wantChanges(t, list, "1 appeared theirs#1, 2 appeared ours#1, 3 verified ours")
}

// A sent message is one message with one receipt, whether an observer of the file or the ledger reports it first.
func TestSent(t *testing.T) {
	t.Parallel()
	ours := row("ours", `"messageId":"ours"`)
	for name, tc := range map[string]struct {
		do      func(copied func(...ledger.Event), looked func(Snapshot))
		want    string
		receipt inbox.Fate
	}{
		"only copied": {
			do:   func(copied func(...ledger.Event), looked func(Snapshot)) { copied(sentAt(1, 5, ours)) },
			want: "1 appeared ours#1, 2 verified ours", receipt: inbox.Unconsumed,
		},
		"its sender was killed, it was found in the file, and both are told again": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(unknownAt(1, 4, ours), sentAt(2, 5, ours))
				copied(unknownAt(1, 4, ours))
			},
			want: "1 appeared ours#1, 3 verified ours", receipt: inbox.Unconsumed,
		},
		"copied again, by another process": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(sentAt(1, 5, ours))
				copied(sentAt(1, 5, ours))
			},
			want: "1 appeared ours#1, 2 verified ours", receipt: inbox.Unconsumed,
		},
		"copied again, from a ledger that went back": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(sentAt(1, 5, ours))
				copied(sentAt(2, 5, ours))
			},
			want: "1 appeared ours#1, 2 verified ours", receipt: inbox.Unconsumed,
		},
		"seen and then copied": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 6, ours))
				copied(sentAt(1, 5, ours))
				looked(look(t, 7, ours))
			},
			want: "1 appeared ours#1, 2 verified ours", receipt: inbox.Unconsumed,
		},
		"copied and then seen": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 4))
				copied(sentAt(1, 5, ours))
				looked(look(t, 6, ours))
			},
			want: "1 appeared ours#1, 2 verified ours", receipt: inbox.Unconsumed,
		},
		"copied, seen and taken": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(sentAt(1, 5, ours))
				looked(look(t, 6, row("theirs"), ours))
				looked(look(t, 7, row("theirs")))
			},
			want: "1 appeared ours#1, 2 verified ours, 3 appeared theirs#1, 4 gone ours#1", receipt: inbox.Unconsumed,
		},
		"taken before anybody looked": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 4, row("theirs")))
				copied(sentAt(1, 5, ours))
				looked(look(t, 6, row("theirs")))
			},
			want: "1 appeared theirs#1, 2 appeared ours#1, 3 verified ours, 4 gone ours#1", receipt: inbox.Unconsumed,
		},
		"taken, and somebody looked before it was copied": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 6, row("theirs")))
				copied(sentAt(1, 5, ours))
				looked(look(t, 7, row("theirs")))
			},
			want: "1 appeared theirs#1, 2 appeared ours#1, 3 gone ours#1, 4 verified ours", receipt: inbox.Unconsumed,
		},
		"what was read before it was sent does not end it": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 3))
				copied(sentAt(1, 5, ours))
				looked(look(t, 4, row("theirs")))
				looked(look(t, 6, ours))
			},
			want: "1 appeared ours#1, 2 verified ours, 3 appeared theirs#1, 4 gone theirs#1", receipt: inbox.Unconsumed,
		},
		"marked as read": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(sentAt(1, 5, ours))
				looked(look(t, 6, row("ours", `"messageId":"ours"`, `"read":true`)))
			},
			want: "1 appeared ours#1, 2 verified ours, 3 read ours#1", receipt: inbox.Unconsumed,
		},
		"it is not known whether it was written": {
			do:   func(copied func(...ledger.Event), looked func(Snapshot)) { copied(unknownAt(1, 5, ours)) },
			want: "1 appeared ours#1, 2 unknown ours", receipt: inbox.Unknown,
		},
		"it was written after somebody looked, if it was": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 6, row("theirs")))
				copied(unknownAt(1, 5, ours))
				looked(look(t, 7, row("theirs"), ours))
			},
			want: "1 appeared theirs#1, 2 appeared ours#1, 3 unknown ours", receipt: inbox.Unknown,
		},
		"it is not there": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				looked(look(t, 6, row("theirs")))
				copied(unknownAt(1, 5, ours))
				looked(look(t, 7, row("theirs")))
			},
			want: "1 appeared theirs#1, 2 appeared ours#1, 3 unknown ours, 4 gone ours#1", receipt: inbox.Unknown,
		},
		"it became known that it was written": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(unknownAt(1, 5, ours))
				looked(look(t, 6, ours))
				copied(sentAt(2, 7, ours))
			},
			want: "1 appeared ours#1, 3 verified ours", receipt: inbox.Unconsumed,
		},
		"sent again": {
			do: func(copied func(...ledger.Event), looked func(Snapshot)) {
				copied(sentAt(1, 5, ours), sentAt(2, 6, row("ours", `"messageId":"ours"`, `"timestamp":"2026-02-02T00:00:00.000Z"`)))
			},
			want: "1 appeared ours#1, 2 verified ours, 3 appeared ours#1", receipt: inbox.Unconsumed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			tc.do(func(list ...ledger.Event) {
				t.Helper()
				copyEvents(t, j, list...)
			}, func(s Snapshot) {
				t.Helper()
				observe(t, j, s)
			})
			list, err := j.Messages.Changes(t.Context(), 0, 100)
			must(t, err)
			wantChanges(t, list, tc.want)
			r, _, err := j.Receipts.Receipt(t.Context(), aKey("ours"))
			must(t, err)
			if r.State != tc.receipt {
				t.Errorf("receipt %+v, want %s", r, tc.receipt)
			}
			sound(t, j)
		})
	}
}

// A row that a relay claimed is a message, even if it was never observed in the file.
func TestClaimed(t *testing.T) {
	t.Parallel()
	theirs := row("theirs")
	event := anEvent(2, "d", "claimed")
	event.Row = []byte(theirs)
	for name, tc := range map[string]struct {
		do   func(copied func(), looked func(Snapshot))
		want string
	}{
		"only copied": {
			do:   func(copied func(), looked func(Snapshot)) { copied() },
			want: "1 appeared theirs#1, 2 relay d claimed",
		},
		"seen before": {
			do:   func(copied func(), looked func(Snapshot)) { looked(look(t, 1, theirs)); copied() },
			want: "1 appeared theirs#1, 2 relay d claimed",
		},
		"seen after that, and marked": {
			do: func(copied func(), looked func(Snapshot)) {
				copied()
				looked(look(t, 3, row("theirs", `"read":true`, `"relayedBy":"d"`)))
			},
			want: "1 appeared theirs#1, 2 relay d claimed, 3 read theirs#1",
		},
		"not seen any more": {
			do:   func(copied func(), looked func(Snapshot)) { looked(look(t, 3, row("other"))); copied() },
			want: "1 appeared other#1, 2 appeared theirs#1, 3 gone theirs#1, 4 relay d claimed",
		},
		"one of two that are equal": {
			do:   func(copied func(), looked func(Snapshot)) { copied(); looked(look(t, 3, theirs, theirs)) },
			want: "1 appeared theirs#1, 2 relay d claimed, 3 appeared theirs#2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			tc.do(func() {
				t.Helper()
				for range 2 {
					copyEvents(t, j, event)
				}
			}, func(s Snapshot) {
				t.Helper()
				observe(t, j, s)
			})
			list, err := j.Messages.Changes(t.Context(), 0, 100)
			must(t, err)
			wantChanges(t, list, tc.want)
			sound(t, j)
		})
	}
}

// The rows in front of a message are known even if its receipt was copied first.
func TestAheadAfterCopying(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	first, ours := row("first"), row("ours", `"messageId":"ours"`)
	observe(t, j, look(t, 1, first))
	copyEvents(t, j, sentAt(1, 2, ours))
	want := inbox.Ahead(file(t, first))
	_, err := j.Receipts.Verified(t.Context(), aKey("ours"), at(3), want...)
	must(t, err)
	got, err := j.Receipts.Ahead(t.Context(), aKey("ours"))
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 1 {
		t.Errorf("ahead (-want +got):\n%s", diff)
	}
}

// A message is sent with or without a tap, copied later by some process, and copied again from a ledger that lost its
// end. In the end it is recorded once, and as gone if and only if it is gone.
func TestSentBesideATap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, other := mustOpen(t, path), mustOpen(t, path)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := &sim{t: t, inbox: fmt.Sprint("inbox", n), names: map[string]int{}, tapping: rapid.Bool().Draw(rt, "tap")}
		s.tap.j, s.sender.j = j, j
		if rapid.Bool().Draw(rt, "two processes") {
			s.tap.j = other
		}
		var events []ledger.Event
		copied := 0
		looking := false // the copier must look
		step := func(do func()) func(*rapid.T) {
			return func(*rapid.T) {
				s.clock++
				do()
			}
		}
		replicate := func() {
			list := events[copied:]
			if copied = len(events); len(list) > 0 {
				copyEvents(t, s.sender.j, list...)
				looking = true
			}
		}
		glance := func() {
			if !looking && s.sender.step == 0 {
				return
			}
			if s.sender.step == 0 {
				looking = false
			}
			if _, again := s.glance(&s.sender); again {
				looking = true
			}
		}
		actions := map[string]func(*rapid.T){
			"send": step(func() {
				name := s.name("ours")
				s.sent = append(s.sent, name)
				s.change(append(s.file[:len(s.file):len(s.file)], name))
				s.clock++ // the sender reads it back before an agent can take it
				e := sentAt(int64(len(events)+1), float64(s.clock), row(name))
				e.Inbox = s.inbox
				events = append(events, e)
			}),
			"replicate":        step(replicate),
			"copier":           step(glance),
			"ledger went back": step(func() { copied = 0 }),
			"agent":            step(func() { s.change(nil) }),
			"another":          step(func() { s.change(append(s.file[:len(s.file):len(s.file)], s.name("theirs"))) }),
		}
		if s.tapping {
			actions["tap"] = step(s.tapStep)
			actions["tap again"] = step(s.tapStep)
		}
		rt.Repeat(actions)
		// All looks end, and nothing else happens.
		s.clock++
		replicate()
		for k := 0; looking || s.sender.step > 0 || s.tapping && (s.pending || s.tap.step > 0); k++ {
			if s.clock++; k > 100 {
				rt.Fatalf("the looks do not end")
			}
			glance()
			if s.tapping {
				s.tapStep()
			}
		}
		// Without a tap only the copier looks, after it has copied.
		stale := !s.tapping && len(events) > 0
		var want, got []string
		for _, text := range s.sent {
			want = append(want, fmt.Sprintf("%s#1 gone %v", text, !slices.Contains(s.file, text)))
		}
		for _, m := range messages(t, j, Query{Inbox: s.inbox}) {
			if slices.Contains(s.sent, m.Text) {
				gone := !m.GoneAt.IsZero()
				if stale && !gone {
					gone = !slices.Contains(s.file, m.Text) // until the next look
				}
				got = append(got, fmt.Sprintf("%s#%d gone %v", m.Text, m.Occurrence, gone))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("what was sent (-want +got):\n%s", diff)
		}
	})
}
