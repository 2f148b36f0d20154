package inbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// tracked sends a message that is placed after two waiting ones.
func (tt *team) tracked() (*Inbox, *Tracked) {
	tt.t.Helper()
	b := tt.inbox("alice")
	for _, id := range []string{"first", "second"} {
		if _, err := b.Append(tt.t.Context(), Message{ID: id, From: "a", Text: id}, AppendOptions{Force: true}); err != nil {
			tt.t.Fatal(err)
		}
	}
	r, err := b.Append(tt.t.Context(), Message{ID: "ours", From: "a", Text: "ours"}, AppendOptions{Force: true, Track: true})
	if err != nil || r.Tracked == nil || len(r.Tracked.Ahead) != 2 {
		tt.t.Fatalf("got %+v, %v", r, err)
	}
	return b, r.Tracked
}

// without removes rows from the inbox, as another tool does.
func (tt *team) without(b *Inbox, ids ...string) {
	tt.t.Helper()
	if _, err := b.Take(tt.t.Context(), func(r Row) bool { return strings.Contains(strings.Join(ids, " "), r.ID()) }); err != nil {
		tt.t.Fatal(err)
	}
}

func (tt *team) look(b *Inbox, keeps bool, tr *Tracked, want Fate) {
	tt.t.Helper()
	before, _ := os.ReadFile(b.Path()) // only compared
	seen, err := b.See(tt.t.Context())
	must(tt.t, err)
	if got := tr.Look(seen, keeps); got != want {
		tt.t.Errorf("got %q, want %q", got, want)
	}
	if after, _ := os.ReadFile(b.Path()); string(after) != string(before) {
		tt.t.Errorf("looking has changed the inbox from %s to %s", before, after)
	}
}

// Look finds the fate of a message from the rows ahead of it that are left.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keeps bool
		gone  []string
		want  Fate
	}{
		"nothing happened":                 {false, nil, Unconsumed},
		"an older one was taken":           {false, []string{"first"}, Unconsumed},
		"all taken":                        {false, []string{"first", "second", "ours"}, Consumed},
		"ours gone, an older one there":    {false, []string{"first", "ours"}, Lost},
		"ours gone, all older ones there":  {false, []string{"ours"}, Lost},
		"the same, of one that keeps rows": {true, []string{"ours"}, Lost},
		"kept, nothing happened":           {true, nil, Unconsumed},
		"kept, all gone":                   {true, []string{"first", "second", "ours"}, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := newTeam(t)
			b, tr := tt.tracked()
			tt.without(b, tc.gone...)
			tt.look(b, tc.keeps, tr, tc.want)
		})
	}
}

func TestLookAtWhatIsRead(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	if tr.Kept {
		t.Error("nothing was read, and rows count as kept")
	}
	if _, err := b.MarkRead(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	tt.look(b, true, tr, Consumed)
	tt.look(b, false, tr, Consumed)
}

// Another sender's row with the id of a message says nothing about the message.
func TestLookIgnoresRowsWithItsID(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	other := `{"from":"b","text":"theirs","messageId":"ours","read":%t}`
	tt.write("alice", fmt.Sprintf("[%s,"+other+"]", tr.Row, true))
	tt.look(b, false, tr, Unconsumed)
	tt.write("alice", fmt.Sprintf("["+other+"]", false))
	tt.look(b, false, tr, Consumed)
	// A tool that adds a field writes the same message.
	tt.write("alice", `[{"messageId":"ours","from":"a","text":"ours","summary":"s"}]`)
	tt.look(b, false, tr, Unconsumed)
}

// Only a row that the agent itself has marked shows that it keeps rows.
func TestKept(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{
		`[]`:              false,
		`[{"from":"a"}]`:  false,
		`[{"read":true}]`: true,
		`[{"from":"a"},{"read":true,"summary":"x"}]`: true,
		`[{"read":true,"relayedBy":"u"}]`:            false,
	} {
		rows, err := Parse([]byte(file))
		if got := Kept(rows); got != want || err != nil {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
}

// Receipt.Seen is the inbox as it was under the lock, byte for byte, even if the agent takes the message at once.
func TestSeen(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	var locked, free time.Time
	var after []byte
	locker := lockedfile.New(lockedfile.Options{Hold: time.Minute, Before: func(s lockedfile.Step) {
		switch s {
		case lockedfile.StepRead:
			locked = time.Now()
		case lockedfile.StepUnlock:
			free = time.Now()
			after, _ = os.ReadFile(filepath.Join(tt.dir, "inboxes", "alice.json")) // only compared
		}
	}})
	b, err := Open(tt.team, "alice", locker)
	must(t, err)
	check := func(what string, seen *Seen) {
		t.Helper()
		want, err := Parse(after)
		if err != nil || seen == nil {
			t.Fatalf("%s: seen %v, %v", what, seen, err)
		}
		if diff := cmp.Diff(want, seen.Rows); diff != "" {
			t.Errorf("%s: seen (-want +got):\n%s", what, diff)
		}
		// An append that finds its message in the file takes no lock.
		if seen.At.Before(locked) || seen.Done.Before(seen.At) || free.After(locked) && free.Before(seen.Done) {
			t.Errorf("%s: seen from %v to %v, and locked from %v to %v", what, seen.At, seen.Done, locked, free)
		}
	}
	var ours Receipt
	for i, id := range []string{"first", "ours", "ours"} { // the last one is in the file already
		r, err := b.Append(t.Context(), Message{ID: id, From: "a", Text: id}, AppendOptions{Force: true, Track: true})
		if err != nil || r.Deduplicated != (i == 2) {
			t.Fatalf("%+v, %v", r, err)
		}
		check(fmt.Sprint("append ", i), r.Seen)
		ours = r
	}
	if got := ours.Tracked; got == nil || len(got.Ahead) != 1 || got.ID != "ours" {
		t.Fatalf("tracked %+v", got)
	}
	if r, err := b.Append(t.Context(), Message{From: "a", Text: "plain"}, AppendOptions{}); err != nil || r.Seen != nil || r.Tracked != nil {
		t.Errorf("without Track: %+v, %v", r, err)
	}
}

// A message after very many others tracks the ones of both ends, which prove its loss.
func TestAheadOfALongInbox(t *testing.T) {
	t.Parallel()
	var rows []Row
	for i := range 200 {
		rows = append(rows, Row{From: "a", Text: fmt.Sprint(i), Read: i%2 == 1})
	}
	keys := Ahead(rows)
	if len(keys) != 2*mostAhead || keys[0] != rows[0].Key() || keys[len(keys)-1] != rows[198].Key() {
		t.Fatalf("%d keys", len(keys))
	}
	for _, left := range [][]Row{rows[:1], rows[198:], rows[1:99]} {
		tr := Tracked{ID: "ours", Ahead: keys}
		if fate := tr.Look(&Seen{Rows: left}, false); fate != Lost {
			t.Errorf("with %d of them left it is %s, and not lost", len(left), fate)
		}
	}
	tr := Tracked{ID: "ours", Ahead: keys}
	if fate := tr.Look(&Seen{Rows: []Row{rows[1], {From: "b"}}}, false); fate != Consumed {
		t.Errorf("%s, with none of them left", fate)
	}
}

// A row that was read already proves no loss: newer agents remove it later.
func TestLookIgnoresReadRowsAhead(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	if _, err := b.MarkRead(t.Context(), "first", "second"); err != nil {
		t.Fatal(err)
	}
	tt.without(b, "ours")
	tt.look(b, false, tr, Consumed)
}

// The end of the team is neither consumption nor loss.
func TestLookAtATeamThatIsGone(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, _ := tt.tracked()
	must(t, os.RemoveAll(tt.dir))
	if _, err := b.See(t.Context()); !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("got %v, want ErrTeamGone", err)
	}
}
