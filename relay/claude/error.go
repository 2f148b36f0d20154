package claude

import (
	"errors"
	"fmt"
	"strings"
)

// What the methods of [Process] answer, for [errors.Is].
var (
	// ErrEnded says that the process has ended, or that its stdin was closed. Nothing was written.
	ErrEnded = errors.New("process has ended")

	// ErrUnusable says that an earlier line reached the process only in part. Nothing was written, since it would become
	// part of that line. Send the frame to another process.
	ErrUnusable = errors.New("stdin holds a line that was cut off")

	// ErrNoAnswer says that a control request was not answered in time. The next [Init] tells whether it took effect.
	ErrNoAnswer = errors.New("control request was not answered")

	// ErrInvalid says that a frame or an option cannot be used. Trying again does not help.
	ErrInvalid = errors.New("invalid")

	// ErrOverrun says that the process was killed, since it printed or asked far more than is kept.
	ErrOverrun = errors.New("more output than is kept")

	// ErrSessionTaken says that there is a session of the id: resume it.
	ErrSessionTaken = errors.New("session id is already in use")

	// ErrSessionUnknown says that there is no session of the id to resume: start it.
	ErrSessionUnknown = errors.New("no session of that id")
)

// WriteError says that a line did not go into the stdin of the process whole.
type WriteError struct {
	UUID    string // of the frame; empty for a control request
	Written int    // bytes that went in
	Size    int    // bytes the line has, with its newline
	Err     error  // why: [os.ErrDeadlineExceeded] if the process does not read, or what the pipe said
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

// Torn reports whether a part of the line went in. Then the process is [ErrUnusable], and may still take the frame, since
// the end of stdin ends a line too. Send the same uuid to its successor, which runs it or knows it.
func (e *WriteError) Torn() bool { return e.Written > 0 }

// ExitError says how a process ended, if not with exit code 0. Claude Code also ends with 1 if its last turn had an error.
type ExitError struct {
	Code   int      // exit code, -1 if it was ended by a signal or that is not known
	Signal string   // such as "killed"; empty if it exited by itself
	Stderr string   // the last of stderr, at most 64 KiB
	Errors []string // what its last result gave as errors
	Err    error    // why, if that is known: [ErrSessionTaken], [ErrSessionUnknown], [ErrOverrun], or that of a context
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

// lastLines is the end of a text, short enough for an error message.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.Join(lines[max(0, len(lines)-n):], " | ")
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[len(text)-1000:], "")
	}
	return text
}

// because looks for the reasons of an exit that a caller decides by.
func because(texts ...string) error {
	switch text := strings.Join(texts, "\n"); {
	case strings.Contains(text, "already in use"):
		return ErrSessionTaken
	case strings.Contains(text, "No conversation found"):
		return ErrSessionUnknown
	}
	return nil
}

// A CommandError says why a command cannot be run as an agent. It is an [ErrInvalid].
type CommandError struct{ Err error }

func (e *CommandError) Error() string {
	return "claude: command: " + ErrInvalid.Error() + ": " + e.Err.Error()
}

func (e *CommandError) Unwrap() []error { return []error{ErrInvalid, e.Err} }
