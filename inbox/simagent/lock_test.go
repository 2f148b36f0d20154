package simagent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/simagent"
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

func TestForeignLock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		age      time.Duration
		from, to time.Duration // when the row is taken
	}{
		{"fresh", 0, 10 * time.Second, 10*time.Second + 200*time.Millisecond},
		{"ten seconds", 10 * time.Second, time.Nanosecond, 200 * time.Millisecond},
		{"just stale", 10*time.Second + time.Millisecond, 0, 0},
		{"a minute", time.Minute, 0, 0},
	}
	for _, test := range tests {
		for _, generation := range generations {
			t.Run(test.name+"/"+generation.String(), func(t *testing.T) {
				t.Parallel()
				dir := emptyTeam(t)
				synctest.Test(t, func(t *testing.T) {
					agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker", Generation: generation})
					writeFile(t, agent.Inbox(), `[`+plain+`]`)
					began := time.Now()
					lock := foreignLock(t, agent.Inbox(), test.age)
					stop := start(t, agent.Run)
					rows, err := agent.Wait(t.Context(), 1)
					if err != nil {
						t.Fatal(err)
					}
					if got := rows[0].At.Sub(began); got < test.from || got > test.to {
						t.Errorf("taken after %v, want between %v and %v", got, test.from, test.to)
					}
					stop()
					gone(t, lock)
				})
			})
		}
	}
}

// A holder that touches its lock keeps it, for longer than StaleAfter.
func TestTouchedLockIsRespected(t *testing.T) {
	t.Parallel()
	dir := emptyTeam(t)
	synctest.Test(t, func(t *testing.T) {
		agent := newAgent(t, simagent.Options{Dir: dir, Name: "worker", Generation: simagent.G2})
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
		Dir: dir, Name: "worker", Generation: simagent.G2, Poll: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(11 * time.Second) },
	})
	writeFile(t, agent.Inbox(), `[`+plain+`]`)
	lock := agent.Inbox() + ".lock"
	if err := os.Mkdir(lock, 0o700); err != nil {
		t.Fatal(err)
	}
	stop := start(t, agent.Run)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
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
		"file": func(t *testing.T, lock string) { writeFile(t, lock, "") },
		"directory with content": func(t *testing.T, lock string) {
			if err := os.Mkdir(lock, 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(lock, "pid"), "1")
		},
	}
	for name, block := range tests {
		for _, generation := range generations {
			t.Run(name+"/"+generation.String(), func(t *testing.T) {
				t.Parallel()
				dir := emptyTeam(t)
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var reported []error
					opts := simagent.Options{Dir: dir, Name: "worker", Generation: generation}
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
					touch(t, lock, time.Now().Add(-time.Minute))

					if err := strict.Run(t.Context()); !errors.Is(err, simagent.ErrBlocked) {
						t.Errorf("Run without Report: got %v, want ErrBlocked", err)
					}
					stop := start(t, agent.Run)
					time.Sleep(1100 * time.Millisecond)
					equal(t, "inbox", readFile(t, agent.Inbox()), before)
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
}

func TestSendGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		team := create(t, simagent.TeamOptions{Root: root, Generation: simagent.G2, Members: []simagent.Member{{Name: "worker"}}})
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

// G2 changes config.json under its lock, G1 without.
func TestConfigLock(t *testing.T) {
	t.Parallel()
	for _, generation := range generations {
		t.Run(generation.String(), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				team := create(t, simagent.TeamOptions{Root: root, Generation: generation})
				lock := foreignLock(t, filepath.Join(team.Dir(), "config.json"), 0)
				began := time.Now()
				if _, err := team.Spawn(t.Context(), simagent.Member{Name: "worker"}); err != nil {
					t.Fatal(err)
				}
				waited := time.Since(began)
				if generation == simagent.G1 && waited != 0 {
					t.Errorf("G1 waited %v for the lock of config.json", waited)
				}
				if generation == simagent.G2 {
					if waited < simagent.StaleAfter {
						t.Errorf("G2 waited %v, want at least %v", waited, simagent.StaleAfter)
					}
					gone(t, lock)
				}
			})
		})
	}
}

// Agents of both generations take, mark and write in the same inboxes at the
// same time: every row is taken once, and those of one writer in order.
func TestNothingIsLostUnderTheLock(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 50
	for _, generation := range generations {
		t.Run(generation.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			members := []simagent.Member{{Name: "alice"}, {Name: "bob"}}
			for n := range writers {
				members = append(members, simagent.Member{Name: fmt.Sprint("writer", n), Absent: true})
			}
			team := create(t, simagent.TeamOptions{Generation: generation, Poll: time.Millisecond, Members: members})
			start(t, team.Run)

			var sending sync.WaitGroup
			for n := range writers {
				// Every other writer is of the other generation.
				writer := newAgent(t, simagent.Options{Dir: team.Dir(), Name: fmt.Sprint("writer", n), Generation: generations[n%2]})
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
				rows, err := team.Agent(name).Wait(ctx, writers*each)
				if err != nil {
					t.Error(err)
				}
				next := map[string]int{}
				for _, r := range rows {
					if want := fmt.Sprint(next[r.From]); r.Text != want {
						t.Errorf("%s: from %s: got %s, want %s", name, r.From, r.Text, want)
					}
					next[r.From]++
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
