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
			want = slices.DeleteFunc(want, func(line string) bool { return line == "" })
			var got []string
			for _, line := range transcript.Backward(bytes.NewReader([]byte(file)), int64(len(file))) {
				got = append(got, string(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, torn %t: got %d lines, want %d", name, torn, len(got), len(want))
			}
		}
	}
}

// A line of 144 MB, such as one that occurred, takes no more memory than the longest line that is read.
func TestBackwardOverALongLine(t *testing.T) {
	t.Parallel()
	file := &longLine{size: 144 << 20}
	n, longest := 0, 0
	for _, line := range transcript.Backward(file, file.size) {
		n, longest = n+1, max(longest, len(line))
	}
	if file.largest > 1<<20 || longest > 64<<20 || n != 3 {
		t.Errorf("%d lines, the longest of %d bytes, and %d bytes were read at once; want 3, at most 64 MB, and at most 1 MB", n, longest, file.largest)
	}
}

// longLine is a file of a short line, a long one and a short one.
type longLine struct {
	size    int64
	largest int // the most bytes that were requested at once
}

func (l *longLine) ReadAt(data []byte, at int64) (int, error) {
	l.largest = max(l.largest, len(data))
	for i := range data {
		data[i] = 'x'
	}
	for _, newline := range []int64{9, l.size - 10, l.size - 1} {
		if i := newline - at; i >= 0 && i < int64(len(data)) {
			data[i] = '\n'
		}
	}
	return len(data), nil
}
