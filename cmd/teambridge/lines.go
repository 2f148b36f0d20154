package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine is the length in bytes of the longest line of standard input that run accepts.
// The largest message fits, even with every character as a JSON escape.
const maxLine = 1 << 20

var errLongLine = fmt.Errorf("it is longer than %d bytes", maxLine)

// lineReader reads lines of bounded length. Unlike a [bufio.Scanner] it goes on after a
// line that is too long.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	number int  // of the line that next returned last, from 1
	inLine bool // that line was too long, and its rest has not been read
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReader(r), limit: limit}
}

// next returns the next line without its line end, which the last line need not have. It
// returns errLongLine as soon as a line exceeds the limit, and the next call skips the
// rest. The error is io.EOF at the end of the input.
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
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) > l.limit {
			return nil, errLongLine
		}
		return line, nil
	}
}
