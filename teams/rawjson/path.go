package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Made records the structure that [Put] has added besides the value, so that [Take] can remove exactly that.
type Made struct {
	Members int    `json:"members,omitempty"` // how many of the last members of the path were added
	Blank   string `json:"blank,omitempty"`   // the white space of the object or array that was empty before
}

// Follow returns the positions of the values along a path of names: the object in data, its member path[0],
// that object's member path[1], and so on, up to the first missing name. It fails if a value on the path is
// not an object, or has two members of the name.
func Follow(data []byte, path ...string) ([]Span, error) {
	whole := Span{len(data) - len(bytes.TrimLeft(data, space)), len(bytes.TrimRight(data, space))}
	if whole.Start > whole.End {
		return nil, errors.New("the file is empty")
	}
	spans := []Span{whole}
	for i := 0; i < len(path) && len(spans) == i+1; i++ {
		in := spans[i]
		if Kind(in.Of(data)) != '{' && i > 0 {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:i], "."))
		}
		fields, err := Fields(in.Of(data))
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			switch {
			case f.Name != path[i]:
			case len(spans) > i+1:
				return nil, fmt.Errorf("%s occurs twice", strings.Join(path[:i+1], "."))
			default:
				spans = append(spans, f.Value.Within(in))
			}
		}
	}
	return spans, nil
}

// FollowToArray is [Follow] for a path that leads to an array.
func FollowToArray(data []byte, path ...string) ([]Span, error) {
	spans, err := Follow(data, path...)
	if err == nil && len(spans) > len(path) && Kind(spans[len(path)].Of(data)) != '[' {
		return nil, fmt.Errorf("%s is not an array", strings.Join(path, "."))
	}
	return spans, err
}

// Put returns data with value added at the end of a path that must not exist yet, and a record of the added
// structure. All other bytes stay.
func Put(data []byte, path []string, value []byte) ([]byte, Made, error) {
	spans, err := Follow(data, path...)
	if err != nil {
		return nil, Made{}, err
	}
	there := len(spans) - 1 // how many members of the path exist
	if there == len(path) {
		return nil, Made{}, fmt.Errorf("%s exists already", strings.Join(path, "."))
	}
	for i := len(path) - 1; i > there; i-- {
		value = slices.Concat(AppendText([]byte("{"), path[i]), []byte(":"), value, []byte("}"))
	}
	m := Made{Members: len(path) - there, Blank: blank(data, spans[there])}
	data, err = AddField(data, spans[there], path[there], value)
	return data, m, err
}

// PutElement is [Put] for a new element at the end of the array at a path.
func PutElement(data []byte, path []string, value []byte) ([]byte, Made, error) {
	spans, err := FollowToArray(data, path...)
	if err != nil {
		return nil, Made{}, err
	}
	if len(spans) <= len(path) {
		return Put(data, path, slices.Concat([]byte("["), value, []byte("]")))
	}
	in := spans[len(path)]
	m := Made{Blank: blank(data, in)}
	data, err = AddElement(data, in, value)
	return data, m, err
}

// Take returns data without the value at a path. It also removes the structure that was added for the value,
// if that is now empty.
func Take(data []byte, path []string, m Made) ([]byte, error) {
	spans, err := Follow(data, path...)
	if err != nil || len(spans) <= len(path) {
		return data, err
	}
	for last := len(path) - 1; ; last-- {
		in := spans[last]
		fields, err := Fields(in.Of(data))
		if err != nil {
			return nil, err
		}
		if len(fields) > 1 || last == 0 || len(path)-last >= m.Members { // otherwise the object was added for the value
			i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == path[last] })
			return RemoveItem(data, in, i, m.Blank)
		}
	}
}

// TakeElement is [Take] for the i-th element of the array at a path.
func TakeElement(data []byte, path []string, i int, m Made) ([]byte, error) {
	spans, err := FollowToArray(data, path...)
	if err != nil || len(spans) <= len(path) {
		return data, err
	}
	if elements, err := Elements(spans[len(path)].Of(data)); err != nil || len(elements) > 1 || m.Members == 0 {
		return RemoveItem(data, spans[len(path)], i, m.Blank)
	}
	return Take(data, path, m)
}

// blank returns the white space in an object or array that is otherwise empty.
func blank(data []byte, in Span) string {
	if inside := string(data[in.Start+1 : in.End-1]); strings.Trim(inside, space) == "" {
		return inside
	}
	return ""
}
