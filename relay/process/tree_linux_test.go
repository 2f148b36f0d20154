package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a program leaves behind is killed at its end, whatever group it is in, unless the program was ended between two turns. Then
// nothing has to be known of it any more.
func TestTree(t *testing.T) {
	t.Parallel()
	for _, rests := range []bool{false, true} {
		dir, mark := t.TempDir(), "TEAMBRIDGE_TEST_MARK="+rand.Text()
		t.Cleanup(func() { KillByEnv(mark) })
		cmd := exec.Command("sh", "-c", `mkfifo up; setsid sh -c 'echo > up; exec sleep 600' > /dev/null 2>&1 & read line < up; echo spoken; echo why >&2; exit 3`)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), mark)
		OwnGroup(cmd)
		c, err := Start(cmd, false)
		must(t, err)
		tree := NewTree(c, mark, filepath.Join(dir, "file"))
		must(t, os.WriteFile(tree.File, nil, 0o600))
		tree.Resting.Store(rests)
		var seen bytes.Buffer
		exited := false
		err = tree.Run(&seen, nil, func() { exited = true })
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 3 || !exited || seen.String() != "why\n" {
			t.Errorf("it ended with %v, called back: %t, and printed %q", err, exited, seen.String())
		}
		if quoted := tree.Quote(err).Error(); !strings.Contains(quoted, "spoken") || !strings.Contains(quoted, "why") {
			t.Errorf("its error does not quote all that it printed: %s", quoted)
		}
		if left := FindByEnv(mark); (len(left) == 1) != rests || len(left) > 1 {
			t.Errorf("processes %d are left; it rested: %t", left, rests)
		}
		if _, err := os.Stat(tree.File); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its file is still there: %v", err)
		}
	}
}
