package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// envSends has the number of messages that TestLockHeld sends, 100 a second; the default is 20. If it is set, the
// ledger is locked for 14 s, 100,000 deliveries are pruned at a time, and the limit of half a second is checked.
//
//	LEDGER_TEST_SENDS=10000 go test -run LockHeld -timeout 20m -v ./inbox/ledger
const envSends = "LEDGER_TEST_SENDS"

// Claude's lock on an inbox of 1000 rows is held only for a short time, as its agents see it: with no other work,
// with the ledger locked by another process, while old deliveries are pruned, and with a slow disk while another
// program changes the file, so that it must be written under the lock.
func TestLockHeld(t *testing.T) {
	sends, long := 20, false
	if n, err := strconv.Atoi(os.Getenv(envSends)); err == nil {
		sends, long = n, true
	}
	held, rows, flush, between := 300*time.Millisecond, 100, 60*time.Millisecond, 20*time.Millisecond
	if long {
		held, rows, flush, between = 14*time.Second, 100_000, 300*time.Millisecond, 100*time.Millisecond
	}
	for _, tc := range []struct {
		name   string
		sends  int
		beside func(t *testing.T, w *heldWorld, stop <-chan struct{})
		flush  time.Duration
	}{
		{name: "sends", sends: sends},
		{name: "ledger locked", sends: min(sends, 500), beside: func(t *testing.T, w *heldWorld, stop <-chan struct{}) {
			other := w.open(t)
			err := other.write(context.Background(), "hold", quick, func(*sqlite.Conn) error {
				select {
				case <-time.After(held):
				case <-stop:
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}},
		{name: "gc", sends: min(sends, 150), beside: func(t *testing.T, w *heldWorld, stop <-chan struct{}) {
			other := w.open(t)
			for n := 0; ; n++ {
				select {
				case <-stop:
					t.Logf("%d deliveries were pruned %d times", rows, n)
					return
				default:
				}
				w.fill(t, other, rows)
				if _, err := other.Prune(context.Background(), time.Now()); err != nil {
					t.Error(err)
				}
			}
		}},
		{name: "slow flush", sends: max(3, min(sends, 60)/10), flush: flush, beside: func(t *testing.T, w *heldWorld, stop <-chan struct{}) {
			for {
				select {
				case <-stop:
					return
				case <-time.After(between):
				}
				w.touch(t)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !long { // otherwise the time that the others take does not matter
				t.Parallel()
			}
			w := newHeldWorld(t, 1000)
			l := w.open(t)
			var locked atomic.Int64 // flushes under the lock
			locker := lockedfile.New(lockedfile.Options{Dir: filepath.Join(w.dir, "locks"), Before: func(s lockedfile.Step) {
				if s == lockedfile.StepFlush {
					if _, err := os.Lstat(w.path + ".lock"); err == nil {
						locked.Add(1)
					}
					time.Sleep(tc.flush)
				}
			}})
			box, err := inbox.Open(w.team, "alice", locker)
			must(t, err)
			watch := watchLock(t, filepath.Dir(w.path), filepath.Base(w.path)+".lock")
			stop := make(chan struct{})
			var beside sync.WaitGroup
			if tc.beside != nil {
				beside.Go(func() { tc.beside(t, w, stop) })
			}
			failed := map[string]int{}
			next := time.Now()
			for i := range tc.sends {
				time.Sleep(time.Until(next))
				next = next.Add(10 * time.Millisecond)
				m := inbox.Message{ID: fmt.Sprintf("m-%d", i), From: "bob", Text: "hello"}
				_, err := box.Append(t.Context(), m, inbox.AppendOptions{Memory: l.Sends})
				switch {
				case err == nil:
				case errors.Is(err, ErrBusy):
					failed["ledger locked"]++
				case errors.Is(err, lockedfile.ErrHeldTooLong):
					failed["given up"]++
				default:
					t.Errorf("send %d: %v", i, err)
				}
			}
			close(stop)
			beside.Wait()
			times := watch()
			if len(times) == 0 {
				t.Fatal("the lock was never seen")
			}
			slices.Sort(times)
			at := func(p float64) time.Duration { return times[int(p*float64(len(times)-1))].Round(10 * time.Microsecond) }
			t.Logf("%d sends, not sent %v; the lock was seen %d times, and %d flushes under it: p50 %s, p99 %s, max %s",
				tc.sends, failed, len(times), locked.Load(), at(0.5), at(0.99), at(1))
			if long && at(1) >= 500*time.Millisecond {
				t.Errorf("the lock was held for %s", at(1))
			}
			text := string(w.read(t))
			for i := range tc.sends {
				if n := strings.Count(text, fmt.Sprintf(`"messageId": "m-%d"`, i)); n > 1 {
					t.Errorf("message %d is there %d times", i, n)
				}
			}
			sent := strings.Count(text, `"messageId": "m-`)
			if notSent := failed["ledger locked"] + failed["given up"]; sent != tc.sends-notSent {
				t.Errorf("%d messages are in the file, want %d", sent, tc.sends-notSent)
			}
		})
	}
}

// heldWorld is a team with one inbox, and a state directory on the same file system.
type heldWorld struct {
	dir, path string
	team      *teams.Team
}

func newHeldWorld(t *testing.T, rows int) *heldWorld {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &heldWorld{dir: dir, path: filepath.Join(dir, "claude/teams/demo/inboxes/alice.json")}
	must(t, os.MkdirAll(filepath.Dir(w.path), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "claude/teams/demo/config.json"),
		[]byte(`{"name":"demo","createdAt":1,"leadAgentId":"team-lead@demo","members":[{"agentId":"team-lead@demo","name":"team-lead"},{"agentId":"alice@demo","name":"alice"}]}`), 0o600))
	all := make([]string, rows)
	for i := range all {
		all[i] = fmt.Sprintf("  {\n    \"from\": \"team-lead\",\n    \"text\": \"row %d: %s\",\n    \"timestamp\": \"2026-11-20T12:00:00.000Z\",\n    \"read\": true\n  }", i, strings.Repeat("word ", 45))
	}
	must(t, os.WriteFile(w.path, []byte("[\n"+strings.Join(all, ",\n")+"\n]"), 0o600))
	root, err := teams.Open(filepath.Join(dir, "claude"))
	must(t, err)
	t.Cleanup(func() { root.Close() })
	w.team, err = root.Team("demo")
	must(t, err)
	t.Cleanup(func() { w.team.Close() })
	return w
}

// open opens the ledger a second time, as another process would.
func (w *heldWorld) open(t *testing.T) *Ledger {
	l, err := Open(context.Background(), filepath.Join(w.dir, "ledger.db"))
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (w *heldWorld) read(t *testing.T) []byte {
	data, err := os.ReadFile(w.path)
	if err != nil {
		t.Error(err)
	}
	return data
}

// fill records n deliveries that are done.
func (w *heldWorld) fill(t *testing.T, l *Ledger, n int) {
	p := inbox.InboxKey{Root: "/r", Team: "demo", CreatedAt: 1, Inbox: "bob"}
	err := l.write(context.Background(), "fill", quick, func(c *sqlite.Conn) error {
		inboxID, err := addInbox(c, p)
		if err != nil {
			return err
		}
		_, err = c.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?)
			INSERT INTO deliveries (uuid, inbox_id, key, occurrence, id, sender, kind, person, isolated, marked, frame, state, reason, at, summary, color, hops, claimed_at)
			SELECT hex(randomblob(16)), ?, hex(randomblob(16)), 1, hex(randomblob(16)), 'w', 'message', 0, 0, 1, '', 'done', '', 1000, '', '', 0, 1000 FROM n`, int64(n), inboxID)
		if err != nil {
			return err
		}
		_, err = c.Exec("INSERT INTO contents SELECT seq, x'', randomblob(500) FROM deliveries WHERE inbox_id=?", inboxID)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// touch replaces the file by rename under its lock, as an agent does.
func (w *heldWorld) touch(t *testing.T) {
	for os.Mkdir(w.path+".lock", 0o700) != nil {
		time.Sleep(5 * time.Millisecond)
	}
	data := w.read(t)
	if err := errors.Join(os.WriteFile(w.path+".tmp", data, 0o600), os.Rename(w.path+".tmp", w.path), os.Remove(w.path+".lock")); err != nil {
		t.Error(err)
	}
}

// watchLock measures how long each directory of that name in dir exists, until the returned function is called.
func watchLock(t *testing.T, dir, name string) func() []time.Duration {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	f := os.NewFile(uintptr(fd), "inotify")
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR)
	must(t, err)
	var times []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		var since time.Time
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return // closed
			}
			now := time.Now()
			for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
				of := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+int(e.Len)]), "\x00")
				rest = rest[unix.SizeofInotifyEvent+int(e.Len):]
				switch {
				case e.Mask&unix.IN_Q_OVERFLOW != 0:
					t.Error("events were lost")
				case of != name:
				case e.Mask&unix.IN_CREATE != 0:
					since = now
				case !since.IsZero():
					times = append(times, now.Sub(since))
					since = time.Time{}
				}
			}
		}
	}()
	return func() []time.Duration {
		time.Sleep(50 * time.Millisecond) // for the last events, which are only measured
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		<-done
		return times
	}
}
