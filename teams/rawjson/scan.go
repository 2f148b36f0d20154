package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// The functions here find the values of a valid JSON text. They give up on any other text, in which the
// decoder then finds the error. An append scans the whole file. For 3.5 MB, which the disk copies in 4 ms,
// the decoder takes 10 ms, and this scan 1.5 ms. A fuzz test compares the two.
//
// Each function takes the offset at which a value begins, and returns the offset at which it ends, or failed
// if there is no such value. The offsets are arguments and results, because fields of a struct were slower by
// a third.

// failed is not an offset.
const failed = -1

// maxDepth limits the nesting of values inside the outermost one. It is the decoder's limit.
const maxDepth = 9999

// scanElements is [MoreElements] without the error.
func scanElements(data []byte, known []Span) (spans []Span, ok bool) {
	i := 0
	if n := len(known); n > 0 {
		spans = append(make([]Span, 0, n+(len(data)-known[n-1].End)/256+1), known...) // with room for some more
		if i = skipSpace(data, known[n-1].End); at(data, i) != ',' {
			return spans, at(data, i) == ']' && skipSpace(data, i+1) == len(data)
		}
	} else {
		if i = skipSpace(data, 0); at(data, i) != '[' {
			return nil, false
		}
		if end := skipSpace(data, i+1); at(data, end) == ']' {
			return nil, skipSpace(data, end+1) == len(data)
		}
		spans = make([]Span, 0, len(data)/256+1) // rows usually have at least 250 bytes
	}
	var stack []byte
	for {
		i = skipSpace(data, i+1) // past the bracket or the comma
		end := 0
		if end, stack = skipValue(data, i, stack); end == failed {
			return nil, false
		}
		spans = append(spans, Span{Start: i, End: end})
		if i = skipSpace(data, end); at(data, i) != ',' {
			return spans, at(data, i) == ']' && skipSpace(data, i+1) == len(data)
		}
	}
}

// scanFields is [Fields] without the names and the error.
func scanFields(data []byte) (fields []Field, ok bool) {
	i := skipSpace(data, 0)
	if at(data, i) != '{' {
		return nil, false
	}
	if end := skipSpace(data, i+1); at(data, end) == '}' {
		return nil, skipSpace(data, end+1) == len(data)
	}
	fields = make([]Field, 0, 10)
	var stack []byte
	for {
		var f Field
		f.Key.Start = skipSpace(data, i+1) // past the bracket or the comma
		if f.Key.End = skipText(data, f.Key.Start); f.Key.End == failed {
			return nil, false
		}
		if i = skipSpace(data, f.Key.End); at(data, i) != ':' {
			return nil, false
		}
		f.Value.Start = skipSpace(data, i+1)
		if f.Value.End, stack = skipValue(data, f.Value.Start, stack); f.Value.End == failed {
			return nil, false
		}
		fields = append(fields, f)
		if i = skipSpace(data, f.Value.End); at(data, i) != ',' {
			return fields, at(data, i) == '}' && skipSpace(data, i+1) == len(data)
		}
	}
}

// at returns the byte at i, or 0 after the end.
func at(data []byte, i int) byte {
	if uint(i) < uint(len(data)) {
		return data[i]
	}
	return 0
}

// skipSpace skips white space, perhaps to the end of data.
func skipSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && 1<<data[i]&(1<<' '|1<<'\n'|1<<'\r'|1<<'\t') != 0 {
		i++
	}
	return i
}

// skipValue skips the value that begins at i. It is not recursive, so that a text cannot decide how much
// stack is used. stack holds the expected closing brackets, innermost last. It is returned so that the next
// call can reuse its memory.
func skipValue(data []byte, i int, stack []byte) (end int, _ []byte) {
	stack = stack[:0]
	for {
		// Read a value, which may be the first of an array or an object.
		switch c := at(data, i); c {
		case '"':
			i = skipText(data, i)
		case '{', '[':
			if len(stack) == maxDepth {
				return failed, stack
			}
			closing := c + 2 // '}' and ']' are two after '{' and '['
			stack = append(stack, closing)
			if i = skipSpace(data, i+1); at(data, i) == closing {
				break // it is empty, and closed below
			}
			if c == '{' {
				if i = skipKey(data, i); i == failed {
					return failed, stack
				}
			}
			continue
		case 't':
			i = skipWord(data, i, "true")
		case 'f':
			i = skipWord(data, i, "false")
		case 'n':
			i = skipWord(data, i, "null")
		default:
			i = skipNumber(data, i)
		}
		if i == failed {
			return failed, stack
		}
		// After a value come the ends of its arrays and objects, or the next value.
		for {
			if len(stack) == 0 {
				return i, stack
			}
			i = skipSpace(data, i)
			c, due := at(data, i), stack[len(stack)-1]
			if c == due {
				i++
				stack = stack[:len(stack)-1]
				continue
			}
			if c != ',' {
				return failed, stack
			}
			i = skipSpace(data, i+1)
			if due == '}' {
				if i = skipKey(data, i); i == failed {
					return failed, stack
				}
			}
			break
		}
	}
}

// skipKey skips a name, its colon and the space after it.
func skipKey(data []byte, i int) int {
	if i = skipText(data, i); i == failed {
		return failed
	}
	if i = skipSpace(data, i); at(data, i) != ':' {
		return failed
	}
	return skipSpace(data, i+1)
}

func skipWord(data []byte, i int, word string) int {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return failed
	}
	return i + len(word)
}

// skipText skips the string that begins at i.
func skipText(data []byte, i int) int {
	if at(data, i) != '"' {
		return failed
	}
	i++
	for {
		// Skip eight bytes at a time, up to the first byte with a meaning. The arithmetic marks the high bit
		// of each such byte: x^2 makes a quote (0x22) the first value after the control characters. The
		// lowest mark is always right; marks above it can be false.
		for len(data)-i >= 8 {
			const ones, highs = 0x0101010101010101, 0x8080808080808080
			x := binary.LittleEndian.Uint64(data[i:])
			slash := x ^ ones*'\\'
			mark := (((x^ones*2)-ones*0x21)&^x | (slash-ones)&^slash) & highs
			if mark != 0 {
				i += bits.TrailingZeros64(mark) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return failed
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return failed
		case c != '\\':
			i++ // one of the last seven bytes
			continue
		}
		switch at(data, i+1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for _, h := range []byte{at(data, i+2), at(data, i+3), at(data, i+4), at(data, i+5)} {
				if !('0' <= h && h <= '9' || 'a' <= h|0x20 && h|0x20 <= 'f') {
					return failed
				}
			}
			i += 6
		default:
			return failed
		}
	}
}

// skipNumber skips the number that begins at i.
func skipNumber(data []byte, i int) int {
	if at(data, i) == '-' {
		i++
	}
	if at(data, i) == '0' {
		i++
	} else if i = skipDigits(data, i); i == failed {
		return failed
	}
	if at(data, i) == '.' {
		if i = skipDigits(data, i+1); i == failed {
			return failed
		}
	}
	if at(data, i)|0x20 == 'e' {
		i++
		if c := at(data, i); c == '+' || c == '-' {
			i++
		}
		return skipDigits(data, i)
	}
	return i
}

// skipDigits skips at least one digit.
func skipDigits(data []byte, i int) int {
	start := i
	for '0' <= at(data, i) && at(data, i) <= '9' {
		i++
	}
	if i == start {
		return failed
	}
	return i
}
