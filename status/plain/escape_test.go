package plain

import "testing"

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, line, text string }{
		{"plain ü 👍🏽 👨‍👩‍👧", "plain ü 👍🏽 👨‍👩‍👧", "plain ü 👍🏽 👨‍👩‍👧"},
		{"a\nb\tc\rd", `a\nb\tc\rd`, "a\nb\tc" + `\rd`},
		{"\x1b]0;x\x07", `\e]0;x\x07`, `\e]0;x\x07`},
		{"\u009b31m\x7f", `\x9b31m\x7f`, `\x9b31m\x7f`},
		{"\u202e\u2066\u200f\ufeff", `\u202e\u2066\u200f\ufeff`, `\u202e\u2066\u200f\ufeff`},
		{"\u2028\u2029", `\u2028\u2029`, `\u2028\u2029`},
		{"\U000e0041", `\U000e0041`, `\U000e0041`},
		{"bad\xff\xc3", `bad\xff\xc3`, `bad\xff\xc3`},
	} {
		if got := Escape(c.in, false); got != c.line {
			t.Errorf("Escape(%q, false) = %q, want %q", c.in, got, c.line)
		}
		if got := Escape(c.in, true); got != c.text {
			t.Errorf("Escape(%q, true) = %q, want %q", c.in, got, c.text)
		}
	}
}
