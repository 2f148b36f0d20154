package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/mode"
	"teambridge/relay/runtimes"
	"teambridge/teams"
)

// Admin adds, removes and retries the relays of a Claude root. It changes only the ledger. A running fleet,
// in any process, notices the change; otherwise the next one does.
type Admin TeamOwner

// ExistsError means that a member already has a relay. It unwraps to [ledger.ErrConflict].
type ExistsError struct {
	Relay  ledger.Relay // the existing relay; only its team and member if it was just added
	Differ []string     // the names of differing settings, as in [runtimes.SettingError]; empty if unknown
}

func (e *ExistsError) Error() string {
	if len(e.Differ) == 0 {
		return fmt.Sprintf("%s@%s has a relay already", e.Relay.Member, e.Relay.Team)
	}
	return fmt.Sprintf("%s@%s has a relay already, %s, with other settings (%s)", e.Relay.Member, e.Relay.Team, e.Relay.ID, strings.Join(e.Differ, ", "))
}

func (e *ExistsError) Unwrap() error { return ledger.ErrConflict }

// ErrNotDead means that a relay has not given up, so it cannot be retried.
var ErrNotDead = errors.New("the relay has not given up")

// Add records a relay to run. It sets the relay's root, checks its settings, and resolves its member if the
// team exists. In a team of ours, a new name becomes a member ([TeamOwner.Enlist]); an agent of OpenCode
// becomes a member of any team. A member has one relay: if an equal one is recorded, Add returns it with
// added false. The errors are *[runtimes.SettingError], *[LeadError], *[ExistsError], and those of
// [ledger.Relays.Add].
func (a Admin) Add(ctx context.Context, r ledger.Relay) (_ ledger.Relay, added bool, err error) {
	r.Root = a.Root.Path()
	if err := Check(&r); err != nil {
		return ledger.Relay{}, false, err
	}
	owner := TeamOwner(a)
	member, err := MemberOf(ctx, a.Root, r.Team, r.Member)
	if _, unknown := errors.AsType[*teams.NotFoundError](err); unknown {
		// The agent becomes a member below, if that is allowed.
		if _, _, ours, oerr := owner.Of(ctx, r.Team); oerr != nil {
			err = oerr
		} else if ours || runtimes.JoinsAny(r) {
			member, err = r.Member, nil
		}
	}
	if err != nil {
		return ledger.Relay{}, false, err
	}
	if r.Member = member; r.OwnTeam {
		r.Member = teams.LeadName(r.Member)
	}
	all, err := a.Ledger.Relays.List(ctx, r.Root)
	if err != nil {
		return ledger.Relay{}, false, err
	}
	name := a.Root.MemberName(ctx, r.Team, r.Member)
	for _, old := range all {
		if old.Team != r.Team || a.Root.MemberName(ctx, old.Team, old.Member) != name {
			continue
		}
		if differ := differences(old, r); len(differ) > 0 {
			return ledger.Relay{}, false, &ExistsError{Relay: old, Differ: differ}
		}
		return old, false, nil
	}
	// The fleet also enlists agents, but too late to refuse a name.
	enlisted, err := owner.Enlist(ctx, r)
	if err != nil {
		return ledger.Relay{}, false, err
	}
	made, err := a.Ledger.Relays.Add(ctx, r)
	if value, ok := errors.AsType[*ledger.ValueError](err); ok {
		err = &runtimes.SettingError{Setting: value.Field, Reason: value.Reason}
	} else if errors.Is(err, ledger.ErrConflict) { // another process has just added a relay
		err = &ExistsError{Relay: r}
	}
	if err != nil && enlisted {
		err = errors.Join(err, owner.Dismiss(ctx, r.Team, r.Member))
	}
	return made, err == nil, err
}

// Check checks and normalizes the settings of a relay. Root must be set. Its errors are those of
// [runtimes.Check].
func Check(r *ledger.Relay) error {
	switch r.OnCut {
	case "":
		r.OnCut = string(relay.NudgeAgent)
	case string(relay.NudgeAgent), string(relay.ReportCut):
	default:
		return &runtimes.SettingError{Setting: "on-cut", Reason: fmt.Sprintf("%q is neither nudge nor report", r.OnCut)}
	}
	policy, err := ParsePolicy(r.Permissions)
	if err != nil {
		return err
	}
	r.Permissions = policy.String()
	if r.IdleExit < 0 {
		return &runtimes.SettingError{Setting: "idle-exit", Reason: fmt.Sprintf("%s is negative", r.IdleExit)}
	}
	switch relay.IdleReports(r.IdleReports) {
	case relay.AllIdleReports, relay.IdleReportsOfResult, "":
	case relay.IdleReportsWithContent:
		r.IdleReports = "" // the value of relays that are older than this setting
	default:
		return &runtimes.SettingError{Setting: "idle-reports", Reason: fmt.Sprintf("%q is not all, summary or result", r.IdleReports)}
	}
	return runtimes.Check(r)
}

// differences returns the names of the settings in which two relays differ.
func differences(a, b ledger.Relay) (names []string) {
	for _, setting := range []struct {
		name string
		same bool
	}{
		{"runtime", a.Runtime == b.Runtime},
		{"command", slices.Equal(a.Command, b.Command)},
		{"url", a.URL == b.URL},
		{"password-file", a.PasswordFile == b.PasswordFile},
		{"profile", a.Profile == b.Profile},
		{"dir", a.Dir == b.Dir},
		{"on-cut", a.OnCut == b.OnCut},
		{"idle-reports", a.IdleReports == b.IdleReports},
		{"permissions", a.Permissions == b.Permissions},
		{"mode", sameMode(a.Mode, b.Mode)},
		{"plain", a.Plain == b.Plain},
		{"create-team", a.OwnTeam == b.OwnTeam},
	} {
		if !setting.same {
			names = append(names, setting.name)
		}
	}
	return names
}

// sameMode reports whether two modes in JSON have the same settings.
func sameMode(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, errX := mode.Parse(a)
	y, errY := mode.Parse(b)
	if errX != nil || errY != nil {
		return bytes.Equal(a, b)
	}
	return x.Hash() == y.Hash()
}

// Remove removes a relay for good. It does not wait for the agent, which has 30 s to finish its turn. Unread
// messages stay in the inbox. An agent that became a member for the relay leaves the team once it has ended.
// The error is [ErrUnknown] if there is no such relay.
//
// With deleteTeam, Remove also removes the team that was made for the relay. later is true if a running fleet
// will do that once the agent has ended. If the team must stay, the relay stays, too, with an error of
// [TeamOwner.PendingDelete].
func (a Admin) Remove(ctx context.Context, r ledger.Relay, deleteTeam bool) (later bool, err error) {
	var pending *ledger.OwnedTeam
	var members []ledger.OwnedMember
	owner := TeamOwner(a)
	if deleteTeam {
		if pending, members, err = owner.PendingDelete(ctx, r); err != nil {
			return false, err
		}
	} else if a.Root == nil {
		// Without a root, there are no members.
	} else if m, ours, merr := owner.memberOf(ctx, r.Team, a.Root.MemberName(ctx, r.Team, r.Member)); merr == nil && ours { // a corrupt team does not keep the relay
		members = append(members, m)
	}
	err = a.Ledger.Relays.Remove(ctx, r.ID, pending, members...)
	if errors.Is(err, ledger.ErrUnknown) {
		return false, fmt.Errorf("fleet: remove relay %s: %w", r.ID, ErrUnknown)
	}
	if err != nil {
		return false, err
	}
	if err := a.forget(ctx, r); err != nil || pending == nil && len(members) == 0 {
		return false, err
	}
	if later, err = Running(a.State, a.Root); later || err != nil {
		return later && pending != nil, err
	}
	return false, owner.Reap(ctx)
}

// forget removes the record that the relay gave up: a removed relay needs no decision of a person.
func (a Admin) forget(ctx context.Context, r ledger.Relay) error {
	sessions, err := a.Ledger.Sessions.List(ctx, r.Root)
	for _, s := range sessions {
		if s.Team == r.Team && strings.EqualFold(s.Inbox, teams.LeadName(r.Member)) && s.Dead+s.ShutDown != "" {
			err = errors.Join(err, a.Ledger.Sessions.Revive(ctx, s.InboxKey))
		}
	}
	return err
}

// Retry restarts a relay that has given up, or whose agent was shut down. For other relays, the error is
// [ErrNotDead].
func (a Admin) Retry(ctx context.Context, r ledger.Relay) error {
	s, err := TeamOwner(a).session(ctx, r)
	if err != nil {
		return err
	}
	if s.Dead+s.ShutDown == "" {
		return fmt.Errorf("fleet: retry relay %s: %w", r.ID, ErrNotDead)
	}
	return a.Ledger.Sessions.Revive(ctx, s.InboxKey)
}

// session returns the record of a relay's agent in the current team, even if the agent is no longer a member.
// The error is [teams.ErrTeamGone] if there is no team.
func (o TeamOwner) session(ctx context.Context, r ledger.Relay) (ledger.Session, error) {
	t, err := o.Root.Team(r.Team)
	if err != nil {
		return ledger.Session{}, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return ledger.Session{}, err
	}
	s, _, err := o.Ledger.Sessions.Session(ctx, inbox.KeyOf(t, c, o.Root.MemberName(ctx, r.Team, r.Member)))
	return s, err
}
