package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
)

// Rename names a session; see [api.Bridge].
func (c *Control) Rename(ctx context.Context, team, member string, n api.NewName) (done api.Renamed, err error) {
	to, err := c.In(ctx, team, member)
	if err != nil {
		return done, err
	}
	if !to.session() {
		return done, errors.Join(api.Decide(api.CodeInvalid, "sessions in no team can be given names, and panes with: teambridge pane add NAME --pane TARGET",
			"%s@%s has its name from its team", member, team), to.Close())
	}
	of := to.Panes[0]
	if err := c.free(ctx, of, n.Name); err != nil {
		return done, err
	}
	panes, err := c.OpenPanes(ctx)
	if err != nil {
		return done, err
	}
	now, err := panes.Sessions.Rename(ctx, of, n.Name)
	switch {
	case errors.Is(err, pane.ErrBusy), errors.Is(err, ledger.ErrConflict):
		return done, &api.Decided{Code: api.CodeConflict, Hint: "see what waits with: teambridge relay list; or choose another name", Err: err}
	case err != nil:
		return done, err
	}
	if j, jerr := c.OpenJournal(ctx); jerr != nil {
		c.Opts.Warn(fmt.Errorf("the history has the old name: %w", jerr))
	} else if jerr := j.Messages.Rename(ctx, of.InboxKey, now.Inbox); jerr != nil {
		c.Opts.Warn(fmt.Errorf("the history has the old name: %w", jerr))
	}
	return api.Renamed{Team: now.Team, Member: now.Inbox, Was: of.Inbox, Session: now.Ref.ID}, nil
}

// free returns an error if a session cannot have a name: it is another recipient's name, or it could be
// mistaken for something else. "" means the name that Claude Code uses.
func (c *Control) free(ctx context.Context, of pane.Pane, name string) error {
	if name == "" || name == of.Inbox {
		return nil
	}
	no := func(format string, args ...any) error {
		return api.Decide(api.CodeInvalid, "choose another name", "a session cannot be called %q: "+format, append([]any{name}, args...)...)
	}
	if err := teams.CheckName("session", name); err != nil {
		return err
	}
	switch _, err := strconv.Atoi(name); {
	case err == nil:
		return no("a number stands for a process")
	case strings.ContainsFunc(name, unicode.IsSpace), strings.ContainsAny(name, "'\"`$&|;<>()[]{}*?!#~"):
		return no("a shell takes it only in quotes")
	case name[0] == '-':
		return no("it begins like a flag")
	case strings.Contains(name, "@"):
		return no("the part after @ is a team")
	case name == mail.User, name == pane.Stranger, name == "operator", strings.EqualFold(name, "lead"):
		return no("the name has a meaning of its own")
	}
	taken := func(by string) error {
		return api.Decide(api.CodeConflict, "choose another name", "%s is called %q already", by, name)
	}
	machines, err := c.Linked(ctx)
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.Name == name {
			return taken("a machine")
		}
	}
	others, err := c.FindSessions(ctx, []string{name})
	if e, ok := errors.AsType[*pane.SessionError](err); ok && e.Several {
		others = e.Sessions
	}
	for _, other := range others {
		if other.InboxKey != of.InboxKey {
			return taken("the session " + other.Ref.ID)
		}
	}
	for _, address := range c.addresses(ctx)[name] {
		if address != name+"@"+pane.SessionTeam {
			return taken(address)
		}
	}
	return nil
}
