package plain

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	rows := [][]string{
		{"MEMBER", "STATUS", "DIRECTORY"},
		{"worker", "blocked (the agent does not stay alive: it exited 5 times within a minute)", "/home/dev/project"},
		{"日本", "idle", "/home/dev/" + strings.Repeat("deep/", 30)},
	}
	for columns, want := range map[int]string{
		0: `
MEMBER  STATUS                                                                      DIRECTORY
worker  blocked (the agent does not stay alive: it exited 5 times within a minute)  /home/dev/project
日本    idle                                                                        /home/dev/` + strings.Repeat("deep/", 30) + "\n",
		60: `
MEMBER  STATUS                     DIRECTORY
worker  blocked (the agent does    /home/dev/project
        not stay alive: it exited
        5 times within a minute)
日本    idle                       /home/dev/deep/deep/deep/
                                   deep/deep/deep/deep/deep/
                                   deep/deep/deep/deep/deep…
`,
		26: `
worker
    status blocked (the
    agent does not stay
    alive: it exited 5
    times within a
    minute), directory
    /home/dev/project
日本
    status idle, directory
    /home/dev/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
    deep/deep/deep/deep/
`,
	} {
		out := Table(rows, columns, 3)
		if "\n"+out != want {
			t.Errorf("in %d columns:\n%s\nwant:%s", columns, out, want)
		}
		for line := range strings.Lines(out) {
			if w := Width(strings.TrimSuffix(line, "\n")); columns > 0 && w > columns {
				t.Errorf("a line of %d columns: %q", w, line)
			}
		}
	}
	// In a narrow terminal, rows do not wrap, and names are whole.
	five := Table([][]string{{"NAME", "KIND", "STATE", "REACH", "DIRECTORY"}, {"team-lead@session-78f3e919", "headless member", "waiting for you", "inbox", "/home/dev/project"}}, 40, 1)
	for line := range strings.Lines(five) {
		if w := Width(strings.TrimSuffix(line, "\n")); w > 40 || strings.Contains(line, "…") {
			t.Errorf("a line of %d columns: %q", w, line)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		lines   int
		want    []string
	}{
		{"one two three", 7, 0, []string{"one two", "three"}},
		{"one two three", 8, 0, []string{"one two", "three"}},
		{"one two three", 6, 2, []string{"one", "two t…"}},
		{"  indented and long", 10, 0, []string{"  indented", "and long"}},
		{"/home/dev/project", 12, 0, []string{"/home/dev/", "project"}},
		{"-onetwothree", 8, 0, []string{"-onetwot", "hree"}},
		{"onetwothree", 4, 0, []string{"onet", "woth", "ree"}},
		{"日本語日本", 5, 0, []string{"日本", "語日", "本"}},
		{"a 🙂🙂🙂", 4, 0, []string{"a", "🙂🙂", "🙂"}},
		{"日", 1, 0, []string{"日"}}, // too wide for any line
		{"", 4, 0, nil},
	} {
		if got := fold(c.text, c.columns, c.lines); !slices.Equal(got, c.want) {
			t.Errorf("fold(%q, %d, %d) = %q, want %q", c.text, c.columns, c.lines, got, c.want)
		}
	}
}

// Texts are folded below their line, and stay whole.
func TestIndentFolds(t *testing.T) {
	t.Parallel()
	text := "A long paragraph of an agent that does not fit.\n\n- short\n\ta\ttable with tabs that is left as it is"
	for columns, want := range map[int]string{
		0:  "    A long paragraph of an agent that does not fit.\n    \n    - short\n    \ta\ttable with tabs that is left as it is\n",
		30: "    A long paragraph of an\n    agent that does not fit.\n    \n    - short\n    \ta\ttable with tabs that is left as it is\n",
	} {
		if got := Indent(text, columns); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"worker", 6, "worker"}, {"worker", 5, "work…"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
		{"e\u0301e\u0301e", 3, "e\u0301e\u0301e"}, {"e\u0301e\u0301e", 2, "e\u0301…"}, {"🙂🙂", 3, "🙂…"}, {"x", 0, ""}, {"", 0, ""},
	} {
		if got := Cut(c.text, c.columns); got != c.want || Width(got) > c.columns {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
