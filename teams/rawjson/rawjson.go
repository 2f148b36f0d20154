// Package rawjson finds the byte ranges of the values in a JSON text, and adds
// or removes one element of an array, or one member of an object, without
// touching any other byte.
//
// The files it is for belong to other programs. Re-encoding them would rewrite what those programs meant: the
// spelling of a number, the order and the repetition of keys, an escaped lone surrogate. So nothing here
// re-encodes: a change is a splice, and all other bytes stay.
//
// It accepts what JavaScript's JSON.parse accepts, since the other programs use that: duplicate keys, lone
// surrogate escapes and invalid UTF-8 (which Node replaces when it decodes the file) are valid; a byte order
// mark, trailing commas and trailing data are not. One limit is ours: values nested deeper than 10,000 levels
// are refused.
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

// Span is the half-open byte range [Start, End) of a value, without the white
// space around it.
type Span struct{ Start, End int }

// Of returns the bytes of data that s covers. The result shares data's memory.
func (s Span) Of(data []byte) []byte { return data[s.Start:s.End] }

// Field is one member of a JSON object: its decoded name and where its key and
// its value stand. A name that occurs twice gives two fields, in file order.
type Field struct {
	Name       string
	Key, Value Span
}

// SyntaxError reports that data is not the expected JSON text, and at which byte.
type SyntaxError struct {
	Offset int64  // bytes from the start of data
	Reason string // what was found, without the offset
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
}

// Kind tells what sort of value the JSON text v begins with: '{', '[', '"',
// '0' for a number, 't', 'f', 'n', or 0 when v is blank or begins with none.
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

// Noun names the kind of the JSON text v: "an array", "a string".
func Noun(v []byte) string { return kindName(jsontext.Kind(Kind(v))) }

// Word is [Noun] in words for people who made a mistake: "a list", "a text".
func Word(v []byte) string {
	switch Kind(v) {
	case '[':
		return "a list"
	case '"':
		return "a text"
	}
	return Noun(v)
}

// AppendText appends text to b as a JSON string, quoted as RFC 8785, and so JavaScript, does:
// encoding/json always escapes U+2028 and U+2029, which these do not. What is not UTF-8 in it
// becomes U+FFFD.
func AppendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // an error says that something was replaced
	return b
}

// Encode encodes v as JavaScript does: <, > and & are not escaped.
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

// Elements returns the ranges of the elements of the one JSON array that data
// is. White space around the array is allowed, anything else is a
// [*SyntaxError]: another kind of value, a truncated one, data after it.
func Elements(data []byte) ([]Span, error) { return MoreElements(data, nil) }

// MoreElements is [Elements] for a text that begins like another, whose elements are
// known: those of known stand in both, with at least one equal byte after the last
// of them. Only what follows is looked through.
func MoreElements(data []byte, known []Span) ([]Span, error) {
	spans, ok := scanElements(data, known)
	if !ok {
		return nil, explain(data, '[')
	}
	return spans, nil
}

// Fields returns the members of the one JSON object that data is, in file
// order, repeated names included. Errors are as in [Elements].
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

// Text decodes the JSON string v. A lone surrogate and a byte that is not
// UTF-8 become U+FFFD, as they do when Node writes such a string as UTF-8.
// Any other kind of value is a [*SyntaxError].
func Text(v []byte) (string, error) {
	v = bytes.Trim(v, space)
	if len(v) < 2 || v[0] != '"' {
		return "", &SyntaxError{Reason: "not a JSON string"}
	}
	// The common string has no escape: no decoder needed.
	if in := v[1 : len(v)-1]; v[len(v)-1] == '"' && plain(in) {
		return string(in), nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil && !invalidUTF8(err, v) {
		return "", syntaxError(err, v)
	}
	return string(b), nil
}

// plain reports whether in stands for itself inside a JSON string.
func plain(in []byte) bool {
	for _, c := range in {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// invalidUTF8 reports whether err complains about nothing but the encoding:
// AppendUnquote has then still decoded all of v.
func invalidUTF8(err error, v []byte) bool {
	return err != nil && jsontext.Value(v).IsValid(jsontext.AllowInvalidUTF8(true))
}

// Append returns array with elem, a compact JSON text, spliced in as its last
// element, in the style in which the array is written: its line ends, its
// indentation, or none. outer is the indentation of the line on which the
// closing bracket stands; it is only used where array is empty and so has no
// style of its own (2 spaces deeper is then taken for the element).
// Errors are as in [Elements]; array itself is never changed.
func Append(array, elem []byte, outer string) ([]byte, error) {
	spans, err := Elements(array)
	if err != nil {
		return nil, err
	}
	return AppendTo(slices.Clip(array), spans, elem, outer)
}

// AppendTo is [Append] for a caller that has the ranges of array's elements
// from [Elements] already, and does not need array any more: like the built-in
// append it writes into array's memory where that has room. Looking through a
// large array once and copying it are most of the cost.
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

// Remove returns array without its i-th element and the comma that goes with
// it; what stands around keeps its bytes. Removing what [Append] added gives
// the array as it was, except that white space inside an array that was empty
// is not brought back. i out of range is an error, others are as in [Elements].
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

// indented spreads elem over several lines, indenting all but the first by pad.
func indented(elem []byte, eol, pad string) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.Indent(&buf, elem, pad, unit(pad)); err != nil {
		return nil, fmt.Errorf("rawjson: element to add: %w", err)
	}
	if eol == "\n" {
		return buf.Bytes(), nil
	}
	// A JSON string holds no raw line feed, so each one is layout.
	return bytes.ReplaceAll(buf.Bytes(), []byte("\n"), []byte(eol)), nil
}

// unit returns one more step of indentation for a line that begins with pad.
func unit(pad string) string {
	if strings.HasPrefix(pad, "\t") {
		return "\t"
	}
	return "  "
}

func newDecoder(data []byte) *jsontext.Decoder {
	// A bytes.Buffer is read in place, without a copy.
	return jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// explain returns the syntax error in data, which a scan did not recognize as one value that begins with
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
