package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// Index knows when the model of a conversation was given which message, since a time. It
// reads each part of a transcript once, and keeps no text.
type Index struct {
	since time.Time
	files map[string]*readFile
	given map[digest][]Given
	known map[place]bool
	order []entry // of given and known, for forgetting
}

type place struct {
	uuid string
	n    int // which message of the record
}

type entry struct {
	key digest
	place
}

// readFile is a transcript that was read up to offset.
type readFile struct {
	info   os.FileInfo
	offset int64
}

// mostGiven is how many messages an Index remembers. Then it forgets the oldest.
const mostGiven = 1 << 14

// NewIndex returns an Index of what was given at since or later.
func NewIndex(since time.Time) *Index {
	return &Index{since: since, files: map[string]*readFile{}, given: map[digest][]Given{}, known: map[place]bool{}}
}

// Since returns the time from which on the index has messages.
func (x *Index) Since() time.Time { return x.since }

// Find returns when the model was given a text from a sender, in the order of time. Both
// are as they are spelled in the transcripts. Without a sender, it is a text that a
// teammate was given as it is.
func (x *Index) Find(from, text string) []Given {
	return x.given[digestOf(cmp.Or(from, plain), text)]
}

// Read reads what was added to the transcripts of the conversation, and reports whether
// there was a new message in it. Several transcripts can hold copies of a record.
func (x *Index) Read(paths ...string) (news bool) {
	for _, path := range paths {
		if x.read(path) {
			news = true
		}
	}
	return news
}

func (x *Index) read(path string) (news bool) {
	// Asked first: opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f := x.files[path]
	if f != nil && os.SameFile(f.info, info) && f.offset <= info.Size() {
		if f.offset == info.Size() {
			return false
		}
	} else {
		f = nil
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	if f == nil {
		f = &readFile{offset: start(file, info.Size(), x.since)}
		x.files[path] = f
	}
	f.info = info
	f.offset += lines(io.NewSectionReader(file, f.offset, info.Size()-f.offset), func(line []byte) {
		if r, ok := parseGiven(line); ok && !r.Timestamp.Before(x.since) {
			news = x.add(&r) || news
		}
	})
	return news
}

// add adds the messages of a record.
func (x *Index) add(r *userRecord) (news bool) {
	list := r.messages()
	for n, b := range list {
		e := entry{digestOf(b.from, b.text), place{r.UUID, n}}
		if r.UUID == "" || x.known[e.place] {
			continue
		}
		news = true
		g := Given{At: r.Timestamp.UTC(), Version: r.Version, Alone: len(list) == 1, summary: digestOf(b.summary)}
		all := append(x.given[e.key], g)
		slices.SortStableFunc(all, func(a, b Given) int { return a.At.Compare(b.At) })
		x.given[e.key], x.known[e.place] = all, true
		x.order = append(x.order, e)
	}
	if over := len(x.order) - mostGiven; over > 0 {
		for _, e := range x.order[:over] {
			if x.given[e.key] = x.given[e.key][1:]; len(x.given[e.key]) == 0 {
				delete(x.given, e.key)
			}
			delete(x.known, e.place)
		}
		x.order = slices.Delete(x.order, 0, over)
	}
	return news
}

// longestLine is the size of the longest record that is read; longer ones are skipped.
// Some with pictures have several MB.
const longestLine = 64 << 20

// lines calls yield with each whole line, and returns the size of all of them.
func lines(r io.Reader, yield func(line []byte)) (size int64) {
	b := bufio.NewReaderSize(r, 64<<10)
	var long []byte // the beginning of a line that is longer than the buffer
	var read int64  // of the line, even if it is too long to be kept
	for {
		part, err := b.ReadSlice('\n')
		read += int64(len(part))
		switch {
		case err == nil && long == nil:
			yield(part)
		case err == nil && read <= longestLine:
			yield(append(long, part...))
		case errors.Is(err, bufio.ErrBufferFull):
			if read <= longestLine {
				long = append(long, part...)
			}
			continue
		case err != nil:
			return size // the rest is not written yet
		}
		size += read
		long, read = nil, 0
	}
}

// start returns where to begin to read: at a line in front of which all is older than
// since. Records are in the order of time.
func start(file io.ReaderAt, size int64, since time.Time) int64 {
	const chunk = 256 << 10
	for at := size; at > 0; {
		at = max(0, at-chunk)
		data := make([]byte, min(chunk, size-at))
		n, _ := file.ReadAt(data, at)
		data = data[:n]
		// A whole record of this chunk that is too old ends the search.
		offset := at
		if at > 0 {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				continue
			}
			data, offset = data[i+1:], at+int64(i)+1
		}
		first := offset
		for len(data) > 0 {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				break
			}
			if r, ok := parse(data[:i]); ok {
				if r.At.Before(since) {
					return first
				}
				break
			}
			data = data[i+1:]
		}
	}
	return 0
}
