package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Exit statuses; they are documented in the help and stay what they are.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitTimeout     = 4
	exitRefused     = 5
	exitLocked      = 6
	exitUnknown     = 7
	exitInterrupted = 130
)

// verdict is an error whose meaning was decided where it was found, which is
// where the best hint is known.
type verdict struct {
	error
	fault fault
}

func (v *verdict) Unwrap() error { return v.error }

// usage is a mistake in the command line.
func usage(hint, format string, args ...any) error {
	return &verdict{fmt.Errorf(format, args...), fault{code: "usage", exit: exitUsage, hint: hint}}
}

// refuse is something that could be done and will not be.
func refuse(hint, format string, args ...any) error {
	return &verdict{fmt.Errorf(format, args...), fault{code: "refused", exit: exitRefused, hint: hint}}
}

// notFound is something that was asked for and is not there.
func notFound(hint, format string, args ...any) error {
	return &verdict{fmt.Errorf(format, args...), fault{code: "not_found", exit: exitNotFound, hint: hint}}
}

// exitStatus ends the command with a status after everything was said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// fault is what a user needs besides the text of an error.
type fault struct {
	code  string // for programs; stays what it is
	exit  int
	hint  string
	quiet bool
}

// explain classifies an error. The hints live here and not in the packages,
// since only here it is known which command can help.
func explain(ctx context.Context, err error) fault {
	is := func(target error) bool { return errors.Is(err, target) }
	if s, ok := errors.AsType[exitStatus](err); ok {
		return fault{exit: int(s), quiet: true}
	}
	if v, ok := errors.AsType[*verdict](err); ok {
		return v.fault
	}
	if is(lockedfile.ErrReplaced) && !is(lockedfile.ErrClobbered) {
		return fault{"unknown", exitUnknown, "look with: teambridge read; then send again with the same --id", false}
	}
	if is(lockedfile.ErrCompromised) {
		return fault{"compromised", exitLocked, "nothing was written: send again", false}
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		hint := "see who is there with: teambridge members"
		switch {
		case nf.Kind == "team" && nf.Query == "" && len(nf.Nearest) > 0:
			hint = "what an ended team left behind can be read all the same, with --team " + nf.Nearest[0]
		case nf.Kind == "team":
			hint = "see what is there with: teambridge teams"
		}
		return fault{"not_found", exitNotFound, hint, false}
	}
	if amb, ok := errors.AsType[*teams.AmbiguousTeamError](err); ok {
		names := make([]string, 0, len(amb.Teams))
		for _, c := range amb.Teams {
			names = append(names, c.Name)
		}
		return fault{"ambiguous_team", exitUsage, "name one with --team or $TEAMBRIDGE_TEAM: " + strings.Join(names, ", "), false}
	}
	if _, ok := errors.AsType[*teams.NoRootError](err); ok {
		return fault{"not_found", exitNotFound, "say where it is with --claude-dir or $CLAUDE_CONFIG_DIR", false}
	}
	if invalid, ok := errors.AsType[*inbox.InvalidError](err); ok {
		hint := "nothing was sent; teambridge send --help explains"
		if invalid.Field == "text" {
			hint = "nothing was sent; put a long text, or one that is no text, into a file and send its path"
		}
		return fault{"invalid", exitUsage, hint, false}
	}
	if _, ok := errors.AsType[*inbox.CorruptError](err); ok {
		return fault{"corrupt", exitLocked, "the file was left as it is; teambridge doctor tells what can be done", false}
	}
	if _, ok := errors.AsType[*teams.CorruptError](err); ok {
		return fault{"corrupt", exitLocked, "the file was left as it is; teambridge doctor tells what can be done", false}
	}
	switch {
	case errors.As(err, new(*timeoutError)):
		return fault{"timeout", exitTimeout, "", false}
	case is(inbox.ErrLost):
		return fault{"lost", exitUnknown, "another tool writes this inbox without taking its lock: end it, then send again", false}
	case is(teams.ErrBadName):
		return fault{"invalid", exitUsage, "it has to be usable as a file name on every system, with 64 characters at most", false}
	case is(context.Canceled) && ctx.Err() != nil:
		return fault{"interrupted", exitInterrupted, "", false}
	case is(teams.ErrTeamGone):
		return fault{"gone", exitNotFound, "the team ended, and its files with it; see what is there with: teambridge teams", false}
	case is(inbox.ErrMissing):
		return fault{"not_found", exitNotFound, "an inbox is made when the first message is sent to it", false}
	case is(inbox.ErrIDTaken):
		return fault{"id_taken", exitRefused, "send it under another --id, or without one", false}
	case is(inbox.ErrUnknown):
		return fault{"unknown", exitUnknown, "ask the agent, or send again with --force, which may make a second copy", false}
	case is(inbox.ErrNoMemory):
		return fault{"no_ledger", exitError, "--force sends all the same, and then nothing keeps a second copy away", false}
	case is(teams.ErrNameTaken), is(teams.ErrNotOurs):
		return fault{"refused", exitRefused, "choose another name with --as", false}
	case is(teams.ErrJoinNotNeeded):
		return fault{"join_not_needed", exitRefused, "nothing was changed; see what they say with: teambridge read user", false}
	case is(lockedfile.ErrForeignLock):
		return fault{"foreign_lock", exitLocked, "it also keeps every agent from writing there; teambridge doctor --fix removes it", false}
	case is(lockedfile.ErrLocked):
		return fault{"locked", exitLocked, "nothing was written: try again; a lock that nobody touches is taken over after 10 s", false}
	case is(lockedfile.ErrHeldTooLong):
		return fault{"locked", exitLocked, "nothing was written: the disk may be slow or full", false}
	case is(lockedfile.ErrClobbered):
		return fault{"lost", exitUnknown, "another tool writes this inbox without taking its lock: end it, then send again", false}
	case is(lockedfile.ErrTooLarge):
		return fault{"too_large", exitLocked, "teambridge doctor tells what can be done", false}
	case is(inbox.ErrBusy), is(inbox.ErrEmpty):
		return fault{"busy", exitLocked, "try again", false}
	case is(lockedfile.ErrNotRegular), is(teams.ErrNotDir):
		return fault{"refused", exitRefused, "nothing was written: links are not followed out of a team", false}
	case is(ledger.ErrBusy):
		return fault{"locked", exitLocked, "another teambridge is at work: try again", false}
	case is(ledger.ErrConflict):
		return fault{"id_taken", exitRefused, "send it under another --id, or without one", false}
	case is(syscall.EPIPE):
		return fault{"output", exitError, "whoever read the answer went away before its end", false}
	case is(fs.ErrPermission):
		return fault{"permission", exitError, "run as the user who runs Claude Code", false}
	case is(context.DeadlineExceeded):
		return fault{"timeout", exitTimeout, "", false}
	}
	return fault{"error", exitError, "", false}
}

// describeError is the text of an error for a person. The errors of the packages
// name their package, and each layer names the file or what was tried: from a
// command line neither has to be read twice.
func describeError(err error) string {
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
