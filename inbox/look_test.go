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

// tracked sends a message behind two that wait.
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

// without writes the inbox without some rows, as another tool does.
func (tt *team) without(b *Inbox, ids ...string) {
	tt.t.Helper()
	if _, err := b.Take(tt.t.Context(), func(r Row) bool { return strings.Contains(strings.Join(ids, " "), r.ID()) }); err != nil {
		tt.t.Fatal(err)
	}
}

func (tt *team) look(b *Inbox, g teams.Generation, tr *Tracked, want Fate) {
	tt.t.Helper()
	if got, err := tt.fate(b, g, tr); got != want || err != nil {
		tt.t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func (tt *team) fate(b *Inbox, g teams.Generation, tr *Tracked) (Fate, error) {
	tt.t.Helper()
	seen, err := b.See(tt.t.Context())
	if err != nil {
		return Unconsumed, err
	}
	fate, err := b.Look(tt.t.Context(), g, tr, seen)
	now, rerr := b.Read(tt.t.Context())
	if rerr != nil || len(now) != len(seen.Rows) {
		tt.t.Errorf("%s: the inbox was seen with %d rows, and has %d, %v", fate, len(seen.Rows), len(now), rerr)
	}
	return fate, err
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		generation teams.Generation
		gone       []string
		want       Fate
	}{
		"G2, nothing happened":                {teams.G2, nil, Unconsumed},
		"G2, an older one was taken":          {teams.G2, []string{"first"}, Unconsumed},
		"G2, all taken":                       {teams.G2, []string{"first", "second", "ours"}, Consumed},
		"G2, ours gone, an older one there":   {teams.G2, []string{"first", "ours"}, PutBack},
		"G2, ours gone, all older ones there": {teams.G2, []string{"ours"}, PutBack},
		"G1, nothing happened":                {teams.G1, nil, Unconsumed},
		"G1, all gone":                        {teams.G1, []string{"first", "second", "ours"}, PutBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := newTeam(t)
			b, tr := tt.tracked()
			tt.without(b, tc.gone...)
			tt.look(b, tc.generation, tr, tc.want)
			if tc.want != PutBack {
				return
			}
			rows, err := b.Read(t.Context())
			if err != nil || len(rows) != 4-len(tc.gone) || rows[len(rows)-1].ID() != "ours" {
				t.Errorf("after putting back: %v, %v", rows, err)
			}
			tt.look(b, tc.generation, tr, Unconsumed)
		})
	}
}

func TestLookAtWhatIsRead(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	if _, err := b.MarkRead(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	tt.look(b, teams.G1, tr, Consumed)
	tt.look(b, teams.G2, tr, Consumed)
}

// What Append and Look have seen is the inbox as it was under the lock, byte for
// byte, however soon the agent takes the message.
func TestSeen(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	var locked, free time.Time
	var after []byte
	locker := lockedfile.New(lockedfile.Options{Before: func(s lockedfile.Step) {
		switch s {
		case lockedfile.StepRead:
			locked = time.Now()
		case lockedfile.StepUnlock:
			free = time.Now()
			after, _ = os.ReadFile(filepath.Join(tt.dir, "inboxes", "alice.json")) // it is compared
		}
	}})
	b, err := Open(tt.team, "alice", locker)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, seen *Seen) {
		t.Helper()
		want, err := Parse(after)
		if err != nil || seen == nil {
			t.Fatalf("%s: seen %v, %v", what, seen, err)
		}
		if diff := cmp.Diff(want, seen.Rows); diff != "" {
			t.Errorf("%s: seen (-want +got):\n%s", what, diff)
		}
		if seen.At.Before(locked) || seen.Done.Before(seen.At) || free.Before(seen.Done) {
			t.Errorf("%s: seen from %v to %v, and locked from %v to %v", what, seen.At, seen.Done, locked, free)
		}
	}
	var ours Receipt
	for i, id := range []string{"first", "ours", "ours"} { // the last one is there already
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
	tt.without(b, "ours")
	seen, err := b.See(t.Context())
	if err != nil || len(seen.Rows) != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	if fate, err := b.Look(t.Context(), teams.G2, ours.Tracked, seen); fate != PutBack || err != nil {
		t.Fatalf("%s, %v", fate, err)
	}
	check("put back", seen)
	if r, err := b.Append(t.Context(), Message{From: "a", Text: "plain"}, AppendOptions{}); err != nil || r.Seen != nil || r.Tracked != nil {
		t.Errorf("without Track: %+v, %v", r, err)
	}
}

// A message behind very many keeps those of both ends, which prove its loss.
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
		if fate, lost := tr.judge(teams.G2, &Seen{Rows: left}); !lost {
			t.Errorf("with %d of them left it is %s, and not lost", len(left), fate)
		}
	}
	tr := Tracked{ID: "ours", Ahead: keys}
	if _, lost := tr.judge(teams.G2, &Seen{Rows: []Row{rows[1], {From: "b"}}}); lost {
		t.Error("lost, with none of them left")
	}
}

// A row that was read already proves nothing: newer agents remove it later.
func TestLookIgnoresReadRowsAhead(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	if _, err := b.MarkRead(t.Context(), "first", "second"); err != nil {
		t.Fatal(err)
	}
	tt.without(b, "ours")
	tt.look(b, teams.G2, tr, Consumed)
}

func TestLookGivesUp(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	for range MaxPutBack {
		tt.without(b, "ours")
		tt.look(b, teams.G2, tr, PutBack)
	}
	tt.without(b, "ours")
	if got, err := tt.fate(b, teams.G2, tr); got != Lost || !errors.Is(err, ErrLost) {
		t.Errorf("got %q, %v; want lost", got, err)
	}
	if rows, err := b.Read(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v; want 2", len(rows), err)
	}
}

// The team's end is neither consumption nor loss.
func TestLookAtATeamThatIsGone(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b, tr := tt.tracked()
	if err := os.RemoveAll(tt.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := tt.fate(b, teams.G2, tr); !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("got %v, want ErrTeamGone", err)
	}
}
