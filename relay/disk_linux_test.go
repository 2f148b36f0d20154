package relay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
)

// fullDisks returns tests with a disk that is full or read-only for a while; dir is the directory of the station.
func fullDisks() map[string]func(dir string) error {
	disks := map[string]func(string) error{"ledger": runFull, "frame": runFullForFrame}
	for name := range stuckDisks() {
		disks[name] = func(dir string) error { return runStuck(dir, name) }
	}
	return disks
}

// onOwnDisk runs one of fullDisks, in a mount namespace of its own, as that user.
func onOwnDisk(t *testing.T, name string, uid int) {
	t.Helper()
	s := newStation(t, simchild.Script{})
	killtest.OnOwnDisk(t, uid, "disk", name, s.dir)
}

// While the ledger's disk is full, the relay reports it and stays, and the rows stay
// in the inbox, unread. With room again, they are delivered once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	onOwnDisk(t, "ledger", 0)
}

// If the disk is full when a frame is to be recorded, the claimed rows wait, and the
// relay stays.
func TestFullDiskForAFrame(t *testing.T) {
	t.Parallel()
	onOwnDisk(t, "frame", 0)
}

// A stuckDisk keeps an inbox from being claimed: its file cannot be written, or its
// lock not be made.
type stuckDisk struct {
	want  error
	uid   int                        // 0 may write everywhere
	prep  func(inboxes string) error // before the first message
	stick func(inboxes string) error // in front of the second
	free  func(inboxes string) error
}

func stuckDisks() map[string]stuckDisk {
	small := func(dir, size string) error { return killtest.Mount(dir, 0, size) }
	return map[string]stuckDisk{
		"room for a lock alone": {
			want:  syscall.ENOSPC,
			prep:  func(inboxes string) error { return small(inboxes, "size=256k") },
			stick: func(inboxes string) error { return killtest.Fill(inboxes) },
			free:  func(inboxes string) error { return os.Remove(filepath.Join(inboxes, "filler")) },
		},
		"not to be written by us": {
			want: syscall.EACCES, uid: 1000,
			stick: func(inboxes string) error { return os.Chmod(inboxes, 0o500) },
			free:  func(inboxes string) error { return os.Chmod(inboxes, 0o700) },
		},
	}
}

// An inbox whose lock cannot be made does not count as busy: the relay reports the
// fault once and stays, and goes on afterwards.
func TestLockThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, disk := range stuckDisks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onOwnDisk(t, name, disk.uid)
		})
	}
}

func runStuck(dir, name string) error {
	t := &bridgeT{}
	defer t.cleanup()
	disk := stuckDisks()[name]
	must := func(err error) {
		must(t, err)
	}
	inboxes := filepath.Join(dir, "root/teams/demo/inboxes")
	if disk.prep != nil {
		must(disk.prep(inboxes))
	}
	s := openStation(t, dir, simchild.Script{State: filepath.Join(dir, "root")})
	s.agent().write("[m-1]")
	_, stop := s.relay(s.options())
	s.settled(1)
	stop()

	s.agent().write("[m-2]")
	must(disk.stick(inboxes))
	r, err := New(context.Background(), s.options())
	must(err)
	var tries atomic.Int32
	r.at = func(m moment) {
		if m == stuck {
			tries.Add(1)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.await("tried again, and again", func() bool { return tries.Load() >= 3 })
	s.mu.Lock()
	if len(s.warned) != 1 || !errors.Is(s.warned[0], disk.want) || s.seen[len(s.seen)-1].Reason != s.warned[0].Error() {
		t.Fatalf("the relay warned of %v, and says %+v; want %v, once", s.warned, s.seen[len(s.seen)-1], disk.want)
	}
	s.mu.Unlock()
	must(disk.free(inboxes))
	s.settled(2)
	cancel()
	must(<-done)
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
		t.Fatalf("worked on %v", n)
	}
	return nil
}

func runFullForFrame(dir string) error {
	if err := killtest.Mount(filepath.Join(dir, "state"), 0, "size=2m"); err != nil {
		return err
	}
	t := &bridgeT{}
	defer t.cleanup()
	s := openStation(t, dir, simchild.Script{State: filepath.Join(dir, "root")})
	large := strings.Repeat("x", 98<<10)
	s.agent().write("[m-1]"+large, "[m-2]")
	// A reader keeps the ledger from reusing free space in its log.
	reading, read := make(chan struct{}), make(chan struct{})
	go func() {
		err := reader(filepath.Join(dir, "state", "ledger.db"), reading, read)
		must(t, err)
	}()
	<-reading
	stop := s.relayWith(queued, func() {
		must(t, killtest.Fill(filepath.Join(dir, "state")))
	})
	s.await("the relay says that the disk is full", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.warned, func(err error) bool { return errors.Is(err, ledger.ErrFull) && strings.Contains(err.Error(), "commit") })
	})
	close(read)
	must(t, os.Remove(filepath.Join(dir, "state", "filler")))
	for _, d := range s.settled(2) {
		if d.State != ledger.Done {
			t.Fatalf("%s is %s (%s)", d.ID, d.State, d.Reason)
		}
	}
	stop()
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 || len(s.warned) != 1 || s.logged("start") != 1 {
		t.Fatalf("worked on %v, %d agents, warned of %v; want once, one, once", n, s.logged("start"), s.warned)
	}
	return nil
}

// reader keeps a read transaction of a ledger open until read is closed.
func reader(path string, reading chan<- struct{}, read <-chan struct{}) error {
	db, err := rawLedger(context.Background(), path)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Do(context.Background(), "read", func(c *sqlite.Conn) error {
		return c.Transaction("DEFERRED", func() error {
			_, err := c.Number("SELECT count(*) FROM deliveries")
			close(reading)
			<-read
			return err
		})
	})
}

func runFull(dir string) error {
	if err := killtest.Mount(filepath.Join(dir, "state"), 0, "size=2m"); err != nil {
		return err
	}
	t := &bridgeT{}
	defer t.cleanup()
	s := openStation(t, dir, simchild.Script{State: filepath.Join(dir, "root")})
	s.agent().write("[m-1]")
	_, stop := s.relay(s.options())
	s.settled(1)

	must(t, killtest.Fill(filepath.Join(dir, "state")))
	large := strings.Repeat("x", 98<<10) // more than the free space inside the ledger's files
	s.agent().write("[m-2]"+large, "[m-3]"+large, "[m-4]"+large, "[m-5]"+large, "[m-6]")
	s.await("the relay says that the disk is full", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.warned, func(err error) bool { return errors.Is(err, ledger.ErrFull) })
	})
	data, err := os.ReadFile(s.agent().path)
	if n := strings.Count(string(data), `"read": false`); err != nil || n != 5 {
		t.Fatalf("%d rows wait, %v; want 5", n, err)
	}
	must(t, os.Remove(filepath.Join(dir, "state", "filler")))
	for _, d := range s.settled(6) {
		if d.State != ledger.Done {
			t.Fatalf("%s is %s (%s)", d.ID, d.State, d.Reason)
		}
	}
	stop()
	for m, n := range s.works("[m-1]", "[m-2]", "[m-3]", "[m-4]", "[m-5]", "[m-6]") {
		if n != 1 {
			t.Fatalf("%s was worked on %d times", m, n)
		}
	}
	if n := s.logged("start"); n != 1 {
		t.Fatalf("%d agents, want one", n)
	}
	return nil
}
