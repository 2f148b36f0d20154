package transcript_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"teambridge/teams/transcript"
)

func TestBackward(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 700<<10)
	var many []string
	for i := range 20000 {
		many = append(many, fmt.Sprintf("line %d", i))
	}
	for name, lines := range map[string][]string{
		"none": nil, "one": {"a"}, "empty lines": {"", "a", "", "", "b"}, "a long one in the middle": {"a", long, "b", "c"}, "a long one at the end": {"a", "b", long}, "many": many,
	} {
		for _, torn := range []bool{false, true} {
			want := slices.Clone(lines)
			file := strings.Join(lines, "\n")
			if len(lines) > 0 {
				file += "\n"
			}
			if torn {
				file, want = file+"torn", append(want, "torn")
			}
			slices.Reverse(want)
			var got []string
			for line := range transcript.Backward(bytes.NewReader([]byte(file)), int64(len(file))) {
				got = append(got, string(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, torn %t: got %d lines, want %d", name, torn, len(got), len(want))
			}
		}
	}
}
