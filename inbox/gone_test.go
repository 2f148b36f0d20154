package inbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// The team is deleted before each step of a send, and in one case created again at once. The sender learns of it, and
// no file of the team is made again.
func TestTeamDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	steps := []lockedfile.Step{
		lockedfile.StepLock, lockedfile.StepRead, lockedfile.StepWrite, lockedfile.StepFence,
		lockedfile.StepRename, lockedfile.StepReadBack,
	}
	for _, step := range steps {
		for _, exists := range []bool{false, true} { // the inbox file
			for _, again := range []bool{false, true} {
				p := newPlace(t)
				if exists {
					p.write([]byte("[]"))
				}
				b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
					if s != step {
						return
					}
					if err := os.RemoveAll(p.dir); err != nil {
						t.Error(err)
					}
					if again {
						p.makeTeam()
					}
				}})
				_, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
				if !errors.Is(err, teams.ErrTeamGone) {
					t.Errorf("deleted before %s (file %v, again %v): got %v, want ErrTeamGone", step, exists, again, err)
				}
				if again {
					p.wantNames()
				} else if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("deleted before %s (file %v): the team is there again: %q", step, exists, tree(p.root))
				}
				// The message is not there, and its state is not unknown.
				again := p.memory()
				if key := (inbox.SendKey{InboxKey: inbox.InboxKey{Root: p.root, Team: "demo", CreatedAt: 1795196213317, Inbox: "alice"}, ID: "m-0"}); step != lockedfile.StepReadBack {
					if s, ok, err := again.Recall(t.Context(), key); ok || err != nil {
						t.Errorf("deleted before %s (file %v): the memory still knows %+v, %v", step, exists, s, err)
					}
				}
			}
		}
	}
}

// Before each step of a send, a deletion of the team has removed config.json, or config.json and the lock. The send
// fails. If the team had no inbox file, nothing of it is left; otherwise the rows of others stay.
func TestTeamHalfDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, step := range []lockedfile.Step{
		lockedfile.StepLock, lockedfile.StepRead, lockedfile.StepWrite, lockedfile.StepFence, lockedfile.StepReadBack,
	} {
		for _, exists := range []bool{false, true} { // the inbox file
			for _, lock := range []bool{false, true} { // deleted too
				p := newPlace(t)
				if exists {
					p.write([]byte(foreign))
				}
				b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
					if s != step {
						return
					}
					if err := os.Remove(filepath.Join(p.dir, "config.json")); err != nil {
						t.Error(err)
					}
					if lock {
						if err := os.Remove(p.lock()); err != nil && !errors.Is(err, fs.ErrNotExist) {
							t.Error(err)
						}
					}
				}})
				_, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
				if !errors.Is(err, teams.ErrTeamGone) {
					t.Errorf("before %s (file %v, lock %v): got %v, want ErrTeamGone", step, exists, lock, err)
				}
				// The state is unknown only if the message stays in the file.
				if got, want := errors.Is(err, lockedfile.ErrReplaced), exists && step == lockedfile.StepReadBack; got != want {
					t.Errorf("before %s (file %v, lock %v): %v: ErrReplaced is %v, want %v", step, exists, lock, err, got, want)
				}
				if !exists {
					if left := tree(p.dir); left != "" {
						t.Errorf("before %s (lock %v): left: %s", step, lock, left)
					}
					continue
				}
				// Rows of others are not ours to delete.
				p.wantForeign(p.content())
				p.wantNames("alice.json")
				if n := p.count("m-0"); (n == 1) != (step == lockedfile.StepReadBack) {
					t.Errorf("before %s: %d rows of the message", step, n)
				}
			}
		}
	}
}

// If the team is deleted when only the lock remains to be removed, the message was sent, and the team is not made
// again.
func TestTeamDeletedBeforeTheUnlock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
		if s == lockedfile.StepUnlock {
			if err := os.RemoveAll(p.dir); err != nil {
				t.Error(err)
			}
		}
	}})
	if _, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the team is there again: %q", tree(p.root))
	}
}

// Senders race with a deletion of the team, again and again. The deletion may find a lock of a sender in a directory
// that it has just emptied, and give up; then the senders remove what it left. Only an inbox with messages that were
// written before config.json was deleted may remain, and no sender of those messages was told that its message was
// not sent.
func TestTeamDeletedWhileSending(t *testing.T) {
	t.Parallel()
	rounds := killtest.Rounds(t, envRounds, 50)
	var all, unsure, compromised atomic.Int64
	failed, late := 0, 0
	for range rounds {
		p := newPlace(t)
		p.write([]byte(foreign))
		var wg sync.WaitGroup
		started := make(chan struct{})
		var once sync.Once
		b := p.open(lockedfile.Options{Before: func(lockedfile.Step) { once.Do(func() { close(started) }) }})
		var refused sync.Map // texts whose senders were told that they were not sent
		for _, prefix := range []string{"a", "b"} {
			wg.Go(func() {
				for i := 0; ; i++ {
					m := numbered(prefix, i)
					_, err := b.Append(t.Context(), m, inbox.AppendOptions{Memory: p.memory()})
					switch {
					case err == nil:
						all.Add(1)
					case errors.Is(err, lockedfile.ErrReplaced):
						unsure.Add(1)
					default:
						refused.Store(m.Text, err)
					}
					switch {
					case errors.Is(err, teams.ErrTeamGone):
						return
					case errors.Is(err, lockedfile.ErrCompromised):
						// The lock was deleted before config.json.
						compromised.Add(1)
					case err != nil:
						t.Errorf("got %v, want ErrTeamGone", err)
						return
					}
				}
			})
		}
		<-started
		// Claude Code does this at the end of a session: once, recursively.
		deleted := os.RemoveAll(p.dir)
		wg.Wait()
		if deleted != nil {
			failed++
		}
		left := tree(p.dir)
		if left == "" {
			continue
		}
		late++
		if want := strings.Join([]string{p.dir, filepath.Dir(p.path()), p.path()}, " "); left != want {
			t.Errorf("left: %s (the deletion said: %v)", left, deleted)
			continue
		}
		for _, row := range p.rows() {
			if err, ok := refused.Load(row.Text); ok {
				t.Errorf("left: %s, whose sender was told that it was not sent: %v", row.Text, err)
			}
		}
	}
	t.Logf("%d rounds, %d messages sent, of %d it is unknown, %d senders told that the lock was taken; %d deletions failed, %d of them left a message",
		rounds, all.Load(), unsure.Load(), compromised.Load(), failed, late)
}

// tree lists the paths below dir.
func tree(dir string) string {
	var all []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			all = append(all, path)
		}
		return nil
	})
	return strings.Join(all, " ")
}
