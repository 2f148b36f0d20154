package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// Lines reads lines of limited size.
type Lines struct {
	r     *bufio.Reader
	limit int
	line  []byte
}

// NewLines returns a reader of lines of at most limit bytes.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// headOfLong is how much of a line over the limit is kept, in bytes.
const headOfLong = 200

// Next returns a line without its newline, valid until the next call, and the line's size. If the line is
// over the limit, Next returns only its beginning, and size exceeds the length of line. At the end the error
// is io.EOF, or the reader's error, with the bytes before it.
func (l *Lines) Next() (line []byte, size int64, err error) {
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil
		part = bytes.TrimSuffix(part, []byte("\n"))
		size += int64(len(part))
		if size <= int64(l.limit) {
			l.line = append(l.line, part...)
		} else {
			l.line = append(l.line, part[:min(headOfLong, len(part))]...)
			l.line = l.line[:min(headOfLong, len(l.line))]
		}
		switch {
		case whole:
			return l.line, size, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return l.line, size, err
		}
	}
}

// Tail is a writer that keeps the end of its input.
type Tail struct {
	Limit int // bytes

	mu   sync.Mutex
	data []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	// Cut only at twice the limit, so that not every write moves all data.
	if len(t.data) > 2*t.Limit {
		t.data = append(t.data[:0], t.data[len(t.data)-t.Limit:]...)
	}
	return len(p), nil
}

// String returns the kept bytes as valid UTF-8.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.data[max(0, len(t.data)-t.Limit):], []byte("\uFFFD")))
}

// Tee returns a writer that also writes to next, and ignores next's errors. next may be nil.
func (t *Tail) Tee(next io.Writer) io.Writer {
	if next == nil {
		return t
	}
	return io.MultiWriter(t, unfailing{next})
}

type unfailing struct{ io.Writer }

func (w unfailing) Write(p []byte) (int, error) {
	_, _ = w.Writer.Write(p)
	return len(p), nil
}
