package simchild

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keyboard splits the bytes of a terminal into keys and texts. A paste is text, whatever it contains.
type keyboard struct {
	data   []byte
	pastes bool
}

const pasteStart, pasteEnd = "\x1b[200~", "\x1b[201~"

func (k *keyboard) add(data []byte) { k.data = append(k.data, data...) }

// next returns the next text or key, which is a control character or an escape sequence. There is none if more bytes
// are needed, or if it is not wanted.
func (k *keyboard) next(wanted bool) (event string, ok bool) {
	for wanted && len(k.data) > 0 {
		if k.pastes {
			text, rest, found := bytes.Cut(k.data, []byte(pasteEnd))
			if !found {
				return "", false
			}
			k.data, k.pastes = rest, false
			return strings.ReplaceAll(string(text), "\r", "\n"), true
		}
		size := 1
		switch first := k.data[0]; {
		case first == 0x1b && len(k.data) > 1 && k.data[1] == '[':
			end := bytes.IndexFunc(k.data[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 {
				return "", false
			}
			size = 2 + end + 1
		case first >= 0x80:
			if !utf8.FullRune(k.data) {
				return "", false
			}
			_, size = utf8.DecodeRune(k.data)
		}
		event = string(k.data[:size])
		k.data = k.data[size:]
		if event == pasteStart {
			k.pastes = true
			continue
		}
		return event, true
	}
	return "", false
}
