package teams_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"teambridge/teams"
	"teambridge/teams/winetest"
)

// Sweep removes the empty directories of a team that is gone, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after func(dir string) error // what happened to the team after it was opened
		left  string                 // what must be there in the end
	}{
		"alive":          {func(string) error { return nil }, "inboxes"},
		"config deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "config.json")) }, ""},
		"inboxes not empty": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "config.json")), os.WriteFile(filepath.Join(dir, "inboxes", "a.json"), nil, 0o600))
		}, "inboxes/a.json"},
		"team not empty": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "config.json")), os.WriteFile(filepath.Join(dir, "note"), nil, 0o600))
		}, "note"},
		"being made anew": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		}, "."},
		"inboxes is a link": {func(dir string) error {
			inboxes := filepath.Join(dir, "inboxes")
			return errors.Join(os.Remove(filepath.Join(dir, "config.json")), os.Remove(inboxes), os.Symlink(".", inboxes))
		}, "inboxes"},
		"deleted": {os.RemoveAll, ""},
	} {
		if name == "inboxes is a link" && winetest.Running() {
			continue // it makes no links that Go recognizes
		}
		base := t.TempDir()
		dir := filepath.Join(base, "teams", "demo")
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "inboxes"), 0o700),
			os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		root, err := teams.Open(base)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		team, err := root.Team("demo")
		if err != nil {
			t.Fatal(err)
		}
		defer team.Close()
		if err := tc.after(dir); err != nil {
			t.Fatal(err)
		}
		if err := team.Sweep(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.left == "" {
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the team directory is still there: %v", name, err)
			}
		} else if _, err := os.Lstat(filepath.Join(dir, tc.left)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
