package rawjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// InexactError names the place where decoding would change the meaning of a JSON text.
type InexactError struct {
	Path     string // the path of the value, such as "mode.model" or "except.0"; "" for the whole text
	Reason   string
	Repeated bool // true for a repeated name, false for a fault of the encoding
}

func (e *InexactError) Error() string {
	if e.Path == "" {
		return "it " + e.Reason
	}
	return fmt.Sprintf("%.80q %s", e.Path, e.Reason)
}

// Exact checks that encoding/json would decode data without changing it. That package replaces invalid UTF-8
// and lone surrogates, and keeps only the last value of a repeated name. The error is an *[InexactError]. If
// data is not JSON at all, Exact returns nil and leaves the error to the decoder.
//
// It is for requests of people and programs, not for files of other programs.
func Exact(data []byte) error {
	err := skipAll(jsontext.NewDecoder(bytes.NewBuffer(data))) // strict, unlike newDecoder
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || skipAll(newDecoder(data)) != nil {
		return nil
	}
	e := &InexactError{Path: strings.ReplaceAll(strings.Trim(string(syntax.JSONPointer), "/"), "/", ".")}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Reason, e.Repeated = "occurs twice", true
	case !utf8.Valid(data):
		e.Reason = "is not valid UTF-8"
	default:
		e.Reason = "has half of a surrogate pair"
	}
	return e
}

// ExactFold is [Exact] and [Distinct].
func ExactFold(data []byte) error {
	return cmp.Or(Exact(data), Distinct(data))
}

// Distinct checks the names of an object that encoding/json decodes into a struct. The decoder ignores the case of
// names, so of text and Text it would keep only the last. Objects within the object may be maps, which keep both.
func Distinct(data []byte) error {
	fields, _ := Fields(data) // the decoder reports what is not an object
	seen := map[string]bool{}
	for _, f := range fields {
		name := strings.ToLower(strings.ToUpper(f.Name)) // also of the letters that equal k and s
		if seen[name] {
			return &InexactError{Path: f.Name, Reason: "occurs twice", Repeated: true}
		}
		seen[name] = true
	}
	return nil
}

// skipAll reads all values.
func skipAll(dec *jsontext.Decoder) error {
	for {
		if err := dec.SkipValue(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
