package ledger

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A prompt with an id is recorded once, however often it is sent.
func TestSayOnce(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir()+"/ledger.db")
	d := anInput("said")
	d.ID, d.Summary, d.Color = "key", "short", "blue"
	digest, other := [32]byte{1}, [32]byte{2}
	for i := range 3 {
		all, err := l.Deliveries.AddPrompts(t.Context(), Prompt{d, digest})
		must(t, err)
		said := all[0]
		if said.Again != (i > 0) || said.UUID != "said" || said.State != Claimed || said.Summary != "short" || said.Color != "blue" {
			t.Errorf("time %d: %+v", i, said)
		}
	}
	if n, err := l.Deliveries.OpenCount(t.Context(), bob); err != nil || n != 1 {
		t.Errorf("%d wait, %v; want 1", n, err)
	}
	if _, err := l.Deliveries.AddPrompts(t.Context(), Prompt{d, other}); !errors.Is(err, ErrConflict) {
		t.Errorf("another message under its ID: %v", err)
	}
	changed := d
	changed.Mode = nil
	if _, err := l.Deliveries.AddPrompts(t.Context(), Prompt{changed, digest}); !errors.Is(err, ErrConflict) {
		t.Errorf("another mode under its uuid: %v", err)
	}
	// The id is also taken for a row of the inbox.
	key := SendKey{InboxKey: bob, ID: "key"}
	sent, found, err := l.Sends.Recall(t.Context(), key)
	if err != nil || !found || sent.State != Written || sent.Digest != digest {
		t.Errorf("remembered %+v, %v, %v", sent, found, err)
	}

	// A message that is in the inbox, or may be, does not become a prompt.
	for _, state := range []State{Intent, Written} {
		row := Send{SendKey: key, Digest: digest, At: monday}
		row.ID = string(state)
		must(t, l.Sends.Intend(t.Context(), row))
		if state == Written {
			must(t, l.Sends.Written(t.Context(), row.SendKey, tuesday))
		}
		late := d
		late.UUID, late.ID = "late-"+row.ID, row.ID
		if _, err := l.Deliveries.AddPrompts(t.Context(), Prompt{late, digest}); !errors.Is(err, ErrWritten) {
			t.Errorf("a message that is in the inbox (%s): %v", state, err)
		}
		if _, err := l.Deliveries.AddPrompts(t.Context(), Prompt{late, other}); !errors.Is(err, ErrConflict) {
			t.Errorf("another message under the ID of one in the inbox (%s): %v", state, err)
		}
	}
	if n, err := l.Deliveries.OpenCount(t.Context(), bob); err != nil || n != 1 {
		t.Errorf("%d wait, %v; want 1", n, err)
	}
	if _, err := l.Deliveries.AddPrompts(t.Context(), Prompt{aRow("row"), digest}); !errors.As(err, new(*ValueError)) {
		t.Errorf("a row: %v", err)
	}
}

// Events have the text of a prompt when it is claimed, and only then.
func TestEventsTellWhatWasSaid(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir()+"/ledger.db")
	d := anInput("said")
	d.ID, d.Summary, d.Color = "key", "short", "blue"
	_, err := l.Deliveries.AddPrompts(t.Context(), Prompt{d, [32]byte{}})
	must(t, err)
	must(t, l.Deliveries.Claim(t.Context(), aRow("row")))
	must(t, l.Deliveries.Drop(t.Context(), "said"))
	got, err := l.Events.After(t.Context(), 0, 10)
	must(t, err)
	type told struct{ Delivery, State, Text, Summary, Color string }
	var list []told
	for _, e := range got {
		list = append(list, told{e.Delivery, string(e.State), e.Text, e.Summary, e.Color})
	}
	want := []told{{"said", "claimed", "fix it", "short", "blue"}, {"row", "claimed", "", "", ""}, {"said", "dropped", "", "", ""}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Either all of several prompts are recorded, in their order, or none.
func TestPromptsAllOrNone(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir()+"/ledger.db")
	prompt := func(id string, digest byte) Prompt {
		d := anInput("uuid-" + id)
		d.ID = id
		return Prompt{d, [32]byte{digest}}
	}
	wait := func(want int) {
		t.Helper()
		if n, err := l.Deliveries.OpenCount(t.Context(), bob); err != nil || n != want {
			t.Errorf("%d wait, %v; want %d", n, err, want)
		}
	}
	must(t, second(l.Deliveries.AddPrompts(t.Context(), prompt("a", 1))))
	if _, err := l.Deliveries.AddPrompts(t.Context(), prompt("b", 1), prompt("c", 1), prompt("a", 2)); !errors.Is(err, ErrConflict) {
		t.Errorf("another message under the ID of the last one: %v", err)
	}
	wait(1)
	if _, err := l.Deliveries.AddPrompts(t.Context(), prompt("b", 1), prompt("", 1)); !errors.As(err, new(*ValueError)) {
		t.Errorf("one without an ID: %v", err)
	}
	wait(1)
	added, err := l.Deliveries.AddPrompts(t.Context(), prompt("b", 1), prompt("a", 1), prompt("c", 1), prompt("b", 1))
	must(t, err)
	var got []bool
	for _, a := range added {
		got = append(got, a.Again)
	}
	if diff := cmp.Diff([]bool{false, true, false, true}, got); diff != "" {
		t.Errorf("recorded before: %s", diff)
	}
	if added[0].Seq >= added[2].Seq || added[0].Seq != added[3].Seq {
		t.Errorf("in the order %d, %d, %d", added[0].Seq, added[2].Seq, added[3].Seq)
	}
	wait(3)
}

func second[T any](_ T, err error) error { return err }
