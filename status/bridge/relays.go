package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/relay/runtimes"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Relay returns the relay with a name; see [api.Bridge].
func (l *Control) Relay(ctx context.Context, team, name string) (api.RelayEntry, error) {
	e, _, err := l.relay(ctx, team, name)
	return e, err
}

// relay returns the relay with a name, and its record if it was added. A relay that was added takes precedence
// over one of "teambridge run".
func (l *Control) relay(ctx context.Context, team, name string) (e api.RelayEntry, r *ledger.Relay, err error) {
	root, err := l.AnyRoot()
	if err != nil {
		return e, nil, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return e, nil, err
	}
	var records []ledger.Relay // of all Claude directories
	var list []api.RelayEntry
	if lg != nil {
		if records, err = lg.Relays.List(ctx, ""); err != nil {
			return e, nil, err
		}
	}
	if root != nil {
		if list, err = l.Relays(ctx, ""); err != nil {
			return e, nil, err
		}
	}
	var added, run []candidate
	for i, r := range records {
		member := r.Member
		if root != nil && r.Root == root.Path() {
			member = root.MemberName(ctx, r.Team, r.Member)
		}
		records[i].Member = member
		added = append(added, candidate{r.ID, r.Root, r.Team, member})
	}
	i, err := pick(ctx, root, team, name, added)
	if err != nil {
		return e, nil, err
	}
	if i >= 0 {
		r = &records[i]
		if i := slices.IndexFunc(list, func(e api.RelayEntry) bool { return e.ID == r.ID }); i >= 0 {
			return list[i], r, nil
		}
		return view.Entry(*r), r, nil
	}
	list = slices.DeleteFunc(list, func(e api.RelayEntry) bool { return e.Created != nil })
	for _, e := range list {
		run = append(run, candidate{e.ID, root.Path(), e.Team, e.Member})
	}
	if i, err = pick(ctx, root, team, name, run); err != nil {
		return e, nil, err
	}
	if i < 0 {
		return e, nil, noRelay(name)
	}
	return list[i], nil, nil
}

// Work returns a page of the events of a relay's agent; see [history.Archive.WorkOf].
func (l *Control) Work(ctx context.Context, relay string, q api.MessageQuery) (api.Envelopes, error) {
	e, err := l.Relay(ctx, "", relay)
	if err != nil {
		return api.Envelopes{Envelopes: []api.Envelope{}}, err
	}
	return l.WorkOf(ctx, e.Team, e.Member, q)
}

func noRelay(name string) error {
	return api.Decide(api.CodeNotFound, "list the relays with: teambridge relay list --relays", "there is no relay %s", name)
}

// added is [Control.relay] for a relay that the service controls.
func (l *Control) added(ctx context.Context, name string) (api.RelayEntry, *ledger.Relay, error) {
	e, r, err := l.relay(ctx, "", name)
	if err == nil && r == nil {
		hint, reason := view.Elsewhere(e)
		err = api.Decide(api.CodeConflict, hint, "%s", reason)
	}
	return e, r, err
}

type candidate struct{ id, root, team, member string }

// pick returns the index of the relay that name means: its id, or else MEMBER[@TEAM], or else the beginning of its
// id. It returns -1 if there is none, and a usage error if there are several. Without a root, members are unknown.
func pick(ctx context.Context, root *teams.Root, team, name string, all []candidate) (int, error) {
	member, named := teams.Split(name)
	team = cmp.Or(named, team)
	for _, fits := range []func(candidate) bool{
		func(c candidate) bool { return c.id == name },
		func(c candidate) bool {
			return root != nil && c.root == root.Path() && (team == "" || c.team == team) && c.member == root.MemberName(ctx, c.team, member)
		},
		func(c candidate) bool { return len(name) >= view.MinPrefix && strings.HasPrefix(c.id, name) },
	} {
		last := -1
		var found []string
		for i, c := range all {
			if fits(c) {
				last = i
				found = append(found, fmt.Sprintf("%s (%s@%s)", c.id, c.member, c.team))
			}
		}
		if len(found) > 1 {
			return -1, api.Decide(api.CodeUsage, "matches are "+strings.Join(found, ", "), "%q matches %d relays", name, len(found))
		}
		if last >= 0 {
			return last, nil
		}
	}
	return -1, nil
}

// admin changes the relays of a Claude directory in the ledger. A service notices the changes.
func (l *Control) admin(ctx context.Context, root *teams.Root) (fleet.Admin, error) {
	lg, err := l.Opts.Ledger(ctx)
	return fleet.Admin{Root: root, Ledger: lg, Locker: l.Opts.Locker, State: l.Opts.State}, err
}

// AddRelay adds a relay; see [api.Bridge].
func (l *Control) AddRelay(ctx context.Context, n api.NewRelay) (e api.RelayEntry, err error) {
	settings := ledger.Relay{
		Team: n.Team, Member: n.Member, Runtime: n.Runtime, Command: n.Command, URL: n.URL, PasswordFile: n.PasswordFile, Profile: n.Profile,
		Plain: n.Plain, Dir: n.Dir, OnCut: n.OnCut, Permissions: n.Permissions, Mode: n.Mode, OwnTeam: n.CreateTeam,
		IdleReports: n.IdleReports,
	}
	if n.IdleExit != "" {
		if settings.IdleExit, err = time.ParseDuration(n.IdleExit); err != nil {
			return e, &runtimes.SettingError{Setting: "idle-exit", Reason: fmt.Sprintf("%q is not a duration such as 30m", n.IdleExit)}
		}
	}
	root, err := l.Opts.Root()
	if err != nil {
		return e, err
	}
	admin, err := l.admin(ctx, root)
	if err != nil {
		return e, err
	}
	r, isNew, err := admin.Add(ctx, settings)
	if err != nil {
		return e, err
	}
	l.carrying.pokeFleet()
	if e = view.Entry(r); l.carrying.Fleet == nil {
		e.Member = root.MemberName(ctx, r.Team, r.Member)
	} else {
		e, err = l.Relay(ctx, "", r.ID)
	}
	e.Added = isNew
	return e, err
}

// RemoveRelay removes a relay; see [api.Bridge].
func (l *Control) RemoveRelay(ctx context.Context, id string, deleteTeam bool) (api.RelayEntry, error) {
	e, r, err := l.added(ctx, id)
	if err != nil {
		return e, err
	}
	root, err := teams.Open(r.Root)
	if err == nil {
		defer root.Close() // it was only read
	} else if root = nil; deleteTeam || !errors.As(err, new(*teams.NoRootError)) {
		return e, err
	}
	admin, err := l.admin(ctx, root)
	if err != nil {
		return e, err
	}
	if _, err = admin.Remove(ctx, *r, deleteTeam); errors.Is(err, fleet.ErrUnknown) {
		err = noRelay(id)
	}
	l.carrying.pokeFleet()
	return e, err
}

// RetryRelay starts an agent again; see [api.Bridge].
func (l *Control) RetryRelay(ctx context.Context, id string) (e api.RelayEntry, err error) {
	e, r, err := l.added(ctx, id)
	if err != nil {
		return e, err
	}
	if err := l.retryRelay(ctx, *r); err != nil {
		return e, err
	}
	return l.Relay(ctx, "", r.ID)
}

func (l *Control) retryRelay(ctx context.Context, r ledger.Relay) error {
	root, err := teams.Open(r.Root)
	if err != nil {
		return err
	}
	defer root.Close() // it was only read
	if f := l.carrying.Fleet; f != nil {
		if err = f.Retry(ctx, r.ID); !errors.Is(err, fleet.ErrUnknown) {
			return err
		}
		// The relay was just added, and is about to start, or it belongs to another Claude directory.
		if own, err := l.Opts.Root(); err != nil || r.Root == own.Path() {
			return err
		}
	}
	admin, err := l.admin(ctx, root)
	if err != nil {
		return err
	}
	if err = admin.Retry(ctx, r); errors.Is(err, teams.ErrTeamGone) {
		err = nil // it starts when the team exists
	}
	return err
}

// Interrupt stops the turn of an agent; see [api.Bridge].
func (l *Control) Interrupt(ctx context.Context, id string) (api.RelayEntry, error) {
	e, r, err := l.added(ctx, id)
	if err != nil {
		return e, err
	}
	if l.carrying.Fleet == nil {
		return e, api.Decide(api.CodeNotInFlight, startService, "the agent is not running: no service runs")
	}
	err = l.carrying.Fleet.Interrupt(ctx, r.ID)
	switch {
	case errors.Is(err, agent.ErrNotInFlight):
		return e, api.Decide(api.CodeNotInFlight, "give up a message that waits with: teambridge relay drop", "no turn is running")
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return e, api.Decide(api.CodeNotInFlight, "see how it stands with: teambridge relay list", "the agent is not running: %s", view.Describe(err))
	case err != nil:
		return e, err
	}
	return l.Relay(ctx, "", r.ID)
}

const startService = "start one with: teambridge serve"

// Hold holds the messages of two members to each other; see [api.Bridge].
func (l *Control) Hold(ctx context.Context, team, member, sender string) ([]api.Hold, error) {
	t, _, err := l.real(ctx, team)
	if err != nil {
		return nil, err
	}
	defer t.Close() // it was only read
	if sender == "" {
		return nil, api.Decide(api.CodeInvalid, "", "the sender is missing whose messages to %s are to be held", member)
	}
	keys := make([]inbox.InboxKey, 2)
	for i, name := range []string{member, sender} {
		if keys[i], err = fleet.Key(ctx, t, name); err != nil {
			return nil, err
		}
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	relays, err := view.Relays(ctx, lg, l.Opts.State, t)
	if err != nil {
		return nil, err
	}
	a, b := keys[0].Inbox, keys[1].Inbox
	if a == b {
		return nil, api.Decide(api.CodeInvalid, "", "%s is both the member and the sender", a)
	}
	reason := l.holdReason(ctx, t.Name(), a, b)
	var holds []ledger.Hold
	for i, k := range keys {
		if view.Delivers(relays[k.Inbox]) {
			holds = append(holds, ledger.Hold{InboxKey: k, Sender: keys[1-i].Inbox, Reason: reason})
		}
	}
	if len(holds) == 0 {
		return nil, api.Decide(api.CodeConflict, fmt.Sprintf("tell one of them to stop: teambridge send %s@%s TEXT", a, t.Name()),
			"no relay delivers to %s or %s, so what they write each other cannot be held", a, b)
	}
	if err := lg.Holds.Hold(ctx, holds...); err != nil {
		return nil, err
	}
	list := []api.Hold{}
	for _, h := range holds {
		now, err := lg.Holds.Held(ctx, h.InboxKey)
		if err != nil {
			return nil, err
		}
		for _, h := range slices.DeleteFunc(now, func(other ledger.Hold) bool { return other.Sender != h.Sender }) {
			list = append(list, view.Hold(h))
		}
	}
	l.carrying.Sent()
	return list, nil
}

// holdReason returns the reason of a hold by a person.
func (l *Control) holdReason(ctx context.Context, team, a, b string) string {
	waits, err := l.Attention(ctx, team)
	if err != nil {
		l.Opts.Warn(fmt.Errorf("%w; the hold does not say how long the loop was", err))
	}
	for _, w := range waits {
		if w.Kind == api.WaitsLoop && (w.Member == a && w.From == b || w.Member == b && w.From == a) {
			return fmt.Sprintf("by you, in a loop of %d exchanges", w.Count)
		}
	}
	return "by you"
}

// Release releases held messages to a member; see [api.Bridge].
func (l *Control) Release(ctx context.Context, team, member, sender string) ([]api.Hold, error) {
	t, _, err := l.real(ctx, team)
	if err != nil {
		return nil, err
	}
	defer t.Close() // it was only read
	key, err := fleet.Key(ctx, t, member)
	if err != nil {
		return nil, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	senders := []string{sender}
	if sender == "" {
		held, err := lg.Holds.Held(ctx, key)
		if err != nil {
			return nil, err
		}
		senders = nil
		for _, h := range held {
			senders = append(senders, h.Sender)
		}
	}
	list := []api.Hold{}
	for _, s := range senders {
		released, err := lg.Holds.Release(ctx, key, s)
		if err != nil {
			return nil, err
		}
		for _, h := range released {
			list = append(list, view.Hold(h))
		}
	}
	if len(list) > 0 {
		l.carrying.Sent()
	}
	return list, nil
}
