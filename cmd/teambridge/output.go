package main

// The rules of output.
//
// stdout has only the answer. With --json that is one JSON value on one line (watch and transcript: a line for each).
// Without, it is text for a person: aligned columns, local times, and colour only on a terminal and without NO_COLOR.
//
// stderr has the rest: "teambridge: " and an error, in lower case and without a full stop, then "hint: " and
// advice; "warning: " and a failure that does not stop the command; "note: " and information for a person; with
// -v the progress. With --json, an error is {"error": {"code", "message", "hint"}} and a warning {"warning":
// {"message"}}, each on its own line, and notes are left out.
//
// On a terminal, a line on stderr says what a command waits for, after a second. It is removed at the end.
//
// Names, texts and paths come from files that others write. Characters that could control
// the terminal or reorder a line are escaped; in JSON they are \u escapes.
//
// If the reader of stdout goes away, as head does, the command ends with status 141 and prints nothing on
// stderr. Its effects remain.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/ssh"
	"teambridge/status/view"
	"teambridge/teams"
)

func (c *console) printJSON(v any) error {
	line, err := jsonLine(v)
	if err != nil {
		return err
	}
	return c.print(line)
}

// answer prints v with --json, else a line for a person.
func (c *console) answer(v any, format string, args ...any) error {
	if c.json {
		return c.printJSON(v)
	}
	return c.printf(format, args...)
}

func (c *console) print(b []byte) (err error) {
	c.progress.Aside(func() { _, err = c.stdout.Write(b) })
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// whileRead is [stdio.Output.WhileRead] of stdout.
func (c *console) whileRead(ctx context.Context) (reading context.Context, stop func()) {
	return c.out.WhileRead(ctx, c.hangUp)
}

func (c *console) printf(format string, args ...any) error {
	return c.print(fmt.Appendf(nil, format, args...))
}

// note, warn and debug write to stderr.
func (c *console) note(format string, args ...any) {
	if !c.json && !c.out.Unread() {
		c.say("note", fmt.Sprintf(format, args...))
	}
}

func (c *console) warn(format string, args ...any) {
	c.writeStderr(c.warning(fmt.Sprintf(format, args...)))
}

// warning returns the line for a warning.
func (c *console) warning(text string) []byte {
	if c.json {
		if line, err := jsonLine(map[string]any{"warning": map[string]string{"message": text}}); err == nil {
			return line
		}
	}
	return stderrLine("warning", text)
}

func (c *console) debug(format string, args ...any) {
	if c.verbose {
		c.say("teambridge", fmt.Sprintf(format, args...))
	}
}

func (c *console) say(what, text string) {
	c.writeStderr(stderrLine(what, text))
}

// writeStderr writes a line to stderr. There is no place to report an error.
func (c *console) writeStderr(line []byte) {
	c.progress.Aside(func() { c.stderr.Write(line) })
}

// working shows what the command is doing until done is called. Call done before printing anything long, which may
// go to a pager on the same terminal.
func (c *console) working(format string, args ...any) (done func()) {
	return c.progress.Start(escape(fmt.Sprintf(format, args...), false))
}

// queueErrors puts a queue in front of stderr, so that the command does not wait for its reader.
func (c *console) queueErrors() *stdio.Queue {
	q := stdio.NewQueue(c.stderr, func(m stdio.Missing) []byte {
		return c.warning(fmt.Sprintf("%s were dropped here, since they were not read", m))
	}, func(error) {}) // it cannot be reported
	q.Patience = cmp.Or(c.patience, q.Patience)
	c.stderr = q
	c.drain = func(ctx context.Context) { q.Drain(ctx) }
	return q
}

// queueOutput puts a queue in front of stdout. It calls failed with the first error. drain waits until the
// queue is read.
func (c *console) queueOutput(leftOut func(stdio.Missing) []byte, failed func(error)) (q *stdio.Queue, drain func(context.Context)) {
	q = stdio.NewQueue(c.stdout, leftOut, func(err error) { failed(fmt.Errorf("write the answer: %w", err)) })
	q.Patience = cmp.Or(c.patience, q.Patience)
	c.stdout = q
	return q, func(ctx context.Context) {
		if lost := q.Drain(ctx); lost != (stdio.Missing{}) {
			c.warn("%s of output were not read and are lost", lost)
		}
	}
}

// stderrLine returns a line for a person.
func stderrLine(what, text string) []byte {
	return fmt.Appendf(nil, "%s: %s\n", what, escape(text, true))
}

// fail reports err and returns the exit status for it.
func (a *app) fail(ctx context.Context, err error) int {
	if lost, ok := errors.AsType[*ssh.Error](err); ok && lost.Why == ssh.Lost {
		select { // Ctrl+C ends ssh, too, perhaps first
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(interruptWithin):
		}
	}
	f, status := explain(ctx, err)
	if f.Code == "" {
		return status
	}
	// The team existed when the command began, and has ended since.
	if errors.Is(err, teams.ErrTeamGone) && !errors.As(err, new(*teams.NotFoundError)) && a.chosen != "" {
		f.Hint = "the team has ended and its files are gone; " + view.HistoryHint(a.chosen)
	}
	if a.json {
		if line, err := jsonLine(map[string]api.Error{"error": f}); err == nil {
			a.writeStderr(line)
			return status
		}
	}
	a.say("teambridge", f.Message)
	if f.Hint != "" {
		a.say("hint", f.Hint)
	}
	return status
}

// interruptWithin is how long to wait for the signal that may have ended ssh.
const interruptWithin = 200 * time.Millisecond

// Colours, as SGR parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint colours s on a terminal.
func (c *console) paint(colour, s string) string {
	if !c.terminal || s == "" {
		return s
	}
	return painted(colour, s)
}

func painted(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }

func clock(t time.Time) string { return view.Clock(t) }

func plural(n int, one string) string { return plain.Plural(n, one) }

func dash(s string) string { return cmp.Or(s, "-") }

// escape makes text from other programs safe for a terminal; see [plain.Escape].
func escape(s string, lines bool) string { return plain.Escape(s, lines) }

func jsonLine(v any) ([]byte, error) { return plain.JSON(v) }

// table prints rows of cells in aligned columns, the first row as the head.
func (c *console) table(rows [][]string) error {
	return c.print([]byte(plain.Table(rows, c.width(), 3)))
}

// printList prints a list: as JSON, or else as a table with a row for each value. none is printed if the list
// is empty.
func printList[T any](c *console, list []T, none string, head []string, row func(T) []string) error {
	switch {
	case c.json:
		return c.printJSON(list)
	case len(list) == 0:
		c.note("%s", none)
		return nil
	}
	rows := [][]string{head}
	for _, v := range list {
		rows = append(rows, row(v))
	}
	return c.table(rows)
}

// orUnchanged returns word if something was changed.
func orUnchanged(word string, changed bool) string {
	if !changed {
		return "unchanged"
	}
	return word
}

// width returns the current width of the terminal on stdout, or 0 if stdout is no terminal.
func (c *console) width() int {
	if c.columns == nil {
		return 0
	}
	return c.columns()
}

// indent writes a text below the line about it.
func (c *console) indent(b *strings.Builder, text string) {
	b.WriteString(plain.Indent(text, c.width()))
}

func relayText(r *api.Relay) string { return view.RelayText(r) }

// permissionMode returns the permission mode that the agent of a relay reported, or "-".
func permissionMode(i *api.Relay) string {
	if i == nil {
		return "-"
	}
	return dash(i.PermissionMode)
}

// interruptibly calls f, which may read a standard input that never ends, and waits for it until ctx ends.
func interruptibly(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
