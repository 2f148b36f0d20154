package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"

	"teambridge/teams/sharedfile"
)

// longestLine is the size of the longest line that is read. Longer lines are skipped; records with pictures have some
// MB.
const longestLine = 64 << 20

// Tail reads a file that Claude Code may be writing, and later the lines that were added.
type Tail struct {
	Path string
	// Begin returns the offset to begin at in a file that is new, was replaced, or was truncated. nil begins at 0.
	Begin func(file io.ReaderAt, size int64) (offset int64)

	info   os.FileInfo
	offset int64 // of the first byte that was not read
	ended  bool  // the last read reached the end
	limit  int64 // of a line; 0 is longestLine
}

// Left returns the number of unread bytes, for the file's size at the last read.
func (t *Tail) Left() int64 { return t.info.Size() - t.offset }

// Lines yields the unread lines, without spaces and NULs around them. A line is valid until the next one. A line with
// several records is yielded record by record. A line that begins before the offset is skipped. The last line may
// have no newline; it is read once it is a whole record.
func (t *Tail) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if info, err := os.Stat(t.Path); err == nil && t.ended && os.SameFile(t.info, info) && info.Size() == t.info.Size() {
			return
		}
		file, info, err := open(t.Path)
		switch {
		case t.info != nil && errors.Is(err, fs.ErrNotExist):
			return // a file that is gone does not grow
		case err != nil:
			yield(nil, err)
			return
		}
		defer file.Close()
		half := false // the first line began before the offset
		if t.info == nil || !os.SameFile(t.info, info) || info.Size() < t.offset {
			if t.offset = 0; t.Begin != nil {
				t.offset = t.Begin(file, info.Size())
			}
			if t.offset > 0 {
				var last [1]byte
				_, err := file.ReadAt(last[:], t.offset-1)
				half = err == nil && last[0] != '\n'
			}
		}
		t.info, t.ended = info, false
		limit := cmp.Or(t.limit, longestLine)
		r := bufio.NewReaderSize(io.NewSectionReader(file, t.offset, 1<<62), 64<<10)
		var long []byte // the beginning of a line that is longer than the buffer
		for at, size := t.offset, int64(0); ; {
			part, err := r.ReadSlice('\n')
			if size += int64(len(part)); size <= limit && (err != nil || len(long) > 0) {
				long = append(long, part...)
				part = long
			}
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, io.EOF):
				t.ended = true
				if all := slices.Collect(split(part)); half || len(all) == 0 || !whole(all[len(all)-1]) {
					return
				}
			case err != nil:
				yield(nil, err)
				return
			}
			at += size
			t.offset = at
			if size <= limit && !half {
				for record := range split(part) {
					if !yield(record, nil) {
						return
					}
				}
			}
			if t.offset != at { // the caller has read on meanwhile
				return
			}
			if long, size, half = long[:0], 0, false; cap(long) > 1<<20 {
				long = nil
			}
		}
	}
}

// split yields the records of a line. After a crash there can be several, with NULs before each: a newline was lost.
func split(line []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line = trim(line); bytes.Contains(line, []byte(`}{"`)) || bytes.Contains(line, []byte("}\x00")); {
			d := json.NewDecoder(bytes.NewReader(line))
			var first json.RawMessage
			if d.Decode(&first) != nil {
				break // see [Parse]
			}
			end := d.InputOffset()
			if !yield(line[:end]) {
				return
			}
			line = trim(line[end:])
		}
		if len(line) > 0 {
			yield(line)
		}
	}
}

// whole reports whether a record is complete, even after a part of another.
func whole(record []byte) bool { _, ok := Parse(record); return ok }

func trim(line []byte) []byte { return bytes.Trim(line, " \t\r\n\x00") }

// Last makes a [Tail] begin so many bytes before the end.
func Last(bytes int64) func(io.ReaderAt, int64) int64 {
	return func(_ io.ReaderAt, size int64) int64 { return max(0, size-bytes) }
}

// From makes a [Tail] begin at the last record that found accepts, or else at 0.
func From(found func(line []byte) bool) func(io.ReaderAt, int64) int64 {
	return func(file io.ReaderAt, size int64) int64 {
		for at, line := range Backward(file, size) {
			if found(line) {
				return at
			}
		}
		return 0
	}
}

// Lines yields the lines in the last bytes of a file. A missing file has none.
func Lines(path string, last int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t := Tail{Path: path, Begin: Last(last)}
		for line, err := range t.Lines() {
			if errors.Is(err, fs.ErrNotExist) || !yield(line, err) {
				return
			}
		}
	}
}

// Backward yields the lines of a file of that size like [Tail.Lines], but the last one first, with the offset of
// each; records on one line have the same offset. It stops where the file cannot be read, and reads no further than
// the caller iterates. A line is valid until the next one. A line that is too long for [Tail] is yielded in part.
func Backward(file io.ReaderAt, size int64) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		var rest [][]byte // the end of a line whose beginning is unread, its last piece first
		long := 0         // its size
		for end, piece := size, int64(64<<10); end > 0; piece = min(4*piece, 1<<20) {
			start := max(0, end-piece)
			data := make([]byte, end-start)
			if _, err := file.ReadAt(data, start); err != nil && !errors.Is(err, io.EOF) {
				return
			}
			end = start
			for {
				i := bytes.LastIndexByte(data, '\n')
				if i < 0 && start > 0 {
					break
				}
				line := data[i+1:]
				if len(rest) > 0 {
					rest = append(rest, line)
					slices.Reverse(rest)
					line = bytes.Join(rest, nil)
				}
				rest, long = nil, 0
				for _, record := range slices.Backward(slices.Collect(split(line))) {
					if !yield(start+int64(i+1), record) {
						return
					}
				}
				if i < 0 {
					return
				}
				data = data[:i]
			}
			if rest, long = append(rest, data), long+len(data); long > longestLine {
				rest, long = nil, 0
			}
		}
	}
}

// open opens a regular file. It checks the type first: opening a named pipe would wait for its writer.
func open(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("is no regular file")}
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := sharedfile.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
