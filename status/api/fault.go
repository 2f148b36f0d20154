package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Code is the kind of an error. Programs rely on codes: they do not change.
//
// A code is an error itself, the sentinel of its kind: errors.Is(err, CodeNotFound)
// is true for a [*Problem] and a [*Decided] with that code.
type Code string

func (c Code) Error() string { return string(c) }

// The codes.
const (
	CodeError         Code = "error"          // any other error
	CodeUsage         Code = "usage"          // a mistake in the command line or in a request
	CodeInvalid       Code = "invalid"        // a name or a message that breaks a rule
	CodeAmbiguousTeam Code = "ambiguous_team" // the request fits several teams, or sessions
	CodeNotFound      Code = "not_found"
	CodeGone          Code = "gone" // the team ended
	CodeTimeout       Code = "timeout"
	CodeRefused       Code = "refused"      // possible, but not allowed
	CodeIDTaken       Code = "id_taken"     // the id belongs to another message
	CodeCorrupt       Code = "corrupt"      // a file with the wrong content
	CodeTooLarge      Code = "too_large"    // a file that is over the limit
	CodeLocked        Code = "locked"       // another process holds the lock
	CodeForeignLock   Code = "foreign_lock" // something that is no lock is in its place
	CodeBusy          Code = "busy"         // the file is being written
	CodeCompromised   Code = "compromised"  // the lock was taken over; nothing was written
	CodeLost          Code = "lost"         // overwritten by a tool that ignores the lock
	CodeUnknown       Code = "unknown"      // it is not known whether it arrived
	CodeNoLedger      Code = "no_ledger"    // there is no database to remember the id
	CodeNoAnswer      Code = "no_answer"    // the agent's turn ended without an answer
	CodePermission    Code = "permission"   // the operating system does not allow it
	CodeOutput        Code = "output"       // the answer could not be written
	CodeInterrupted   Code = "interrupted"

	// Only from the service.
	CodeUnauthorized Code = "unauthorized" // the token is missing or wrong
	CodeForbidden    Code = "forbidden"    // the request is from another site or for another host
	CodeReadOnly     Code = "read_only"    // the service changes nothing
	CodeMethod       Code = "method"       // the path exists, but not with this method
	CodeNoRoute      Code = "no_route"     // no such path; a service of another version may have it
	CodeBody         Code = "body"         // the body is not JSON, or has unknown fields
	CodeBodyTooLarge Code = "body_too_large"
	CodeConflict     Code = "conflict"      // it exists already, or its state does not allow this
	CodeNotInFlight  Code = "not_in_flight" // no turn is running that could be interrupted
	CodeTooMany      Code = "too_many"      // too many connections
	CodeUnavailable  Code = "unavailable"   // the service is starting or ending
)

// Exit statuses of the command line, as documented in its help.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitTimeout     = 4
	ExitRefused     = 5
	ExitLocked      = 6
	ExitUnknown     = 7
	ExitNoAnswer    = 8
	ExitChanged     = 9 // Claude Code does not behave as it was measured
	ExitInterrupted = 130
	ExitPipe        = 141 // the reader of the output closed it, which is not an error of the command
)

// statuses has every code once, with its exit status and its HTTP status.
var statuses = []struct {
	exit, http int
	codes      []Code
}{
	{ExitError, http.StatusInternalServerError, []Code{CodeError, CodePermission, CodeOutput}},
	{ExitError, http.StatusNotFound, []Code{CodeNoRoute}},
	{ExitError, http.StatusServiceUnavailable, []Code{CodeNoLedger, CodeTooMany, CodeUnavailable}},
	{ExitUsage, http.StatusBadRequest, []Code{CodeUsage, CodeAmbiguousTeam, CodeBody}},
	{ExitUsage, http.StatusMethodNotAllowed, []Code{CodeMethod}},
	{ExitUsage, http.StatusRequestEntityTooLarge, []Code{CodeBodyTooLarge}},
	{ExitUsage, http.StatusUnprocessableEntity, []Code{CodeInvalid}},
	{ExitNotFound, http.StatusNotFound, []Code{CodeNotFound}},
	{ExitNotFound, http.StatusGone, []Code{CodeGone}},
	{ExitTimeout, http.StatusGatewayTimeout, []Code{CodeTimeout}},
	{ExitRefused, http.StatusUnauthorized, []Code{CodeUnauthorized}},
	{ExitRefused, http.StatusForbidden, []Code{CodeRefused, CodeForbidden, CodeReadOnly}},
	{ExitRefused, http.StatusConflict, []Code{CodeIDTaken, CodeConflict, CodeNotInFlight}},
	{ExitLocked, http.StatusConflict, []Code{CodeCorrupt, CodeTooLarge}},
	{ExitLocked, http.StatusLocked, []Code{CodeLocked, CodeForeignLock, CodeBusy}},
	{ExitLocked, http.StatusServiceUnavailable, []Code{CodeCompromised}},
	{ExitUnknown, http.StatusInternalServerError, []Code{CodeLost, CodeUnknown}},
	{ExitNoAnswer, http.StatusBadGateway, []Code{CodeNoAnswer}},
	{ExitInterrupted, http.StatusServiceUnavailable, []Code{CodeInterrupted}},
}

// Exit returns the exit status of the command line for c, or 1 if c is unknown.
func (c Code) Exit() int {
	exit, _ := c.status()
	return exit
}

// HTTP returns the HTTP status of the service for c, or 500 if c is unknown.
func (c Code) HTTP() int {
	_, http := c.status()
	return http
}

func (c Code) status() (exit, http int) {
	for _, s := range statuses {
		if slices.Contains(s.codes, c) {
			return s.exit, s.http
		}
	}
	return CodeError.status()
}

// Title describes c in a few words. All errors with the same code have the same title.
func (c Code) Title() string { return strings.ReplaceAll(string(c), "_", " ") }

// Error describes an error, as the command line prints it with --json.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // lower case, one line or more, without a full stop
	Hint    string `json:"hint"`    // what to do about it; may be empty
	// of the API, whose hints name operations as method and path: the hint for a person at the command line, if it is
	// another one
	Command string `json:"command,omitempty"`
}

// Errors returns the errors in an answer that is known to be partial.
func Errors(answer any) (list []*Error) {
	all := func(errors []Error) {
		for i := range errors {
			list = append(list, &errors[i])
		}
	}
	switch v := answer.(type) {
	case Sent:
		if v.Error != nil {
			list = append(list, v.Error)
		}
	case []Sent:
		for _, s := range v {
			list = append(list, Errors(s)...)
		}
	case Inbox:
		all(v.Problems)
	case Rows:
		all(v.Problems)
	case Tasks:
		all(v.Problems)
	case *LineError:
		list = append(list, &v.Error)
	}
	return list
}

// Decided is an error whose code and hint were chosen where it occurred. For [errors.Is], it is
// its code.
type Decided struct {
	Err  error
	Code Code
	Hint string

	// Option is the JSON name of an option that the request cannot have, or "". The error begins with it.
	Option string
}

func (d *Decided) Error() string { return d.Err.Error() }
func (d *Decided) Unwrap() error { return d.Err }

// Is reports whether target is the code of d.
func (d *Decided) Is(target error) bool { return target == d.Code }

// Decide returns a [*Decided] with a new error.
func Decide(code Code, hint, format string, args ...any) error {
	return &Decided{Err: fmt.Errorf(format, args...), Code: code, Hint: hint}
}

// Option returns the option that a request cannot have, according to an error, or "".
func Option(err error) string {
	if d, ok := errors.AsType[*Decided](err); ok {
		return d.Option
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Option
	}
	return ""
}

// Choices returns the names that could be meant, according to an error.
func Choices(err error) []string {
	var p *Problem
	var c interface{ Choices() []string }
	switch {
	case errors.As(err, &p):
		return p.Nearest
	case errors.As(err, &c):
		return c.Choices()
	}
	return nil
}

// Codes returns every code, in byte order.
func Codes() (all []Code) {
	for _, s := range statuses {
		all = append(all, s.codes...)
	}
	slices.Sort(all)
	return all
}
