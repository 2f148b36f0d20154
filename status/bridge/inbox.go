package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
)

// Inbox returns everything that needs the person; see [api.Bridge].
func (l *Local) Inbox(ctx context.Context, q api.InboxQuery) (in api.Inbox, err error) {
	names, err := l.withPerson(ctx, q.Team)
	if err != nil {
		return in, err
	}
	var all []api.Message
	for _, name := range names {
		found, err := l.Read(ctx, name, api.Reading{Own: true, Unread: !q.Read, Protocol: q.Protocol})
		if ctx.Err() != nil {
			return in, context.Cause(ctx)
		}
		if err != nil {
			if f := view.Explain(err); f.Code != api.CodeGone && f.Code != api.CodeNotFound { // otherwise the team has ended in between
				in.Problems = append(in.Problems, f)
			}
		}
		for _, note := range found.Notes { // an inbox without readable content
			in.Problems = append(in.Problems, api.Error{Code: api.CodeBusy, Message: note, Hint: "try again"})
		}
		in.Problems = append(in.Problems, found.Problems...)
		in.Hidden += found.Hidden
		all = append(all, found.Messages...)
	}
	var list []api.Attention
	if !q.Read {
		list, err = l.waitsNow(ctx, q.Team, len(all) > 0)
		if ctx.Err() != nil {
			return in, context.Cause(ctx)
		}
		if err != nil {
			in.Problems = append(in.Problems, view.Explain(err))
		}
	}
	in.Items = withMessages(list, all)
	return in, nil
}

// withPerson returns the teams in which the person may have inboxes: all, or the named one.
func (l *Local) withPerson(ctx context.Context, team string) (names []string, err error) {
	if team == pane.SessionTeam {
		return []string{team}, nil // with or without a session
	}
	if team != "" {
		to, err := l.In(ctx, team)
		if err != nil {
			return nil, err
		}
		return []string{to.Name()}, to.Close() // it was only read
	}
	list, err := l.Teams(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if !t.Panes && !t.Sessions && t.Problem == "" {
			names = append(names, t.Team)
		}
	}
	if !slices.Contains(names, pane.SessionTeam) { // messages of ended sessions are in it, too
		names = append(names, pane.SessionTeam)
	}
	return names, nil
}

// waitsNow is [history.Archive.Attention]. With record, and without a service, it first records the inboxes,
// even if nothing was recorded before.
func (l *Local) waitsNow(ctx context.Context, team string, record bool) (list []api.Attention, err error) {
	if record {
		rec, err := l.Record(ctx, team)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
		if rec.Ledger(ctx) == nil {
			return nil, nil // Cache has warned
		}
	}
	return l.Attention(ctx, team)
}

// withMessages adds unread messages to the items about them.
func withMessages(list []api.Attention, all []api.Message) []api.Attention {
	found := append(make([]api.Attention, 0, len(list)), list...)
	for _, m := range all {
		i := slices.IndexFunc(found, func(w api.Attention) bool {
			return w.Kind == api.WaitsUnread && w.Team == m.Team && w.Member == m.Inbox && w.From == m.From
		})
		if i < 0 { // confirmations, or new messages without an item
			i = len(found)
			found = append(found, api.Attention{
				ID: strings.Join([]string{api.WaitsUnread, m.Team, m.Inbox, m.From, m.ID}, "/"), Kind: api.WaitsUnread, Title: api.WaitOf(api.WaitsUnread).Title, Team: m.Team, Member: m.Inbox, From: m.From,
				Words: api.WaitOf(api.WaitsUnread).Words, Do: "mark them as read: POST /v1/teams/" + m.Team + "/read", Command: "teambridge inbox --mark-read",
			})
		}
		w := &found[i]
		w.Messages = append(w.Messages, m)
		w.Count, w.Message, w.What = len(w.Messages), m.ID, plain.Plural(len(w.Messages), "unread message")
	}
	return slices.DeleteFunc(found, func(w api.Attention) bool { return w.Kind == api.WaitsUnread && w.Messages == nil })
}
