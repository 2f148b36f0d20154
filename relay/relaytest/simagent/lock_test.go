package simagent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/relay/relaytest/simagent"
)

// foreignLock makes a lock directory of the given age, by the bubble's clock.
func foreignLock(t *testing.T, path string, age time.Duration) string {
	t.Helper()
	lock := path + ".lock"
	if err := os.Mkdir(lock, 0o700); err != nil {
		t.Fatal(err)
	}
	touch(t, lock, time.Now().Add(-age))
	return lock
}

func touch(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want it gone", path, err)
	}
}

// Agents wait for a lock, and take it over when it is stale. Old ones deliver without it, and
// again at each look until they can mark the rows.
func TestForeignLock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		age      time.Duration
		from, to time.Duration // when the row is taken from the file
		again    bool          // whether old ones deliver it again until then
	}{
		{"fresh", 0, 10 * time.Second, 10*time.Second + 200*time.Millisecond, true},
		{"ten seconds", 10 * time.Second, time.Nanosecond, 200 * time.Millisecond, false},
		{"just stale", 10*time.Second + time.Millisecond, 0, 0, false},
		{"a minute", time.Minute, 0, 0, false},
	}
	for _, test := range tests {
		for _, marks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", test.name, marks), func(t *testing.T) {
				t.Parallel()
				dir := emptyTeam(t)
				synctest.Test(t, func(t *testing.T) {
					agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker", Marks: marks})
					writeFile(t, agent.Inbox(), `[`+plain+`]`)
					began := time.Now()
					lock := foreignLock(t, agent.Inbox(), test.age)
					stop := start(t, agent.Run)
					for readQuiet(t, agent.Inbox()) == `[`+plain+`]` {
						time.Sleep(time.Millisecond)
					}
					got := time.Since(began)
					if got < test.from || got > test.to+time.Millisecond {
						t.Errorf("taken after %v, want between %v and %v", got, test.from, test.to)
					}
					delivered := len(agent.Log())
					if again := delivered > 1; again != (test.again && marks) {
						t.Errorf("delivered %d times", delivered)
					}
					time.Sleep(2 * time.Second)
					if n := len(agent.Log()); n != delivered {
						t.Errorf("delivered %d times more after it was taken", n-delivered)
					}
					stop()
					gone(t, lock)
				})
			})
		}
	}
}

// An agent that gave up the lock delivers again, and takes only what it delivered.
func TestDeliversBeforeItTakes(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	synctest.Test(t, func(t *testing.T) {
		agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker", Marks: true})
		late := strings.Replace(plain, `"text":"`, `"text":"late `, 1)
		writeFile(t, agent.Inbox(), `[`+plain+`]`)
		lock := foreignLock(t, agent.Inbox(), 0)
		start(t, agent.Run)
		time.Sleep(2500 * time.Millisecond) // the real ones deliver 4 times in it
		if n := len(agent.Log()); n < 3 || n > 5 {
			t.Errorf("delivered %d times in 2.5 s, want 3 to 5", n)
		}
		// What comes between the delivery and the taking is left unread.
		writeFile(t, agent.Inbox(), `[`+plain+`,`+late+`]`)
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		for strings.Count(readQuiet(t, agent.Inbox()), "true") == 0 {
			time.Sleep(time.Millisecond)
		}
		delivered := texts(agent.Log())
		if marked := strings.Count(readQuiet(t, agent.Inbox()), "true"); strings.HasPrefix(delivered[len(delivered)-1], "late ") != (marked == 2) {
			t.Errorf("%d rows are marked, delivered %q", marked, delivered)
		}
		time.Sleep(time.Second)
		if all := texts(agent.Log()); !strings.HasPrefix(all[len(all)-1], "late ") {
			t.Errorf("delivered %q, want the late row too", all)
		}
	})
}

// A holder that touches its lock keeps it, for longer than StaleAfter.
func TestTouchedLockIsRespected(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	synctest.Test(t, func(t *testing.T) {
		agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker"})
		writeFile(t, agent.Inbox(), `[`+plain+`]`)
		lock := foreignLock(t, agent.Inbox(), 0)
		start(t, agent.Run)
		for range 6 {
			time.Sleep(5 * time.Second)
			touch(t, lock, time.Now())
		}
		if got := agent.Log(); len(got) != 0 {
			t.Fatalf("took %d rows under a foreign lock", len(got))
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if _, err := agent.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	})
}

// The age of a lock is told by the clock of the options.
func TestLockAgeByTheGivenClock(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	agent := newAgent(t, simagent.Options{
		Dir: dir, Name: "worker", Poll: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(11 * time.Second) },
	})
	writeFile(t, agent.Inbox(), `[`+plain+`]`)
	lock := agent.Inbox() + ".lock"
	if err := os.Mkdir(lock, 0o700); err != nil {
		t.Fatal(err)
	}
	stop := start(t, agent.Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := agent.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	stop()
	gone(t, lock)
}

func TestBlockedForGood(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, lock string){
		"file":     func(t *testing.T, lock string) { writeFile(t, lock, ""); touch(t, lock, time.Now()) },
		"old file": func(t *testing.T, lock string) { writeFile(t, lock, ""); touch(t, lock, time.Now().Add(-time.Minute)) },
		"directory with content": func(t *testing.T, lock string) {
			if err := os.Mkdir(lock, 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(lock, "pid"), "1")
			touch(t, lock, time.Now().Add(-time.Minute))
		},
	}
	for name, block := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := emptyTeam(t)
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var reported []error
				opts := simagent.Options{Dir: dir, Name: "worker"}
				strict := newAgent(t, opts)
				opts.Report = func(err error) {
					mu.Lock()
					defer mu.Unlock()
					reported = append(reported, err)
				}
				agent := newAgent(t, opts)
				before := `[` + plain + `]`
				writeFile(t, agent.Inbox(), before)
				lock := agent.Inbox() + ".lock"
				block(t, lock)

				began := time.Now()
				if err := strict.Run(t.Context()); !errors.Is(err, simagent.ErrBlocked) || time.Since(began) != 0 {
					t.Errorf("Run without Report: got %v after %v, want ErrBlocked at once", err, time.Since(began))
				}
				stop := start(t, agent.Run)
				time.Sleep(1100 * time.Millisecond)
				equal(t, "inbox", readQuiet(t, agent.Inbox()), before)
				if _, err := os.Lstat(lock); err != nil {
					t.Errorf("what stood in the lock's place: %v", err)
				}
				mu.Lock()
				if len(reported) != 3 {
					t.Errorf("reported %d failures, want one for each of 3 polls: %v", len(reported), reported)
				}
				for _, err := range reported {
					if !errors.Is(err, simagent.ErrBlocked) {
						t.Errorf("reported %v, want ErrBlocked", err)
					}
				}
				mu.Unlock()
				// The agent goes on when the way is free again.
				if err := os.RemoveAll(lock); err != nil {
					t.Fatal(err)
				}
				if _, err := agent.Wait(t.Context(), 1); err != nil {
					t.Error(err)
				}
				stop()
			})
		})
	}
}

func TestSendGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Members: []simagent.Member{{Name: "worker"}}})
		path := team.Agent("worker").Inbox()
		lock := foreignLock(t, path, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := team.Agent(simagent.Lead).Send(ctx, simagent.Message{To: "worker", Text: "x"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		equal(t, "inbox", readFile(t, path), "[]")
		if _, err := os.Stat(lock); err != nil {
			t.Errorf("the foreign lock: %v", err)
		}
	})
}

// What others put into the lock while it is held is not theirs to lose.
func TestUnlockRemovesOnlyTheLock(t *testing.T) {
	t.Parallel()
	var agent *simagent.Agent
	var foreign string
	agent = newAgent(t, simagent.Options{
		Dir: emptyTeam(t), Name: "worker",
		// The clock is read while the lock is held.
		Now: func() time.Time {
			foreign = filepath.Join(agent.Inbox()+".lock", "pid")
			writeFile(t, foreign, "1")
			return time.Now()
		},
	})
	writeFile(t, agent.Inbox(), `[`+plain+`]`)
	if err := agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "unlock") {
		t.Errorf("got %v, want a failure to unlock", err)
	}
	equal(t, "foreign file", readFile(t, foreign), "1")
	if got := len(agent.Log()); got != 1 {
		t.Errorf("took %d rows, want 1: it was out of the file", got)
	}
}

// Agents change config.json under its lock.
func TestConfigLock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root})
		lock := foreignLock(t, filepath.Join(team.Dir(), "config.json"), 0)
		began := time.Now()
		if _, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"}); err != nil {
			t.Fatal(err)
		}
		waited := time.Since(began)
		if waited < simagent.StaleAfter {
			t.Errorf("waited %v, want at least %v", waited, simagent.StaleAfter)
		}
		gone(t, lock)
	})
}

// Agents take and write in the same inboxes at the
// same time: every row is taken once, and those of one writer in order.
func TestNothingIsLostUnderTheLock(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 50
	for _, marks := range []bool{false, true} {
		t.Run(fmt.Sprint(marks), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			members := []simagent.Member{{Name: "alice"}, {Name: "bob"}}
			for n := range writers {
				members = append(members, simagent.Member{Name: fmt.Sprint("writer", n), Absent: true})
			}
			team := create(t, simagent.TeamOptions{Marks: marks, Poll: time.Millisecond, Members: members})
			start(t, team.Run)

			var sending sync.WaitGroup
			for n := range writers {
				// Every other writer writes in place.
				writer := newAgent(t, simagent.Options{Dir: team.Dir(), Name: fmt.Sprint("writer", n), Marks: n%2 == 0})
				sending.Go(func() {
					for i := range each {
						for _, to := range []string{"alice", "bob"} {
							if _, err := writer.Send(ctx, simagent.Message{To: to, Text: fmt.Sprint(i)}); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			sending.Wait()
			for _, name := range []string{"alice", "bob"} {
				next := map[string]int{}
				total := 0
				for n := 1; total < writers*each; n++ {
					rows, err := team.Agent(name).Wait(ctx, n)
					if err != nil {
						t.Fatal(err)
					}
					r := rows[n-1]
					// One that marks rows, and did not get the lock, delivers again.
					if n, err := strconv.Atoi(r.Text); err == nil && n < next[r.From] && marks {
						continue
					}
					if want := fmt.Sprint(next[r.From]); r.Text != want {
						t.Errorf("%s: from %s: got %s, want %s", name, r.From, r.Text, want)
					}
					next[r.From]++
					total++
				}
				for n := range writers {
					if got := next[fmt.Sprint("writer", n)]; got != each {
						t.Errorf("%s: got %d rows of writer %d, want %d", name, got, n, each)
					}
				}
			}
		})
	}
}
