package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is a limit in bytes that the largest message fits, even with every character as a JSON escape.
const MaxLine = 1 << 20

// ErrLongLine is the error of a line that is longer than the limit.
var ErrLongLine = fmt.Errorf("it is longer than %d bytes", MaxLine)

// Lines reads lines of bounded length. Unlike a [bufio.Scanner] it continues after a line that is too long.
type Lines struct {
	Number int // of the line that Next returned last, from 1

	r      *bufio.Reader
	limit  int
	inLine bool // that line was too long, and its rest has not been read
}

func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{r: bufio.NewReader(r), limit: limit}
}

// Next returns the next line without its line end, which the last line need not have. It returns ErrLongLine as soon
// as a line exceeds the limit, and the next call skips the rest. The error is io.EOF at the end of the input.
func (l *Lines) Next() ([]byte, error) {
	for l.inLine {
		part, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		l.inLine = !bytes.HasSuffix(part, []byte("\n"))
	}
	l.Number++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(line) <= l.limit+len("\r\n") {
				continue
			}
			l.inLine = true
			return nil, ErrLongLine
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return nil, err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) > l.limit {
			return nil, ErrLongLine
		}
		return line, nil
	}
}
