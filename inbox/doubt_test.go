package inbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// resend sends the message m-0 again and checks the result.
func (p *place) resend(force, dedup bool, want error) {
	p.t.Helper()
	r, err := p.open(lockedfile.Options{}).Append(p.t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory(), Force: force})
	if !errors.Is(err, want) || r.Deduplicated != dedup || r.Unrecorded != nil {
		p.t.Errorf("sent again: %+v, %v; want deduplicated %v, error %v", r, err, dedup, want)
	}
}

// An append that fails after the rename still remembers that the message may have been written: an agent that took it
// does not get it twice.
func TestFailedAfterTheRename(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		p := newPlace(t)
		p.write([]byte("[]"))
		inside := filepath.Join(p.lock(), "inside")
		b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
			if s != lockedfile.StepUnlock {
				return
			}
			// A file in the lock directory keeps the lock from being removed.
			info, err := os.Stat(p.lock())
			must(t, err)
			must(t, errors.Join(os.Mkdir(inside, 0o755), os.Chtimes(p.lock(), info.ModTime(), info.ModTime())))
		}})
		_, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
		if !errors.Is(err, lockedfile.ErrReplaced) {
			t.Fatalf("got %v, want ErrReplaced", err)
		}
		must(t, errors.Join(os.Remove(inside), os.Remove(p.lock())))
		if taken {
			p.write([]byte("[]"))
			p.resend(false, false, inbox.ErrUnknown)
		} else {
			p.resend(false, true, nil)
			p.resend(false, true, nil)
		}
	}
}

// A message that was sent without a memory is recorded in the memory of the next sender that finds it in the file.
func TestMemoryLearnsWhatIsInTheFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := p.open(lockedfile.Options{}).Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	p.resend(false, true, nil)
	p.write([]byte("[]")) // taken
	p.resend(false, true, nil)
	if n := p.count("m-0"); n != 0 {
		t.Errorf("sent again after it was taken")
	}
}

// A forced send that fails leaves the state unknown, as before.
func TestForcedAndFailed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write([]byte("[]"))
	broken := lockedfile.Options{Before: func(s lockedfile.Step) {
		if s == lockedfile.StepFence {
			if err := os.Remove(p.lock()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	}}
	// A sender died after its intent, and the file has changed since.
	memory := p.memory()
	key := inbox.SendKey{InboxKey: inbox.InboxKey{Root: p.root, Team: "demo", CreatedAt: 1795196213317, Inbox: "alice"}, ID: "m-0"}
	m := numbered("m", 0)
	must(t, memory.Intend(t.Context(), inbox.Send{SendKey: key, Digest: m.Digest(), Before: "other", State: inbox.SendIntent, At: time.Now()}))
	p.resend(false, false, inbox.ErrUnknown)
	if _, err := p.open(broken).Append(t.Context(), m, inbox.AppendOptions{Memory: memory, Force: true}); !errors.Is(err, lockedfile.ErrCompromised) {
		t.Fatalf("got %v, want ErrCompromised", err)
	}
	p.resend(false, false, inbox.ErrUnknown)
	p.resend(true, false, nil)
	p.resend(false, true, nil)
}

// A row without an id is found by the id that is derived from its content.
func TestFindByDerivedID(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write([]byte(foreign))
	row := p.rows()[1]
	if err := p.open(lockedfile.Options{}).Edit(t.Context(), func(d *inbox.Draft) error {
		if i, got, ok := d.Find(row.ID()); !ok || i != 2 || got.Text != "two" {
			t.Errorf("found %d, %+v, %v", i, got, ok)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// While the file is corrupt, sending a message again fails and leaves the file. Once the file is whole, even if it is
// empty, the message counts as sent.
func TestSentBeforeAndCorrupt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write([]byte("[]"))
	p.resend(false, false, nil)
	whole := p.content()
	for _, torn := range []string{`[{"from":`, string(whole) + "[]", "{}"} {
		p.write([]byte(torn))
		_, err := p.open(lockedfile.Options{}).Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
		if corrupt := new(inbox.CorruptError); !errors.As(err, &corrupt) {
			t.Errorf("%s: got %v, want a CorruptError", torn, err)
		}
		if got := string(p.content()); got != torn {
			t.Errorf("%s became %s", torn, got)
		}
	}
	for _, whole := range []string{string(whole), "[]", ""} {
		p.write([]byte(whole))
		p.resend(false, true, nil)
		if got := string(p.content()); got != whole {
			t.Errorf("%s became %s", whole, got)
		}
	}
}
