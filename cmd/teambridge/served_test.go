package main

import (
	"os"
	"path/filepath"
	"testing"
)

// captured returns a Claude directory with the captured team of an older
// version.
func captured(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "claude")
	if err := os.CopyFS(filepath.Join(dir, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", "claude-2.1.80", "teams"))); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// short returns a directory with a path that is short enough for sockets in it.
func short(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
