package pane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simcodex"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
)

// One directory has one name, however CODEX_HOME spells it, and before it exists.
func TestHomeHasOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink(dir, dir+"/link"))
	path, err := filepath.EvalSymlinks(dir)
	must(t, err)
	homes := func(dir string) Homes {
		return HomesOf(func(name string) (string, bool) { return dir, name == "CODEX_HOME" })
	}
	for _, spelled := range []string{"/codex", "/codex/", "/./codex", "/link/codex"} {
		before := homes(dir + spelled)
		must(t, os.MkdirAll(dir+"/codex", 0o700))
		if after := homes(dir + spelled); before != after || after.Codex != path+"/codex" {
			t.Errorf("%s is %+v, and once it exists %+v", spelled, before, after)
		}
		must(t, os.Remove(dir+"/codex"))
	}
}

// A process with another CODEX_HOME neither gives a message to a session of the first one nor takes back one that the
// session has, and it does not take a session with the same id for that one.
func TestSessionsOfTwoHomes(t *testing.T) {
	t.Parallel()
	s := newThreads(t)
	got := make(chan struct{})
	s.turns = []func(string) error{func(string) error { close(got); return nil }} // the server has it, and does not show it yet
	end := s.begin()
	given := s.putThere("in the first")
	<-got
	end()
	waits := s.putThere("in the first, later")

	first, other := s.codex, simcodex.New(t)
	s.opts.Homes.Codex = other.Home
	if first.Home == other.Home {
		t.Fatal("both have one directory")
	}
	end = s.begin()
	given = s.until(given, "held", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.Gone) })
	for range 5 {
		tries := given.Tries
		given = s.until(given, "looked at again", func(m ledger.PaneMessage) bool { return m.Tries > tries })
	}
	if given.Frame == "" || !strings.Contains(given.Detail, "CODEX_HOME="+first.Home) || !strings.Contains(given.Detail, other.Home) {
		t.Errorf("it is in frame %q, and held: %s", given.Frame, given.Detail)
	}
	end()
	s.wasSent(given)

	// The same id, in the other directory.
	must(t, os.CopyFS(filepath.Join(other.Home, "sessions"), os.DirFS(filepath.Join(first.Home, "sessions"))))
	other.Hold(s.id)
	there := make(chan string, 2)
	other.Turn = func(_, text string) error { there <- wake.Messages(text)[0].ID; return nil }
	end = s.begin()
	copied := s.putThere("in the copy")
	if copied.InboxKey == given.InboxKey {
		t.Errorf("the session of the copy is taken for %s", given.Inbox)
	}
	if id := <-there; id != copied.UUID {
		t.Errorf("the copy was sent %s, want %s", id, copied.UUID)
	}
	end()
	s.wasSent(given)

	// With the first one again, what the session shows is found, and the rest is given.
	s.opts.Homes.Codex = first.Home
	s.answers(codexText(given.UUID, given.From, string(given.Raw)))
	s.begin()
	s.until(waits, "answered", ended)
	s.wasSent(given, waits)
}
