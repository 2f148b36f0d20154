package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"
)

// Lines reads lines of up to a limit of bytes.
type Lines struct {
	r     *bufio.Reader
	limit int
	line  []byte
}

// NewLines returns a reader of lines of up to limit bytes.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// headOfLong is how much of a line over the limit is kept.
const headOfLong = 200

// Next returns a line without its newline, valid until the next call, and its size. Of a line over the limit
// only the beginning is returned, so that its size exceeds its bytes. The error is io.EOF, or the reader's,
// with the bytes before it.
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

// Tail keeps the end of what is written to it.
type Tail struct {
	Limit int // bytes

	mu   sync.Mutex
	data []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	// Twice the limit, so that not every write moves everything.
	if len(t.data) > 2*t.Limit {
		t.data = append(t.data[:0], t.data[len(t.data)-t.Limit:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.data[max(0, len(t.data)-t.Limit):], []byte("\uFFFD")))
}

// Tee returns a writer that also passes everything on. next may be nil; its errors are no reason
// to stop.
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
