package tmux

import (
	"strings"
	"testing"
)

// Holds recognizes our text at the prompt, whole or in part.
func TestHolds(t *testing.T) {
	t.Parallel()
	const prefix = "[teambridge 3f2a9c0d11aa from worker] "
	long := strings.Repeat("0123456789 ", 300)
	for _, test := range []struct {
		text, draft string
		want        content
	}{
		{"hello", "", nothing},
		{"hello", "my own", nothing},
		{"hello", prefix + "hello", exactly},
		{"hello", prefix + "hello and more", more},
		{"hello", "more " + prefix + "hello", more},
		{"hello", prefix + "hel", more},
		{"two words", prefix + "two\nwords", exactly}, // wrapped
		{"a\tb\n", prefix + "a    b", exactly},
		{"日本語", prefix + "日本語", exactly},
		{"日本語", prefix + "日本語か", more},
		{"привет", prefix + "привет да", more},
		{"cafe\u0301, oui", prefix + "café, oui", exactly}, // composed
		{"cafe\u0301, oui", prefix + "cafe\u0301, oui", exactly},
		{"cafe\u0301, oui", prefix + "café, oui oui", more},
		{"हिन्दी, 👍 yes", prefix + "हिन्दी👍 yes", exactly}, // overwritten
		{"हिन्दी, 👍 yes", prefix + "हिन्दी👍 yes!", more},
		{"हिन्दी, 👍 yes", "yes", nothing},
		{"1\n2\n3", "[Pasted text #1 +2 lines]", part},
		{"1\n2\n3\n", "[Pasted text #1 +3 lines]", part},
		{"1\n2\n3\n", "[Pasted text #7 +2 lines]", part},
		{"1\n2\n3", "[Pasted text #1 +5 lines]", more},
		{"1\n2\n3", "[Pasted text #1 +2 lines] and more", more},
		{"1\n2\n3", "[Pasted text #1 +2 lines][Pasted text #2 +2 lines]", more},
		{long, "[Pasted text #1]", part},
		{long, long[len(long)-500:], part}, // does not fit on the screen
		{long, long[len(long)-500:] + "more", more},
		{long + "!", long[:500], nothing},
		{long, long[len(long)-30:], nothing},
		{"हिन्दी, 👍 yes or no", prefix, more}, // not all of it
	} {
		d := delivery{message: Input{Nonce: "3f2a9c0d11aa", From: "worker", Text: test.text}}
		if got := d.holds(Composer{Found: true, Draft: test.draft}); got != test.want {
			t.Errorf("%.30q of %.30q: got %d, want %d", test.draft, test.text, got, test.want)
		}
		if got := d.holds(Composer{Draft: test.draft}); got != nothing {
			t.Errorf("%.30q without a composer: got %d", test.draft, got)
		}
	}
}

// A recorded text counts as the sent one, except for known changes by the program.
func TestArrived(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sent, recorded string
		want           bool
	}{
		{"do it", "do it", true},
		{"do it\n", "do it", true},
		{"a\tb\r\nc", "a    b\nc", true},
		{"do it", "do it\n[teambridge 3f2a9c0d11aa] and this", true},
		{"1\n2", "1\n2\n</pasted_content>", true},
		{"1\n2", "1\n2</pasted_content>", true},
		{"look at <main.go>", "look at &lt;main.go>", true},
		{"cafe\u0301, oui", "caf\u00e9, oui", true},
		{"日本語", "日本語", true},
		{"日本語", "æ\u0097¥æ\u009c¬èª\u009e", false}, // each byte taken for a character
		{"日本語", "???", false},
		{"日本語", "", false},
		{"日本語 and more", "日本語 and", false},
		{"delete a.tmp", "delete a", false},
		{"delete a", "delete a.tmp", false},
		{"cafe\u0301, oui", "caf\u00e9, non", false},
	} {
		if got := Arrived(test.recorded, test.sent); got != test.want {
			t.Errorf("%q, recorded as %q: %v", test.sent, test.recorded, got)
		}
	}
}
