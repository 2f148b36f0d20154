package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teambridge/teams/errtest"
)

// An export that fails on a full disk keeps the file of the export before.
func TestExportKeepsTheOldFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "messages.ndjson")
	errtest.Must(t, os.WriteFile(path, []byte("of yesterday\n"), 0o600))
	err := exportTo(path, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
		return errors.Join(err, syscall.ENOSPC)
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "of yesterday\n" {
		t.Errorf("the file holds %d bytes, %v; want the old ones", len(data), err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("beside it: %v, %v", all, err)
	}
}
