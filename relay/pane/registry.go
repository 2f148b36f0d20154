package pane

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Add registers a pane, and returns it with the facts that tmux has of it. Nothing is sent to
// the pane. The errors are [teams.ErrBadName], [ErrTeamExists], *[ExistsError],
// *[ProfileError], and those of [tmux.Resolve].
func (r *Registry) Add(ctx context.Context, reg Registration) (Pane, tmux.Pane, error) {
	if err := teams.CheckName("pane", reg.Name); err != nil {
		return Pane{}, tmux.Pane{}, err
	}
	if reg.Profile == "" {
		reg.Profile = tmux.Claude
	}
	if reg.Profile != tmux.Claude && reg.Profile != tmux.Generic {
		return Pane{}, tmux.Pane{}, &ProfileError{reg.Profile}
	}
	t, err := r.opts.Root.Team(Team)
	if err == nil {
		err = errors.Join(ErrTeamExists, t.Close())
	}
	if !errors.Is(err, teams.ErrTeamGone) && !errors.As(err, new(*teams.NotFoundError)) {
		return Pane{}, tmux.Pane{}, err
	}
	there, err := r.tmux.resolve(ctx, reg.Socket, reg.Target)
	if err != nil {
		return Pane{}, tmux.Pane{}, err
	}
	if there.Dead {
		return Pane{}, there, tmux.ErrGone
	}
	added, err := r.opts.Ledger.Panes.Add(ctx, recordOf(Pane{
		InboxKey: inbox.InboxKey{Root: r.opts.Root.Path(), Inbox: reg.Name}, Ref: there.Ref, Profile: reg.Profile, At: time.Now(),
	}), reg.Replace)
	if exists, ok := errors.AsType[*ledger.PaneExistsError](err); ok {
		err = &ExistsError{paneOf(exists.Pane)}
	}
	if err != nil {
		return Pane{}, there, err
	}
	r.changed(added.InboxKey)
	r.Poke()
	return paneOf(added), there, nil
}

// Remove removes a registered pane, drops the messages that wait for it, and returns their
// number. Senders who wait for a notification learn that the pane was removed. The
// errors are *[NotFoundError], and [ErrBusy] if a delivery does not end within 5 s.
func (r *Registry) Remove(ctx context.Context, name string) (dropped int, err error) {
	there, err := r.Find(ctx, name)
	if err != nil {
		return 0, err
	}
	release, err := r.lock(ctx, there, 5*time.Second)
	if err != nil {
		return 0, err
	}
	dropped, err = r.opts.Ledger.Panes.Remove(ctx, there.InboxKey, "the pane "+name+" was removed")
	err = errors.Join(err, release())
	if err == nil {
		r.changed(there.InboxKey)
		err = r.tasks.notify(ctx)
	}
	return dropped, err
}

// lock keeps all others from sending anything to a pane, under any name, until release is
// called. The error is [ErrBusy] if another one holds the lock for longer than d.
func (s *shared) lock(ctx context.Context, of Pane, d time.Duration) (release func() error, err error) {
	name := "pane\n" + of.Ref.Socket + "\n" + of.Ref.ID
	if of.IsSession() { // its id and process can change
		name = "session\n" + of.Root + "\n" + of.Inbox
	}
	release, err = lockedfile.HoldWithin(ctx, d, filepath.Join(s.opts.State, "locks"), name)
	if errors.Is(err, lockedfile.ErrLocked) {
		err = errors.Join(ErrBusy, err)
	}
	return release, err
}

// List returns the registered panes, sorted by name.
func (r *Registry) List(ctx context.Context) (list []Pane, err error) {
	all, err := r.opts.Ledger.Panes.List(ctx, r.opts.Root.Path())
	for _, one := range all {
		if one.Team == Team {
			list = append(list, paneOf(one))
		}
	}
	return list, err
}

// Find returns the pane that is registered under a name, or a *[NotFoundError].
func (r *Registry) Find(ctx context.Context, name string) (Pane, error) {
	all, err := r.List(ctx)
	if err != nil {
		return Pane{}, err
	}
	if i := slices.IndexFunc(all, func(one Pane) bool { return one.Inbox == name }); i >= 0 {
		return all[i], nil
	}
	return Pane{}, &NotFoundError{Name: name, Panes: all}
}

// OfMember returns the pane that config.json names for a member of a team, and records it. An
// empty socket means the tmux server that a plain tmux would use. It fails with
// *[NoPaneError], and as [teams.Team.Resolve] and [tmux.Resolve] do.
func (r *Registry) OfMember(ctx context.Context, t *teams.Team, member, socket string) (Pane, error) {
	name, err := t.Resolve(ctx, member)
	if err != nil {
		return Pane{}, err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return Pane{}, err
	}
	m, _ := c.Member(name)
	if !strings.HasPrefix(m.TmuxPaneID, "%") {
		return Pane{}, &NoPaneError{Team: t.Name(), Member: name}
	}
	seen, err := tmux.Resolve(ctx, socket, m.TmuxPaneID)
	if err != nil {
		return Pane{}, err
	}
	return r.Member(ctx, inbox.KeyOf(t, c, name), seen.Ref, tmux.Claude)
}

// Sender returns the name of a sender as the agent in a pane sees it, and the inbox that learns when the task has
// ended. From is NAME@TEAM, or the id of a session and [SessionTeam]. A NAME alone is a member of the team of to. If
// to is a registered pane or a session, NAME is a registered pane or else a member of the only living team with that
// name. NAME@TEAM@MACHINE and [Stranger] have no inbox. The person, "" or [mail.User], has neither inbox nor name.
// Sender fails with *[NotFoundError], *[SenderError], *[SessionError], and as [teams.Team.Resolve] does.
func (r *Registry) Sender(ctx context.Context, to Pane, from string) (name string, reports inbox.InboxKey, err error) {
	name, team := teams.Split(from)
	switch {
	case from == "" || from == mail.User:
		return "", reports, nil
	case from == Stranger:
		return from, reports, nil
	case team != SessionTeam && strings.Contains(name, "@"):
		return from, reports, nil // on another machine
	case team == SessionTeam:
		s, err := r.sessions.with(ctx, name)
		return s.Inbox, s.InboxKey, err
	case team == "" && to.Team != Team && !to.IsSession():
		team = to.Team
	case team == "" || team == Team:
		there, err := r.Find(ctx, name)
		if err == nil || team != "" || !errors.As(err, new(*NotFoundError)) {
			return name, there.InboxKey, err
		}
		living, err := r.opts.Root.Living(ctx, name)
		if err != nil {
			return "", reports, err
		}
		if len(living) != 1 {
			return "", reports, &SenderError{Name: name, Teams: living}
		}
		team = living[0]
	}
	t, err := r.opts.Root.Team(team)
	if err != nil {
		return "", reports, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return "", reports, err
	}
	if name, err = t.Resolve(ctx, name); err != nil {
		return "", reports, err
	}
	reports = inbox.KeyOf(t, c, name)
	return reports.Inbox + "@" + reports.Team, reports, nil
}

// Audience returns the panes of a list that get a message to all of them: without those in
// except, and without the sender. It fails with *[NotFoundError] for a name in
// except that no pane has.
func Audience(list []Pane, from string, except []string) ([]Pane, error) {
	for _, name := range except {
		if !slices.ContainsFunc(list, func(p Pane) bool { return p.Inbox == name }) {
			return nil, &NotFoundError{Name: name, Panes: list}
		}
	}
	sender, team := teams.Split(from)
	return slices.DeleteFunc(slices.Clone(list), func(p Pane) bool {
		return slices.Contains(except, p.Inbox) || p.Inbox == sender && (team == "" || team == p.Team) && from != mail.User
	}), nil
}

// Member records the pane of a member of a team, as its config.json names it, and returns
// it. After that, [Queue.Put] accepts messages for the pane.
func (r *Registry) Member(ctx context.Context, k inbox.InboxKey, ref tmux.Ref, profile tmux.Profile) (Pane, error) {
	if profile == "" {
		profile = tmux.Claude
	}
	there := Pane{InboxKey: k, Ref: ref, Profile: profile, At: time.Now()}
	if was, found, err := r.opts.Ledger.Panes.Pane(ctx, k); err != nil {
		return Pane{}, err
	} else if found && paneOf(was).Ref == ref && was.Profile == string(profile) {
		return paneOf(was), nil
	}
	return there, r.opts.Ledger.Panes.Set(ctx, recordOf(there))
}

func paneOf(p ledger.Pane) Pane {
	return Pane{
		InboxKey: p.InboxKey, Profile: tmux.Profile(p.Profile), At: p.At, Start: p.Start, Cwd: p.Cwd, Home: p.Home,
		Ref: tmux.Ref{Socket: p.Socket, Server: p.Server, ID: p.ID, PID: p.PID},
	}
}

func recordOf(p Pane) ledger.Pane {
	return ledger.Pane{
		InboxKey: p.InboxKey, Profile: string(p.Profile), At: p.At, Start: p.Start, Cwd: p.Cwd, Home: p.Home,
		Socket: p.Ref.Socket, Server: p.Ref.Server, ID: p.Ref.ID, PID: p.Ref.PID,
	}
}

// changed calls the callbacks after the records of an inbox have changed.
func (s *shared) changed(k inbox.InboxKey) {
	s.opts.Recorded()
	s.opts.Changed(k)
}
