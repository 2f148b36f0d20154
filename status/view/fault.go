package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/relay/profile"
	"teambridge/relay/runtimes"
	"teambridge/relay/shell"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/tasks"
)

// Explain returns the code, the text and the hint for an error. The hints are here, not in the packages that fail,
// because they name commands.
func Explain(err error) api.Error {
	code, hint := classify(err)
	return api.Error{Code: code, Message: Describe(err), Hint: hint}
}

func classify(err error) (api.Code, string) {
	var (
		decided   *api.Decided
		problem   *api.Problem
		notFound  *teams.NotFoundError
		ambiguous *teams.AmbiguousTeamError
		invalid   *inbox.InvalidError
		protocol  *inbox.ProtocolError
	)
	switch {
	case errors.As(err, &decided):
		return decided.Code, decided.Hint
	case errors.As(err, &problem):
		return problem.Code, cmp.Or(problem.Command, problem.Hint)
	case errors.Is(err, lockedfile.ErrReplaced) && !errors.Is(err, lockedfile.ErrClobbered):
		return api.CodeUnknown, "look for the message with: teambridge read; then send it again under the same id"
	case errors.Is(err, lockedfile.ErrCompromised):
		return api.CodeCompromised, "nothing was written: send again"
	case errors.As(err, &notFound) && notFound.Kind != "team":
		return api.CodeNotFound, "list the members with: teambridge members"
	case notFound != nil && notFound.Query == "" && len(notFound.Nearest) > 0:
		return api.CodeNotFound, "the files of an ended team can still be read with --team " + notFound.Nearest[0]
	case notFound != nil && notFound.Query == "":
		return api.CodeNotFound, "list what there is with: teambridge teams; --team sessions means the sessions in no team"
	case notFound != nil:
		return api.CodeNotFound, "list the teams with: teambridge teams"
	case errors.As(err, &ambiguous):
		return api.CodeAmbiguousTeam, "choose one with --team or $TEAMBRIDGE_TEAM"
	case errors.As(err, new(*teams.NoRootError)):
		return api.CodeNotFound, "name the directory with --claude-dir or $CLAUDE_CONFIG_DIR"
	case errors.As(err, &invalid) && invalid.Field == "text":
		if invalid.Reason == "is blank" {
			return api.CodeInvalid, "nothing was sent"
		}
		return api.CodeInvalid, "nothing was sent; put long or binary content into a file and send its path"
	case invalid != nil:
		return api.CodeInvalid, "nothing was sent; see teambridge send --help"
	case errors.As(err, &protocol) && protocol.From != "":
		return api.CodeRefused, "nothing was sent: agents would take it for that agent's own message; this kind cannot be sent in an agent's name"
	case protocol != nil:
		return api.CodeRefused, "nothing was sent; --protocol sends it as a protocol message; with other words around it, agents read it as text"
	case errors.As(err, new(*tasks.Error)) && errors.Is(err, tasks.ErrNoTask):
		return api.CodeCorrupt, "it is left out, as Claude Code does"
	case errors.As(err, new(*tasks.Error)):
		return api.CodeTooLarge, "it is left out"
	case errors.As(err, new(*inbox.CorruptError)), errors.As(err, new(*teams.CorruptError)):
		return api.CodeCorrupt, "the file was not changed; see what to do with: teambridge doctor"
	}
	if code, hint := relayFault(err); code != "" { // before known: some of these errors wrap ledger.ErrConflict
		return code, hint
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return k.code, k.hint
		}
	}
	if code, hint := paneFault(err); code != "" {
		return code, hint
	}
	switch {
	case errors.As(err, new(*teams.OutdatedError)):
		return api.CodeRefused, "nothing was done; the agent has the new version once it is started again"
	case errors.As(err, new(*journal.ValueError)):
		return api.CodeUsage, ""
	case errors.As(err, new(*runtimes.SettingError)):
		return api.CodeInvalid, ""
	case errors.As(err, new(*pane.ProfileError)):
		return api.CodeInvalid, "the profiles are claude and generic"
	case errors.As(err, new(*profile.NotFoundError)):
		return api.CodeNotFound, "list the profiles with: teambridge profile list"
	case errors.As(err, new(*profile.FileError)):
		return api.CodeInvalid, "see all with: teambridge profile list"
	case errors.As(err, new(*fleet.LeadError)):
		return api.CodeRefused, "its agent runs already; to run another one, name another member"
	}
	return api.CodeError, ""
}

// relayFault classifies errors of relays, their teams and their deliveries. For other errors, the code is empty.
func relayFault(err error) (api.Code, string) {
	var exists *fleet.ExistsError
	switch {
	case errors.As(err, &exists) && exists.Relay.ID != "":
		return api.CodeConflict, "see it with: teambridge relay list --relays; to replace it: teambridge relay remove " + exists.Relay.ID
	case exists != nil:
		return api.CodeConflict, "see it with: teambridge relay list --relays"
	case errors.As(err, new(*teams.OccupiedError)), errors.As(err, new(*fleet.NotOwnerError)):
		return api.CodeConflict, "nothing was removed; without --delete-team (deleteTeam), the relay alone is removed"
	case errors.Is(err, fleet.ErrNotDead):
		return api.CodeConflict, "see how it stands with: teambridge relay list"
	case errors.As(err, new(*ledger.StateError)):
		return api.CodeConflict, "see its state with: teambridge relay list --all"
	case errors.Is(err, relay.ErrStays):
		return api.CodeConflict, "start it with: teambridge run --local"
	}
	return "", ""
}

// paneFault classifies errors of panes and sessions. For other errors, the code is empty.
func paneFault(err error) (api.Code, string) {
	var (
		unknown *pane.NotFoundError
		exists  *pane.ExistsError
		missing *tmux.NotFoundError
		sender  *pane.SenderError
		session *pane.SessionError
	)
	switch {
	case errors.As(err, &session) && session.Several:
		return api.CodeAmbiguousTeam, "say which: " + strings.Join(session.Choices(), ", ")
	case errors.As(err, &session) && session.Queue:
		return api.CodeNotFound, "what you would type yourself goes into its own queue with: teambridge send " + shell.Quote(session.Name) + " TEXT --via queue; what else helps: teambridge doctor"
	case errors.As(err, &session) && session.Refuses != "":
		return api.CodeNotFound, "find out what helps with: teambridge doctor"
	case errors.As(err, &session) && len(session.Sessions) > 0:
		return api.CodeNotFound, "there are: " + strings.Join(session.Choices(), ", ")
	case session != nil:
		return api.CodeNotFound, "see all, and what they lack, with: teambridge sessions"
	case errors.As(err, &unknown) && len(unknown.Panes) > 0:
		names := make([]string, len(unknown.Panes))
		for i, p := range unknown.Panes {
			names[i] = p.Name()
		}
		return api.CodeNotFound, "registered are: " + strings.Join(names, ", ")
	case unknown != nil:
		return api.CodeNotFound, "register one with: teambridge pane add NAME --pane TARGET"
	case errors.As(err, &exists):
		return api.CodeConflict, "--replace gives a name another pane; to forget it: teambridge pane remove " + exists.Pane.Name()
	case errors.As(err, new(*pane.NoSessionError)):
		return api.CodeConflict, "without via (--via), it is put into the inbox"
	case errors.As(err, new(*pane.NoPaneError)):
		return api.CodeConflict, "without via (--via), it is put into the inbox; or register its pane with: teambridge pane add"
	case errors.As(err, &sender) && len(sender.Teams) > 0:
		return api.CodeAmbiguousTeam, "say which: " + sender.Name + "@" + strings.Join(sender.Teams, ", "+sender.Name+"@")
	case sender != nil:
		return api.CodeNotFound, "say NAME@TEAM, or omit it"
	case errors.As(err, &missing) && len(missing.Panes) > 0:
		var there []string
		for _, p := range missing.Panes {
			there = append(there, fmt.Sprintf("%s %s (%s)", p.ID, p.Target(), p.Command))
		}
		if n := len(there); n > 8 {
			there = append(there[:8], fmt.Sprintf("%d more", n-8))
		}
		return api.CodeNotFound, "there are: " + strings.Join(there, ", ")
	case missing != nil:
		return api.CodeNotFound, "a target is a pane id such as %12, or session:window.pane"
	}
	return "", ""
}

// known lists the sentinel errors with one code and one hint each. If an error wraps several, the first one counts.
var known = []struct {
	err  error
	code api.Code
	hint string
}{
	{inbox.ErrLost, api.CodeLost, "send it again under the same id with --force; another tool writes this inbox without taking its lock"},
	{inbox.ErrUnclear, api.CodeUnknown, "ask the agent, or send it again under the same id with --force, which may make a second copy"},
	{mail.ErrNotDelivered, api.CodeLost, "see why with: teambridge relay list"},
	{teams.ErrBadName, api.CodeInvalid, "a name must be valid as a file name on every system, with at most 64 characters"},
	{context.Canceled, api.CodeInterrupted, ""},
	{teams.ErrTeamGone, api.CodeGone, "the team has ended and its files are gone; list the teams with: teambridge teams"},
	{inbox.ErrMissing, api.CodeNotFound, "an inbox is created by the first message to it"},
	{inbox.ErrIDTaken, api.CodeIDTaken, "send it under another id, or without one"},
	{pane.ErrTeamExists, api.CodeRefused, "two teams of that name could not be told apart"},
	{pane.ErrBusy, api.CodeBusy, "try again in a moment"},
	{tmux.ErrGone, api.CodeGone, "register the pane that it is now with: teambridge pane add NAME --pane TARGET --replace"},
	{tmux.ErrNoServer, api.CodeNotFound, "start tmux, or name the socket of its server with --socket"},
	{tmux.ErrNoTmux, api.CodeNotFound, "install tmux 3.3 or newer"},
	{errors.ErrUnsupported, api.CodeError, "panes can be written to on Linux alone"},
	{inbox.ErrUnknown, api.CodeUnknown, "ask the agent, or send it again with --force, which may make a second copy"},
	{inbox.ErrNoMemory, api.CodeNoLedger, "find out why with: teambridge doctor; \"teambridge send --force\" sends it without a record, and sending it again then makes a second copy"},
	{teams.ErrNameTaken, api.CodeRefused, "choose another name with --as"},
	{teams.ErrNotOurs, api.CodeRefused, "choose another name with --as"},
	{lockedfile.ErrForeignLock, api.CodeForeignLock, "it also keeps every agent from writing there; remove it with: teambridge doctor --fix"},
	{lockedfile.ErrLocked, api.CodeLocked, "nothing was written: try again; a lock that nobody refreshes is taken over after 10 s"},
	{lockedfile.ErrHeldTooLong, api.CodeLocked, "nothing was written: the disk may be slow or full"},
	{lockedfile.ErrClobbered, api.CodeLost, "another tool writes this inbox without taking its lock: stop it, then send again"},
	{lockedfile.ErrTooLarge, api.CodeTooLarge, "see what to do with: teambridge doctor"},
	{inbox.ErrBusy, api.CodeBusy, "try again"},
	{inbox.ErrEmpty, api.CodeBusy, "try again"},
	{lockedfile.ErrNotRegular, api.CodeRefused, "nothing was written: links that lead out of a team are not followed"},
	{teams.ErrNotDir, api.CodeRefused, "nothing was written: links that lead out of a team are not followed"},
	{ledger.ErrBusy, api.CodeLocked, "another teambridge process is busy: try again"},
	{syscall.EPIPE, api.CodeOutput, "the reader of the output closed it"},
	{fs.ErrPermission, api.CodePermission, "run teambridge as the user who runs Claude Code"},
	{context.DeadlineExceeded, api.CodeTimeout, ""},
	{pane.ErrUnknown, api.CodeNotFound, "see the messages with: teambridge history --team tmux"},
}

// Describe returns the text of an error for a person, without package names and repetitions.
func Describe(err error) string {
	var kept []string
	for _, part := range clauses(err.Error()) {
		switch {
		case part == "teams", part == "inbox", part == "lockedfile", part == "wire", part == "terminal", part == "tmux", part == "pane", part == "server", strings.HasPrefix(part, "strconv."):
		case part == "ledger" && errors.Is(err, ledger.ErrConflict): // it works, and the id is at fault
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

// Problem returns the error as the service reports it.
func Problem(err error) api.Problem {
	f := Explain(err)
	p := api.Problem{
		Type: "urn:teambridge:" + string(f.Code), Status: f.Code.HTTP(), Title: f.Code.Title(),
		Detail: f.Message, Code: f.Code, Hint: f.Hint, Option: api.Option(err),
	}
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok {
		p.Nearest = nf.Nearest
	}
	if several, ok := errors.AsType[*teams.AmbiguousTeamError](err); ok {
		p.Nearest = several.Choices()
	}
	if nf, ok := errors.AsType[*pane.NotFoundError](err); ok {
		for _, there := range nf.Panes {
			p.Nearest = append(p.Nearest, there.Inbox)
		}
	}
	if s, ok := errors.AsType[*pane.SessionError](err); ok && s.Refuses == "" {
		p.Nearest = s.Choices()
	}
	if nf, ok := errors.AsType[*tmux.NotFoundError](err); ok {
		for _, there := range nf.Panes {
			p.Nearest = append(p.Nearest, there.Target())
		}
	}
	return p
}
