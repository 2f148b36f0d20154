package rawjson

import (
	"errors"
	"testing"
)

func TestExact(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"text":"a","mode":{"model":"é😀\ud83d\ude00\\ud83d�"}}`: "",
		"[1, \"\ufffd\"]\n": "",
		` 1.0e5 `:           "",

		"{\"text\":\"caf\xe9\"}":            `"text" is not valid UTF-8`,
		"{\"mode\":{\"model\":\"\xff\"}}":   `"mode.model" is not valid UTF-8`,
		"{\"a\":1,\"caf\xe9\":2}":           `it is not valid UTF-8`,
		"\"\xed\xa0\x80\"":                  `it is not valid UTF-8`,
		`{"text":"x \ud83d y"}`:             `"text" has half of a surrogate pair`,
		`{"text":"\ude00\ud83d"}`:           `"text" has half of a surrogate pair`,
		`{"except":["a","\ud83d\ud83d"]}`:   `"except.1" has half of a surrogate pair`,
		`{"\udfff":1}`:                      `it has half of a surrogate pair`,
		`{"text":"a","text":"b"}`:           `"text" occurs twice`,
		`{"mode":{"a":1,"b":2,"\u0061":3}}`: `"mode.a" occurs twice`,
		`{"text":"a"}{"text":"\ud83d"}`:     `"text" has half of a surrogate pair`,

		// Not JSON, which decoders report.
		``: "", `{"text":`: "", "{\"text\":\"caf\xe9": "", `{"text":"\ud83d`: "", `{"a":1,"a":}`: "", `{} x`: "",
	} {
		err := Exact([]byte(data))
		if got := text(err); got != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
		if err != nil && !errors.As(err, new(*InexactError)) {
			t.Errorf("%q: %T", data, err)
		}
	}
}

// For a struct, encoding/json ignores the case of names.
func TestExactFold(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"Text":"a","answers":{"a":"1","A":"2"}}`: "",
		`[{"a":1,"A":2}]`:                          "",
		`{"text":`:                                 "",

		`{"text":"a","Text":"b"}`:       `"Text" occurs twice`,
		`{"asks":1,"a\u017fk\u017f":2}`: `"aſkſ" occurs twice`,
		`{"text":"\ud83d"}`:             `"text" has half of a surrogate pair`,
	} {
		if got := text(ExactFold([]byte(data))); got != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
