package link

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teambridge/inbox/ledger"
)

// While the disk of a machine is full, frames are not acknowledged. They come again when there is
// room, and are delivered once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounts a small disk, for which it has to be root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("mounts a small disk, which is not allowed here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	h := newHub(1, faults{})
	a, b := newMachine(t, t.TempDir(), "a", h, "b"), newMachine(t, dir, "b", h, "a")
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	a.must(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	a.start()
	b.start()
	t.Cleanup(func() {
		a.stop()
		b.stop()
		a.ledger.Close()
		b.ledger.Close()
	})
	var ids, texts []string
	for i := range 10 { // more than what is left in the log of the ledger
		texts = append(texts, fmt.Sprint(i, strings.Repeat("x", 100<<10)))
		ids = append(ids, a.send("b", "worker", texts[i]))
	}
	a.await(t, ledger.StageStored, ids[len(ids)-1])
	full := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.ContainsFunc(b.warned, func(s string) bool {
			return strings.HasPrefix(s, "cannot record data from a: ") && strings.Contains(s, b.path+": disk full")
		})
	}
	b.until(t, "warning of the full disk", full)
	if n := len(h.frames("b")); n == 0 {
		t.Error("everything was acknowledged")
	}
	a.must(os.Remove(ballast))
	a.await(t, ledger.StageSeen, ids...)
	b.wantTexts(t, texts...)
}
