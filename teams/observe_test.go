package teams

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What was found out about a version goes before the table, and only about that version.
func TestObservation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "claude")
	ObserveIn(dir)
	t.Cleanup(func() { observations.Store(nil); forget() })
	odd, other := Version{2, 9, 1}, Version{2, 9, 2}
	if _, err := Observed(dir, odd); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was observed: %v", err)
	}
	if got := odd.Has(RemovesTaken); got != Yes {
		t.Errorf("before: %v", got)
	}
	o := Observation{Version: odd, At: time.Unix(1700000000, 0).UTC(), Found: map[string]Answer{"RemovesTaken": No, "RunsOnce": Yes, "LocksConfig": Unsure}, Changed: []string{"RemovesTaken"}}
	if err := o.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Observed(dir, odd)
	if err != nil || !got.At.Equal(o.At) || got.Found["RunsOnce"] != Yes || got.Found["LocksConfig"] != Unsure || len(got.Changed) != 1 {
		t.Errorf("read back: %+v, %v", got, err)
	}
	for _, tc := range []struct {
		v    Version
		t    Trait
		want Answer
	}{{odd, RemovesTaken, No}, {odd, LocksConfig, Yes}, {other, RemovesTaken, Yes}, {Version{}, RemovesTaken, Unsure}} {
		if got := tc.v.Has(tc.t); got != tc.want {
			t.Errorf("%s %s: %v, want %v", tc.v, tc.t, got, tc.want)
		}
	}
	if got := odd.Tabled(RemovesTaken); got != Yes {
		t.Errorf("the table says %v", got)
	}
}

// A file that nobody can have written is an error that says so, and no knowledge.
func TestBadObservation(t *testing.T) {
	dir := t.TempDir()
	ObserveIn(dir)
	t.Cleanup(func() { observations.Store(nil); forget() })
	odd := Version{2, 9, 3}
	path := observationPath(dir, odd)
	for name, text := range map[string]string{
		"empty":           "",
		"cut off":         `{"version":"2.9.3","found":{"Remo`,
		"another version": `{"version":"2.9.4","found":{"RemovesTaken":"no"}}`,
		"another word":    `{"version":"2.9.3","found":{"RemovesTaken":"maybe"}}`,
		"too large":       `{"version":"2.9.3","found":{"RemovesTaken":"no"}}` + strings.Repeat(" ", maxObservation),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		forget()
		if _, err := Observed(dir, odd); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if got := odd.Has(RemovesTaken); got != Yes {
			t.Errorf("%s: taken for knowledge: %v", name, got)
		}
	}
}

// The names of traits are those of the constants, by which files and documents have them.
func TestTraitNames(t *testing.T) {
	t.Parallel()
	for trait, name := range traitNames(t) {
		if trait.Name() != name || !IsTrait(name) {
			t.Errorf("%s is called %q", name, trait.Name())
		}
	}
	if IsTrait("RunsOnce") {
		t.Error("RunsOnce is no trait")
	}
}
