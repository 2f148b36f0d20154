package claude_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"teambridge/relay/claude"
)

const idA = "aaaaaaaa-0000-4000-8000-000000000000"

func TestNewFrame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hello", "two\nlines\r\nand more", "<b>&", "\u2028\u2029\x00\x1b[31m", "漢😀", `"quoted\"`, " /not blank", strings.Repeat("x", 1<<20),
	} {
		f, err := claude.NewFrame(idA, text)
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		if bytes.ContainsAny(f.Line, "\r\n") {
			t.Errorf("%.20q: its line has a line break", text)
		}
		var got struct {
			Type, UUID string
			Message    struct{ Role, Content string }
		}
		must(t, json.Unmarshal(f.Line, &got))
		if got.Type != "user" || got.UUID != idA || got.Message.Role != "user" || got.Message.Content != text {
			t.Errorf("got %.200s, want a user's message %.20q under %s", f.Line, text, idA)
		}
		again, err := claude.ParseFrame(f.Line)
		if err != nil || again.UUID != idA || !bytes.Equal(again.Line, f.Line) {
			t.Errorf("%.20q: parsed again: got %s, %v", text, again.UUID, err)
		}
		if want := strings.HasPrefix(strings.TrimSpace(text), "/"); again.Command != want {
			t.Errorf("%.20q: Command: got %t, want %t", text, again.Command, want)
		}
	}
}

// A frame that is blank, torn, not UTF-8, more than one line, or without a valid uuid is refused.
func TestFrameIsRefused(t *testing.T) {
	t.Parallel()
	for name, m := range map[string][2]string{
		"blank":              {idA, " \n\t"},
		"not UTF-8":          {idA, "a\xff"},
		"no uuid":            {"x", "hello"},
		"uuid in upper case": {strings.ToUpper(idA), "hello"},
	} {
		if f, err := claude.NewFrame(m[0], m[1]); !errors.Is(err, claude.ErrInvalid) {
			t.Errorf("%s: got %s, %v, want ErrInvalid", name, f.Line, err)
		}
	}
	good := `{"type":"user","message":{"role":"user","content":"hi"},"uuid":"` + idA + `"}`
	if _, err := claude.ParseFrame([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{
		"empty":              "",
		"blank":              " ",
		"torn":               good[:len(good)-1],
		"two lines":          good + "\n" + good,
		"carriage return":    strings.Replace(good, ",", ",\r", 1),
		"two values":         good + good,
		"not UTF-8":          strings.Replace(good, "hi", "\xff", 1),
		"a control request":  `{"type":"control_request","request_id":"x","request":{"subtype":"interrupt"},"uuid":"` + idA + `","message":{"role":"user","content":"x"}}`,
		"an assistant":       strings.Replace(good, `"role":"user"`, `"role":"assistant"`, 1),
		"keys in upper case": strings.Replace(good, "uuid", "UUID", 1),
		"no content":         strings.Replace(good, `"content":"hi"`, `"x":1`, 1),
		"an array":           "[" + good + "]",
		"content two values": strings.Replace(good, `"hi"`, `[{"a":1}] [{"a":1}]`, 1),
		"content no list":    strings.Replace(good, `"hi"`, `{"type":"text"}`, 1),
		"content empty":      strings.Replace(good, `"hi"`, `[]`, 1),
		"content no blocks":  strings.Replace(good, `"hi"`, `["text"]`, 1),
		"null":               "null",
	} {
		if f, err := claude.ParseFrame([]byte(line)); !errors.Is(err, claude.ErrInvalid) {
			t.Errorf("%s: got %s, %v, want ErrInvalid", name, f.Line, err)
		}
	}
}

// FuzzParseFrame checks that an accepted frame is one JSON object in one line.
func FuzzParseFrame(f *testing.F) {
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":"hi"},"uuid":"` + idA + `"}`))
	f.Add([]byte("{}\n{}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		frame, err := claude.ParseFrame(line)
		if err != nil {
			return
		}
		var object map[string]any
		if json.Unmarshal(frame.Line, &object) != nil || bytes.ContainsAny(frame.Line, "\r\n") || object["type"] != "user" {
			t.Fatalf("accepted %q", line)
		}
	})
}
