package session

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/wire"
)

// idsIn returns the ids of envelopes, a line for each.
func idsIn(list []wire.Envelope) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintln(&b, e.ID)
	}
	return b.String()
}

// TestRecordedIDs pins the envelopes of all recordings of Claude Code: a reader that keeps each id once must get the
// same ids from all versions.
func TestRecordedIDs(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, pattern := range []string{
		"testdata/claude-*/*.jsonl", "testdata/claude-*/subagents/*.jsonl", "teams/transcript/testdata/*.jsonl", "relay/claude/interactive/testdata/*/projects/*/*.jsonl",
	} {
		files, err := filepath.Glob(filepath.Join(fixtures, "..", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			var all []wire.Envelope
			if strings.HasPrefix(filepath.Base(file), "stream") {
				all = live(t, file)
			} else {
				all = read(t, file, Options{Gone: true})
			}
			whole := sha256.New()
			for _, e := range all {
				line, err := e.MarshalJSON()
				must(t, err)
				fmt.Fprintf(whole, "%s\n", line)
			}
			name, err := filepath.Rel(filepath.Join(fixtures, ".."), file)
			must(t, err)
			fmt.Fprintf(&got, "%s: %d, ids %.6x, envelopes %.6x\n", filepath.ToSlash(name), len(all), sha256.Sum256([]byte(idsIn(all))), whole.Sum(nil))
		}
	}
	golden(t, "testdata/recorded.txt", got.String())
}

// TestDamagedTranscript: after crashes, records share a line, or follow a part of another or NULs. None of that
// changes the envelopes.
func TestDamagedTranscript(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(fixtures, "claude-2.1.329")
	data, err := os.ReadFile(filepath.Join(folder, "transcript.jsonl"))
	must(t, err)
	lines := slices.Collect(bytes.Lines(data))
	want := idsIn(read(t, filepath.Join(folder, "transcript.jsonl"), Options{Gone: true}))
	for name, damage := range map[string]func(before, line []byte) []byte{
		"two records on a line": func(before, line []byte) []byte { return append(bytes.TrimSpace(before), line...) },
		"NULs":                  func(before, line []byte) []byte { return slices.Concat(before, make([]byte, 700), line) },
		"NULs instead of the newline": func(before, line []byte) []byte {
			return slices.Concat(bytes.TrimSpace(before), make([]byte, 700), line)
		},
		"the beginning of a record": func(before, line []byte) []byte { return slices.Concat(before, line[:len(line)/2], line) },
		"the beginning, on the line before": func(before, line []byte) []byte {
			return slices.Concat(bytes.TrimSpace(before), line[:len(line)/2], line)
		},
		"NULs, and the beginning": func(before, line []byte) []byte { return slices.Concat(before, make([]byte, 90_000), line[:9], line) },
	} {
		path := filepath.Join(t.TempDir(), "transcript.jsonl")
		for i := 1; i < len(lines); i++ {
			whole := slices.Concat(slices.Concat(lines[:i-1]...), damage(slices.Clone(lines[i-1]), lines[i]), slices.Concat(lines[i+1:]...))
			must(t, os.WriteFile(path, whole, 0o600))
			if diff := cmp.Diff(want, idsIn(read(t, path, Options{Gone: true}))); diff != "" {
				t.Errorf("%s at line %d: (-want +got)\n%s", name, i, diff)
			}
		}
	}
}
