package stdio

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// Next returns each line without its end, and an error for a line over the limit, after which it continues.
func TestLines(t *testing.T) {
	t.Parallel()
	const limit = 10_000 // more than is read at a time
	fits, long := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	for name, tc := range map[string]struct {
		in   string
		want []string // "!" for a line that is too long
	}{
		"nothing":                    {"", nil},
		"lines":                      {"a\nb\n", []string{"a", "b"}},
		"the last has no line end":   {"a\nb", []string{"a", "b"}},
		"empty lines":                {"\n\r\n\na", []string{"", "", "", "a"}},
		"lines of Windows":           {"a\r\nb\r\n", []string{"a", "b"}},
		"the limit":                  {fits + "\n" + fits + "\r\n" + fits, []string{fits, fits, fits}},
		"too long":                   {"a\n" + long + "\nb\n", []string{"a", "!", "b"}},
		"too long, of Windows":       {long + "\r\nb", []string{"!", "b"}},
		"too long at the end":        {"a\n" + long, []string{"a", "!"}},
		"several times too long":     {strings.Repeat(long, 50) + "\n" + long + "\nb", []string{"!", "!", "b"}},
		"too many carriage returns":  {strings.Repeat("\r", limit+2) + "\nb", []string{"!", "b"}},
		"as long as a buffer":        {strings.Repeat("x", 4096) + "\nb", []string{strings.Repeat("x", 4096), "b"}},
		"one byte less than it":      {strings.Repeat("x", 4095) + "\nb", []string{strings.Repeat("x", 4095), "b"}},
		"a carriage return in front": {"\ra\n", []string{"\ra"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := NewLines(strings.NewReader(tc.in), limit)
			var got []string
			for {
				line, err := lines.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				switch {
				case errors.Is(err, ErrLongLine):
					got = append(got, "!")
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, string(line))
				}
				if lines.Number != len(got) {
					t.Errorf("line %d has the number %d", len(got), lines.Number)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %.60q, want %.60q", got, tc.want)
			}
		})
	}
}

// A line that never ends is refused when it is too long, not at its end.
func TestLinesRefusesAtOnce(t *testing.T) {
	t.Parallel()
	source := &boundless{}
	lines := NewLines(source, MaxLine)
	if _, err := lines.Next(); !errors.Is(err, ErrLongLine) {
		t.Fatalf("got %v, want ErrLongLine", err)
	}
	if source.read > MaxLine+8<<10 {
		t.Errorf("%d bytes were read to see that it is longer than %d", source.read, MaxLine)
	}
}

// boundless is a line without an end.
type boundless struct{ read int }

func (e *boundless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

// A read that fails does not end a line: the text before it was not meant to be a whole line.
func TestLinesFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	lines := NewLines(io.MultiReader(strings.NewReader("a\nb"), failing{broken}), 100)
	if line, err := lines.Next(); string(line) != "a" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if line, err := lines.Next(); !errors.Is(err, broken) {
		t.Errorf("got %q, %v, want %v", line, err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
