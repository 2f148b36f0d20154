package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

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

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// exitError ends the command with a status after everything was said.
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
	if is(lockedfile.ErrReplaced) && !is(lockedfile.ErrClobbered) {
		return fault{"unknown", exitUnknown, "look with: teambridge read; then send again with the same --id", false}
	}
	if is(lockedfile.ErrCompromised) {
		return fault{"compromised", exitLocked, "nothing was written: send again", false}
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		hint := "see who is there with: teambridge members"
		switch {
		case nf.Kind == "team":
			hint = "see what is there with: teambridge teams"
		case len(nf.Nearest) > 0:
			hint = fmt.Sprintf("did you mean %s? --force writes to an inbox that nobody is known to read", nf.Nearest[0])
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
	if _, ok := errors.AsType[*usageError](err); ok {
		return fault{"usage", exitUsage, "teambridge COMMAND --help explains", false}
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		return fault{"usage", exitUsage, "teambridge --help lists the commands", false}
	}
	if _, ok := errors.AsType[*inbox.InvalidError](err); ok {
		return fault{"invalid", exitUsage, "", false}
	}
	if _, ok := errors.AsType[*inbox.CorruptError](err); ok {
		return fault{"corrupt", exitLocked, "the file was left as it is; teambridge doctor tells what can be done", false}
	}
	if _, ok := errors.AsType[*teams.CorruptError](err); ok {
		return fault{"corrupt", exitLocked, "the file was left as it is; teambridge doctor tells what can be done", false}
	}
	if r, ok := errors.AsType[*refusedError](err); ok {
		return fault{"refused", exitRefused, r.hint, false}
	}
	switch {
	case is(teams.ErrBadName):
		return fault{"invalid", exitUsage, "", false}
	case is(context.Canceled) && ctx.Err() != nil:
		return fault{"interrupted", exitInterrupted, "", false}
	case is(teams.ErrTeamGone):
		return fault{"gone", exitNotFound, "the team ended, and its files with it; see what is there with: teambridge teams", false}
	case is(errNoMessage):
		return fault{"not_found", exitNotFound, "see the ids with: teambridge read --json", false}
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
		return fault{"join_not_needed", exitRefused, "agents of this team can write to \"user\" as it is: teambridge read user", false}
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
	case is(ledger.ErrConflict):
		return fault{"id_taken", exitRefused, "send it under another --id, or without one", false}
	case is(fs.ErrPermission):
		return fault{"permission", exitError, "run as the user who runs Claude Code", false}
	case is(context.DeadlineExceeded):
		return fault{"timeout", exitTimeout, "", false}
	}
	return fault{"error", exitError, "", false}
}
