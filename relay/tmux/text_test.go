package tmux

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	good := Input{Nonce: "3f2a9c0d11aa", From: "worker", Text: "hello"}
	for name, test := range map[string]struct {
		change func(*Input)
		want   string // of the error; empty: there is none
	}{
		"good":               {func(m *Input) {}, ""},
		"nobody's":           {func(m *Input) { m.From = "" }, ""},
		"several lines":      {func(m *Input) { m.Text = "a\n\tb\n" }, ""},
		"longest":            {func(m *Input) { m.Text = strings.Repeat("x", MaxText-len(m.Line())+len(m.Text)) }, ""},
		"too long":           {func(m *Input) { m.Text = strings.Repeat("x", MaxText-len(m.Line())+len(m.Text)+1) }, "1 bytes too long"},
		"10 KB":              {func(m *Input) { m.Text = strings.Repeat("x", 10<<10) }, "too long"},
		"empty":              {func(m *Input) { m.Text = "" }, "empty"},
		"white":              {func(m *Input) { m.Text = " \n" }, "empty"},
		"not UTF-8":          {func(m *Input) { m.Text = "a\xff" }, "UTF-8"},
		"end of a paste":     {func(m *Input) { m.Text = "a\x1b[201~\r" }, "U+001B at byte 1"},
		"end of a paste, C1": {func(m *Input) { m.Text = "\u009b201~" }, "U+009B at byte 0"},
		"carriage return":    {func(m *Input) { m.Text = "a\r\nb" }, "U+000D at byte 1"},
		"Ctrl-C":             {func(m *Input) { m.Text = "\x03" }, "U+0003"},
		"NUL":                {func(m *Input) { m.Text = "\x00" }, "U+0000"},
		"DEL":                {func(m *Input) { m.Text = "\x7f" }, "U+007F"},
		"no nonce":           {func(m *Input) { m.Nonce = "" }, "nonce"},
		"nonce of a format":  {func(m *Input) { m.Nonce = "#(reboot)1234" }, "nonce"},
		"sender with ]":      {func(m *Input) { m.From = "a] /clear" }, "sender"},
		"sender of lines":    {func(m *Input) { m.From = "a\nb" }, "sender"},
		"sender with ESC":    {func(m *Input) { m.From = "a\x1b" }, "sender"},
		"unknown policy":     {func(m *Input) { m.Policy = "now" }, `policy "now"`},
	} {
		m := good
		test.change(&m)
		err := m.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// No line begins with a command of an agent program.
func TestLine(t *testing.T) {
	t.Parallel()
	m := Input{Nonce: "3f2a9c0d11aa", From: "worker", Text: "/clear"}
	if got, want := m.Line(), "[teambridge 3f2a9c0d11aa from worker] /clear"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m.From = ""
	if got, want := m.Line(), "[teambridge 3f2a9c0d11aa] /clear"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzCheck: an accepted text has no key but newline and tab.
func FuzzCheck(f *testing.F) {
	f.Add("worker", "hello")
	f.Add("a\x1b", "\x1b[201~")
	f.Fuzz(func(t *testing.T, from, text string) {
		m := Input{Nonce: "3f2a9c0d11aa", From: from, Text: text}
		if m.Check() != nil {
			return
		}
		for _, b := range []byte(m.Line()) {
			if b < ' ' && b != '\n' && b != '\t' || b == 0x7f {
				t.Fatalf("%q holds %#x", m.Line(), b)
			}
		}
		if !strings.HasPrefix(m.Line(), "[teambridge ") || len(m.Line()) > MaxText {
			t.Fatalf("%q", m.Line())
		}
	})
}
