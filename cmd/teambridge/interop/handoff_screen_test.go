package interop

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// The terminal shows exactly what the program draws: after a long answer, in a smaller window, and with a paste at
// the prompt, the screen is the same as that of the program without teambridge.
func TestRealScreenIsTheProgramsOwn(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		var long strings.Builder
		for i := range 300 {
			fmt.Fprintf(&long, "row %d of a long answer that is a little wider than the smaller one of the two windows in which it is shown\n\n", i)
		}
		model := func(ctx context.Context, r standin.Request) standin.Answer {
			if r.Has("[long]") {
				return standin.Answer{Text: long.String()}
			}
			return standin.Script(ctx, r)
		}
		s := newSeat(t, v, model)
		ctx := deadline(t, patience)
		s.sitDown()
		s.at(ledger.AtTerminal)
		direct := newHeadless(t, v, model)
		own := standin.StartTerminal(t, v, direct.home, direct.command[len(standin.Require(t, v))+1:]...)

		screen := func(x *standin.Terminal) string {
			t.Helper()
			out, err := x.Run(ctx, nil, "capture-pane", "-p", "-e")
			must(t, err)
			return took().ReplaceAllString(visible(out), "")
		}
		act := func(x *standin.Terminal, api *standin.API) {
			t.Helper()
			run := func(stdin string, args ...string) {
				t.Helper()
				if _, err := x.Run(ctx, strings.NewReader(stdin), args...); err != nil {
					t.Fatal(err)
				}
			}
			prompts(t, ctx, x, "[long]")
			given(t, ctx, api, standin.Any, "[long]")
			s.until("a long answer", func() bool { return strings.Contains(x.Screen(), "row 299 ") })
			run("", "resize-window", "-x", "100", "-y", "30")
			run("one\ntwo\nthree", "load-buffer", "-b", "b", "-", ";", "paste-buffer", "-b", "b", "-d", "-p", "-r")
			s.until("a paste", func() bool { return strings.Contains(x.Screen(), "three") })
		}
		act(s.terminal, s.home.API)
		act(own, direct.home.API)
		// Both may still be drawing.
		s.until("alike", func() bool { return screen(s.terminal) == screen(own) })
		if !strings.Contains(screen(own), "row 299") {
			t.Errorf("the screen:\n%s", own.Screen())
		}
	})
}

// visible returns the characters of a screen with their colors, and of a blank only what can be seen. The program
// draws only the differences, and so leaves blanks with old attributes.
func visible(screen string) string {
	var out strings.Builder
	var front, back string
	attributes := [10]bool{} // 1 bold, 2 dim, 7 reverse and so on
	shown := ""
	for len(screen) > 0 {
		if m := colors().FindStringSubmatch(screen); m != nil {
			screen = screen[len(m[0]):]
			for codes := strings.Split(m[1], ";"); len(codes) > 0; codes = codes[1:] {
				switch n, _ := strconv.Atoi(codes[0]); {
				case n == 0:
					front, back, attributes = "", "", [10]bool{}
				case n < 10:
					attributes[n] = true
				case n == 22:
					attributes[1], attributes[2] = false, false
				case n > 22 && n < 30:
					attributes[n-20] = false
				case n == 38:
					front, codes = strings.Join(codes, ";"), codes[:1] // tmux writes a sequence for each
				case n == 48:
					back, codes = strings.Join(codes, ";"), codes[:1]
				case n == 39:
					front = ""
				case n == 49:
					back = ""
				case n >= 40 && n < 48 || n >= 100:
					back = codes[0]
				default:
					front = codes[0]
				}
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(screen)
		screen = screen[n:]
		look := fmt.Sprint(front, back, attributes)
		if unicode.IsSpace(r) {
			look = fmt.Sprint("blank", back, attributes[7])
		}
		if plain := unicode.IsSpace(r) && back == "" && !attributes[7]; !plain && look != shown {
			fmt.Fprintf(&out, "<%s>", look)
			shown = look
		}
		if out.WriteRune(r); r == '\n' {
			shown = "" // a line is the same whatever is above it
		}
	}
	return out.String()
}

var colors = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\x1b\[([0-9;]*)m`) })

// took matches the line with the duration of a turn, which begins with one of many words.
var took = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^.*[A-Z][\pL-]+ed for [0-9].*$`) })
