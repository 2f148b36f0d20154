package pane

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/terminal"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Add registers a pane, and returns it and what tmux knows of it. Nothing is sent to the
// pane. The errors are [teams.ErrBadName], [ErrTeamExists], *[ExistsError],
// *[ProfileError], and those of [terminal.Resolve].
func (p *Panes) Add(ctx context.Context, r Registration) (Pane, terminal.Pane, error) {
	if err := teams.CheckName("pane", r.Name); err != nil {
		return Pane{}, terminal.Pane{}, err
	}
	if r.Profile == "" {
		r.Profile = terminal.Claude
	}
	if r.Profile != terminal.Claude && r.Profile != terminal.Generic {
		return Pane{}, terminal.Pane{}, &ProfileError{r.Profile}
	}
	t, err := p.opts.Root.Team(Team)
	if err == nil {
		err = errors.Join(ErrTeamExists, t.Close())
	}
	if !errors.Is(err, teams.ErrTeamGone) && !errors.As(err, new(*teams.NotFoundError)) {
		return Pane{}, terminal.Pane{}, err
	}
	there, err := p.tmux.resolve(ctx, r.Socket, r.Target)
	if err != nil {
		return Pane{}, terminal.Pane{}, err
	}
	if there.Dead {
		return Pane{}, there, terminal.ErrGone
	}
	added, err := p.opts.Ledger.AddPane(ctx, recordOf(Pane{
		InboxKey: ledger.InboxKey{Root: p.opts.Root.Path(), Inbox: r.Name}, Ref: there.Ref, Profile: r.Profile, At: time.Now(),
	}), r.Replace)
	if exists, ok := errors.AsType[*ledger.PaneExistsError](err); ok {
		err = &ExistsError{paneOf(exists.Pane)}
	}
	if err != nil {
		return Pane{}, there, err
	}
	p.changed(added.InboxKey)
	p.Poke()
	return paneOf(added), there, nil
}

// Remove removes a registered pane. What waits for it is dropped, and it returns how many
// messages those are. Senders who wait for a notification get one that says so. The
// errors are *[NotFoundError], and [ErrBusy] if a delivery does not end within 5 s.
func (p *Panes) Remove(ctx context.Context, name string) (dropped int, err error) {
	there, err := p.Find(ctx, name)
	if err != nil {
		return 0, err
	}
	release, err := p.lock(ctx, there, 5*time.Second)
	if err != nil {
		return 0, err
	}
	dropped, err = p.opts.Ledger.RemovePane(ctx, there.InboxKey, "the pane "+name+" was removed")
	err = errors.Join(err, release())
	if err == nil {
		p.changed(there.InboxKey)
		err = p.notify(ctx)
	}
	return dropped, err
}

// lock keeps all others from sending anything to a pane, whatever its name, until release is
// called. The error is [ErrBusy] if another process holds it for longer than d.
func (p *Panes) lock(ctx context.Context, of Pane, d time.Duration) (release func() error, err error) {
	release, err = lockedfile.HoldWithin(ctx, d, filepath.Join(p.opts.State, "locks"), "pane\n"+of.Ref.Socket+"\n"+of.Ref.ID)
	if errors.Is(err, lockedfile.ErrLocked) {
		err = errors.Join(ErrBusy, err)
	}
	return release, err
}

// List returns the registered panes, sorted by name.
func (p *Panes) List(ctx context.Context) (list []Pane, err error) {
	all, err := p.opts.Ledger.Panes(ctx, p.opts.Root.Path())
	for _, one := range all {
		if one.Team == Team {
			list = append(list, paneOf(one))
		}
	}
	return list, err
}

// Find returns the pane that is registered under a name, or a *[NotFoundError].
func (p *Panes) Find(ctx context.Context, name string) (Pane, error) {
	all, err := p.List(ctx)
	if err != nil {
		return Pane{}, err
	}
	if i := slices.IndexFunc(all, func(one Pane) bool { return one.Inbox == name }); i >= 0 {
		return all[i], nil
	}
	return Pane{}, &NotFoundError{Name: name, Panes: all}
}

// Member records the pane of a member of a team, as its config.json names it, and returns
// it. Messages to the member can then be put there.
func (p *Panes) Member(ctx context.Context, k ledger.InboxKey, ref terminal.Ref, profile terminal.Profile) (Pane, error) {
	if profile == "" {
		profile = terminal.Claude
	}
	there := Pane{InboxKey: k, Ref: ref, Profile: profile, At: time.Now()}
	if was, found, err := p.opts.Ledger.Pane(ctx, k); err != nil {
		return Pane{}, err
	} else if found && paneOf(was).Ref == ref && was.Profile == string(profile) {
		return paneOf(was), nil
	}
	return there, p.opts.Ledger.SetPane(ctx, recordOf(there))
}

func paneOf(p ledger.Pane) Pane {
	return Pane{
		InboxKey: p.InboxKey, Profile: terminal.Profile(p.Profile), At: p.At,
		Ref: terminal.Ref{Socket: p.Socket, Server: p.Server, ID: p.ID, PID: p.PID},
	}
}

func recordOf(p Pane) ledger.Pane {
	return ledger.Pane{
		InboxKey: p.InboxKey, Profile: string(p.Profile), At: p.At,
		Socket: p.Ref.Socket, Server: p.Ref.Server, ID: p.Ref.ID, PID: p.Ref.PID,
	}
}

// changed tells that something was recorded about an inbox.
func (p *Panes) changed(k ledger.InboxKey) {
	p.opts.Recorded()
	p.opts.Changed(k)
}
