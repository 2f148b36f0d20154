package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// A scan finds the values of a text that is JSON, and gives up on any other:
// what is wrong with it, and whether it is wrong at all, is for the decoder to
// say. It is here because an append looks through the whole file, and the
// decoder took 10 ms of the 5 that a 3.5 MB file may cost beyond the disk's own
// time; this takes 2. A fuzz test holds the two to each other.
type scan struct {
	data []byte
	i    int    // where the scan is
	open []byte // the closing brackets that are due, innermost last
}

// maxScan is the depth at which a scan gives up.
const maxScan = 1000

// elements is the fast path of [Elements].
func (s *scan) elements() (spans []Span, ok bool) {
	if s.space() != '[' {
		return nil, false
	}
	s.i++
	if s.space() == ']' {
		s.i++
		return nil, s.ended()
	}
	// Rows have 250 bytes and more, as a rule.
	spans = make([]Span, 0, len(s.data)/256+1)
	for {
		s.space()
		start := s.i
		if !s.value() {
			return nil, false
		}
		spans = append(spans, Span{Start: start, End: s.i})
		switch s.space() {
		case ',':
			s.i++
		case ']':
			s.i++
			return spans, s.ended()
		default:
			return nil, false
		}
	}
}

// fields is the fast path of [Fields], without the names.
func (s *scan) fields() (fields []Field, ok bool) {
	if s.space() != '{' {
		return nil, false
	}
	s.i++
	if s.space() == '}' {
		s.i++
		return nil, s.ended()
	}
	fields = make([]Field, 0, 10)
	for {
		s.space()
		var f Field
		f.Key.Start = s.i
		if !s.text() {
			return nil, false
		}
		f.Key.End = s.i
		if s.space() != ':' {
			return nil, false
		}
		s.i++
		s.space()
		f.Value.Start = s.i
		if !s.value() {
			return nil, false
		}
		f.Value.End = s.i
		fields = append(fields, f)
		switch s.space() {
		case ',':
			s.i++
		case '}':
			s.i++
			return fields, s.ended()
		default:
			return nil, false
		}
	}
}

// space goes on to what is no white space and returns it, 0 at the end.
func (s *scan) space() byte {
	data, i := s.data, s.i
	for i < len(data) {
		switch c := data[i]; c {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			s.i = i
			return c
		}
	}
	s.i = i
	return 0
}

// ended reports whether nothing but white space follows.
func (s *scan) ended() bool {
	s.space()
	return s.i == len(s.data)
}

// value goes past the value that begins here. It does not call itself, so that
// a text cannot decide how much stack is used.
func (s *scan) value() bool {
	s.open = s.open[:0]
	for {
		// A value, which may be the first of an array or an object.
		switch c := s.space(); c {
		case '"':
			if !s.text() {
				return false
			}
		case '{', '[':
			s.i++
			if len(s.open) == maxScan {
				return false
			}
			s.open = append(s.open, c+2) // '}' and ']' come two behind
			if s.space() == c+2 {
				break // nothing in it; closed below
			}
			if c == '{' && !s.key() {
				return false
			}
			continue
		case 't':
			if !s.word("true") {
				return false
			}
		case 'f':
			if !s.word("false") {
				return false
			}
		case 'n':
			if !s.word("null") {
				return false
			}
		default:
			if !s.number() {
				return false
			}
		}
		// What follows it: the ends of what it is in, or the next.
		for {
			if len(s.open) == 0 {
				return true
			}
			due := s.open[len(s.open)-1]
			c := s.space()
			if c == due {
				s.i++
				s.open = s.open[:len(s.open)-1]
				continue
			}
			if c != ',' {
				return false
			}
			s.i++
			if due == '}' && !s.key() {
				return false
			}
			break
		}
	}
}

// key goes past a name and its colon.
func (s *scan) key() bool {
	if s.space() != '"' || !s.text() || s.space() != ':' {
		return false
	}
	s.i++
	return true
}

func (s *scan) word(w string) bool {
	if len(s.data)-s.i < len(w) || string(s.data[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// text goes past the string that begins here.
func (s *scan) text() bool {
	if s.i >= len(s.data) || s.data[s.i] != '"' {
		return false
	}
	data, i := s.data, s.i+1
	for {
		// Eight bytes at a time up to the first that means something. The
		// arithmetic marks the high bit of each byte that is below 0x20, a quote
		// or a backslash; marks above the first one can be false, the first is
		// right.
		for len(data)-i >= 8 {
			const ones, highs = 0x0101010101010101, 0x8080808080808080
			x := binary.LittleEndian.Uint64(data[i:])
			quote, slash := x^(ones*'"'), x^(ones*'\\')
			mark := ((x-ones*0x20)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if mark != 0 {
				i += bits.TrailingZeros64(mark) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return false
		}
		switch c := data[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c < 0x20:
			return false
		case c != '\\':
			i++ // one of the last seven bytes
			continue
		}
		if i+1 >= len(data) {
			return false
		}
		switch data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if len(data)-i < 6 {
				return false
			}
			for _, h := range data[i+2 : i+6] {
				if !('0' <= h && h <= '9' || 'a' <= h|0x20 && h|0x20 <= 'f') {
					return false
				}
			}
			i += 6
		default:
			return false
		}
	}
}

// number goes past the number that begins here.
func (s *scan) number() bool {
	if s.at() == '-' {
		s.i++
	}
	switch c := s.at(); {
	case c == '0':
		s.i++
	case '1' <= c && c <= '9':
		s.digits()
	default:
		return false
	}
	if s.at() == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.at()|0x20 == 'e' {
		s.i++
		if c := s.at(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return true
}

// digits goes past at least one digit.
func (s *scan) digits() bool {
	start := s.i
	for '0' <= s.at() && s.at() <= '9' {
		s.i++
	}
	return s.i > start
}

// at returns the byte here, 0 at the end.
func (s *scan) at() byte {
	if s.i < len(s.data) {
		return s.data[s.i]
	}
	return 0
}
