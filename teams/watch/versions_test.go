package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/winetest"
)

// barrier waits until the watcher has handled everything up to now, by changing an inbox of its own: the kernel keeps
// the order. It returns the earlier events as text.
type barrier struct {
	*claude
	w     *Watcher
	count int

	// settled makes wait hand out the earlier events as if they had settled. The event of the barrier's inbox is
	// always handed out at once, because of its lock.
	settled bool
}

func newBarrier(p *claude, w *Watcher) *barrier {
	p.t.Helper()
	p.mkdir("teams/barrier/inboxes")
	b := &barrier{claude: p, w: start(p.t, w)}
	// The second of these is received only when Run has finished the first scan and set all watches. With a poll
	// interval of an hour they have no effect.
	w.faults <- struct{}{}
	w.faults <- struct{}{}
	b.wait()
	return b
}

func (b *barrier) wait() []string {
	b.t.Helper()
	// A new inbox each time: a late event of an old one would show its present state.
	b.count++
	sign := fmt.Sprint(b.count)
	path := b.inbox("barrier/" + sign)
	b.must(locked(path, func() error { return replace(path, "[]") }))
	var events []string
	for signed := false; ; {
		var e Event
		if !signed {
			e = next(b.t, b.w)
		} else if left, _, err := b.w.queue.take(time.Now().Add(2 * time.Hour)); err != nil {
			b.t.Fatal(err)
		} else if left == nil {
			return events
		} else {
			e = left.event
		}
		team, inbox, got := e.Team, e.Inbox, contents(b.t, e)
		if team == "barrier" {
			if inbox == sign {
				if !b.settled {
					return events
				}
				signed = true
			}
			continue
		}
		line := e.Kind.String() + " " + team
		if e.Inbox != "" {
			line += "/" + e.Inbox
		}
		for _, c := range got {
			line += fmt.Sprintf(" %q", c)
		}
		if e.Unkept {
			line += " unkept"
		}
		events = append(events, line)
	}
}

// No event settles by itself, so that the content of each event is certain.
func patient(p *claude) Options {
	return Options{Root: p.root, settle: time.Hour, maxSettle: time.Hour, sweep: time.Hour, poll: time.Hour}
}

// An event has each version of the inbox since the last event, in order.
func TestEachVersionReachesTheReader(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "no version of an inbox is kept open")
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	b := newBarrier(p, New(patient(p)))
	alice := p.inbox("a/alice")
	for _, text := range []string{"[1]", "[1,2]", "[]", "[3]"} {
		p.replace(alice, text)
		if events := b.wait(); events != nil {
			t.Fatalf("handed out early: %v", events)
		}
	}
	// The agent that takes: its lock alone causes the event, with the version before the take.
	p.must(os.Mkdir(alice+".lock", 0o700))
	b.wait()
	p.replace(alice, "[]")
	b.wait()
	p.must(os.Remove(alice + ".lock"))
	want := []string{`changed a/alice "[1]" "[1,2]" "[]" "[3]" "[]"`}
	if diff := cmp.Diff(want, b.wait()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// Nothing has changed since: a lock alone is no event.
	p.must(locked(alice, func() error { return nil }))
	if events := b.wait(); events != nil {
		t.Errorf("a lock without a change gave %v", events)
	}
}

// The file is read at its lock, before the rename. Otherwise a take would lose a version whose own event was missing,
// as it is here.
func TestALockIsReasonToReadNow(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "no version of an inbox is kept open")
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	alice := p.inbox("a/alice")
	p.write(alice, "[]")
	deafTo := &fakeSource{deaf: func(name string) bool { return strings.HasSuffix(name, "alice.json") }}
	w := New(patient(p))
	w.open = deafTo.open
	b := newBarrier(p, w)
	p.replace(alice, "[1]")
	b.wait()
	p.must(os.Mkdir(alice+".lock", 0o700))
	b.wait()
	p.replace(alice, "[]")
	p.must(os.Remove(alice + ".lock"))
	if diff := cmp.Diff([]string{`changed a/alice "[]" "[1]" "[]"`}, b.wait()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// After a writer in place releases the lock, one more event has the whole file.
func TestAnEventFollowsWhenAWriterInPlaceIsDone(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "no version of an inbox is kept open")
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	alice := p.inbox("a/alice")
	p.write(alice, "[1]")
	opts := patient(p)
	opts.settle, opts.maxSettle = time.Nanosecond, time.Nanosecond // each sign is an event
	b := newBarrier(p, New(opts))
	p.must(os.Mkdir(alice+".lock", 0o700))
	p.write(alice, "[1,")
	if events := b.wait(); len(events) == 0 {
		t.Error("the torn file was not reported")
	}
	f, err := os.OpenFile(alice, os.O_WRONLY|os.O_APPEND, 0)
	p.must(err)
	_, err = f.WriteString("2]")
	p.must(errors.Join(err, f.Close()))
	if events := b.wait(); len(events) == 0 {
		t.Error("the rest was not reported")
	}
	p.must(os.Remove(alice + ".lock"))
	if diff := cmp.Diff([]string{`changed a/alice "[1,2]"`}, b.wait()); diff != "" {
		t.Errorf("when the lock was given back (-want +got):\n%s", diff)
	}
}

// A late reader gets as many versions as fit, in order, and the number of the others.
func TestALateReaderSeesTheVersionBeforeEachTake(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "no version of an inbox is kept open")
	p := newClaude(t)
	p.mkdir("teams/a/inboxes")
	alice := p.inbox("a/alice")
	w := start(t, New(Options{Root: p.root, sweep: time.Hour}))
	next(t, w)
	const takes, appends = 10, 20
	row := 0
	for range takes {
		text := ""
		for range appends {
			text += fmt.Sprintf("<%d>", row)
			row++
			p.must(locked(alice, func() error { return replace(alice, text) }))
			handled(t, w, alice) // the agent takes only after the version was seen
		}
		p.must(locked(alice, func() error { return replace(alice, "") }))
		handled(t, w, alice)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := ""
	e, err := w.Next(ctx)
	must(t, err)
	if e.Missed != 0 || len(e.Versions) > MaxVersions {
		t.Errorf("missed %d, %d versions", e.Missed, len(e.Versions))
	}
	for _, c := range contents(t, e) {
		all += c
	}
	for n := range row {
		if !strings.Contains(all, fmt.Sprintf("<%d>", n)) {
			t.Errorf("row %d was not seen", n)
		}
	}
}

// handled waits until the present version of a path is in the queue.
func handled(t testing.TB, w *Watcher, path string) {
	t.Helper()
	s, err := observe(path, false)
	must(t, err)
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		w.queue.mu.Lock()
		for _, e := range w.queue.waiting {
			if e.event.Path == path && e.last == s.stamp {
				w.queue.mu.Unlock()
				return
			}
		}
		w.queue.mu.Unlock()
		runtime.Gosched()
	}
	t.Fatal("a version was not seen")
}
