package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// scanAll returns a scanner's output for the pieces, with the hot key as ⟨hot⟩ or ⟨again⟩,
// and the typed part of it.
func scanAll(hot HotKey, pieces ...string) (passed, typed string) {
	s := scanner{hot: hot}
	emit := func(kind tokenKind, b []byte) {
		switch kind {
		case hotKey:
			passed += "⟨hot⟩"
			return
		case hotKeyAgain:
			passed += "⟨again⟩"
			return
		case suspend:
			if hot != noHotKey {
				passed += "⟨suspend⟩"
			}
		}
		passed += string(b)
		if kind != report {
			typed += string(b)
		}
	}
	for _, piece := range pieces {
		s.scan([]byte(piece), emit)
	}
	s.release(emit)
	return passed, typed
}

func TestHotKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"the control character", "a\x1db", "a⟨hot⟩b"},
		{"kitty", "a\x1b[93;5ub", "a⟨hot⟩b"},
		{"kitty, press", "\x1b[93;5:1u", "⟨hot⟩"},
		{"kitty, repeated and let go", "\x1b[93;5u\x1b[93;5:2u\x1b[93;5:3u", "⟨hot⟩⟨again⟩⟨again⟩"},
		{"kitty, Caps Lock and Num Lock", "\x1b[93;69u\x1b[93;133u\x1b[93;197u", "⟨hot⟩⟨hot⟩⟨hot⟩"},
		{"kitty, alternate codes and text", "\x1b[93:125:93;5:1;29u", "⟨hot⟩"},
		{"kitty, a Cyrillic layout", "\x1b[1098::93;5u", "⟨hot⟩"},
		{"xterm", "\x1b[27;5;93~", "⟨hot⟩"},
		{"with Shift or Alt it is another key", "\x1b[93;6u\x1b[93;7u\x1b[93u\x1b[93;1u\x1b\x1d", "\x1b[93;6u\x1b[93;7u\x1b[93u\x1b[93;1u\x1b\x1d"},
		{"other keys", "\x1b[A\x1bOP\x1b[1;5C\x1b[92;5u\x1b[27;5;92~\x1b[15~", "\x1b[A\x1bOP\x1b[1;5C\x1b[92;5u\x1b[27;5;92~\x1b[15~"},
		{"in a paste it is text", "\x1b[200~a\x1d\x1b[93;5ub\x1b[201~\x1d", "\x1b[200~a\x1d\x1b[93;5ub\x1b[201~⟨hot⟩"},
		{"a paste with half an end", "\x1b[200~\x1b[201\x1b[20\x1b\x1b[201~\x1d", "\x1b[200~\x1b[201\x1b[20\x1b\x1b[201~⟨hot⟩"},
		{"after half a sequence", "\x1b[9\x1d\x1b[93;\x1b[93;5u\x1bO\x1d", "\x1b[9⟨hot⟩\x1b[93;⟨hot⟩\x1bO⟨hot⟩"},
		{"after Alt-], which begins a reply as well", "\x1b]\x1d\x1b]11\x1b[93;5u", "\x1b]⟨hot⟩\x1b]11⟨hot⟩"},
		{"after a mouse report", "\x1b[M !!\x1d\x1b[<0;1;1M\x1d", "\x1b[M !!⟨hot⟩\x1b[<0;1;1M⟨hot⟩"},
		{"after a sequence without end", "\x1b[" + strings.Repeat("1;", 200) + "\x1d", "\x1b[" + strings.Repeat("1;", 200) + "⟨hot⟩"},
		{"Ctrl-Z", "a\x1ab\x1b[122;5u\x1b[200~\x1a\x1b[201~", "a⟨suspend⟩\x1ab⟨suspend⟩\x1b[122;5u\x1b[200~\x1a\x1b[201~"},
		{"a lone Esc", "\x1b", "\x1b"},
	} {
		if got, _ := scanAll(DefaultHotKey, test.in); got != test.want {
			t.Errorf("%s: %q gives %q, want %q", test.name, test.in, got, test.want)
		}
		if got, _ := scanAll(DefaultHotKey, strings.Split(test.in, "")...); got != test.want {
			t.Errorf("%s: %q byte by byte gives %q, want %q", test.name, test.in, got, test.want)
		}
	}
	if got, _ := scanAll(0x02, "\x02\x1b[98;5u\x1d"); got != "⟨hot⟩⟨hot⟩\x1d" {
		t.Errorf("Ctrl-B as hot key: %q", got)
	}
}

// After a pause, a lone ESC counts as a key. Later bytes are not part of its sequence,
// except the marks of a paste, which must not be missed on a slow line.
func TestReleasedSequence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, second, want string }{
		{"\x1b", "\x1d", "\x1b⟨hot⟩"},
		{"\x1b", "[93;5u", "\x1b[93;5u"},
		{"\x1b[93", ";5u\x1d", "\x1b[93;5u⟨hot⟩"},
		{"\x1b", "]\x1dx", "\x1b]⟨hot⟩x"},
		{"\x1b", "[200~\x1d\x1b[201~\x1d", "\x1b[200~\x1d\x1b[201~⟨hot⟩"},
		{"\x1b[20", "0~\x1d\x1b[201~\x1d", "\x1b[200~\x1d\x1b[201~⟨hot⟩"},
		{"\x1b[200~\x1b[2", "01~\x1d", "\x1b[200~\x1b[201~⟨hot⟩"},
	} {
		got := ""
		emit := func(kind tokenKind, b []byte) {
			if kind == hotKey {
				got += "⟨hot⟩"
			}
			got += string(b)
		}
		s := scanner{hot: DefaultHotKey}
		s.scan([]byte(test.first), emit)
		s.release(emit)
		if got != test.first {
			t.Errorf("%q, and a pause: %q was passed on", test.first, got)
		}
		s.scan([]byte(test.second), emit)
		s.release(emit)
		if got != test.want {
			t.Errorf("%q, a pause, %q: %q, want %q", test.first, test.second, got, test.want)
		}
	}
}

// Reports of the terminal pass, but do not count as typing.
func TestReportsAreNotTyping(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"\x1b[I", "\x1b[O", "\x1b[?1;2c", "\x1b[>41;354;0c", "\x1b[24;80R", "\x1b[0n", "\x1b[?2026;2$y", "\x1b[?1u", "\x1b[8;24;80t",
		"\x1b[<35;10;20M", "\x1b[<0;10;20m", "\x1b[M !!", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b]11;rgb:0/0/0\a", "\x1bP>|kitty(0.38)\x1b\\",
		"\x1b_Gi=1;OK\x1b\\", "\x1b[97;1:3u", "\x1b[1;1:3A",
	} {
		if passed, typed := scanAll(DefaultHotKey, in); passed != in || typed != "" {
			t.Errorf("%q: passed on %q, typed %q", in, passed, typed)
		}
	}
	for _, in := range []string{"a", "\x1b", "\x1b[A", "\x1bOA", "\x1b[1;5A", "\x1b[97;5u", "\x1bb", "\x1b[200~x\x1b[201~", "ä", "\r"} {
		if _, typed := scanAll(DefaultHotKey, in); typed != in {
			t.Errorf("%q: typed %q", in, typed)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hello":                                "hello",
		"hüllo\x7f\x7fp\b!":                    "hül!",
		"a\rb\x1b\rc\x1b[13;2ud":               "a\nb\nc\nd",
		"a\x1b[D\x1b[I\x1b[24;80Rb\x1bOP\x01":  "ab",
		"x\x1b[200~two\rlines\t\x03\x1b[201~y": "xtwo\nlines\ty",
		"\x7f\x7f":                             "",
		"\xffa":                                "a",
		"\x1b]0;evil\a":                        "",
		"a\x1b":                                "a",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseHotKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]HotKey{"^]": 0x1d, "Ctrl-]": 0x1d, "ctrl-b": 2, "^b": 2, "^B": 2, "^\\": 0x1c, "^_": 0x1f, "^^": 0x1e} {
		if got, err := ParseHotKey(in); got != want || err != nil {
			t.Errorf("ParseHotKey(%q) = %#x, %v, want %#x", in, got, err, want)
		}
	}
	for _, in := range []string{"", "^", "]", "^[", "^c", "^m", "^i", "^j", "^h", "^]]", "^@", "^1", "^ä", "ctrl-", strings.Repeat("^", 1000)} {
		if got, err := ParseHotKey(in); err == nil || len(err.Error()) > 120 {
			t.Errorf("ParseHotKey(%.20q) = %#x, %v", in, got, err)
		}
	}
	if got := fmt.Sprint(DefaultHotKey); got != "Ctrl-]" {
		t.Errorf("the default is %s", got)
	}
}

// However the bytes are split, the program gets the same, and the same keys are the hot key.
func FuzzScanner(f *testing.F) {
	f.Add([]byte("a\x1b[93;5ub\x1b[200~\x1d\x1b[201~\x1d\x1b]11;x\x1b\\\x1b[M !!"), uint64(0x5555))
	f.Add([]byte("\x1b\x1b[200~\x1b[201\x1b[201~\x1b[27;5;93~ä"), uint64(0xffff))
	f.Fuzz(func(t *testing.T, in []byte, cuts uint64) {
		whole, typed := scanAll(DefaultHotKey, string(in))
		var pieces []string
		for start, i := 0, 1; i <= len(in); i++ {
			if i == len(in) || cuts>>(i%64)&1 == 1 {
				pieces = append(pieces, string(in[start:i]))
				start = i
			}
		}
		split, typedSplit := scanAll(DefaultHotKey, pieces...)
		if whole != split || typed != typedSplit {
			t.Errorf("%q gives %q, typed %q; as %q it gives %q, typed %q", in, whole, typed, pieces, split, typedSplit)
		}
		// Without a hot key every byte passes.
		if passed, _ := scanAll(noHotKey, pieces...); passed != string(in) {
			t.Errorf("%q passes as %q", in, passed)
		}
		if !bytes.ContainsAny(in, "\x1b\x1d\x1a") && whole != string(in) {
			t.Errorf("%q becomes %q", in, whole)
		}
		Text(in)
	})
}
