package view

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Explain classifies an error. The hints are here, not in the packages that the
// errors come from, because those packages do not know which command can help.
func Explain(err error) api.Error {
	code, hint := classify(err)
	return api.Error{Code: code, Message: Describe(err), Hint: hint}
}

func classify(err error) (api.Code, string) {
	is := func(target error) bool { return errors.Is(err, target) }
	if d, ok := errors.AsType[*api.Decided](err); ok {
		return d.Code, d.Hint
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Code, p.Hint
	}
	if is(lockedfile.ErrReplaced) && !is(lockedfile.ErrClobbered) {
		return api.CodeUnknown, "look with: teambridge read; then send again with the same id"
	}
	if is(lockedfile.ErrCompromised) {
		return api.CodeCompromised, "nothing was written: send again"
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		hint := "see who is there with: teambridge members"
		switch {
		case nf.Kind == "team" && nf.Query == "" && len(nf.Nearest) > 0:
			hint = "what an ended team left behind can still be read with --team " + nf.Nearest[0]
		case nf.Kind == "team":
			hint = "see what is there with: teambridge teams"
		}
		return api.CodeNotFound, hint
	}
	if amb, ok := errors.AsType[*teams.AmbiguousTeamError](err); ok {
		names := make([]string, 0, len(amb.Teams))
		for _, c := range amb.Teams {
			names = append(names, c.Name)
		}
		return api.CodeAmbiguousTeam, "name one with --team or $TEAMBRIDGE_TEAM: " + strings.Join(names, ", ")
	}
	if _, ok := errors.AsType[*teams.NoRootError](err); ok {
		return api.CodeNotFound, "say where it is with --claude-dir or $CLAUDE_CONFIG_DIR"
	}
	if invalid, ok := errors.AsType[*inbox.InvalidError](err); ok {
		if invalid.Field == "text" {
			return api.CodeInvalid, "nothing was sent; put a long text, or one that is no text, into a file and send its path"
		}
		return api.CodeInvalid, "nothing was sent; teambridge send --help explains"
	}
	if p, ok := errors.AsType[*inbox.ProtocolError](err); ok {
		if p.From != "" {
			return api.CodeRefused, "nothing was sent: agents would take it for the word of that one; it can be sent in no agent's name"
		}
		return api.CodeRefused, "nothing was sent; if it is meant, send it with --protocol; if an agent is to read it, put words around it"
	}
	if errors.As(err, new(*inbox.CorruptError)) || errors.As(err, new(*teams.CorruptError)) {
		return api.CodeCorrupt, "the file was left as it is; teambridge doctor tells what can be done"
	}
	switch {
	case is(inbox.ErrLost):
		return api.CodeLost, "send it again under the same id with --force; another tool writes this inbox without taking its lock"
	case is(inbox.ErrUnclear):
		return api.CodeUnknown, "ask the agent, or send it again under the same id with --force, which may make a second copy"
	case is(mail.ErrNotDelivered):
		return api.CodeLost, "see why with: teambridge relay list"
	case is(teams.ErrBadName):
		return api.CodeInvalid, "it has to be usable as a file name on every system, with 64 characters at most"
	case is(context.Canceled):
		return api.CodeInterrupted, ""
	case is(teams.ErrTeamGone):
		return api.CodeGone, "the team ended, and its files with it; see what is there with: teambridge teams"
	case is(inbox.ErrMissing):
		return api.CodeNotFound, "an inbox is made when the first message is sent to it"
	case is(inbox.ErrIDTaken), is(ledger.ErrConflict):
		return api.CodeIDTaken, "send it under another id, or without one"
	case is(inbox.ErrUnknown):
		return api.CodeUnknown, "ask the agent, or send again with --force, which may make a second copy"
	case is(inbox.ErrNoMemory):
		return api.CodeNoLedger, "--force sends anyway, and then nothing prevents a second copy"
	case is(teams.ErrNameTaken), is(teams.ErrNotOurs):
		return api.CodeRefused, "choose another name with --as"
	case is(teams.ErrJoinNotNeeded):
		return api.CodeJoinNotNeeded, "nothing was changed; see what they say with: teambridge read user"
	case is(lockedfile.ErrForeignLock):
		return api.CodeForeignLock, "it also keeps every agent from writing there; teambridge doctor --fix removes it"
	case is(lockedfile.ErrLocked):
		return api.CodeLocked, "nothing was written: try again; a lock that nobody touches is taken over after 10 s"
	case is(lockedfile.ErrHeldTooLong):
		return api.CodeLocked, "nothing was written: the disk may be slow or full"
	case is(lockedfile.ErrClobbered):
		return api.CodeLost, "another tool writes this inbox without taking its lock: end it, then send again"
	case is(lockedfile.ErrTooLarge):
		return api.CodeTooLarge, "teambridge doctor tells what can be done"
	case is(inbox.ErrBusy), is(inbox.ErrEmpty):
		return api.CodeBusy, "try again"
	case is(lockedfile.ErrNotRegular), is(teams.ErrNotDir):
		return api.CodeRefused, "nothing was written: links are not followed out of a team"
	case is(ledger.ErrBusy):
		return api.CodeLocked, "another teambridge is at work: try again"
	case is(syscall.EPIPE):
		return api.CodeOutput, "whoever read the answer went away before its end"
	case is(fs.ErrPermission):
		return api.CodePermission, "run as the user who runs Claude Code"
	case is(context.DeadlineExceeded):
		return api.CodeTimeout, ""
	}
	switch {
	case errors.As(err, new(*journal.ValueError)):
		return api.CodeUsage, ""
	case errors.As(err, new(*fleet.SettingError)):
		return api.CodeInvalid, ""
	case errors.As(err, new(*fleet.LeadError)):
		return api.CodeRefused, "an interactive agent reads its inbox by itself"
	}
	return api.CodeError, ""
}

// Describe returns the text of an error for a person. Errors name their package,
// and each layer names the file or what was tried: Describe leaves out the package
// names and the repetitions.
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

// Problem is how the service reports err.
func Problem(err error) api.Problem {
	f := Explain(err)
	p := api.Problem{
		Type: "urn:teambridge:" + string(f.Code), Status: f.Code.HTTP(), Title: f.Code.Title(),
		Detail: f.Message, Code: f.Code, Hint: f.Hint,
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		p.Nearest = nf.Nearest
	}
	return p
}
