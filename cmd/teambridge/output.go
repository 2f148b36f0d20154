package main

// The rules of output.
//
// stdout has only the answer. With --json that is one JSON value on one line (watch, transcript and
// wire validate: a line for each). Without, it is text for a person: aligned columns, local times, and
// colour only on a terminal and without NO_COLOR.
//
// stderr has the rest: "teambridge: " and an error, in lower case and without a full stop,
// then "hint: " and what to do; "warning: " and what went wrong without stopping the
// command; "note: " and what a person should know; with -v what is being done. With --json
// an error is {"error": {"code", "message", "hint"}}, a warning {"warning": {"message"}},
// each on its own line, and notes are left out.
//
// On a terminal, a line on stderr says what a command waits for, if that takes longer than
// a second; it is gone at the end.
//
// Names, texts and paths come from files that others write. Characters that could control
// the terminal or reorder a line are escaped; in JSON they are \u escapes.
//
// If the reader of stdout goes away, as head does, the command ends with status 141 and
// prints nothing on stderr. What it has done stays done.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func (a *app) printJSON(v any) error {
	line, err := jsonLine(v)
	if err != nil {
		return err
	}
	return a.print(line)
}

// jsonLine encodes v as one line, with <, > and & as they are. Characters that could
// control a terminal are \u escapes, even where JSON does not require it.
func jsonLine(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(buf.Bytes()), nil
}

// escapeJSON makes \u escapes of the characters in a line of JSON that could control a terminal.
func escapeJSON(line []byte) (out []byte) {
	if !bytes.ContainsFunc(line, func(r rune) bool { return harmful(r, true) }) {
		return line
	}
	for _, r := range string(line) {
		if !harmful(r, true) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// escapedJSON escapes the lines of JSON that are written to it, each in one call.
type escapedJSON struct{ w io.Writer }

func (e escapedJSON) Write(line []byte) (int, error) {
	if _, err := e.w.Write(escapeJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// answer prints v with --json, else a line for a person.
func (a *app) answer(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	return a.printf(format, args...)
}

func (a *app) print(b []byte) (err error) {
	a.progress.aside(func() { _, err = a.stdout.Write(b) })
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// outlet is stdout, and keeps the first error of writing to it.
type outlet struct {
	w io.Writer

	mu   sync.Mutex
	err  error
	gone bool // the reader went away, which was seen without writing
}

func (o *outlet) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, err)
	return n, err
}

// failed returns the first error. It may be called while a Write is stuck.
func (o *outlet) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outlet) unread() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone || closedPipe(o.err)
}

// errUnread ends a command that waits for something to print that nobody would read.
var errUnread = errors.New("nobody reads the output any more")

// whileRead returns a context that ends when the reader of stdout goes away, if the system
// reports that. Call stop at the end.
func (a *app) whileRead(ctx context.Context) (reading context.Context, stop func()) {
	reading, cancel := context.WithCancelCause(ctx)
	if a.hangUp == nil {
		return reading, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a.hangUp(reading) {
			a.out.mu.Lock()
			a.out.gone = true
			a.out.mu.Unlock()
			cancel(errUnread)
		}
	}()
	return reading, func() {
		cancel(nil)
		<-done
	}
}

// becauseUnread reports whether err means only that the reader of stdout went away.
func (a *app) becauseUnread(err error) bool {
	if !a.out.unread() {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !a.becauseUnread(err) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return a.becauseUnread(inner)
	}
	// The error of the write, or of what the end of whileRead interrupted.
	return closedPipe(err) && errors.Is(a.out.failed(), err) || errors.Is(err, errUnread) || errors.Is(err, context.Canceled)
}

func (a *app) printf(format string, args ...any) error {
	return a.print(fmt.Appendf(nil, format, args...))
}

// note, warn and debug write to stderr.
func (a *app) note(format string, args ...any) {
	if !a.json && !a.out.unread() {
		a.say("note", fmt.Sprintf(format, args...))
	}
}

func (a *app) warn(format string, args ...any) {
	a.tell(a.warning(fmt.Sprintf(format, args...)))
}

// warning is the line that warns of text.
func (a *app) warning(text string) []byte {
	if a.json {
		if line, err := jsonLine(map[string]any{"warning": map[string]string{"message": text}}); err == nil {
			return line
		}
	}
	return sayLine("warning", text)
}

func (a *app) debug(format string, args ...any) {
	if a.verbose {
		a.say("teambridge", fmt.Sprintf(format, args...))
	}
}

func (a *app) say(what, text string) {
	a.tell(sayLine(what, text))
}

// tell writes a line to stderr. An error could not be reported anywhere.
func (a *app) tell(line []byte) {
	a.progress.aside(func() { a.stderr.Write(line) })
}

// sayLine is a line on stderr for a person.
func sayLine(what, text string) []byte {
	return fmt.Appendf(nil, "%s: %s\n", what, escape(text, true))
}

// fail reports err and returns the exit status for it.
func (a *app) fail(ctx context.Context, err error) int {
	f, status := explain(ctx, err)
	if f.Code == "" {
		return status
	}
	// Who waits for a team that ends meanwhile has named no team that does not exist.
	if errors.Is(err, teams.ErrTeamGone) && !errors.As(err, new(*teams.NotFoundError)) && a.chosen != "" {
		f.Hint = "the team has ended and its files are gone; " + view.HistoryHint(a.chosen)
	}
	if a.json {
		if line, err := jsonLine(map[string]api.Error{"error": f}); err == nil {
			a.tell(line)
			return status
		}
	}
	a.say("teambridge", f.Message)
	if f.Hint != "" {
		a.say("hint", f.Hint)
	}
	return status
}

// escape makes text safe for a terminal: characters that could move the cursor, change
// colours or reorder text are escaped. With lines, line breaks and tabs are kept.
func escape(s string, lines bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return harmful(r, lines) }) && utf8.ValidString(s) {
		return s
	}
	short := map[rune]string{'\n': `\n`, '\t': `\t`, '\r': `\r`, 0x1b: `\e`}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !harmful(r, lines):
			b.WriteRune(r)
		case short[r] != "":
			b.WriteString(short[r])
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

func harmful(r rune, lines bool) bool {
	if lines && (r == '\n' || r == '\t') {
		return false
	}
	// Cf has the marks that reorder text, and the joiners inside emoji, which are harmless.
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
		unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u200c'
}

// Colours, as SGR parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint colours s on a terminal.
func (a *app) paint(colour, s string) string {
	if !a.terminal || s == "" {
		return s
	}
	return painted(colour, s)
}

func painted(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }

// colourful reports whether f is a terminal, and neither NO_COLOR (https://no-color.org)
// nor TERM=dumb is set.
func colourful(f *os.File, lookup func(string) (string, bool)) bool {
	no, _ := lookup("NO_COLOR")
	term, _ := lookup("TERM")
	return no == "" && term != "dumb" && isTerminal(f)
}

// isTerminal reports whether f is a terminal, or another character device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func clock(t time.Time) string { return view.Clock(t) }

func plural(n int, one string) string { return view.Plural(n, one) }

func dash(s string) string { return cmp.Or(s, "-") }
