package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// InexactError says where decoding would change what a JSON text says.
type InexactError struct {
	Path     string // of the value, as "mode.model" or "except.0"; "" for the whole
	Reason   string
	Repeated bool // it is a name that is there twice, and else not UTF-8
}

func (e *InexactError) Error() string {
	if e.Path == "" {
		return "it " + e.Reason
	}
	return fmt.Sprintf("%.80q %s", e.Path, e.Reason)
}

// Exact checks that decoding data as encoding/json does changes nothing: it replaces bytes
// that are not UTF-8, and halves of surrogate pairs, and of a name that is twice in an object
// it takes the last value. The error is an *[InexactError]. Whether data is JSON at all, the
// decoder tells: if it is not, Exact returns nil.
//
// It is for what people and programs tell us to do. Files of others are read as they are.
func Exact(data []byte) error {
	err := skipAll(jsontext.NewDecoder(bytes.NewBuffer(data))) // which is strict, unlike newDecoder
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || skipAll(newDecoder(data)) != nil {
		return nil
	}
	e := &InexactError{Path: strings.ReplaceAll(strings.Trim(string(syntax.JSONPointer), "/"), "/", ".")}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Reason, e.Repeated = "is there twice", true
	case !utf8.Valid(data):
		e.Reason = "is not valid UTF-8"
	default:
		e.Reason = "has half of a surrogate pair"
	}
	return e
}

// skipAll reads to the end.
func skipAll(dec *jsontext.Decoder) error {
	for {
		if err := dec.SkipValue(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
