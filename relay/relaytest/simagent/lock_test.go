package simagent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
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
	must(t, os.Mkdir(lock, 0o700))
	touch(t, lock, time.Now().Add(-age))
	return lock
}

func touch(t *testing.T, path string, at time.Time) {
	t.Helper()
	must(t, os.Chtimes(path, at, at))
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: got %v, want it gone", path, err)
	}
}

// Agents wait for a lock, and take it over when it is stale. Old ones deliver without it, and
// again at each poll until they can mark the rows.
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

// If agents take and write rows in the same inboxes at the same time, every row is
// taken once, and those of one writer in order.
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
					must(t, err)
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
