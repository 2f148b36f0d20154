package claude_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"teambridge/relay/claude"
)

func TestNewFrame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hello", "two\nlines\r\nand more", "<b>&", "\u2028\u2029\x00\x1b[31m", "漢😀", `"quoted\"`, " /not blank", strings.Repeat("x", 1<<20),
	} {
		f, err := claude.NewFrame(claude.Message{UUID: idA, Text: text})
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		if bytes.ContainsAny(f.Bytes(), "\r\n") {
			t.Errorf("%.20q: its line has a line break", text)
		}
		var got struct {
			Type, UUID string
			Message    struct{ Role, Content string }
		}
		if err := json.Unmarshal(f.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Type != "user" || got.UUID != idA || got.Message.Role != "user" || got.Message.Content != text {
			t.Errorf("got %.200s, want a user's message %.20q under %s", f.Bytes(), text, idA)
		}
		again, err := claude.ParseFrame(f.Bytes())
		if err != nil || again.UUID() != idA || !bytes.Equal(again.Bytes(), f.Bytes()) {
			t.Errorf("%.20q: parsed again: got %s, %v", text, again.UUID(), err)
		}
		if want := strings.HasPrefix(strings.TrimSpace(text), "/"); again.IsSlash() != want {
			t.Errorf("%.20q: IsSlash: got %t, want %t", text, again.IsSlash(), want)
		}
	}

	f, err := claude.NewFrame(claude.Message{Content: json.RawMessage("[{\"type\":\"text\",\n\"text\":\"hi\"}]")})
	if err != nil || bytes.ContainsAny(f.Bytes(), "\r\n") || f.UUID() == "" {
		t.Errorf("blocks: got %s, %v, want one line under a new uuid", f.Bytes(), err)
	}
}

func TestFrameIsRefused(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]claude.Message{
		"blank":               {Text: " \n\t"},
		"not UTF-8":           {Text: "a\xff"},
		"no uuid":             {UUID: "x", Text: "hello"},
		"uuid in upper case":  {UUID: strings.ToUpper(idA), Text: "hello"},
		"content no JSON":     {Content: json.RawMessage(`[{"type":`)},
		"content two values":  {Content: json.RawMessage(`[{"a":1}] [{"a":1}]`)},
		"content no list":     {Content: json.RawMessage(`{"type":"text"}`)},
		"content empty":       {Content: json.RawMessage(`[]`)},
		"content no blocks":   {Content: json.RawMessage(`["text"]`)},
		"content ends a line": {Content: json.RawMessage("[]\n{\"type\":\"control_request\"}")},
	} {
		if f, err := claude.NewFrame(m); !errors.Is(err, claude.ErrInvalid) {
			t.Errorf("%s: got %s, %v, want ErrInvalid", name, f.Bytes(), err)
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
		"null":               "null",
	} {
		if f, err := claude.ParseFrame([]byte(line)); !errors.Is(err, claude.ErrInvalid) {
			t.Errorf("%s: got %s, %v, want ErrInvalid", name, f.Bytes(), err)
		}
	}
}

// FuzzParseFrame holds that whatever is accepted is one JSON object in one line.
func FuzzParseFrame(f *testing.F) {
	f.Add([]byte(`{"type":"user","message":{"role":"user","content":"hi"},"uuid":"` + idA + `"}`))
	f.Add([]byte("{}\n{}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		frame, err := claude.ParseFrame(line)
		if err != nil {
			return
		}
		var object map[string]any
		if json.Unmarshal(frame.Bytes(), &object) != nil || bytes.ContainsAny(frame.Bytes(), "\r\n") || object["type"] != "user" {
			t.Fatalf("accepted %q", line)
		}
	})
}
