package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/status/plain"
)

// screenOf returns the content of a one-line terminal after a text, and the lines that have ended.
func screenOf(text string) (line string, ended []string) {
	var cells []rune
	at := 0
	for _, r := range text {
		switch r {
		case '\r':
			at = 0
		case '\n':
			ended = append(ended, strings.TrimRight(string(cells), " "))
			cells, at = nil, 0
		default:
			cells = append(cells[:at], append([]rune{r}, cells[min(at+1, len(cells)):]...)...)
			at++
		}
	}
	return strings.TrimRight(string(cells), " "), ended
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func testProgress(columns int) (*stdio.Progress, *syncBuffer) {
	terminal := &syncBuffer{}
	return &stdio.Progress{W: terminal, Columns: func() int { return columns }, Style: func(s string) string { return s }}, terminal
}

// The line appears after a second, counts, makes room for output, and is removed at the end.
func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, terminal := testProgress(80)
		a := newApp(host{stdout: terminal, stderr: terminal, progress: p}, nil)
		done := a.working("waiting for %s", "work\x1ber")
		shows := func(after time.Duration, want string, ended ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			line, lines := screenOf(terminal.String())
			if _, text, _ := strings.Cut(line, " "); text != want || strings.Join(lines, "|") != strings.Join(ended, "|") {
				t.Errorf("after %s the terminal shows %q %q, want %q %q", after, lines, line, ended, want)
			}
		}
		shows(999*time.Millisecond, "")
		shows(2*time.Millisecond, `waiting for work\eer… 1s`)
		shows(time.Minute, `waiting for work\eer… 1m1s`)
		inner := a.working("something in between")
		a.warn("careful")
		shows(0, "", "warning: careful")
		inner()
		shows(150*time.Millisecond, `waiting for work\eer… 1m1s`, "warning: careful")
		if err := a.print([]byte("the answer\n")); err != nil {
			t.Error(err)
		}
		done()
		done()
		shows(time.Minute, "", "warning: careful", "the answer")
		a.working("again")()
		shows(time.Minute, "", "warning: careful", "the answer")
	})
}

// A wait of less than a second shows nothing, and a line never wraps.
func TestProgressIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, terminal := testProgress(12)
		done := p.Start("quick")
		time.Sleep(900 * time.Millisecond)
		done()
		if terminal.String() != "" {
			t.Errorf("%q was shown", terminal)
		}
		done = p.Start("a long name, 日本語")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if line, _ := screenOf(terminal.String()); plain.Width(line) != 11 || !strings.HasSuffix(line, "a long n…") {
			t.Errorf("%q is shown", line)
		}
		done()
	})
}
