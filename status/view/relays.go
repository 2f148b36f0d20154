package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/mode"
	"teambridge/status/api"
	"teambridge/teams"
)

// Entries returns the relays of root: those that were added to the service, and those of "teambridge run" whose team
// exists or that have unfinished or failed deliveries. If team is not empty, it returns only those of that team.
func Entries(ctx context.Context, l *ledger.Ledger, state string, root *teams.Root, team string) ([]api.RelayEntry, error) {
	told, err := l.Relays.List(ctx, root.Path())
	if err != nil {
		return nil, err
	}
	standings, err := l.Sessions.RelayInfos(ctx, root.Path())
	if err != nil {
		return nil, err
	}
	list := []api.RelayEntry{}
	for _, r := range told {
		if team == "" || r.Team == team {
			e := Entry(r)
			e.Member = root.MemberName(ctx, r.Team, r.Member)
			list = append(list, e)
		}
	}
	for _, s := range standings {
		if team != "" && s.Team != team {
			continue
		}
		info, now, err := standing(ctx, l, state, root, s)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(r api.RelayEntry) bool { return r.Created != nil && r.Team == s.Team && r.Member == s.Inbox })
		switch {
		case i >= 0 && now:
			list[i].Relay, list[i].Settings = info, s.Mode
		case i < 0 && (now || s.Open+s.Failed > 0):
			e := api.RelayEntry{ID: relay.RunID(s.InboxKey), Team: s.Team, Member: s.Inbox, Command: strings.Fields(s.Command), Relay: info}
			if info.Place != nil {
				e.Settings = s.Mode // prompts can change them
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// Elsewhere explains why the service cannot control a relay that was not added to it, and returns a hint.
func Elsewhere(e api.RelayEntry) (hint, reason string) {
	if e.Running {
		return fmt.Sprintf("end process %d, or interrupt it (^C)", e.PID),
			fmt.Sprintf("the relay %s of %s@%s is not the service's: it is run by \"teambridge run\", process %d", e.ID, e.Member, e.Team, e.PID)
	}
	return "teambridge run runs it again; teambridge relay add has the service do it",
		fmt.Sprintf("the relay %s of %s@%s is not the service's: it was run by \"teambridge run\", or was removed, and runs no more", e.ID, e.Member, e.Team)
}

// Entry converts a relay that was added to the service, in the state stopped.
func Entry(r ledger.Relay) api.RelayEntry {
	e := api.RelayEntry{
		ID: r.ID, Team: r.Team, Member: r.Member, Runtime: r.Runtime, Command: append([]string{}, r.Command...),
		URL: r.URL, PasswordFile: r.PasswordFile, Profile: r.Profile, Dir: r.Dir, OnCut: r.OnCut, Permissions: r.Permissions,
		Plain: r.Plain, IdleReports: r.IdleReports, CreateTeam: r.OwnTeam, Created: new(r.Created.UTC()), Relay: api.Relay{State: string(relay.Stopped)},
	}
	if r.IdleExit > 0 {
		e.IdleExit = r.IdleExit.String()
	}
	if mode, err := mode.Parse(r.Mode); len(r.Mode) > 0 && err == nil {
		e.Mode, _ = mode.MarshalJSON() // it was parsed
	}
	return e
}

// TeamEnded is the reason of a stopped relay whose team no longer exists.
const TeamEnded = "the team has ended"

// standing returns the state of one relay, and whether its team is the one that exists now.
func standing(ctx context.Context, l *ledger.Ledger, state string, root *teams.Root, s ledger.RelayInfo) (info api.Relay, now bool, err error) {
	gone := api.Relay{State: string(relay.Stopped), Queue: s.Open, DeadLetters: s.Failed, Session: s.ID, Reason: TeamEnded}
	t, err := root.Team(s.Team)
	if errors.Is(err, teams.ErrTeamGone) {
		return gone, false, nil
	}
	if err != nil {
		return gone, false, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	switch {
	case ctx.Err() != nil:
		return gone, false, err
	case err != nil, c.Instance().CreatedAt != s.CreatedAt:
		return gone, false, nil // doctor reports a config.json that cannot be read
	}
	o, _, err := relay.Stat(ctx, l, state, t, c, s.Inbox)
	if err != nil {
		return gone, false, err
	}
	return *Relay(o), true, nil
}

// Relays returns the states of a team's relays by member. It includes members whose relay does not run, if they
// cannot be reached without it.
func Relays(ctx context.Context, l *ledger.Ledger, state string, t *teams.Team) (map[string]*api.Relay, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*api.Relay{}
	for _, m := range c.Members {
		o, found, err := relay.Stat(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		f, err := relay.Facts(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if f.Headless || o.Queue > 0 {
			known[m.Name] = Relay(o)
		}
	}
	return known, nil
}

// Relay converts the state of a relay.
func Relay(o relay.Info) *api.Relay {
	r := &api.Relay{
		State: string(o.State), Running: o.Running, Queue: o.Queue, DeadLetters: o.Failed,
		PID: o.Relay, AgentPID: o.PID, Session: o.Session, Reason: o.Reason, PermissionMode: o.PermissionMode, LastAck: timeOrNil(o.LastAck.UTC()), Started: timeOrNil(o.Started.UTC()),
	}
	if o.Handoff != nil {
		r.Place = new(Place(*o.Handoff))
	}
	for _, h := range o.Held {
		r.Held = append(r.Held, Hold(h))
		if r.Reason == "" {
			r.Reason = "messages are held: " + h.Reason
		}
	}
	return r
}

// Place converts the place of a session.
func Place(h ledger.Handoff) api.Place {
	return api.Place{At: string(h.At), To: string(h.To), Wanted: string(h.Wanted), Reason: h.Reason, Refused: h.Refused, Since: h.Since}
}

// Delivers reports whether teambridge delivers to a member with relay r, which may be nil. While the session is at a
// terminal, Claude Code reads the inbox itself.
func Delivers(r *api.Relay) bool {
	return r != nil && (r.Place == nil || r.Place.At != api.PlaceLocal)
}

// Hold converts a hold.
func Hold(h ledger.Hold) api.Hold {
	return api.Hold{Team: h.Team, Member: h.Inbox, Sender: h.Sender, Reason: h.Reason, Since: h.Since}
}
