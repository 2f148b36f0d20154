package watch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The watcher adds watches in the loop that reads the events, so an event that waits must not hold up Add.
func TestAWatchCanBeAddedWhileEventsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	src, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Add(dir); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		sub := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := src.Add(sub); err != nil {
			t.Fatal(err)
		}
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

// On Windows, a handle that is closed twice can be that of another file by then.
func TestWhatIsNoLongerWatchedClosesNoOtherFile(t *testing.T) {
	t.Parallel()
	src, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range src.errors() {
		}
	}()
	top := t.TempDir()
	for n := range 100 {
		dir := filepath.Join(top, fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := src.Add(dir); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := src.Remove(dir); err != nil {
			t.Fatal(err)
		}
		var files []*os.File
		for range 8 { // one of them has the handle that the directory had
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if err := src.Add(top); err != nil { // which comes after what was waiting
			t.Fatal(err)
		}
		for _, f := range files {
			if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
				t.Fatalf("directory %d: %q, %v", n, text, err)
			}
			if err := f.Close(); err != nil {
				t.Fatalf("directory %d: %v", n, err)
			}
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}
