package excerpt_test

import (
	"testing"

	"teambridge/teams/excerpt"
)

// No excerpt is longer than the limit, and none ends with a part of a character.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{excerpt.Bytes("größer", 8), "größer"},
		{excerpt.Bytes("größer", 7), "größe…"},
		{excerpt.Bytes("größer", 3), "gr…"},
		{excerpt.Line(" a\r\n\x1bb\xff ", 9), "a b\uFFFD"},
		{excerpt.Line("größer", 6), "größer"},
		{excerpt.Line("größer", 4), "grö…"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
