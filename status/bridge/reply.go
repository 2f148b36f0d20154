package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Reply answers a message; see [api.Bridge].
func (l *Local) Reply(ctx context.Context, id string, r api.NewReply) (done api.Replied, err error) {
	find := l.toPerson
	if Agent(ctx) {
		find = l.toAgent
	}
	if done.To, err = find(ctx, r); err != nil {
		return done, err
	}
	team, member, err := l.senderOf(ctx, done.To)
	if err != nil {
		return done, err
	}
	if r.Ask && done.To.From == mail.User {
		return done, api.Decide(api.CodeInvalid, "send it without wait: the answer comes as a message", "a person reads it when they look, and cannot be waited for")
	}
	if r.Scope = nil; !r.Ask {
		done.Sent, err = l.Send(ctx, team, member, id, r.NewMessage)
		return done, err
	}
	a, err := l.Ask(ctx, team, member, id, r.NewQuestion)
	done.Sent, done.Answer = a.Sent, &a
	return done, err
}

// senderOf returns the sender of a message. Messages call sessions by their names, and a new session may have
// the name by now.
func (l *Local) senderOf(ctx context.Context, m api.Message) (team, member string, err error) {
	team, member = m.Team, m.From
	if Agent(ctx) {
		if name, of, err := l.Split(ctx, m.From); err != nil {
			return "", "", err
		} else if of != "" { // the sender is of another team than the agent
			team, member = of, name
		}
		if member == mail.User && team != pane.SessionTeam { // the person's name in the team
			d, err := l.Team(ctx, team)
			return team, d.From, err
		}
	}
	if of, err := l.OfSessions(team); err != nil || !of {
		return team, member, err
	}
	sessions, err := l.Sessions(ctx)
	return team, api.WhoIs(sessions, member), err
}

// toPerson returns the message to the person that an answer is for. It fails if the message could be in an
// inbox that cannot be read.
func (l *Local) toPerson(ctx context.Context, r api.NewReply) (to api.Message, err error) {
	in, err := l.Inbox(ctx, api.InboxQuery{Team: r.Team, Read: true})
	for _, p := range in.Problems {
		err = errors.Join(err, api.Decide(p.Code, p.Hint, "%s", p.Message))
	}
	if err != nil {
		return to, err
	}
	all := slices.DeleteFunc(in.Messages(), func(m api.Message) bool { return m.Kind != "message" })
	const list = "list messages with: teambridge history"
	if r.To == api.LastMessage {
		if len(all) == 0 {
			return to, api.Decide(api.CodeNotFound, list, "there is no message to you")
		}
		return newest(ctx, l, r.Team)
	}
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	id, err := view.WholeID(r.To, ids)
	if err != nil {
		return to, err
	}
	for _, m := range all {
		switch {
		case m.ID != id:
		case to.ID == "":
			to = m
		case to.Team != m.Team || to.From != m.From: // agents can reuse an id
			return to, api.Decide(api.CodeUsage, "name the recipient with: teambridge send", "several messages to you have the id %s", id)
		}
	}
	if to.ID == "" {
		err = api.Decide(api.CodeNotFound, list, "no message to you has the id %s", r.To)
	}
	return to, err
}

// toAgent returns the message to an agent that its answer is for. The given id may also be the delivery's,
// which a session gets with the message.
func (l *Local) toAgent(ctx context.Context, r api.NewReply) (to api.Message, err error) {
	name, team := teams.Split(r.From)
	if team == "" {
		return to, api.Decide(api.CodeRefused, "only a session has messages", "it is not known who you are")
	}
	if team == pane.SessionTeam {
		sessions, err := l.Sessions(ctx)
		if err != nil {
			return to, err
		}
		i := slices.IndexFunc(sessions, func(s api.Session) bool { return s.Session == name && s.Member == "" })
		if name = ""; i >= 0 {
			name = sessions[i].As
		}
	}
	if name != "" {
		found, err := l.History(ctx, api.SearchQuery{Team: team, Inbox: name, Limit: api.MaxMessages, MessagesOnly: true})
		if err != nil {
			return to, err
		}
		for _, h := range found.Hits {
			h.From = cmp.Or(h.From, mail.User)
			switch {
			case h.From == name || h.ID != r.To && (h.Relay == nil || h.Relay.Delivery != r.To):
			case to.ID == "":
				to = h.Message
			case to.From != h.From: // an agent can copy an id
				return to, api.Decide(api.CodeInvalid, "name the recipient, with send_message", "several messages to you have the id %.60q", r.To)
			}
		}
	}
	if to.ID == "" {
		return to, api.Decide(api.CodeNotFound, "see them with read_messages; send_message writes to anybody", "no message to you has the id %.60q", r.To)
	}
	return to, nil
}

// newest returns the message to the person that came last: the last one of an inbox and, of several inboxes, the one
// that was recorded last. The time in a message is its sender's claim. It counts only if there is no record, and not if
// it is in the future.
func newest(ctx context.Context, l *Local, team string) (to api.Message, err error) {
	names, err := l.withPerson(ctx, team)
	if err != nil {
		return to, err
	}
	root, err := l.Opts.Root()
	if err != nil {
		return to, err
	}
	j, err := l.Journal(ctx)
	if err != nil {
		j = nil // the history reports the error
	}
	var last time.Time
	for _, name := range names {
		_, boxes, err := l.rowsOf(ctx, name, &api.Reading{Own: true}, &api.Rows{})
		if err != nil && ctx.Err() != nil {
			return to, err
		}
		for box, rows := range boxes {
			i := len(rows) - 1
			for i >= 0 && rows[i].Kind() != "message" {
				i--
			}
			if i < 0 {
				continue
			}
			at, valid := rows[i].Time()
			if !valid || at.After(time.Now()) {
				at = time.Time{}
			}
			if j != nil {
				for r, err := range j.Messages.All(ctx, journal.Query{Root: root.Path(), Team: name, Inbox: box, ID: rows[i].ID(), Newest: true, Limit: 1}) {
					if err != nil {
						return to, err
					}
					at = r.FirstSeen
				}
			}
			if to.ID == "" || at.After(last) {
				to, last = view.Message(name, inbox.Entry{Row: rows[i], Inbox: box, Index: i}), at
			}
		}
	}
	return to, nil
}
