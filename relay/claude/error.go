package claude

import (
	"errors"
	"fmt"
	"strings"

	"teambridge/relay/claude/session"
)

// Errors of the methods of [Process], for [errors.Is].
var (
	// ErrEnded means that the process has ended, or that its stdin was closed. Nothing was written.
	ErrEnded = errors.New("process has ended")

	// ErrUnusable means that an earlier line reached the process only in part. Nothing was written, since a
	// new line would become part of the earlier one. Send the frame to another process.
	ErrUnusable = errors.New("stdin holds a line that was cut off")

	// ErrNoAnswer means that a control request was not answered in time. The next [Init] shows whether it
	// took effect.
	ErrNoAnswer = errors.New("control request was not answered")

	// ErrInvalid means that a frame or an option cannot be used. Retrying does not help.
	ErrInvalid = errors.New("invalid")

	// ErrOverrun means that the process was killed because its output or its requests exceeded the
	// buffers.
	ErrOverrun = errors.New("more output than is kept")

	// ErrClosed means that the process was killed because it had closed its output and lived on.
	ErrClosed = errors.New("it closed its output, and lived on")

	// ErrSessionTaken means that a session with the id exists: resume it.
	ErrSessionTaken = errors.New("session id is already in use")

	// ErrSessionUnknown means that no session with the id exists: start it.
	ErrSessionUnknown = errors.New("no session of that id")
)

// WriteError reports a line that was not written to the process's stdin as a whole.
type WriteError struct {
	UUID    string // of the frame; empty for a control request
	Written int    // bytes written
	Size    int    // size of the line in bytes, including the newline
	Err     error  // the cause: [os.ErrDeadlineExceeded] if the process does not read, or the pipe's error
}

func (e *WriteError) Error() string {
	what := "a control request"
	if e.UUID != "" {
		what = "frame " + e.UUID
	}
	next := "it may be sent again"
	if e.Torn() {
		next = "the process must be replaced"
	}
	return fmt.Sprintf("claude: write %s: %d of %d bytes went in, %s: %v", what, e.Written, e.Size, next, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// Torn reports whether part of the line was written. The process is then [ErrUnusable], and may still take
// the frame, since the end of stdin also ends a line. Send the same uuid to its successor, which runs it or
// recognizes it.
func (e *WriteError) Torn() bool { return e.Written > 0 }

// ExitError reports how a process ended with an exit code other than 0. Claude Code also exits with 1 if its
// last turn failed.
type ExitError struct {
	Code   int      // exit code; -1 if a signal ended it, or if unknown
	Signal string   // such as "killed"; empty if no signal ended it
	Stderr string   // the end of stderr, at most 64 KiB
	Errors []string // the errors of its last result
	Err    error    // the cause, if known: [ErrSessionTaken], [ErrSessionUnknown], [ErrOverrun], [ErrClosed], or a context's error
}

func (e *ExitError) Error() string {
	var b strings.Builder
	b.WriteString("claude: process ")
	if e.Signal != "" {
		fmt.Fprintf(&b, "was ended by signal %q", e.Signal)
	} else {
		fmt.Fprintf(&b, "exited with code %d", e.Code)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	for _, text := range append(e.Errors, lastLines(e.Stderr, 5)) {
		if text != "" {
			fmt.Fprintf(&b, ": %s", text)
		}
	}
	return b.String()
}

func (e *ExitError) Unwrap() error { return e.Err }

// lastLines returns the end of a text, short enough for an error message.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-n):], " | ")
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[len(text)-1000:], "")
	}
	return text
}

// because finds the sentinel error that the texts of an exit stand for.
func because(texts ...string) error {
	switch text := strings.Join(texts, "\n"); {
	case strings.Contains(text, session.SessionTaken):
		return ErrSessionTaken
	case strings.Contains(text, session.SessionUnknown):
		return ErrSessionUnknown
	}
	return nil
}

// CommandError is the reason why a command cannot be run as an agent. It is an [ErrInvalid].
type CommandError struct{ Err error }

func (e *CommandError) Error() string {
	return "claude: command: " + ErrInvalid.Error() + ": " + e.Err.Error()
}

func (e *CommandError) Unwrap() []error { return []error{ErrInvalid, e.Err} }
