package shell

import "testing"

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"operator":  "operator",
		"a-b_c.d":   "a-b_c.d",
		"two words": "'two words'",
		"$(reboot)": "'$(reboot)'",
		"it's":      `'it'\''s'`,
		"a*b":       "'a*b'",
		"":          "''",
		"~":         "'~'",
		"Zo\u00eb":  "'Zo\u00eb'",
		"mid$dle":   "'mid$dle'",
		"-as":       "-as",
	} {
		if got := Quote(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}
