package inbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/simagent"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// envRounds has the number of rounds of tests with random instants or races. The default is small.
const envRounds = "INBOX_TEST_ROUNDS"

// place is a Claude directory with the team demo, whose member alice has the inbox that the tests use, and the files
// of the senders.
type place struct {
	t     testing.TB
	root  string // the Claude directory
	dir   string // of the team demo
	state string // where the flock files are
	notes string // where the notebook is
}

const configJSON = `{"name":"demo","createdAt":1795196213317,"leadAgentId":"team-lead@demo","members":[
  {"agentId":"team-lead@demo","name":"team-lead"},
  {"agentId":"alice@demo","name":"alice"},
  {"agentId":"bob@demo","name":"bob"}]}`

func newPlace(t testing.TB) *place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return newPlaceIn(t, base, base)
}

// newPlaceIn makes a place with the Claude directory below base and the sender's own files below own.
func newPlaceIn(t testing.TB, base, own string) *place {
	t.Helper()
	p := &place{
		t: t, root: filepath.Join(base, "claude"),
		state: filepath.Join(own, "state"), notes: filepath.Join(own, "notes"),
	}
	p.dir = filepath.Join(p.root, "teams", "demo")
	p.makeTeam()
	return p
}

func (p *place) makeTeam() {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Join(p.dir, "inboxes"), 0o755))
	must(p.t, os.WriteFile(filepath.Join(p.dir, "config.json"), []byte(configJSON), 0o644))
}

// open returns alice's inbox with a locker of these options. It fills in opts.Dir, and lets the lock be held as long
// as a busy disk takes.
func (p *place) open(opts lockedfile.Options) *inbox.Inbox {
	p.t.Helper()
	opts.Dir = p.state
	if opts.Hold == 0 {
		opts.Hold = time.Minute
	}
	root, err := teams.Open(p.root)
	must(p.t, err)
	p.t.Cleanup(func() { root.Close() })
	team, err := root.Team("demo")
	must(p.t, err)
	p.t.Cleanup(func() { team.Close() })
	b, err := inbox.Open(team, "alice", lockedfile.New(opts))
	must(p.t, err)
	return b
}

// breakLock takes the lock from its holder.
func (p *place) breakLock() {
	p.t.Helper()
	if err := os.Remove(p.lock()); err != nil {
		p.t.Error(err)
	}
}

// appendTo sends the message m-0, with a memory if n is not nil.
func (p *place) appendTo(n *notebook) error {
	p.t.Helper()
	opts := inbox.AppendOptions{Force: n == nil}
	if n != nil {
		opts.Memory = n
	}
	_, err := p.open(lockedfile.Options{}).Append(p.t.Context(), numbered("m", 0), opts)
	return err
}

// memory returns a Memory that outlives the process.
func (p *place) memory() *notebook { return &notebook{dir: p.notes} }

// agent returns the simulated agent of a member, which does not run yet.
func (p *place) agent(name string, poll time.Duration) *simagent.Agent {
	p.t.Helper()
	a, err := simagent.New(simagent.Options{Dir: p.dir, Name: name, Poll: poll})
	must(p.t, err)
	return a
}

func (p *place) path() string { return filepath.Join(p.dir, "inboxes", "alice.json") }
func (p *place) lock() string { return p.path() + ".lock" }

func (p *place) write(content []byte) {
	p.t.Helper()
	must(p.t, os.WriteFile(p.path(), content, 0o644))
}

func (p *place) content() []byte {
	p.t.Helper()
	b, err := os.ReadFile(p.path())
	must(p.t, err)
	return b
}

// rows returns the rows of the inbox, which must be whole.
func (p *place) rows() []inbox.Row {
	p.t.Helper()
	rows, err := inbox.Parse(p.content())
	if err != nil {
		p.t.Fatalf("the inbox is not an array any more: %v", err)
	}
	return rows
}

// count returns how often a message with this id is in the inbox.
func (p *place) count(id string) (n int) {
	p.t.Helper()
	for _, r := range p.rows() {
		if r.ID() == id {
			n++
		}
	}
	return n
}

// age makes the lock directory, if there is one, as old as that of a process that died over 10 s ago. No other
// process may be using the inbox.
func (p *place) age() {
	p.t.Helper()
	old := time.Now().Add(-lockedfile.StaleAfter - time.Second)
	if err := os.Chtimes(p.lock(), old, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.t.Error(err)
	}
}

// wantNames fails unless the inboxes directory has exactly these entries, and so no lock and no temporary file.
func (p *place) wantNames(want ...string) {
	p.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(p.path()))
	if err != nil {
		p.t.Error(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("inboxes holds %q, want %q", got, want)
	}
}

// numbered returns message i of a sender. Its id is its text, since all agents log the text.
func numbered(prefix string, i int) inbox.Message {
	id := fmt.Sprintf("%s-%d", prefix, i)
	return inbox.Message{ID: id, From: "bob", Text: id}
}

// foreign is the content that other programs left in an inbox, with spellings that any new encoding would lose.
const foreign = `[
  {"from":"bob","text":"lone \ud800, <&> \u003c","timestamp":"yesterday","n":1.0,"big":12345678901234567890,"e":1e400,"z":-0,"read":true},
  null,
  { "k":1, "k":2, "from" : "bob", "text":"two", "timestamp":"2026-11-20T12:00:00.000Z", "read":true }
]`

// wantForeign fails unless content begins with all rows of [foreign], byte for byte.
func (p *place) wantForeign(content []byte) {
	p.t.Helper()
	want := bytes.TrimSuffix([]byte(foreign), []byte("\n]"))
	if !bytes.HasPrefix(content, want) {
		p.t.Errorf("rows of others have changed: the file begins with\n%.400s\nwant\n%s", content, want)
	}
}
