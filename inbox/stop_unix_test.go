//go:build unix

package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams/lockedfile"
)

// stopped starts a sender that stops, holding the lock, with all but the last
// look at it and the rename done, and waits until it has.
func (p *place) stopped() *killtest.Process {
	p.t.Helper()
	return killtest.Stop(p.t, p.sender(job{Prefix: "m", Count: 1}), string(lockedfile.StepFence))
}

// woken lets the sender go on, and fails unless it says that it lost the lock,
// wrote nothing, and the message can be sent again under its id.
func (p *place) woken(sender *killtest.Process, release func()) {
	p.t.Helper()
	before := p.content()
	if said, err := sender.Continue(); err != nil || len(said) != 1 || !strings.HasPrefix(said[0], "failed m-0: compromised: ") {
		p.t.Errorf("the sender printed %q, %v, want ErrCompromised", said, err)
	}
	if got := p.content(); !bytes.Equal(got, before) {
		p.t.Errorf("the woken sender wrote:\n%s\nover\n%s", got, before)
	}
	release()
	p.wantNames("alice.json")
	for _, dedup := range []bool{false, true} {
		r, err := p.open(lockedfile.Options{}).Append(p.t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
		if err != nil || r.Deduplicated != dedup {
			p.t.Errorf("sent again: %+v, %v; want deduplicated %v", r, err, dedup)
		}
	}
	if n := p.count("m-0"); n != 1 {
		p.t.Errorf("%d rows of m-0, want 1", n)
	}
}

// A sender is stopped before the rename for so long that another program takes
// its lock over, writes, and is done or still at it when the sender wakes up.
func TestStoppedBeforeTheRename(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		p := newPlace(t)
		p.write([]byte(foreign))
		sender := p.stopped()
		p.age()
		if _, err := p.agent("bob", 0).Send(t.Context(), simagent.Message{To: "alice", Text: "meanwhile"}); err != nil {
			t.Fatal(err)
		}
		if held {
			later := time.Now().Add(time.Second) // within one tick of the file system's clock, it would have the time of the sender's
			if err := errors.Join(os.Mkdir(p.lock(), 0o755), os.Chtimes(p.lock(), later, later)); err != nil {
				t.Fatal(err)
			}
		}
		p.woken(sender, func() {
			if held {
				// Still there: a lock that is not ours is not removed.
				if err := os.Remove(p.lock()); err != nil {
					t.Error(err)
				}
			}
		})
		if last := p.rows(); last[len(last)-2].Text != "meanwhile" {
			t.Errorf("the row of the other program is gone: %+v", last)
		}
	}
}

// The same with nothing aged by hand: npm's proper-lockfile waits until the lock
// of the stopped sender is 10 s old, and takes it.
func TestStoppedForElevenSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lock to become stale")
	}
	t.Parallel()
	p := newPlace(t)
	p.write([]byte("[]"))
	peer := lockPeer(t, p.path(), "peer", "1")
	sender := p.stopped()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lock, err := os.Stat(p.lock())
	if err != nil {
		t.Fatal(err)
	}
	var peerOut bytes.Buffer
	peer.Stdout, peer.Stderr = &peerOut, &peerOut
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { peer.Process.Kill() })
	defer stop()
	if err := peer.Wait(); err != nil {
		t.Fatalf("peer: %v: %s", err, &peerOut)
	}
	if took := time.Since(lock.ModTime()); took < lockedfile.StaleAfter {
		t.Errorf("the peer had the lock after %s; it was not held", took)
	}
	p.woken(sender, func() {})
	if rows := p.rows(); len(rows) != 2 || rows[0].Text != "peer-0" {
		t.Errorf("rows %+v, want the peer's and ours", rows)
	}
}
