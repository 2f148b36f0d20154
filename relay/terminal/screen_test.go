package terminal

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

func printAll(s *screen, pieces ...string) string {
	var out []byte
	for _, piece := range pieces {
		out = s.print(out, []byte(piece))
	}
	return string(out)
}

func TestTitles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, out, title string }{
		{"ended by BEL", "a\x1b]0;one\ab", "a\x1b]0;N·one\ab", "one"},
		{"ended by ST", "a\x1b]2;one\x1b\\b", "a\x1b]2;N·one\x1b\\b", "one"},
		{"the last counts", "\x1b]0;one\a\x1b]2;\a", "\x1b]0;N·one\a\x1b]2;N·\a", ""},
		{"of the icon alone", "\x1b]1;one\a", "\x1b]1;one\a", ""},
		{"colors, a link", "\x1b]10;?\a\x1b]8;;http://x\a", "\x1b]10;?\a\x1b]8;;http://x\a", ""},
		{"with semicolons", "\x1b]0;a;b\a", "\x1b]0;N·a;b\a", "a;b"},
		{"begun again", "\x1b]0;a\x1b]0;b\a", "\x1b]0;a\x1b]0;N·b\a", "b"},
		{"cancelled", "\x1b]0;a\x18\x1b]0;b\a", "\x1b]0;a\x18\x1b]0;N·b\a", "b"},
		{"in a string of another kind", "\x1bPtmux;\x1b\x1b]0;a\a\x1b\\x\x1b]0;b\a", "\x1bPtmux;\x1b\x1b]0;a\a\x1b\\x\x1b]0;N·b\a", "b"},
		{"too long", "\x1b]0;" + strings.Repeat("x", heldLimit) + "\a\x1b]0;b\a", "\x1b]0;" + strings.Repeat("x", heldLimit) + "\a\x1b]0;N·b\a", "b"},
	} {
		for _, pieces := range [][]string{{test.in}, strings.Split(test.in, "")} {
			s := screen{notice: "N·", shown: "N·"}
			out := printAll(&s, pieces...)
			if out != test.out || s.title != test.title {
				t.Errorf("%s: %.60q gives %.60q and title %q, want %.60q and %q", test.name, test.in, out, s.title, test.out, test.title)
			}
			s = screen{}
			if out := printAll(&s, pieces...); out != test.in {
				t.Errorf("%s: %.60q gives %.60q without a notice", test.name, test.in, out)
			}
		}
	}
}

// A notice is shown at once, but never within a character or sequence.
func TestNoticeWaits(t *testing.T) {
	t.Parallel()
	const notice = "\x1b]0;N·t\a"
	for _, test := range []struct{ before, after, want string }{
		{"x", "y", "x" + notice + "y"},
		{"x\x1b[3", "1my", "x" + notice + "\x1b[31my"},
		{"\xe2\x9c", "\xb3y", "\xe2\x9c\xb3y" + notice},
		{"\xff", "y", "\xff" + notice + "y"},
		{"\x1bP" + strings.Repeat("x", heldLimit), "x\x1b\\", "\x1bP" + strings.Repeat("x", heldLimit+1) + "\x1b\\" + notice},
	} {
		s := screen{title: "t"}
		out := s.print(nil, []byte(test.before))
		s.notice = "N·"
		out = s.print(out, nil)
		out = s.print(out, []byte(test.after))
		if string(out) != test.want {
			t.Errorf("%.20q, the notice, %.20q: %.60q, want %.60q", test.before, test.after, out, test.want)
		}
		s.notice = ""
		if got := string(s.print(nil, nil)); got != "\x1b]0;t\a" {
			t.Errorf("without the notice: %q", got)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	const below = "\x1b[999B\r\n"
	for _, test := range []struct{ name, in, want string }{
		{"nothing", "text\x1b[31mred\x1b[0m\x1b[2J\x1b[5;5H\n", ""},
		{"half a line", "text\x1b[31m\nred\x1b[0m", "\r\n"},
		{"mouse, paste, focus, cursor", "\x1b[?1000;1006h\x1b[?2004h\x1b[?1004h\x1b[?25l", "\x1b[?25h\x1b[?1000l\x1b[?1004l\x1b[?1006l\x1b[?2004l" + below},
		{"the same, undone by the program", "\x1b[?1000;1006h\x1b[?2004h\x1b[?25l\x1b[?25h\x1b[?1006;1000l\x1b[?2004l", ""},
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"alternate screen that was left", "\x1b[?1049h\x1b[?1049l", ""},
		{"kitty's keyboard stack", "\x1b[>1u\x1b[>5u\x1b[>1u\x1b[<u", "\x1b[<2u"},
		{"kitty's keyboard stacks of both screens", "\x1b[>1u\x1b[?1049h\x1b[>1u\x1b[>3u", "\x1b[<2u\x1b[?1049l\x1b[<1u"},
		{"kitty's flags", "\x1b[=1;1u", "\x1b[=0u"},
		{"a question about them", "\x1b[?u\x1b[?2004$p\x1b[c", ""},
		{"other keys", "\x1b[>4;2m\x1b=", "\x1b[>4;0m\x1b>"},
		{"scroll region, insert, charset", "\x1b[2;10r\x1b[4h\x1b(0", "\x1b[4l\x1b7\x1b[r\x1b8\x1b(B"},
		{"colors, link, shape, progress", "\x1b[1;31m\x1b]8;;http://x\a\x1b[5 q\x1b]9;4;3;0\a", "\x1b[m\x1b[0 q\x1b]8;;\x1b\\\x1b]9;4;0\a"},
		{"palette", "\x1b]11;#fff\a\x1b]10;?\a", "\x1b]111\a"},
		{"title", "\x1b]0;busy\a", "\x1b]0;\a"},
		{"title that was taken back", "\x1b]0;busy\a\x1b]0;\a", ""},
		{"a full reset", "\x1b[?1049h\x1b[?25l\x1bc", ""},
		{"half a sequence", "\x1b[?25", ""},
		{"half an image", "\x1bPq" + strings.Repeat("x", heldLimit), "\x1b\\"},
	} {
		s := screen{}
		printAll(&s, strings.Split(test.in, "")...)
		// The screen below the cursor is erased, but not on the screen of before.
		want, title, titled := strings.Cut(test.want, "\x1b]0;")
		if !strings.Contains(want, "\x1b[?1049l") {
			want += "\x1b[J"
		}
		if titled {
			want += "\x1b]0;" + title
		}
		if got := string(s.reset()); got != want {
			t.Errorf("%s: %.60q is reset by %q, want %q", test.name, test.in, got, want)
		}
	}
	s := screen{notice: "N", shown: "N", title: "t"}
	if got := string(s.reset()); got != "\x1b[J\x1b]0;N\a" {
		t.Errorf("the notice stays: %q", got)
	}
}

func TestPlainTitle(t *testing.T) {
	t.Parallel()
	if got := plainTitle("a\x1b]0;\a\u009cb\nä\xff"); got != "a]0;bä" {
		t.Errorf("%q", got)
	}
	if got := plainTitle(strings.Repeat("ä", 2000)); len(got) > titleLimit || strings.Trim(got, "ä") != "" {
		t.Errorf("%d bytes", len(got))
	}
}

// However the bytes are split, the terminal gets the same: without a notice, the program's
// output; and after a reset there is nothing to reset.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("a\x1b]0;one\ab\x1b[?1049h\x1b[>1u\x1bPq\x1b\x1b\\\x1b(0ä"), uint64(0x5555), 3)
	f.Add([]byte("\x1b]2;x\x1b\\\x1b[2;3r\x1b]8;;u\a\x1b[=1u\x1b[5 q"), uint64(0xffff), 9)
	f.Fuzz(func(t *testing.T, in []byte, cuts uint64, notice int) {
		var pieces []string
		for start, i := 0, 1; i <= len(in); i++ {
			if i == len(in) || cuts>>(i%64)&1 == 1 {
				pieces = append(pieces, string(in[start:i]))
				start = i
			}
		}
		for _, text := range []string{"", "N·"} {
			one, many := screen{notice: text, shown: text}, screen{notice: text, shown: text}
			whole, split := printAll(&one, string(in)), printAll(&many, pieces...)
			if whole != split || one.title != many.title || !reflect.DeepEqual(one.changes, many.changes) {
				t.Fatalf("%q gives %q, title %q, %+v; as %q it gives %q, title %q, %+v", in, whole, one.title, one.changes, pieces, split, many.title, many.changes)
			}
			if text == "" && (!strings.HasPrefix(string(in), whole) || len(in)-len(whole) != len(one.seq)) {
				t.Fatalf("%q becomes %q", in, whole)
			}
			after := screen{changes: one.changes}
			after.private = maps.Clone(after.private)
			undo := string(one.reset())
			printAll(&after, undo)
			if len(after.private) == 0 {
				after.private = nil
			}
			if !reflect.DeepEqual(after.changes, changes{}) {
				t.Fatalf("%q is reset by %q, which leaves %+v", in, undo, after.changes)
			}
		}
		// A notice that comes in between is shown once, in front of the title.
		s, out := screen{}, []byte(nil)
		for i, piece := range pieces {
			if i == notice {
				s.notice = "N·"
			}
			out = s.print(out, []byte(piece))
		}
		if text := s.notice; text != "" && s.whole() && s.shown != text {
			t.Fatalf("%q does not show the notice: %q", pieces, out)
		}
	})
}
