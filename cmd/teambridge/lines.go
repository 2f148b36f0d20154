package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line of standard input that run accepts, in bytes and without
// its line end. It has room for the largest message, even if every character of it is
// written as a JSON escape.
const maxLine = 1 << 20

// errLongLine says that a line is longer than the reader allows.
var errLongLine = fmt.Errorf("it is longer than %d bytes", maxLine)

// lineReader reads lines of bounded length. Unlike a [bufio.Scanner] it does not stop
// at a line that is too long, and it never holds more than the limit in memory.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	number int  // of the line that next returned last; the first is 1
	inLine bool // the rest of that line, which was too long, was not read yet
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReader(r), limit: limit}
}

// next returns the next line without its line end. The last line needs none. A line
// that is longer than the limit is errLongLine as soon as that is known, since its end
// may be long in coming; the next call skips its rest. At the end of the input the
// error is io.EOF.
func (l *lineReader) next() ([]byte, error) {
	for l.inLine {
		part, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		l.inLine = !bytes.HasSuffix(part, []byte("\n"))
	}
	l.number++
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(line) <= l.limit+len("\r\n") {
				continue
			}
			l.inLine = true
			return nil, errLongLine
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return nil, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) > l.limit {
			return nil, errLongLine
		}
		return line, nil
	}
}
