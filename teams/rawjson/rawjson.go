// Package rawjson finds the byte ranges of the values in a JSON text. It adds or removes one element of an
// array, or one member of an object, without changing any other byte.
//
// It is for files that belong to other programs. To encode such a file again could change its meaning: the
// spelling of a number, the order and the repetition of keys, an escaped lone surrogate. So this package
// encodes nothing again: a change is a splice, and all other bytes stay.
//
// It accepts the same texts as JavaScript's JSON.parse, which the other programs use. Duplicate keys, lone
// surrogate escapes and invalid UTF-8 (which Node replaces when it decodes the file) are valid. A byte order
// mark, trailing commas and trailing data are not. One limit is our own: values nested deeper than 10,000
// levels are refused.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is the half-open byte range [Start, End) of a value, without the surrounding white space.
type Span struct{ Start, End int }

// Of returns the bytes of data that s covers. The result shares data's memory.
func (s Span) Of(data []byte) []byte { return data[s.Start:s.End] }

// Field is one member of a JSON object: its decoded name, and the ranges of its key and value. A repeated
// name yields several fields, in file order.
type Field struct {
	Name       string
	Key, Value Span
}

// SyntaxError means that data is not the expected JSON text.
type SyntaxError struct {
	Offset int64  // bytes from the start of data
	Reason string // the fault, without the offset
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
}

// Kind returns the kind of value that the JSON text v begins with: '{', '[', '"', '0' for a number, 't', 'f',
// 'n', or 0 if v is blank or begins with no value.
func Kind(v []byte) byte {
	v = bytes.TrimLeft(v, space)
	if len(v) == 0 {
		return 0
	}
	switch c := v[0]; {
	case c == '-' || '0' <= c && c <= '9':
		return '0'
	case strings.IndexByte(`{["tfn`, c) >= 0:
		return c
	}
	return 0
}

// Noun names the kind of the JSON text v, such as "an array" or "a string".
func Noun(v []byte) string { return kindName(jsontext.Kind(Kind(v))) }

// Word is [Noun] in everyday words, such as "a list" or "a text".
func Word(v []byte) string {
	switch Kind(v) {
	case '[':
		return "a list"
	case '"':
		return "a text"
	}
	return Noun(v)
}

// AppendText appends text to b as a JSON string, quoted as in RFC 8785 and JavaScript. In contrast,
// encoding/json always escapes U+2028 and U+2029. Invalid UTF-8 becomes U+FFFD.
func AppendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // an error only means that invalid UTF-8 was replaced
	return b
}

// Encode encodes v as JavaScript does, without escaping <, > and &.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// space is the white space of RFC 8259.
const space = " \t\r\n"

// Elements returns the ranges of the elements of data, which must be one JSON array. White space around the
// array is allowed. For other data, such as another kind of value, a truncated value, or data after the
// value, the error is a [*SyntaxError].
func Elements(data []byte) ([]Span, error) { return MoreElements(data, nil) }

// MoreElements is [Elements] for a text that begins like another one, whose elements are known. The elements
// in known must be in both texts, with at least one equal byte after the last of them. Only the rest of data
// is scanned.
func MoreElements(data []byte, known []Span) ([]Span, error) {
	spans, ok := scanElements(data, known)
	if !ok {
		return nil, explain(data, '[')
	}
	return spans, nil
}

// Fields returns the members of data, which must be one JSON object, in file order, including repeated names.
// The errors are those of [Elements].
func Fields(data []byte) ([]Field, error) {
	fields, ok := scanFields(data)
	if !ok {
		return nil, explain(data, '{')
	}
	for i := range fields {
		name, err := Text(fields[i].Key.Of(data))
		if err != nil {
			return nil, err
		}
		fields[i].Name = name
	}
	return fields, nil
}

// Text decodes the JSON string v. Lone surrogates and invalid UTF-8 become U+FFFD, as when Node writes such a
// string. For any other kind of value, the error is a [*SyntaxError].
func Text(v []byte) (string, error) {
	v = bytes.Trim(v, space)
	if len(v) < 2 || v[0] != '"' {
		return "", &SyntaxError{Reason: "not a JSON string"}
	}
	// A string without escapes, which is the common case, needs no decoder.
	if in := v[1 : len(v)-1]; v[len(v)-1] == '"' && plain(in) {
		return string(in), nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil && !jsontext.Value(v).IsValid(jsontext.AllowInvalidUTF8(true)) { // otherwise all of v was decoded
		return "", syntaxError(err, v)
	}
	return string(b), nil
}

// plain reports whether in needs no decoding inside a JSON string.
func plain(in []byte) bool {
	for _, c := range in {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Append returns array with elem, a compact JSON text, added as its last element. The style follows the
// array: its line ends, its indentation, or none. outer is the indentation of the line with the closing
// bracket. It is only used if array is empty and so has no style; the element is then indented by 2 more
// spaces. The errors are those of [Elements]. Append does not change array itself.
func Append(array, elem []byte, outer string) ([]byte, error) {
	spans, err := Elements(array)
	if err != nil {
		return nil, err
	}
	return AppendTo(slices.Clip(array), spans, elem, outer)
}

// AppendTo is [Append] for a caller that already has the result of [Elements], and no longer needs array:
// like the built-in append, it writes into array's memory if there is room. To scan a large array and to copy
// it are most of the cost of Append.
func AppendTo(array []byte, spans []Span, elem []byte, outer string) ([]byte, error) {
	if len(spans) == 0 {
		open := bytes.IndexByte(array, '[')
		shut := bytes.LastIndexByte(array, ']')
		if open < 0 || shut < open {
			return nil, &SyntaxError{Reason: "not a JSON array"}
		}
		row, err := indented(elem, "\n", outer+"  ")
		if err != nil {
			return nil, err
		}
		return slices.Concat(array[:open+1], []byte("\n"+outer+"  "), row, []byte("\n"+outer), array[shut:]), nil
	}
	last := spans[len(spans)-1]
	row, lead, err := laidOut(elem, leading(array, last.Start))
	if err != nil {
		return nil, err
	}
	return slices.Insert(array, last.End, slices.Concat([]byte(","), lead, row)...), nil
}

// Remove returns array without its i-th element and one comma; all other bytes stay. It is the inverse of
// [Append], except that it does not restore white space inside an array that was empty. If i is out of range,
// it fails; the other errors are those of [Elements].
func Remove(array []byte, i int) ([]byte, error) {
	spans, err := Elements(array)
	if err != nil {
		return nil, err
	}
	if len(spans) == 1 && i == 0 {
		open := bytes.IndexByte(array, '[')
		shut := bytes.LastIndexByte(array, ']')
		return slices.Concat(array[:open+1], array[shut:]), nil
	}
	return removeItem(array, spans, i)
}

// removeItem returns data without the i-th of several items.
func removeItem(data []byte, items []Span, i int) ([]byte, error) {
	switch {
	case i < 0 || i >= len(items):
		return nil, fmt.Errorf("rawjson: no element %d in an array of %d", i, len(items))
	case i > 0:
		return slices.Concat(data[:items[i-1].End], data[items[i].End:]), nil
	default:
		return slices.Concat(data[:items[0].Start], data[items[1].Start:]), nil
	}
}

// leading returns the white space before the value that starts at start.
func leading(data []byte, start int) []byte {
	i := start
	for i > 0 && strings.IndexByte(space, data[i-1]) >= 0 {
		i--
	}
	return data[i:start]
}

// indented formats elem over several lines. All lines but the first are indented by pad.
func indented(elem []byte, eol, pad string) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, elem, pad, unit(pad)); err != nil {
		return nil, fmt.Errorf("rawjson: element to add: %w", err)
	}
	if eol == "\n" {
		return buf.Bytes(), nil
	}
	// A JSON string contains no raw line feed, so each line feed is layout.
	return bytes.ReplaceAll(buf.Bytes(), []byte("\n"), []byte(eol)), nil
}

// unit returns one further step of indentation for a line that begins with pad.
func unit(pad string) string {
	if strings.HasPrefix(pad, "\t") {
		return "\t"
	}
	return "  "
}

func newDecoder(data []byte) *jsontext.Decoder {
	// The decoder reads a bytes.Buffer in place, without a copy.
	return jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// explain returns the syntax error in data. The scan did not recognize data as one value that begins with
// bracket.
func explain(data []byte, bracket jsontext.Kind) error {
	dec := newDecoder(data)
	if kind := dec.PeekKind(); kind != bracket && kind != 0 {
		at := len(data) - len(bytes.TrimLeft(data, space))
		return &SyntaxError{Offset: int64(at), Reason: fmt.Sprintf("%s where %s is expected", kindName(kind), kindName(bracket))}
	}
	_, err := dec.ReadToken()
	for err == nil && dec.StackDepth() > 0 {
		if kind := dec.PeekKind(); kind == ']' || kind == '}' {
			_, err = dec.ReadToken()
		} else {
			_, err = dec.ReadValue()
		}
	}
	if err != nil {
		return syntaxError(err, data)
	}
	rest := bytes.TrimLeft(data[dec.InputOffset():], space)
	return &SyntaxError{Offset: int64(len(data) - len(rest)), Reason: "data after the end of the value"}
}

func syntaxError(err error, data []byte) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		if len(bytes.TrimLeft(data, space)) == 0 {
			return &SyntaxError{Offset: int64(len(data)), Reason: "no JSON value"}
		}
		return &SyntaxError{Offset: int64(len(data)), Reason: "cut-off JSON value"}
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		return &SyntaxError{Offset: syn.ByteOffset, Reason: strings.TrimPrefix(syn.Err.Error(), "jsontext: ")}
	}
	return &SyntaxError{Reason: err.Error()}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "an invalid value"
}
