package inbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"sync"

	"teambridge/teams/rawjson"
)

// Remembering returns the same inbox, which keeps what it has read: of a file that
// begins as it did the last time only the rest is parsed. It is for who looks at one
// inbox with each change of it: of 1000 rows, parsing took 1.7 ms, and comparing them
// takes 0.03. It holds the file and its rows in memory, once. Rows that it gives out
// share their Raw and Extra with later ones, and must not be changed.
func (b *Inbox) Remembering() *Inbox {
	c := *b
	c.past = &past{}
	return &c
}

// past is an inbox as it was parsed last.
type past struct {
	mu    sync.Mutex
	data  []byte
	spans []rawjson.Span
	rows  []element
}

// element is one of the array, and the row that it is, if it is one.
type element struct {
	row Row
	is  bool
}

// parse finds the elements of data, and keeps it: it must not be changed any more.
func (p *past) parse(data []byte) ([]rawjson.Span, []element, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	equal := common(p.data, data)
	n := 0
	for n < len(p.spans) && p.spans[n].End < equal {
		n++
	}
	spans, err := elementsBehind(data, p.spans[:n])
	if err != nil {
		return nil, nil, err
	}
	rows := make([]element, len(spans))
	for i, s := range spans {
		e := &rows[i]
		if i < n {
			*e = p.rows[i]
			if e.is {
				e.row.Raw = s.Of(data) // or all that was ever read would be kept
			}
			continue
		}
		e.row, e.is = parseRow(s.Of(data))
		for name, value := range e.row.Extra {
			e.row.Extra[name] = json.RawMessage(bytes.Clone(value)) // the same
		}
	}
	p.data, p.spans, p.rows = data, spans, rows
	return spans, rows, nil
}

// common is how many bytes a and b have in common from their start.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
