package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/teams"
)

// Dismiss records durably that the person has seen w, so that it is not shown again.
func Dismiss(ctx context.Context, l *ledger.Ledger, root string, w api.Attention) error {
	if err := l.Person.Dismiss(ctx, root, w.ID, time.Now()); err != nil || w.Kind != api.WaitsDone {
		return err
	}
	return l.PaneMessages.Notified(ctx, w.ID) // the ledger keeps the message until then
}

// Pane converts a pane. The result has a Look if the pane was examined, that is if v.At is set.
func Pane(v pane.View) api.Pane {
	shown := api.Pane{
		Team: v.Pane.Team, Member: v.Pane.Inbox, Target: v.Pane.Ref.ID, Socket: v.Pane.Ref.Socket, Profile: string(v.Pane.Profile), Created: v.Pane.At,
	}
	for _, m := range v.Messages {
		if _, reason := PaneMessage(m); !m.State.Ended() {
			shown.Queue++
			shown.Reason = cmp.Or(shown.Reason, reason)
		}
	}
	if v.At.IsZero() {
		return shown
	}
	look := &api.PaneLook{
		State: string(v.State), Detail: v.Why, Where: v.Terminal.Target(), Title: v.Terminal.Title, Program: v.Terminal.Command, Cwd: v.Terminal.Path, PID: v.PID,
		Raw: v.State != tmux.Closed && v.State != tmux.Gone, Queued: v.Composer.Queued, Dialog: v.Composer.Dialog,
	}
	if v.State == tmux.Gone {
		look.Where = ""
	}
	look.Reason = string(holds(v))
	switch tmux.Reason(look.Reason) {
	case tmux.Dead, tmux.InMode, tmux.InputOff, tmux.Synchronized, tmux.NotAgent:
		look.State = api.PaneClosed
	}
	shown.Look = look
	return shown
}

// holds returns the reason why nothing can be typed into a pane now, or "".
func holds(v pane.View) tmux.Reason {
	switch t := v.Terminal; {
	case v.State == tmux.Gone && !t.Dead:
		return tmux.Gone
	case t.Dead:
		return tmux.Dead
	case v.State == tmux.Closed:
		return tmux.NotAgent
	case t.Mode != "":
		return tmux.InMode
	case t.InputOff:
		return tmux.InputOff
	case t.Synchronized:
		return tmux.Synchronized
	case v.State == tmux.Dialog, v.State == tmux.Draft, v.State == tmux.Unknown && v.Pane.Profile != tmux.Generic:
		return tmux.Reason(v.State) // both types use the same words
	}
	return ""
}

// PaneTeam returns the team of the registered panes, or of sessions.
func PaneTeam(list []pane.Pane) api.Team {
	t := api.Team{Team: pane.Team, LeadState: teams.Unknown.String(), Members: len(list), Panes: true}
	if len(list) > 0 {
		t.Team, t.Panes, t.Sessions = list[0].Team, !list[0].IsSession(), list[0].IsSession()
		t.CreatedAt = time.UnixMilli(list[0].CreatedAt).UTC()
	}
	return t
}

// WithPanes inserts the team of the panes into a sorted list of teams.
func WithPanes(list []api.Team, panes api.Team) []api.Team {
	at, _ := slices.BinarySearchFunc(list, panes.Team, func(t api.Team, name string) int { return cmp.Compare(t.Team, name) })
	return slices.Insert(slices.Clone(list), at, panes)
}

// PaneMembers converts panes or sessions to members of their team.
func PaneMembers(views []pane.View) []api.Member {
	list := make([]api.Member, 0, len(views))
	for _, v := range views {
		backend, dir, since := "tmux", v.Terminal.Path, v.Pane.At
		if v.Pane.IsSession() {
			backend, dir = "session", v.Pane.Cwd
			if at := v.Process.Started(); !at.IsZero() { // zero: it has ended, or its start is unknown
				since = at
			}
		}
		list = append(list, api.Member{
			Team: v.Pane.Team, Member: v.Pane.Inbox, Role: api.RoleAgent, Backend: backend, Cwd: dir, JoinedAt: new(since.UTC()), Unread: len(v.Waiting()),
		})
	}
	return list
}

// PaneStatus returns the status of the agent in a pane. The word is "unknown" if the pane was not examined yet.
func PaneStatus(v pane.View) api.Status {
	s := api.Status{
		Team: v.Pane.Team, Member: v.Pane.Inbox, Basis: api.BasisPane, PID: v.PID, Heard: v.Pane.At, WordSince: v.Pane.At, Why: v.Why,
		State: api.StateIdle, Detail: api.DetailWaiting,
	}
	if v.Pane.IsSession() {
		s.Basis = api.BasisProcess
	}
	if v.Pane.Profile == pane.Codex || v.Pane.Profile == pane.Qwen {
		s.Program = string(v.Pane.Profile)
	}
	for _, m := range v.Messages {
		if !m.State.Ended() {
			s.Unread++
		}
		if m.SentAt.After(s.Heard) {
			s.Heard = m.SentAt
		}
	}
	if !v.Since.IsZero() {
		s.WordSince = v.Since
		if v.Since.After(s.Heard) {
			s.Heard = v.Since
		}
	}
	switch v.State {
	case tmux.Empty:
		s.Word = api.WordIdle
	case tmux.Draft:
		s.Word, s.Why = api.WordIdle, cmp.Or(v.Why, "something is typed at its prompt")
	case tmux.Busy:
		s.Word, s.State, s.Detail, s.Heard = api.WordWorking, api.StateActive, api.DetailWorking, v.At
	case tmux.Dialog:
		s.Word, s.State, s.Detail = api.WordWaiting, api.StateActive, api.DetailWorking
	case tmux.Closed, tmux.Gone:
		s.Word, s.State, s.Detail = api.WordEnded, api.StateTerminated, api.DetailShutDown
	case tmux.Unknown:
		s.Word = api.WordUnknown
	default:
		s.Word, s.Why = api.WordUnknown, "it was not looked at yet"
	}
	s.Since, s.Heard, s.WordSince = s.WordSince.UTC(), s.Heard.UTC(), s.WordSince.UTC()
	return s
}

// PaneMessage returns the state of a message to a pane in the words of [api.Sent], and the reason.
func PaneMessage(m ledger.PaneMessage) (state, reason string) {
	cause, reason := ledger.SplitReason(m.Reason)
	if m.State == ledger.Failed && cause == ledger.CauseUnknown {
		return api.Unconfirmed, reason
	}
	switch m.State {
	case ledger.Claimed:
		return api.Waiting, cmp.Or(m.Detail, m.Held)
	case ledger.Done:
		return api.Confirmed, ""
	case ledger.Failed, ledger.Dropped, ledger.Cancelled:
		return api.NotSent, cmp.Or(reason, string(m.State))
	}
	return api.Waiting, cmp.Or(m.Detail, "it is being delivered")
}

// PaneSent converts a message that was added to the queue of a pane. again means that the queue had it already.
func PaneSent(m ledger.PaneMessage, again bool) api.Sent {
	s := api.Sent{Team: m.Team, Member: m.Inbox, ID: m.ID, Deduplicated: again, Recorded: true, Reachable: true, Delivery: m.UUID}
	s.State, s.Reason = PaneMessage(m)
	return s
}

// paneFate returns the outcome of a message to a pane.
func paneFate(m ledger.PaneMessage) *api.Fate {
	f := &api.Fate{Delivery: m.UUID, State: string(m.State), Reason: m.Reason, At: m.At, Pane: true}
	switch {
	case m.State == ledger.Claimed && m.Held != "":
		f.State, f.Reason, f.At = string(ledger.EventHeld), cmp.Or(m.Detail, m.Held), m.HeldSince
	case m.State == ledger.Done && m.Task == ledger.TaskGiven:
		f.State, f.At = string(ledger.EventGiven), m.TaskAt
	case m.State == ledger.Done && m.Task == ledger.TaskEnded && m.Lost == "":
		f.State, f.At = string(ledger.EventFinished), m.TaskAt
	}
	f.Outcome = outcome(f.State, f.Reason, false)
	return f
}
