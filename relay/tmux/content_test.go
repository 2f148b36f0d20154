package tmux

import (
	"strings"
	"testing"
)

// What stands at the prompt is ours, or is not.
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
