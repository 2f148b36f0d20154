package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/inbox/sqlite/sqlitetest"
	"teambridge/teams/errtest"
)

var (
	monday  = time.Date(2026, 11, 16, 9, 0, 0, 123456000, time.UTC)
	tuesday = monday.Add(24 * time.Hour)
)

func aKey(id string) SendKey {
	return SendKey{InboxKey: inbox.InboxKey{Root: "/home/ann/.claude", Team: "blue", CreatedAt: 1763280000000, Inbox: "bob"}, ID: id}
}

func aSend(id string) Send {
	return Send{SendKey: aKey(id), Digest: [32]byte{1, 2, 31: 3}, Before: "size 12", At: monday}
}

func mustOpen(t testing.TB, path string) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var template = sqlitetest.Template{Make: func(path string) error {
	made, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	return made.Close()
}}

func newLedger(t testing.TB) *Ledger {
	t.Helper()
	return mustOpen(t, template.New(t, "ledger.db"))
}

// want checks the ledger's record of a message; a State of "" means that there is none.
func want(t *testing.T, l *Ledger, send Send) {
	t.Helper()
	got, found, err := l.Sends.Recall(t.Context(), send.SendKey)
	must(t, err)
	if found != (send.State != "") {
		t.Fatalf("%v: found %v, want %v", send.SendKey, found, send.State != "")
	}
	if diff := cmp.Diff(send, got); found && diff != "" {
		t.Errorf("%v (-want +got):\n%s", send.SendKey, diff)
	}
}

// number, run and query use the database directly.
func number(l *Ledger, sql string) (n int64, err error) {
	err = l.db.Do(context.Background(), "test", func(c *sqlite.Conn) error {
		n, err = c.Number(sql)
		return err
	})
	return n, err
}

func run(l *Ledger, sql string) error {
	return l.db.Do(context.Background(), "test", func(c *sqlite.Conn) error {
		_, err := c.Exec(sql)
		return err
	})
}

func query(l *Ledger, row func(sqlite.Row), sql string) error {
	return l.db.Do(context.Background(), "test", func(c *sqlite.Conn) error { return c.Query(row, sql) })
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

var must = errtest.Must

func TestSendFromIntentToWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	send := aSend("1")
	want(t, l, Send{SendKey: send.SendKey})

	must(t, l.Sends.Intend(t.Context(), send))
	send.State = Intent
	want(t, l, send)

	must(t, l.Sends.Written(t.Context(), send.SendKey, tuesday))
	send.State, send.At = Written, tuesday
	want(t, l, send)

	// A second Written keeps the first time.
	must(t, l.Sends.Written(t.Context(), send.SendKey, tuesday.Add(time.Hour)))
	want(t, l, send)

	must(t, l.Close())
	want(t, mustOpen(t, path), send)
}

func TestIntendAgain(t *testing.T) {
	t.Parallel()
	other := aSend("1")
	other.Digest[31]++
	again := aSend("1")
	again.Before, again.At = "size 99", tuesday

	for _, test := range []struct {
		name    string
		written bool
		second  Send
		want    error
	}{
		{"same digest replaces an intent", false, again, nil},
		{"other digest", false, other, ErrConflict},
		{"same digest after the write", true, again, ErrWritten},
		{"other digest after the write", true, other, ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			stays := aSend("1")
			must(t, l.Sends.Intend(t.Context(), stays))
			stays.State = Intent
			if test.written {
				must(t, l.Sends.Written(t.Context(), stays.SendKey, tuesday))
				stays.State, stays.At = Written, tuesday
			}
			wantError(t, l.Sends.Intend(t.Context(), test.second), test.want)
			if test.want == nil {
				stays.Before, stays.At = again.Before, again.At
			}
			want(t, l, stays)
		})
	}
}

func TestEachPartOfTheKeyCounts(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for i, change := range []func(*SendKey){
		func(*SendKey) {},
		func(k *SendKey) { k.Root += "2" },
		func(k *SendKey) { k.Team += "2" },
		func(k *SendKey) { k.CreatedAt++ },
		func(k *SendKey) { k.Inbox += "2" },
		func(k *SendKey) { k.ID += " " },
		func(k *SendKey) { k.ID = "É" },
		func(k *SendKey) { k.ID = "é" },
		func(k *SendKey) { k.ID = "e\x00" },
		func(k *SendKey) { k.ID = "\xff" },
		func(k *SendKey) { k.ID = "7" },
		func(k *SendKey) { k.ID = "7.0" },
		func(k *SendKey) { k.ID = "'; DROP TABLE sends; --" },
	} {
		send := aSend("1")
		change(&send.SendKey)
		send.Digest[0] = byte(i) // a key that is mistaken for another is a conflict
		must(t, l.Sends.Intend(t.Context(), send))
		send.State = Intent
		want(t, l, send)
	}
}

func TestWrittenNeedsAnIntent(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	wantError(t, l.Sends.Written(t.Context(), aKey("1"), monday), ErrNoIntent)
	want(t, l, Send{SendKey: aKey("1")})
}

func TestValuesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, test := range []struct {
		field  string
		change func(*Send)
	}{
		{"root", func(s *Send) { s.Root = "" }},
		{"team", func(s *Send) { s.Team = "" }},
		{"inbox", func(s *Send) { s.Inbox = "" }},
		{"id", func(s *Send) { s.ID = "" }},
		{"id", func(s *Send) { s.ID = " \t\n" }},
		{"id", func(s *Send) { s.ID = strings.Repeat("x", sqlite.MaxName+1) }},
		{"before", func(s *Send) { s.Before = strings.Repeat("x", maxBefore+1) }},
	} {
		send := aSend("1")
		test.change(&send)
		var bad *ValueError
		if err := l.Sends.Intend(t.Context(), send); !errors.As(err, &bad) || bad.Field != test.field {
			t.Errorf("Intend: %v, want a ValueError for %s", err, test.field)
		}
		if test.field == "before" {
			continue
		}
		bad = nil
		if _, _, err := l.Sends.Recall(t.Context(), send.SendKey); !errors.As(err, &bad) || bad.Field != test.field {
			t.Errorf("Send: %v, want a ValueError for %s", err, test.field)
		}
		bad = nil
		if err := l.Sends.Written(t.Context(), send.SendKey, monday); !errors.As(err, &bad) || bad.Field != test.field {
			t.Errorf("Written: %v, want a ValueError for %s", err, test.field)
		}
	}
	var bad *ValueError
	if err := l.Teams.Joined(t.Context(), Join{Root: "/r", Team: "blue"}); !errors.As(err, &bad) || bad.Field != "member" {
		t.Errorf("Joined: %v, want a ValueError for member", err)
	}

	// The largest values that can be kept.
	send := aSend(strings.Repeat("x", sqlite.MaxName))
	send.Before = strings.Repeat("y", maxBefore)
	must(t, l.Sends.Intend(t.Context(), send))
	send.State = Intent
	want(t, l, send)
	if n, err := number(l, "SELECT count(*) FROM sends"); err != nil || n != 1 {
		t.Errorf("%d rows, %v; want 1", n, err)
	}
}

func TestWithdrawForgetsAnIntentAndNothingWritten(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	intent, written := aSend("1"), aSend("2")
	must(t, l.Sends.Withdraw(t.Context(), intent.SendKey))
	must(t, l.Sends.Intend(t.Context(), intent))
	must(t, l.Sends.Intend(t.Context(), written))
	must(t, l.Sends.Written(t.Context(), written.SendKey, tuesday))

	must(t, l.Sends.Withdraw(t.Context(), intent.SendKey))
	must(t, l.Sends.Withdraw(t.Context(), written.SendKey))
	want(t, l, Send{SendKey: intent.SendKey})
	written.State, written.At = Written, tuesday
	want(t, l, written)

	// The id is free for another message.
	intent.Digest[0]++
	must(t, l.Sends.Intend(t.Context(), intent))
}

func TestPruneForgetsOnlyWhatIsWrittenAndOlder(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	old, intent, late := aSend("old"), aSend("intent"), aSend("late")
	for _, send := range []Send{old, intent, late} {
		must(t, l.Sends.Intend(t.Context(), send))
	}
	must(t, l.Sends.Written(t.Context(), old.SendKey, tuesday.Add(-time.Microsecond)))
	must(t, l.Sends.Written(t.Context(), late.SendKey, tuesday))

	n, err := l.Prune(t.Context(), tuesday)
	if err != nil || n != 1 {
		t.Fatalf("pruned %d, %v; want 1", n, err)
	}
	intent.State, late.State, late.At = Intent, Written, tuesday
	want(t, l, Send{SendKey: old.SendKey})
	want(t, l, intent)
	want(t, l, late)
}

func TestJoins(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	operator := Join{Root: "/r", Team: "blue", CreatedAt: 1, Member: "operator", AgentID: "operator@blue", At: monday}
	ann := Join{Root: "/r", Team: "blue", CreatedAt: 1, Member: "ann", AgentID: "ann@blue", At: monday}
	others := []Join{
		{Root: "/other", Team: "blue", CreatedAt: 1, Member: "x", At: monday},
		{Root: "/r", Team: "red", CreatedAt: 1, Member: "x", At: monday},
		{Root: "/r", Team: "blue", CreatedAt: 2, Member: "x", At: monday},
	}
	check := func(want ...Join) {
		t.Helper()
		got, err := l.Teams.Joins(t.Context(), "/r", "blue", 1)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("joins (-want +got):\n%s", diff)
		}
	}
	check()
	for _, j := range append(others, operator, ann) {
		must(t, l.Teams.Joined(t.Context(), j))
	}
	check(ann, operator)

	ann.AgentID, ann.At = "ann-2@blue", tuesday
	must(t, l.Teams.Joined(t.Context(), ann))
	check(ann, operator)

	must(t, l.Teams.Left(t.Context(), operator))
	must(t, l.Teams.Left(t.Context(), operator))
	check(ann)
	for _, j := range others {
		got, err := l.Teams.Joins(t.Context(), j.Root, j.Team, j.CreatedAt)
		if err != nil || len(got) != 1 {
			t.Errorf("%v: %v, %v; want to be still there", j, got, err)
		}
	}
}

func TestIntendWaitsForTheDiskAndWrittenDoesNot(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	const normal, extra = 1, 3
	level := func(what string, want int64) {
		t.Helper()
		if got, err := number(l, "PRAGMA synchronous"); err != nil || got != want {
			t.Errorf("%s was committed with synchronous=%d, %v; want %d", what, got, err, want)
		}
	}
	written := func() {
		t.Helper()
		must(t, l.Sends.Written(t.Context(), aKey("1"), monday))
		level("Written", normal)
	}
	join := Join{Root: "/r", Team: "blue", Member: "ann", At: monday}
	// Each step follows a Written, which lowers the level.
	must(t, l.Sends.Intend(t.Context(), aSend("1")))
	level("Intend", extra)
	written()
	must(t, l.Sends.Intend(t.Context(), aSend("2")))
	level("Intend", extra)
	written()
	must(t, l.Teams.Joined(t.Context(), join))
	level("Joined", extra)
	written()
	must(t, l.Teams.Left(t.Context(), join))
	level("Left", extra)
	written()
	must(t, l.Sends.Withdraw(t.Context(), aKey("1")))
	level("Withdraw", extra)
	written()
	_, err := l.Prune(t.Context(), monday)
	must(t, err)
	level("Prune", extra)

	var mode string
	must(t, query(l, func(v sqlite.Row) {
		mode = v.Text(0)
	}, "PRAGMA journal_mode"))
	if mode != "wal" {
		t.Errorf("journal mode %q, want wal", mode)
	}
}

// Two ledgers on one file in one process contend as two processes do. With the bubble's clock, waiting takes no time.
func TestBusy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		waits time.Duration
		want  error
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}, time.Minute, context.DeadlineExceeded},
		{"no deadline", context.WithCancel, sqlite.Patience, context.DeadlineExceeded},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, time.Second, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			synctest.Test(t, func(t *testing.T) {
				holder, l := mustOpen(t, path), mustOpen(t, path)
				err := run(holder, "BEGIN EXCLUSIVE")
				must(t, err)

				ctx, cancel := test.ctx(t.Context())
				defer cancel()
				start := time.Now()
				err = l.Sends.Intend(ctx, aSend("1"))
				wantError(t, err, ErrBusy)
				wantError(t, err, test.want)
				if waited := time.Since(start); waited != test.waits {
					t.Errorf("gave up after %v, want %v", waited, test.waits)
				}
				if !strings.Contains(err.Error(), path) {
					t.Errorf("%q does not name %s", err, path)
				}

				err = run(holder, "ROLLBACK")
				must(t, err)
				want(t, l, Send{SendKey: aKey("1")})
			})
		})
	}
}

// Package sqlite tests the other kinds of refused files.
func TestDevelopmentVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for mark, newest := range map[int]int{1952599111: 12, 1952599141: 13, 0x74624c31: 1, 0x74624c32: 1} {
		for _, version := range []int{1, newest} {
			path := filepath.Join(t.TempDir(), "ledger.db")
			l := mustOpen(t, path)
			must(t, l.Sends.Intend(t.Context(), aSend("1")))
			must(t, run(l, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", mark, version)))
			must(t, l.Close())
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = Open(t.Context(), path)
			wantError(t, err, sqlite.ErrDevelopment)
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
				t.Errorf("version %d of %d: the file was changed: %v", version, mark, err)
			}
		}
	}
}
