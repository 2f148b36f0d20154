package claude

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// lines reads lines of up to limit bytes. A longer one is read to its end and reported by its size and beginning.
type lines struct {
	r     *bufio.Reader
	limit int
	buf   []byte
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns a line without its newline, valid until the next call, and its size. A line over the limit has more size
// than bytes. The last one may lack its newline. The error is io.EOF, or that of the reader, with the bytes before it.
func (l *lines) next() (line []byte, size int64, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil
		part = bytes.TrimSuffix(part, []byte("\n"))
		size += int64(len(part))
		if size <= int64(l.limit) {
			l.buf = append(l.buf, part...)
		} else if len(l.buf) > headOfSkipped {
			l.buf = l.buf[:headOfSkipped]
		} else if room := headOfSkipped - len(l.buf); room > 0 {
			l.buf = append(l.buf, part[:min(room, len(part))]...)
		}
		switch {
		case whole:
			return l.buf, size, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return l.buf, size, err
		}
	}
}

// headOfSkipped is how much of an unusable line is shown.
const headOfSkipped = 200

// tail keeps the end of what is written to it, and passes everything on.
type tail struct {
	limit int
	next  io.Writer // may be nil; its errors are no reason to stop

	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	if t.next != nil {
		_, _ = t.next.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	// Twice the limit, so that not every write moves everything.
	if len(t.data) > 2*t.limit {
		t.data = append(t.data[:0], t.data[len(t.data)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.data[max(0, len(t.data)-t.limit):], []byte("\uFFFD")))
}
