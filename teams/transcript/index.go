package transcript

import (
	"slices"
	"time"
)

// Index finds when the model of a conversation got which message, since a time. It reads each part of a transcript
// once, and keeps no text.
type Index struct {
	since time.Time
	files map[string]*Tail
	given map[digest][]Given
	known map[place]bool
	order []entry // of given and known, for removing the oldest
}

type place struct {
	uuid string
	n    int // the index of the message in the record
}

type entry struct {
	key digest
	place
}

// mostGiven is how many messages an Index keeps. Beyond it, the oldest are removed.
const mostGiven = 1 << 14

// NewIndex returns an Index of the messages that the model got at since or later.
func NewIndex(since time.Time) *Index {
	return &Index{since: since, files: map[string]*Tail{}, given: map[digest][]Given{}, known: map[place]bool{}}
}

// Since returns the start of the time that the index covers.
func (x *Index) Since() time.Time { return x.since }

// Find returns the times when the model got a text from a sender, the oldest first. Both are spelled as in the
// transcripts.
func (x *Index) Find(from, text string) []Given {
	return x.given[digestOf(from, text)]
}

// Read reads what was added to the transcripts of the conversation, and reports whether it found a new message.
// Several transcripts can hold copies of a record.
func (x *Index) Read(paths ...string) (news bool) {
	for _, path := range paths {
		if x.read(path) {
			news = true
		}
	}
	return news
}

func (x *Index) read(path string) (news bool) {
	if x.files[path] == nil {
		x.files[path] = &Tail{Path: path, Begin: From(func(line []byte) bool { // records are in the order of time
			r, ok := parseGiven(line)
			return ok && !r.Time().IsZero() && r.Time().Before(x.since)
		})}
	}
	for line, err := range x.files[path].Lines() {
		if err != nil {
			return news
		}
		if r, ok := parseGiven(line); ok && !r.Time().Before(x.since) {
			news = x.add(&r) || news
		}
	}
	return news
}

// add adds the messages of a record.
func (x *Index) add(r *Record) (news bool) {
	list := r.messages()
	for n, b := range list {
		e := entry{digestOf(b.from, b.text), place{r.UUID, n}}
		if r.UUID == "" || x.known[e.place] {
			continue
		}
		news = true
		g := Given{At: r.Time(), Version: r.Version, summary: digestOf(b.summary)}
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
