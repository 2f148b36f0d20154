package tmux

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxText is the limit of what is typed, in bytes.
const MaxText = 8 << 10

// Check returns an error if the message must not be typed: a text that is empty, too long (see [MaxText]), no valid
// UTF-8, or has control characters other than newline and tab; a nonce or a sender that could be taken for something else;
// an unknown policy.
func (m Input) Check() error {
	switch {
	case len(m.Nonce) < 8 || len(m.Nonce) > 64 || strings.ContainsFunc(m.Nonce, special):
		return fmt.Errorf("tmux: nonce %q: want 8 to 64 letters, digits and hyphens", m.Nonce)
	case !utf8.ValidString(m.From) || strings.ContainsAny(m.From, "[]\n\t") || control(m.From) >= 0:
		return fmt.Errorf("tmux: sender %q: no brackets, line breaks or control characters", m.From)
	case strings.TrimSpace(m.Text) == "":
		return errors.New("tmux: the text is empty")
	case !utf8.ValidString(m.Text):
		return errors.New("tmux: the text is no valid UTF-8")
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

// control returns where a text has a control character, C0, DEL or C1, that is neither newline nor tab; or -1. ESC could end
// a bracketed paste, and what follows would be keys.
func control(text string) int {
	return strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
	})
}

// special reports whether a character is none of those that mean nothing to tmux, in formats and patterns.
func special(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-'
}

// digits reports whether a text is a number.
func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Line is what is typed before Enter: the text after words that say where it is from. With these, no text begins with a
// character that an agent program acts on: / ! @ #.
func (m Input) Line() string { return m.prefix() + m.Text }

func (m Input) prefix() string {
	from := ""
	if m.From != "" {
		from = " from " + m.From
	}
	return "[teambridge " + m.Nonce + from + "] "
}
