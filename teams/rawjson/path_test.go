package rawjson

import (
	"bytes"
	"testing"
)

// A value that was put into a text is there, and taking it out restores the text, byte for byte.
func FuzzPutTake(f *testing.F) {
	for _, text := range []string{
		"{}", "{}\n", "{ \r\n}", "{\r\n  \"a\": 1\r\n}", `{"x":{}}`, `{"x": { } }`, `{"x":{"y":[ ]}}`, `{"x":{"y":[1, 2]}}`, "{\n\t\"x\": {\n\t\t\"z\": null\n\t}\n}\n",
		`{"x":1}`, `{"x":{"y":{}}}`, `{"x":{},"x":{}}`, `[]`, ``, " \n", `{"a":1e3,"a":"\ud800"}`, "{\"a\":\"caf\xe9\"}", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(text))
	}
	path := []string{"x", "y"}
	f.Fuzz(func(t *testing.T, data []byte) {
		old := bytes.Clone(data)
		spans, followed := Follow(data, path...)
		if with, m, err := Put(data, path, []byte("7")); err == nil {
			if now, err := Follow(with, path...); err != nil || len(now) != 3 || string(now[2].Of(with)) != "7" {
				t.Fatalf("%q became %q: %v", data, with, err)
			}
			if back, err := Take(with, path, m); err != nil || !bytes.Equal(back, old) {
				t.Fatalf("%q became %q, and is %q again (%v)", old, with, back, err)
			}
		} else if followed == nil && len(spans) < 3 {
			if _, err := Fields(spans[len(spans)-1].Of(data)); err == nil {
				t.Fatalf("%q: %v", data, err)
			}
		}
		if with, m, err := PutElement(data, path, []byte(`{"a":1}`)); err == nil {
			now, err := FollowToArray(with, path...)
			if err != nil || len(now) != 3 {
				t.Fatalf("%q became %q: %v", data, with, err)
			}
			elements, err := Elements(now[2].Of(with))
			if err != nil || len(elements) == 0 {
				t.Fatalf("%q became %q: %v", data, with, err)
			}
			if back, err := TakeElement(with, path, len(elements)-1, m); err != nil || !bytes.Equal(back, old) {
				t.Fatalf("%q became %q, and is %q again (%v)", old, with, back, err)
			}
		}
		if !bytes.Equal(data, old) {
			t.Fatalf("%q became %q in place", old, data)
		}
	})
}

// Values that others added to an object or array that Put made stay, and so does that object or array.
func TestTakeBesideOthers(t *testing.T) {
	t.Parallel()
	path := []string{"x", "y"}
	for text, want := range map[string]string{
		`{"x":{"y":7}}`:             `{}`,
		`{"x":{"y":7,"z":1}}`:       `{"x":{"z":1}}`,
		`{"a":1,"x":{"y":7}}`:       `{"a":1}`,
		`{"x":{"z":1}}`:             `{"x":{"z":1}}`,
		`{"a":1}`:                   `{"a":1}`,
		`{"b":{"y":7},"x":{"y":7}}`: `{"b":{"y":7}}`,
	} {
		if got, err := Take([]byte(text), path, Made{Members: 2}); err != nil || string(got) != want {
			t.Errorf("%s without it is %s (%v), want %s", text, got, err, want)
		}
	}
	for _, c := range []struct {
		text    string
		members int
		want    string
	}{
		{`{"x":{"y":[7]}}`, 2, `{}`},
		{`{"x":{"y":[7]}}`, 1, `{"x":{}}`},
		{`{"x":{"y":[7]}}`, 0, `{"x":{"y":[]}}`},
		{`{"x":{"y":[7,8]}}`, 2, `{"x":{"y":[8]}}`},
		{`{"x":{"y":[7],"z":1}}`, 2, `{"x":{"z":1}}`},
	} {
		if got, err := TakeElement([]byte(c.text), path, 0, Made{Members: c.members}); err != nil || string(got) != c.want {
			t.Errorf("%s without the first is %s (%v), want %s", c.text, got, err, c.want)
		}
	}
}
