//go:build unix

package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams/lockedfile"
)

// stopped starts a sender that stops itself, holding the lock, with all but the
// last look at it and the rename done, and waits until it has.
func (p *place) stopped() (cmd *exec.Cmd, stdin io.Closer, out *bytes.Buffer) {
	p.t.Helper()
	cmd = p.sender(job{Prefix: "m", Count: 1, Step: lockedfile.StepFence, Signal: syscall.SIGSTOP})
	out = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cmd.Process.Kill() })
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		p.t.Fatalf("the sender did not stop: %v, %v", status, err)
	}
	return cmd, stdin, out
}

// woken lets the sender go on, and fails unless it says that it lost the lock,
// wrote nothing, and the message can be sent again under its id.
func (p *place) woken(cmd *exec.Cmd, stdin io.Closer, out *bytes.Buffer, release func()) {
	p.t.Helper()
	before := p.content()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), stdin.Close()); err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		p.t.Error(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "failed m-0: compromised: ") {
		p.t.Errorf("the sender printed %q, want ErrCompromised", got)
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
		cmd, stdin, out := p.stopped()
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
		p.woken(cmd, stdin, out, func() {
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
	cmd, stdin, out := p.stopped()
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
	p.woken(cmd, stdin, out, func() {})
	if rows := p.rows(); len(rows) != 2 || rows[0].Text != "peer-0" {
		t.Errorf("rows %+v, want the peer's and ours", rows)
	}
}
