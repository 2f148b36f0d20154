package inbox

import (
	"errors"
	"os"
	"strings"
	"testing"

	"teambridge/teams"
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
