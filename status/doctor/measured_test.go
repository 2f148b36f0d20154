package doctor

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
)

// The measurements of a version are read back, and only for that version.
func TestMeasured(t *testing.T) {
	t.Parallel()
	state, v := t.TempDir(), teams.Version{Major: 2, Minor: 9, Patch: 1}
	if _, err := measured(state, v); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was measured: %v", err)
	}
	kept := api.Probe{Version: v.String(), At: time.Unix(1700000000, 0).UTC(), Points: []api.ProbePoint{{Name: "RemovesTaken", Changed: true}}}
	if err := Keep(state, kept); err != nil {
		t.Fatal(err)
	}
	if got, err := measured(state, v); err != nil || !got.At.Equal(kept.At) || len(got.Points) != 1 || got.Points[0] != kept.Points[0] {
		t.Errorf("read back: %+v, %v", got, err)
	}
	if _, err := measured(state, teams.Version{Major: 2, Minor: 9, Patch: 2}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another version: %v", err)
	}
}

// A file that no probe can have written is an error that names it.
func TestBadMeasured(t *testing.T) {
	t.Parallel()
	state, v := t.TempDir(), teams.Version{Major: 2, Minor: 9, Patch: 3}
	path := measuredPath(state, v.String())
	if err := os.MkdirAll(Measured(state), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":           "",
		"cut off":         `{"version":"2.9.3","points":[{"na`,
		"another version": `{"version":"2.9.4","points":[{"name":"RemovesTaken"}]}`,
		"no points":       `{"version":"2.9.3"}`,
		"too large":       `{"version":"2.9.3","points":[{"name":"RemovesTaken"}]}` + strings.Repeat(" ", maxMeasured),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := measured(state, v); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
