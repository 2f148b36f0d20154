package peer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"teambridge/teams/winetest"
)

// Sweep removes exactly the files of killed processes of ours, whatever a note names.
func TestSweep(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "the process that runs the tests has no parent")
	dir := t.TempDir()
	b := Open(dir, nil)
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone, alive := strconv.Itoa(cmd.ProcessState.Pid()), strconv.Itoa(os.Getppid())
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	names := []string{gone + ".sock", gone + ".json", gone + ".0a.key", alive + ".sock", "mine", gone + "0.sock"}
	for _, pid := range []string{gone, alive} {
		note := ""
		for _, name := range names {
			note += filepath.Join(dir, name) + "\n"
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		note += filepath.Join(dir, pid) // cut by a full disk
		if err := os.WriteFile(filepath.Join(b.state, pid), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Sweep()
	for i, name := range names {
		if there(name) != (i > 2) {
			t.Errorf("%s is there: %t", name, there(name))
		}
	}
	if there("sockets/"+gone) || !there("sockets/"+alive) {
		t.Errorf("the note of the killed process is there: %t, of the other: %t", there("sockets/"+gone), there("sockets/"+alive))
	}
}
