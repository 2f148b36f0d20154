package tmux

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxText is the size limit of a typed message, in bytes.
const MaxText = 8 << 10

// Check returns an error if the message must not be typed. Its text must not be empty, be too long (see
// [MaxText]), be invalid UTF-8, or have control characters other than newline and tab. Its nonce and sender
// must not be ambiguous. Its policy must be known.
func (m Input) Check() error {
	switch {
	case len(m.Nonce) < 8 || len(m.Nonce) > 64 || strings.ContainsFunc(m.Nonce, special):
		return fmt.Errorf("tmux: nonce %q: want 8 to 64 letters, digits and hyphens", m.Nonce)
	case !utf8.ValidString(m.From) || strings.ContainsAny(m.From, "[]\n\t") || control(m.From) >= 0:
		return fmt.Errorf("tmux: sender %q: no brackets, line breaks or control characters", m.From)
	case strings.TrimSpace(m.Text) == "":
		return errors.New("tmux: the text is empty")
	case !utf8.ValidString(m.Text):
		return errors.New("tmux: the text is not valid UTF-8")
	case len(m.Line()) > MaxText:
		return fmt.Errorf("tmux: the text is %d bytes too long: a pane takes %d; put it into a file and send the path", len(m.Line())-MaxText, MaxText)
	case !slices.Contains([]Policy{"", Queued, Important, WhenIdle, Urgent}, m.Policy):
		return fmt.Errorf("tmux: unknown policy %q", m.Policy)
	}
	if i := control(m.Text); i >= 0 {
		r, _ := utf8.DecodeRuneInString(m.Text[i:])
		return fmt.Errorf("tmux: the text has the control character %U at byte %d: a terminal may act on it", r, i)
	}
	return nil
}

// control returns the index of a control character (C0, DEL or C1) other than newline and tab; or -1. ESC
// could end a bracketed paste, and the rest would then be keys.
func control(text string) int {
	return strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
	})
}

// special reports whether a character may have a meaning in tmux's formats and patterns.
func special(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-'
}

// digits reports whether a text is a number.
func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Line returns the text as it is typed before Enter. Its prefix names the sender. It also prevents a text
// from beginning with a character that agent programs act on: / ! @ #.
func (m Input) Line() string { return m.prefix() + m.Text }

func (m Input) prefix() string {
	from := ""
	if m.From != "" {
		from = " from " + m.From
	}
	return "[teambridge " + m.Nonce + from + "] "
}
