package terminal

// MaxText is the limit of a message in bytes, with its first words.
const MaxText = 8 << 10

// Check returns an error if the message must not be typed: a text that is empty, longer than [MaxText], no valid
// UTF-8, or has control characters other than newline and tab; a nonce or a sender that could be taken for something else;
// an unknown policy.
func (m Message) Check() error { return errNotBuilt }

// Line is what is typed, before Enter: the text behind words that say whose it is.
func (m Message) Line() string {
	from := ""
	if m.From != "" {
		from = " from " + m.From
	}
	return "[teambridge " + m.Nonce + from + "] " + m.Text
}
