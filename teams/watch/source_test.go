//go:build !windows

package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The watcher adds watches in the loop that reads the events, so an event that waits must not block Add.
func TestAWatchCanBeAddedWhileEventsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, err := openKernel()
	must(t, err)
	must(t, src.Add(dir))
	for n := range 200 {
		sub := filepath.Join(dir, fmt.Sprint(n))
		must(t, os.Mkdir(sub, 0o700))
		must(t, src.Add(sub))
	}
	if _, ok := <-src.events(); !ok {
		t.Error("the events have ended")
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	for range src.events() {
	}
}
