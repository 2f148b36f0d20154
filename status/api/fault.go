package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Code says what kind of error it is. It is for programs, and stays what it is.
type Code string

// The codes.
const (
	CodeError         Code = "error"          // another one
	CodeUsage         Code = "usage"          // a mistake in the command line, or in a request
	CodeInvalid       Code = "invalid"        // a name or a message that is no good
	CodeAmbiguousTeam Code = "ambiguous_team" // several teams could be meant
	CodeNotFound      Code = "not_found"
	CodeGone          Code = "gone" // the team ended
	CodeTimeout       Code = "timeout"
	CodeRefused       Code = "refused"         // it could be done, and will not be
	CodeIDTaken       Code = "id_taken"        // the id belongs to another message
	CodeJoinNotNeeded Code = "join_not_needed" // agents can write to "user"
	CodeCorrupt       Code = "corrupt"         // a file that is not what it has to be
	CodeTooLarge      Code = "too_large"       // a file that is over the limit
	CodeLocked        Code = "locked"          // others hold the lock
	CodeForeignLock   Code = "foreign_lock"    // what stands in the lock's place is none
	CodeBusy          Code = "busy"            // the file is being written
	CodeCompromised   Code = "compromised"     // the lock was taken over; nothing was written
	CodeLost          Code = "lost"            // overwritten by a tool that ignores the lock
	CodeUnknown       Code = "unknown"         // it is not known whether it arrived
	CodeNoLedger      Code = "no_ledger"       // nothing could remember the id
	CodeNoAnswer      Code = "no_answer"       // the agent's turn ended without one
	CodePermission    Code = "permission"      // the system does not allow it
	CodeOutput        Code = "output"          // the answer could not be written
	CodeInterrupted   Code = "interrupted"

	// Of the service alone.
	CodeUnauthorized Code = "unauthorized" // no token, or a wrong one
	CodeForbidden    Code = "forbidden"    // from another site, or for another host
	CodeReadOnly     Code = "read_only"    // the service changes nothing
	CodeMethod       Code = "method"       // there is the path, and not for this method
	CodeNoRoute      Code = "no_route"     // there is no such path: a service of another version may have it
	CodeBody         Code = "body"         // the body is no JSON, or has what is not known
	CodeBodyTooLarge Code = "body_too_large"
	CodeConflict     Code = "conflict"      // there is one already, or it is not as it has to be for that
	CodeNotInFlight  Code = "not_in_flight" // no turn runs that could be interrupted
	CodeTooMany      Code = "too_many"      // connections
	CodeUnavailable  Code = "unavailable"   // the service is starting or ending
)

// Exit statuses of the command line; they are documented in its help.
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
	ExitInterrupted = 130
	ExitPipe        = 141 // the reader of the output went away, which is no error of the command
)

// standing is what a code means to those who do not read it.
type standing struct{ exit, http int }

// standings has every code.
var standings = map[Code]standing{
	CodeError:         {ExitError, http.StatusInternalServerError},
	CodeUsage:         {ExitUsage, http.StatusBadRequest},
	CodeInvalid:       {ExitUsage, http.StatusUnprocessableEntity},
	CodeAmbiguousTeam: {ExitUsage, http.StatusBadRequest},
	CodeNotFound:      {ExitNotFound, http.StatusNotFound},
	CodeGone:          {ExitNotFound, http.StatusGone},
	CodeTimeout:       {ExitTimeout, http.StatusGatewayTimeout},
	CodeRefused:       {ExitRefused, http.StatusForbidden},
	CodeIDTaken:       {ExitRefused, http.StatusConflict},
	CodeJoinNotNeeded: {ExitRefused, http.StatusConflict},
	CodeCorrupt:       {ExitLocked, http.StatusConflict},
	CodeTooLarge:      {ExitLocked, http.StatusConflict},
	CodeLocked:        {ExitLocked, http.StatusLocked},
	CodeForeignLock:   {ExitLocked, http.StatusLocked},
	CodeBusy:          {ExitLocked, http.StatusLocked},
	CodeCompromised:   {ExitLocked, http.StatusServiceUnavailable},
	CodeLost:          {ExitUnknown, http.StatusInternalServerError},
	CodeUnknown:       {ExitUnknown, http.StatusInternalServerError},
	CodeNoLedger:      {ExitError, http.StatusServiceUnavailable},
	CodeNoAnswer:      {ExitNoAnswer, http.StatusBadGateway},
	CodePermission:    {ExitError, http.StatusInternalServerError},
	CodeOutput:        {ExitError, http.StatusInternalServerError},
	CodeInterrupted:   {ExitInterrupted, http.StatusServiceUnavailable},
	CodeUnauthorized:  {ExitRefused, http.StatusUnauthorized},
	CodeForbidden:     {ExitRefused, http.StatusForbidden},
	CodeReadOnly:      {ExitRefused, http.StatusForbidden},
	CodeMethod:        {ExitUsage, http.StatusMethodNotAllowed},
	CodeNoRoute:       {ExitError, http.StatusNotFound},
	CodeBody:          {ExitUsage, http.StatusBadRequest},
	CodeBodyTooLarge:  {ExitUsage, http.StatusRequestEntityTooLarge},
	CodeConflict:      {ExitRefused, http.StatusConflict},
	CodeNotInFlight:   {ExitRefused, http.StatusConflict},
	CodeTooMany:       {ExitError, http.StatusServiceUnavailable},
	CodeUnavailable:   {ExitError, http.StatusServiceUnavailable},
}

// Exit returns the exit status of the command line for the code; 1 for one that
// is not known here.
func (c Code) Exit() int {
	if s, ok := standings[c]; ok {
		return s.exit
	}
	return ExitError
}

// HTTP returns the status of the service's answer for the code; 500 for one that
// is not known here.
func (c Code) HTTP() int {
	if s, ok := standings[c]; ok {
		return s.http
	}
	return http.StatusInternalServerError
}

// Title says in a few words what a code is about. It is the same for every error
// of that code.
func (c Code) Title() string { return strings.ReplaceAll(string(c), "_", " ") }

// nearest are the names most like one that was not found.
func nearest(err error) []string {
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		return nf.Nearest
	}
	return nil
}

// Fault is what there is to say of an error.
type Fault struct {
	Code    Code
	Message string // lower case, one line or more, without a full stop
	Hint    string // what to do; may be empty
}

// Error is how a fault is told with --json.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Wire returns the fault as it is told with --json.
func (f Fault) Wire() *Error { return &Error{f.Code, f.Message, f.Hint} }

// Decided is an error whose meaning was decided where it was found, which is
// where the best hint is known.
type Decided struct {
	Err  error
	Code Code
	Hint string
}

func (d *Decided) Error() string { return d.Err.Error() }
func (d *Decided) Unwrap() error { return d.Err }

// Decide makes a [Decided] of a new error.
func Decide(code Code, hint, format string, args ...any) error {
	return &Decided{fmt.Errorf(format, args...), code, hint}
}

// TimeoutError ends a wait of ours, as opposed to the caller's. What says what
// did not happen.
type TimeoutError struct{ What string }

func (e *TimeoutError) Error() string { return e.What }

// Explain classifies an error. The hints live here and not in the packages it
// comes from, since only here it is known which command can help.
func Explain(err error) Fault {
	code, hint := classify(err)
	return Fault{code, Describe(err), hint}
}

func classify(err error) (Code, string) {
	is := func(target error) bool { return errors.Is(err, target) }
	if d, ok := errors.AsType[*Decided](err); ok {
		return d.Code, d.Hint
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Code, p.Hint
	}
	if is(lockedfile.ErrReplaced) && !is(lockedfile.ErrClobbered) {
		return CodeUnknown, "look with: teambridge read; then send again with the same id"
	}
	if is(lockedfile.ErrCompromised) {
		return CodeCompromised, "nothing was written: send again"
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		hint := "see who is there with: teambridge members"
		switch {
		case nf.Kind == "team" && nf.Query == "" && len(nf.Nearest) > 0:
			hint = "what an ended team left behind can still be read with --team " + nf.Nearest[0]
		case nf.Kind == "team":
			hint = "see what is there with: teambridge teams"
		}
		return CodeNotFound, hint
	}
	if amb, ok := errors.AsType[*teams.AmbiguousTeamError](err); ok {
		names := make([]string, 0, len(amb.Teams))
		for _, c := range amb.Teams {
			names = append(names, c.Name)
		}
		return CodeAmbiguousTeam, "name one with --team or $TEAMBRIDGE_TEAM: " + strings.Join(names, ", ")
	}
	if _, ok := errors.AsType[*teams.NoRootError](err); ok {
		return CodeNotFound, "say where it is with --claude-dir or $CLAUDE_CONFIG_DIR"
	}
	if invalid, ok := errors.AsType[*inbox.InvalidError](err); ok {
		if invalid.Field == "text" {
			return CodeInvalid, "nothing was sent; put a long text, or one that is no text, into a file and send its path"
		}
		return CodeInvalid, "nothing was sent; teambridge send --help explains"
	}
	if p, ok := errors.AsType[*inbox.ProtocolError](err); ok {
		if p.From != "" {
			return CodeRefused, "nothing was sent: agents would take it for the word of that one; it can be sent in no agent's name"
		}
		return CodeRefused, "nothing was sent; if it is meant, send it with --protocol; if an agent is to read it, put words around it"
	}
	if errors.As(err, new(*inbox.CorruptError)) || errors.As(err, new(*teams.CorruptError)) {
		return CodeCorrupt, "the file was left as it is; teambridge doctor tells what can be done"
	}
	switch {
	case errors.As(err, new(*TimeoutError)):
		return CodeTimeout, ""
	case is(inbox.ErrLost):
		return CodeLost, "send it again under the same id with --force; another tool writes this inbox without taking its lock"
	case is(inbox.ErrUnclear):
		return CodeUnknown, "ask the agent, or send it again under the same id with --force, which may make a second copy"
	case is(mail.ErrNotDelivered):
		return CodeLost, "see why with: teambridge relay list"
	case is(teams.ErrBadName):
		return CodeInvalid, "it has to be usable as a file name on every system, with 64 characters at most"
	case is(context.Canceled):
		return CodeInterrupted, ""
	case is(teams.ErrTeamGone):
		return CodeGone, "the team ended, and its files with it; see what is there with: teambridge teams"
	case is(inbox.ErrMissing):
		return CodeNotFound, "an inbox is made when the first message is sent to it"
	case is(inbox.ErrIDTaken), is(ledger.ErrConflict):
		return CodeIDTaken, "send it under another id, or without one"
	case is(inbox.ErrUnknown):
		return CodeUnknown, "ask the agent, or send again with --force, which may make a second copy"
	case is(inbox.ErrNoMemory):
		return CodeNoLedger, "--force sends anyway, and then nothing prevents a second copy"
	case is(teams.ErrNameTaken), is(teams.ErrNotOurs):
		return CodeRefused, "choose another name with --as"
	case is(teams.ErrJoinNotNeeded):
		return CodeJoinNotNeeded, "nothing was changed; see what they say with: teambridge read user"
	case is(lockedfile.ErrForeignLock):
		return CodeForeignLock, "it also keeps every agent from writing there; teambridge doctor --fix removes it"
	case is(lockedfile.ErrLocked):
		return CodeLocked, "nothing was written: try again; a lock that nobody touches is taken over after 10 s"
	case is(lockedfile.ErrHeldTooLong):
		return CodeLocked, "nothing was written: the disk may be slow or full"
	case is(lockedfile.ErrClobbered):
		return CodeLost, "another tool writes this inbox without taking its lock: end it, then send again"
	case is(lockedfile.ErrTooLarge):
		return CodeTooLarge, "teambridge doctor tells what can be done"
	case is(inbox.ErrBusy), is(inbox.ErrEmpty):
		return CodeBusy, "try again"
	case is(lockedfile.ErrNotRegular), is(teams.ErrNotDir):
		return CodeRefused, "nothing was written: links are not followed out of a team"
	case is(ledger.ErrBusy):
		return CodeLocked, "another teambridge is at work: try again"
	case is(syscall.EPIPE):
		return CodeOutput, "whoever read the answer went away before its end"
	case is(fs.ErrPermission):
		return CodePermission, "run as the user who runs Claude Code"
	case is(context.DeadlineExceeded):
		return CodeTimeout, ""
	}
	if errors.As(err, new(*journal.ValueError)) {
		return CodeUsage, ""
	}
	return CodeError, ""
}

// Describe is the text of an error for a person. The errors of the packages name
// their package, and each layer names the file or what was tried: neither has to
// be read twice.
func Describe(err error) string {
	var kept []string
	for _, part := range clauses(err.Error()) {
		switch {
		case part == "teams", part == "inbox", part == "lockedfile", strings.HasPrefix(part, "strconv."):
		case len(kept) > 0 && kept[len(kept)-1] == part:
		default:
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ": ")
}

// clauses splits an error's text at each ": " that is not quoted.
func clauses(s string) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(s[i:], ": "):
			parts = append(parts, s[start:i])
			start = i + 2
			i++
		}
	}
	return append(parts, s[start:])
}

// Codes returns every code, in byte order.
func Codes() []Code { return slices.Sorted(maps.Keys(standings)) }
