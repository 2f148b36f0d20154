package terminal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// HotKey is a key that never reaches the program. Its value is the control character that the key types.
type HotKey byte

// DefaultHotKey is Ctrl-], which Claude Code does not use.
const DefaultHotKey HotKey = 0x1d

// ParseHotKey parses a key such as ^] or Ctrl-]. It refuses keys whose character another key types, too
// (Enter, Tab, Escape, Backspace), and Ctrl-C.
func ParseHotKey(s string) (HotKey, error) {
	name, ok := strings.CutPrefix(s, "^")
	if !ok && len(s) > 5 && strings.EqualFold(s[:5], "ctrl-") {
		name, ok = s[5:], true
	}
	if !ok || len(name) != 1 {
		return 0, fmt.Errorf("hot key %.20q: want ^ and a character, such as ^]", s)
	}
	c := strings.ToUpper(name)[0]
	switch {
	case c < 'A' || c > '_':
		return 0, fmt.Errorf("hot key %.20q: want a letter, ], \\, ^ or _ after ^", s)
	case strings.IndexByte("CHIJM[", c) >= 0:
		return 0, fmt.Errorf("hot key %.20q: the terminal itself needs it", s)
	}
	return HotKey(c - 0x40), nil
}

// String returns the key in the form for people, such as Ctrl-].
func (k HotKey) String() string { return "Ctrl-" + string(rune(k)+0x40) }

// Key is a key that the person pressed.
type Key struct {
	Hot  bool   // the hot key; Text is empty
	Text string // a character, a control character ("\x03" is Ctrl-C), or the sequence of a key without a character ("\x1b[A")
}

// Text returns the text that the typed bytes produce: characters and pastes, with Enter as a newline and
// Backspace applied. It omits other keys, and reports of the terminal.
func Text(typed []byte) string {
	var text []byte
	s := scanner{hot: noHotKey}
	emit := func(kind tokenKind, b []byte) {
		switch {
		case kind == sequence && len(b) > 1:
			if b[1] == '\r' || bytes.HasPrefix(b, []byte("\x1b[13;")) && b[len(b)-1] == 'u' {
				text = append(text, '\n') // with Alt or Shift
			}
		case kind == characters || kind == pasted:
			for _, c := range b {
				switch {
				case c == '\r':
					text = append(text, '\n')
				case (c == 0x7f || c == '\b') && kind == characters:
					_, n := utf8.DecodeLastRune(text)
					text = text[:len(text)-n]
				case c >= ' ' && c != 0x7f, kind == pasted && (c == '\n' || c == '\t'):
					text = append(text, c)
				}
			}
		}
	}
	s.scan(typed, emit)
	s.release(emit)
	return strings.ToValidUTF8(string(text), "")
}

// tokenKind is the kind of a token. A token is a part of the input from a terminal; all tokens except the hot
// key, joined, are the input, byte for byte.
type tokenKind int

const (
	characters  tokenKind = iota // one or more characters or control characters
	sequence                     // a key without a character, or with Alt
	pasted                       // a part of a bracketed paste
	marker                       // the beginning or end of a paste
	report                       // a report of the terminal or its mouse, or a released key: nothing was typed
	hotKey                       // the hot key; no bytes
	hotKeyAgain                  // the repetition or release of the hot key; no bytes
	suspend                      // Ctrl-Z
)

const (
	noHotKey      = HotKey(0xff)
	ctrlZ         = HotKey(0x1a)
	pasteStart    = "\x1b[200~"
	pasteEnd      = "\x1b[201~"
	sequenceLimit = 64 // longer sequences are passed on unparsed
)

type scanState int

const (
	ground      scanState = iota
	inEscape              // after ESC
	inCSI                 // after ESC [
	inSS3                 // after ESC O
	inMouse               // the three bytes after ESC [ M
	inString              // a reply of the terminal, after ESC ] and the like
	inStringEnd           // after ESC in a reply
	inPaste
)

// scanner finds the hot key and Ctrl-Z in the terminal's input. It does not matter how the bytes are split
// over calls of scan. A call of release in between means that no input arrived for a while.
type scanner struct {
	hot     HotKey
	state   scanState
	seq     []byte // the sequence so far, at most sequenceLimit bytes
	sent    int    // how many bytes of seq have been emitted
	long    bool   // the sequence is longer than seq
	left    int    // missing bytes of a mouse report
	matched int    // matched bytes of the end of a paste
}

// pending reports whether more bytes could change the meaning of the last ones. If no bytes arrive soon, the
// caller must call release: a lone ESC is a key.
func (s *scanner) pending() bool { return s.sent < len(s.seq) || s.state == inString }

// release emits the bytes that are held back. An open paste continues.
func (s *scanner) release(emit func(tokenKind, []byte)) {
	if s.sent < len(s.seq) {
		emit(sequence, s.seq[s.sent:])
		s.sent = len(s.seq)
	}
	if s.state == inString || s.state == inStringEnd {
		s.state, s.seq, s.sent = ground, s.seq[:0], 0 // it was Alt-]
	}
}

// reset discards an unfinished sequence or paste.
func (s *scanner) reset() { *s = scanner{hot: s.hot, seq: s.seq[:0]} }

func (s *scanner) scan(b []byte, emit func(tokenKind, []byte)) {
	for len(b) > 0 {
		switch s.state {
		case ground:
			b = s.plain(b, characters, emit)
		case inString:
			b = s.plain(b, report, emit)
		case inPaste:
			b = s.paste(b, emit)
		case inMouse:
			if b[0] < ' ' {
				s.state = ground
				continue
			}
			emit(report, b[:1])
			b = b[1:]
			if s.left--; s.left == 0 {
				s.state = ground
			}
		default:
			if s.step(b[0], emit) {
				b = b[1:]
			}
		}
	}
}

// plain emits the bytes before the next special byte, and handles that byte.
func (s *scanner) plain(b []byte, kind tokenKind, emit func(tokenKind, []byte)) []byte {
	for i, c := range b {
		switch {
		case c == 0x1b || HotKey(c) == ctrlZ || HotKey(c) == s.hot && s.hot != noHotKey:
		case kind == report && c < ' ':
		default:
			continue
		}
		if i > 0 {
			emit(kind, b[:i])
		}
		switch {
		case c == 0x1b:
			if s.state == inString {
				s.state = inStringEnd
			} else {
				s.state = inEscape
			}
			s.seq, s.sent, s.long = append(s.seq[:0], c), 0, false
		case HotKey(c) == s.hot:
			s.state = ground
			emit(hotKey, nil)
		case HotKey(c) == ctrlZ:
			s.state = ground
			emit(suspend, b[i:i+1])
		case c == '\a':
			s.state = ground
			emit(report, b[i:i+1])
		default:
			s.state = ground // no reply contains such a byte
			return b[i:]
		}
		return b[i+1:]
	}
	emit(kind, b)
	return nil
}

func (s *scanner) paste(b []byte, emit func(tokenKind, []byte)) []byte {
	for i, c := range b {
		switch {
		case c == pasteEnd[s.matched]:
			s.matched++
		case c == pasteEnd[0]:
			s.matched = 1
		default:
			s.matched = 0
		}
		if s.matched < len(pasteEnd) {
			continue
		}
		s.state, s.matched = ground, 0
		if text := i + 1 - len(pasteEnd); text > 0 {
			emit(pasted, b[:text])
		}
		emit(marker, b[max(0, i+1-len(pasteEnd)):i+1])
		return b[i+1:]
	}
	emit(pasted, b)
	return nil
}

// step processes the next byte of a sequence. It returns false if the sequence ended before that byte.
func (s *scanner) step(c byte, emit func(tokenKind, []byte)) bool {
	released := s.sent > 0
	switch s.state {
	case inEscape, inStringEnd:
		switch {
		case s.state == inStringEnd && c == '\\':
			s.add(c, emit)
			s.end(report, emit)
			return true
		case c == '[':
			s.state = inCSI
			s.add(c, emit)
			return true
		case c == 'O' && !released:
			s.state = inSS3
			s.add(c, emit)
			return true
		case strings.IndexByte("]P_^X", c) >= 0 && !released:
			s.add(c, emit)
			s.end(report, emit)
			s.state = inString
			return true
		case c == 0x1b || c >= utf8.RuneSelf || released:
			s.end(sequence, emit)
			return false
		}
		s.add(c, emit) // with Alt
		s.end(sequence, emit)
		return true
	case inSS3:
		if c < ' ' || c >= 0x7f {
			s.end(sequence, emit)
			return false
		}
		s.add(c, emit)
		s.end(sequence, emit)
		return true
	}
	// inCSI
	if c < ' ' || c >= 0x7f {
		s.end(sequence, emit)
		return false
	}
	s.add(c, emit)
	if c < '@' {
		return true
	}
	hot, again := s.is(s.hot)
	stop, _ := s.is(ctrlZ)
	switch {
	case s.long:
		s.end(sequence, emit)
	case string(s.seq) == pasteStart:
		s.end(marker, emit)
		s.state = inPaste
	case hot && !released:
		s.sent = len(s.seq)
		s.end(sequence, emit)
		if again {
			emit(hotKeyAgain, nil)
		} else {
			emit(hotKey, nil)
		}
	case stop && !released:
		s.end(suspend, emit)
	case string(s.seq) == "\x1b[M":
		s.end(report, emit)
		s.state, s.left = inMouse, 3
	case isReport(s.seq):
		s.end(report, emit)
	default:
		s.end(sequence, emit)
	}
	return true
}

func (s *scanner) add(c byte, emit func(tokenKind, []byte)) {
	if len(s.seq) < sequenceLimit {
		s.seq = append(s.seq, c)
		return
	}
	s.release(emit)
	s.long = true
	emit(sequence, []byte{c})
}

func (s *scanner) end(kind tokenKind, emit func(tokenKind, []byte)) {
	if s.sent < len(s.seq) {
		emit(kind, s.seq[s.sent:])
	}
	s.state, s.seq, s.sent = ground, s.seq[:0], 0
}

// is reports whether the sequence is key with Ctrl, in kitty's protocol, CSI
// code:shifted:base;modifiers:event u, or in xterm's, CSI 27;modifiers;code ~. again means that the key is
// repeated or released.
func (s *scanner) is(key HotKey) (yes, again bool) {
	if key == noHotKey || len(s.seq) < 4 {
		return false, false
	}
	fields := strings.Split(string(s.seq[2:len(s.seq)-1]), ";")
	switch final := s.seq[len(s.seq)-1]; {
	case final == 'u' && (len(fields) == 2 || len(fields) == 3):
	case final == '~' && len(fields) == 3 && fields[0] == "27":
		fields[0] = fields[2]
	default:
		return false, false
	}
	code := strconv.Itoa(int(key) + 0x40)
	if key <= 26 {
		code = strconv.Itoa(int(key) + 0x60) // the code of a letter without Shift
	}
	codes := strings.Split(fields[0], ":")
	mods, event, _ := strings.Cut(fields[1], ":")
	bits, err := strconv.Atoi(mods)
	const control, locks = 4, 64 | 128
	// The third code is the one of the key in a Latin layout.
	if err != nil || (bits-1)&^locks != control || codes[0] != code && (len(codes) < 3 || codes[2] != code) {
		return false, false
	}
	return true, event != "" && event != "1"
}

// isReport distinguishes reports of the terminal from keys. A report of the cursor's position looks like F3
// with a modifier, but is more frequent.
func isReport(seq []byte) bool {
	params, final := seq[2:len(seq)-1], seq[len(seq)-1]
	if len(params) == 0 {
		return final == 'I' || final == 'O' // focus
	}
	if bytes.IndexByte([]byte("?<>="), params[0]) >= 0 || bytes.IndexByte([]byte("cnRtxyM"), final) >= 0 {
		return true
	}
	_, event, _ := bytes.Cut(params, []byte(";"))
	event, _, _ = bytes.Cut(event, []byte(";"))
	return bytes.HasSuffix(event, []byte(":3")) // a released key
}
