package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
)

// AddElement returns data with value added as the last element of the array at in. The style follows the
// array's last element. In an empty array, it follows the lines of data: an indentation by two spaces, or no
// indentation if data has no lines.
//
// In an empty array, the element replaces the white space.
func AddElement(data []byte, in Span, value []byte) ([]byte, error) {
	items, err := items(data, in)
	if err != nil {
		return nil, err
	}
	return addItem(data, in, items, "", value)
}

// AddField is [AddElement] for a member of the object at in. It does not check for a member of the same name.
func AddField(data []byte, in Span, name string, value []byte) ([]byte, error) {
	fields, err := Fields(in.Of(data))
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	colon := ": "
	if n := len(fields); n > 0 {
		last := fields[n-1]
		colon = string(Span{last.Key.End, last.Value.Start}.Of(in.Of(data)))
	} else if bytes.IndexByte(data, '\n') < 0 {
		colon = ":"
	}
	return addItem(data, in, itemsOf(fields, in), string(key)+colon, value)
}

// RemoveItem returns data without the i-th element of the array, or member of the object, at in. It also
// removes one comma, as [Remove] does. If the item was the only one, blank is the new text between the
// brackets.
func RemoveItem(data []byte, in Span, i int, blank string) ([]byte, error) {
	items, err := items(data, in)
	if err != nil {
		return nil, err
	}
	if i >= 0 && i < len(items) && len(items) == 1 {
		return slices.Concat(data[:in.Start+1], []byte(blank), data[in.End-1:]), nil
	}
	return removeItem(data, items, i)
}

// items returns the ranges in data of the elements of the array, or the members of the object, at in.
func items(data []byte, in Span) ([]Span, error) {
	if Kind(in.Of(data)) == '{' {
		fields, err := Fields(in.Of(data))
		return itemsOf(fields, in), err
	}
	spans, err := Elements(in.Of(data))
	for i := range spans {
		spans[i] = spans[i].Within(in)
	}
	return spans, err
}

func itemsOf(fields []Field, in Span) []Span {
	spans := make([]Span, len(fields))
	for i, f := range fields {
		spans[i] = Span{f.Key.Start, f.Value.End}.Within(in)
	}
	return spans
}

// Within translates s, a range within the bytes of in, to a range in the text that contains in.
func (s Span) Within(in Span) Span { return Span{in.Start + s.Start, in.Start + s.End} }

// addItem adds prefix and value after the items in the brackets at in.
func addItem(data []byte, in Span, items []Span, prefix string, value []byte) ([]byte, error) {
	var lead, tail []byte // the layout before and after the item
	rest := Span{in.Start + 1, in.End - 1}
	if n := len(items); n > 0 {
		rest = Span{items[n-1].End, items[n-1].End}
		lead = leading(data, items[n-1].Start)
	} else if nl := bytes.IndexByte(data, '\n'); nl >= 0 {
		eol := "\n"
		if nl > 0 && data[nl-1] == '\r' {
			eol = "\r\n"
		}
		line := data[bytes.LastIndexByte(data[:in.Start], '\n')+1 : in.Start]
		outer := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		lead = slices.Concat([]byte(eol), outer, []byte(unit(string(outer))))
		tail = slices.Concat([]byte(eol), outer)
	}
	value, lead, err := laidOut(value, lead)
	if err != nil {
		return nil, err
	}
	comma := ""
	if len(items) > 0 {
		comma = ","
	}
	return slices.Concat(data[:rest.Start], []byte(comma), lead, []byte(prefix), value, tail, data[rest.End:]), nil
}

// laidOut formats elem as an item after the white space lead. It returns the part of lead to repeat.
func laidOut(elem, lead []byte) ([]byte, []byte, error) {
	nl := bytes.IndexByte(lead, '\n')
	if nl < 0 {
		return elem, lead, nil
	}
	eol := "\n"
	if nl > 0 && lead[nl-1] == '\r' {
		eol = "\r\n"
	}
	// Only the part after the last line end is indentation: a blank line before the element is not repeated
	// inside it.
	pad := string(lead[bytes.LastIndexByte(lead, '\n')+1:])
	elem, err := indented(elem, eol, pad)
	return elem, []byte(eol + pad), err
}
