package terminal

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	heldLimit  = 4 << 10 // bytes of a sequence; longer ones, such as images, are passed on in parts
	titleLimit = 1 << 10
	modesLimit = 64
)

type drawState int

const (
	atText drawState = iota
	atEscape
	atCharset   // after ESC and an intermediate byte
	atCSI       // after ESC [
	atOSC       // after ESC ]
	atOSCEnd    // after ESC in an OSC sequence
	atString    // after ESC P and the like
	atStringEnd // after ESC in a string
)

// screen parses a program's output. It finds titles, to put a notice before them, and changes to the
// terminal, to undo them later. It passes a sequence on once it is complete.
type screen struct {
	state drawState
	seq   []byte // the sequence so far
	long  bool   // the beginning of the sequence was passed on
	text  []byte // the last bytes of text that were passed on
	inRow bool   // the last text does not end a line

	notice string // to show before the title
	shown  string // the notice on the terminal
	title  string // as the program sent it

	changes
}

// changes are a program's changes to the terminal.
type changes struct {
	private  map[int]bool // private modes that the program has changed, with their values
	alt      int          // the mode of the current alternate screen, or 0
	pushes   [2]int       // entries on kitty's keyboard stacks: 0 is the normal screen's, 1 the alternate screen's
	flags    [2]bool      // the current entry of a stack was changed
	modify   bool         // xterm's modifyOtherKeys
	insert   bool
	region   bool
	colors   bool // of the following text
	charset  bool
	keypad   bool
	cursor   bool // the cursor has another shape
	link     bool
	progress bool
	palette  [3]bool // of text, background, cursor
}

// print appends the bytes for the terminal to out: the program's output, with the notice in titles.
func (s *screen) print(out, b []byte) []byte {
	for len(b) > 0 {
		if s.state != atText {
			out = s.step(b[0], out)
			b = b[1:]
			continue
		}
		n := bytes.IndexByte(b, 0x1b)
		if n < 0 {
			n = len(b)
		}
		out = append(out, b[:n]...)
		if n > 0 {
			s.inRow = b[n-1] != '\n'
		}
		s.text = append(s.text, b[max(0, n-utf8.UTFMax):n]...)
		s.text = append(s.text[:0], s.text[max(0, len(s.text)-utf8.UTFMax):]...)
		if b = b[n:]; len(b) > 0 {
			s.state, s.seq, s.text = atEscape, append(s.seq[:0], 0x1b), s.text[:0]
			b = b[1:]
		}
	}
	if s.notice != s.shown && s.whole() {
		out = s.appendTitle(out)
	}
	return out
}

// whole reports whether a sequence of our own can be written now: the output is between two sequences, and
// not within a character.
func (s *screen) whole() bool {
	if s.long {
		return false
	}
	for i := len(s.text) - 1; i >= 0; i-- {
		if utf8.RuneStart(s.text[i]) {
			return utf8.FullRune(s.text[i:])
		}
	}
	return true
}

func (s *screen) appendTitle(out []byte) []byte {
	s.shown = s.notice
	return append(append(append(append(out, "\x1b]0;"...), s.notice...), s.title...), '\a')
}

// step processes the next byte of a sequence.
func (s *screen) step(c byte, out []byte) []byte {
	switch s.state {
	case atOSCEnd, atStringEnd:
		switch {
		case c == '\\':
			return s.end(c, out)
		case c == 0x1b && s.state == atStringEnd: // tmux doubles ESC in sequences that it passes through
			s.state = atString
			return s.hold(c, out)
		}
		// The ESC begins another sequence.
		out = append(out, s.seq[:len(s.seq)-1]...)
		s.state, s.seq, s.long = atEscape, append(s.seq[:0], 0x1b), false
		return s.step(c, out)
	case atOSC, atString:
		switch {
		case c == 0x1b:
			s.state++
			s.seq = append(s.seq, c)
			return out
		case c == '\a' && s.state == atOSC:
			return s.end(c, out)
		}
	case atEscape, atCharset:
		switch {
		case c >= ' ' && c < '0':
			s.state = atCharset
		case c == '[' && s.state == atEscape:
			s.state = atCSI
		case c == ']' && s.state == atEscape:
			s.state = atOSC
		case strings.IndexByte("P_^X", c) >= 0 && s.state == atEscape:
			s.state = atString
		case c >= '0':
			return s.end(c, out)
		}
	case atCSI:
		if c >= '@' && c < 0x7f {
			return s.end(c, out)
		}
	}
	switch c {
	case 0x18, 0x1a: // these cancel any sequence
		s.state = atText
		return s.end(c, out)
	case 0x1b:
		out = append(out, s.seq...)
		s.state, s.seq, s.long = atEscape, append(s.seq[:0], c), false
		return out
	}
	return s.hold(c, out)
}

func (s *screen) hold(c byte, out []byte) []byte {
	s.seq = append(s.seq, c)
	if s.long || len(s.seq) > heldLimit {
		out = append(out, s.seq...)
		s.seq, s.long = s.seq[:0], true
	}
	return out
}

// end adds the last byte of a sequence, and passes the sequence on.
func (s *screen) end(c byte, out []byte) []byte {
	s.seq = append(s.seq, c)
	state, seq, long := s.state, s.seq, s.long
	s.state, s.seq, s.long = atText, s.seq[:0], false
	if long {
		return append(out, seq...)
	}
	switch state {
	case atEscape:
		switch c {
		case '=', '>':
			s.keypad = c == '='
		case 'c': // a full reset
			s.changes = changes{}
		}
	case atCharset:
		if seq[1] == '(' {
			s.charset = c != 'B'
		}
	case atCSI:
		s.control(string(seq[2:len(seq)-1]), c)
	case atOSC, atOSCEnd:
		body, _ := strings.CutSuffix(strings.TrimSuffix(string(seq[2:]), "\a"), "\x1b\\")
		number, value, _ := strings.Cut(body, ";")
		switch number {
		case "0", "2":
			s.title, s.shown = value, s.notice
			if s.notice != "" {
				out = append(append(out, seq[:2+len(number)+1]...), s.notice...)
				return append(out, seq[2+len(number)+1:]...)
			}
		default:
			s.command(number, value)
		}
	}
	return append(out, seq...)
}

// control records the changes of a sequence CSI params final.
func (c *changes) control(params string, final byte) {
	alt := 0
	if c.alt != 0 {
		alt = 1
	}
	prefix := byte(0)
	if params != "" && params[0] >= '<' {
		prefix, params = params[0], params[1:]
	}
	first, rest, _ := strings.Cut(params, ";")
	n, _ := strconv.Atoi(first)
	switch string(prefix) + string(final) {
	case "?h", "?l":
		for mode := range strings.SplitSeq(params, ";") {
			if n, err := strconv.Atoi(mode); err == nil {
				c.mode(n, final == 'h')
			}
		}
	case ">u":
		c.pushes[alt]++
	case "<u":
		c.pushes[alt] = max(0, c.pushes[alt]-max(1, n))
	case "=u":
		c.flags[alt] = n != 0
	case ">m", ">n":
		if n == 4 || params == "" {
			c.modify = final == 'm' && rest != "" && rest != "0"
		}
	case "\x00h", "\x00l":
		if n == 4 {
			c.insert = final == 'h'
		}
	case "\x00r":
		c.region = params != ""
	case "\x00m":
		c.colors = params != "" && params != "0"
	case "\x00q":
		if shape, ok := strings.CutSuffix(params, " "); ok {
			c.cursor = shape != "" && shape != "0"
		}
	}
}

// onAtFirst are the private modes that are on by default.
var onAtFirst = []int{7, 25}

func (c *changes) mode(n int, on bool) {
	switch n {
	case 47, 1047, 1049: // the alternate screen
		if c.alt = 0; on {
			c.alt = n
		}
		return
	case 12, 1007, 1048: // keep the person's choice; 1048 only saves the cursor
		return
	}
	if on == slices.Contains(onAtFirst, n) {
		delete(c.private, n)
	} else if len(c.private) < modesLimit {
		if c.private == nil {
			c.private = map[int]bool{}
		}
		c.private[n] = on
	}
}

// command records the changes of a sequence OSC number;value.
func (c *changes) command(number, value string) {
	switch number {
	case "8":
		_, target, _ := strings.Cut(value, ";")
		c.link = target != ""
	case "9":
		if state, ok := strings.CutPrefix(value, "4;"); ok {
			c.progress = !strings.HasPrefix(state, "0")
		}
	case "10", "11", "12":
		if value != "?" {
			c.palette[number[1]-'0'] = true
		}
	case "110", "111", "112":
		c.palette[number[2]-'0'] = false
	}
}

// reset returns the sequences that undo a program's changes after its end, and forgets its title. The
// program's output above the cursor stays.
func (s *screen) reset() []byte {
	var out []byte
	add := func(on bool, sequence string) {
		if on {
			out = append(out, sequence...)
		}
	}
	pop := func(alt int) {
		add(s.flags[alt] && s.pushes[alt] == 0, "\x1b[=0u")
		add(s.pushes[alt] > 0, "\x1b[<"+strconv.Itoa(s.pushes[alt])+"u")
	}
	untidy := len(s.private) > 0
	add(s.long, "\x1b\\") // ends a string; the held part of a shorter sequence is dropped
	if s.alt != 0 {
		pop(1)
		out = append(out, "\x1b[?"+strconv.Itoa(s.alt)+"l"...)
	}
	pop(0)
	for _, n := range slices.Sorted(maps.Keys(s.private)) {
		set := "h"
		if s.private[n] {
			set = "l"
		}
		out = append(out, "\x1b[?"+strconv.Itoa(n)+set...)
	}
	add(s.modify, "\x1b[>4;0m")
	add(s.insert, "\x1b[4l")
	add(s.region, "\x1b7\x1b[r\x1b8") // saves and restores the cursor, which the sequence moves
	add(s.colors, "\x1b[m")
	add(s.charset, "\x1b(B")
	add(s.keypad, "\x1b>")
	add(s.cursor, "\x1b[0 q")
	add(s.link, "\x1b]8;;\x1b\\")
	add(s.progress, "\x1b]9;4;0\a")
	for i, changed := range s.palette {
		add(changed, "\x1b]11"+strconv.Itoa(i)+"\a")
	}
	if s.alt == 0 {
		add(untidy, "\x1b[999B") // the program did not move the cursor below its drawing
		add(untidy || s.inRow, "\r\n")
		add(true, "\x1b[J")
	}
	titled := s.title != ""
	*s = screen{notice: s.notice, shown: s.shown}
	if titled || s.notice != s.shown {
		out = s.appendTitle(out)
	}
	return out
}

// plainTitle removes all characters that could end a title or notice early, and limits the length.
func plainTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	if len(s) <= titleLimit {
		return s
	}
	cut := titleLimit
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
