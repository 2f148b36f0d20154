package transcript

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// put writes a file, in place if it exists.
func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// A Tail yields the new lines of a file while it grows, is truncated, replaced and removed.
func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	begun := 0
	tail := Tail{Path: path, limit: 100_000, Begin: func(io.ReaderAt, int64) int64 {
		begun++
		return 0
	}}
	look := func(step string, starts int, want ...string) {
		t.Helper()
		var got []string
		for line, err := range tail.Lines() {
			if err != nil {
				t.Errorf("%s: %v", step, err)
				break
			}
			got = append(got, string(line[:min(len(line), 20)]))
		}
		if !slices.Equal(got, want) || begun != starts {
			t.Errorf("%s: %q, begun %d times, want %q, %d", step, got, begun, want, starts)
		}
	}
	long, over := `{"a":"`+strings.Repeat("x", 80_000)+`"}`, `{"b":"`+strings.Repeat("x", 100_000)+`"}`
	content := "{\"n\":1}\n \n" + long + "\n" + over + "\n{\"n\":2"
	put(t, path, content)
	look("long lines, and half of one", 1, `{"n":1}`, long[:20])
	look("nothing new", 1)
	content += "}"
	put(t, path, content)
	look("a whole record without a newline", 1, `{"n":2}`)
	content += "{\"n\":3}\n" + over[:90_000]
	put(t, path, content)
	look("another process has written after it", 1, `{"n":3}`)
	content += over[90_000:] + "\n{\"n\":4}\n"
	put(t, path, content)
	look("the rest of a line that is too long", 1, `{"n":4}`)
	put(t, path, "{\"n\":5}\n")
	look("truncated", 2, `{"n":5}`)
	put(t, path+".new", "{\"n\":6}\n{\"n\":7}\n")
	must(t, os.Rename(path+".new", path))
	look("replaced by a longer one", 3, `{"n":6}`, `{"n":7}`)
	must(t, os.Remove(path))
	look("removed", 3)
	put(t, path, "{\"n\":8}\n")
	look("made again", 4, `{"n":8}`)
	for _, err := range (&Tail{Path: path + ".none"}).Lines() {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("never there: %v", err)
		}
	}
}

// LastLines begins with a whole line.
func TestLastLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.jsonl")
	put(t, path, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	for last, want := range map[int64]string{0: "", 7: "", 8: "3", 9: "3", 15: "3", 16: "23", 1000: "123"} {
		got := ""
		for line, err := range Lines(path, last) {
			if err != nil {
				t.Error(err)
			}
			got += strings.Trim(string(line), `{"n:}`)
		}
		if got != want {
			t.Errorf("the last %d bytes: %q, want %q", last, got, want)
		}
	}
	for range Lines(filepath.Join(t.TempDir(), "none"), 100) {
		t.Error("a line of a file that is not there")
	}
	for _, err := range Lines(t.TempDir(), 100) {
		if err == nil {
			t.Error("a line of a directory")
		}
	}
}

// If a process was killed in the middle of a line, the next process continues on that line. After a crash, records
// can share a line, and NULs can come before one. No whole record is skipped.
func TestRecordsThatShareALine(t *testing.T) {
	t.Parallel()
	const a, b = `{"type":"user","uuid":"a","message":{"content":"}{\"x\" }{"}}`, `{"type":"assistant","uuid":"b"}`
	for content, want := range map[string]string{
		a + b + "\n" + b:                           "a b b",
		a + b + a + "\n":                           "a b a",
		a + " " + b[:9] + "\n" + b + "\n":          "a b",
		a + b[:9] + "\n" + b + "\n":                "a b",
		a + b + b[:9] + b + "\n":                   "a b b",
		a[:20] + b + "\n":                          "b",
		strings.Repeat("\x00", 700) + a + "\n" + b: "a b",
		b + "\n" + strings.Repeat("\x00", 90_000) + a + "\n" + b + "\n": "b a b",
		a + strings.Repeat("\x00", 700) + b + b + "\n":                  "a b b",
		a + `{"type":"summary"}`:                                        "a ",
	} {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		put(t, path, content)
		var got []string
		tail := Tail{Path: path}
		for line, err := range tail.Lines() {
			must(t, err)
			if r, ok := Parse(line); ok {
				got = append(got, r.UUID)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %.200q: %q, want %q", content, got, want)
		}
		got = nil
		for _, line := range Backward(strings.NewReader(content), int64(len(content))) {
			if r, ok := Parse(line); ok {
				got = append([]string{r.UUID}, got...)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("backward, of %.200q: %q, want %q", content, got, want)
		}
	}
}

func TestTornLines(t *testing.T) {
	t.Parallel()
	whole := `{"parentUuid":"a","type":"user","uuid":"b","message":{"content":[{"type":"text","text":"{\"type\":\"x\"}"}]}}`
	for _, next := range []string{whole, `{"type":"queue-operation","uuid":"b","content":[{"type":"text"}]}`} {
		for cut := range len(whole) {
			if r, ok := Parse([]byte(whole[:cut] + next)); !ok || r.UUID != "b" {
				t.Fatalf("%s: %+v, %v", whole[:cut]+next, r, ok)
			}
		}
		for cut := range len(next) {
			if r, ok := Parse([]byte(next[:cut])); ok {
				t.Fatalf("%s: %+v", next[:cut], r)
			}
		}
	}
}

// No record makes a reader fail, not even one of an interrupted write.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"user","message":{"content":[1,null,{}]},"timestamp":5}`))
	f.Add([]byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":1}],"id":"a"}}{"type":`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, _ := Parse(line)
		var s Said
		s.Add(&r)
		r.Kind()
		r.Time()
		r.messages()
	})
}
