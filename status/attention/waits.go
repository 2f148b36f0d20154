package attention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// attentionID returns the id of an item of a kind that began at a time. The time distinguishes it from a later
// item with the same parts. A zero time is unknown.
func attentionID(kind string, at time.Time, parts ...string) string {
	id := append([]string{kind}, parts...)
	if !at.IsZero() {
		id = append(id, strconv.FormatInt(at.UnixMilli(), 10))
	}
	return strings.Join(id, "/")
}

// teamWaits returns the items for the inboxes and the history of a team.
func (c *Cache) teamWaits(ctx context.Context, t *teams.Team, config *teams.Config, e *cachedTeam) (list []api.Attention, err error) {
	ours, err := mail.Ours(ctx, c.opts.Ledger, t, config)
	if err != nil {
		return nil, err
	}
	for _, name := range ours {
		unread, err := unreadFrom(ctx, t, name, ours)
		if err != nil {
			return nil, err
		}
		list = append(list, unread...)
	}
	q := journal.Query{Root: c.opts.Root.Path(), Team: t.Name(), CreatedAt: config.Instance().CreatedAt}
	for r, err := range c.opts.Journal.Receipts.AllLost(ctx, q) {
		if err != nil {
			return nil, err
		}
		about := q
		about.Inbox, about.ID, about.Newest = r.Inbox, r.ID, true
		if found, _, err := journal.Take(c.opts.Journal.Messages.All(ctx, about), 1, 0, func(*journal.Record) int { return 0 }); err != nil {
			return nil, err
		} else if len(found) > 0 && found[0].Prompt != "" {
			continue // its delivery is an item until a person decides about it
		}
		shown := view.Receipt(r)
		list = append(list, api.Attention{
			ID: attentionID(shown.State, r.LostAt, t.Name(), shown.Member, shown.ID), Kind: shown.State, Member: shown.Member, Since: shown.LostAt, Count: 1, Message: shown.ID,
			What: "a message may not have been delivered: " + shown.Reason,
			Do:   "if the agent did not get it, send it again: teambridge send " + shown.Member + "@" + t.Name() + " TEXT --id " + shown.ID + " --force",
		})
	}
	if e.team.LeadState != teams.Gone.String() { // otherwise no lead could answer
		talk, err := c.talk(ctx, q)
		if err != nil {
			return nil, err
		}
		earlier, err := c.earlier(ctx, q, talk, config)
		if err != nil {
			return nil, err
		}
		list = append(list, leadWaits(slices.Concat(talk, earlier), config, e.team.Lead)...)
		e.tasks, e.loops = tasksOf(talk), loopsOf(talk, time.Now())
		e.keepLoops(c.entries[t.Name()])
	}
	for i := range list {
		list[i].Team = t.Name()
	}
	return list, nil
}

// stateWaits returns the items for the states of members. served reports whether this service runs the relay of a
// member. asks returns the question in the dialog of a process: see [Cache.answerable]. root is the Claude directory.
func (e *cachedTeam) stateWaits(root string, now time.Time, served func(member string) bool, asks func(of transcript.Process, since time.Time, there string) (api.Attention, bool)) (list []api.Attention) {
	add := func(at time.Time, a api.Attention) {
		a.Team = e.team.Team
		parts := []string{a.Team}
		if a.Member != "" {
			parts = append(parts, a.Member)
		}
		if a.ID = attentionID(a.Kind, at, parts...); !at.IsZero() {
			a.Since = &at
		}
		list = append(list, a)
	}
	asked := slices.ContainsFunc(e.messageWaits, func(a api.Attention) bool { return a.Kind == api.WaitsLead })
	idle, busy, worked, lost := 0, false, false, false
	var rested time.Time // since when all agents are idle
	for i, s := range e.states {
		ended, failed, turned := e.known[i].LastTurn()
		isLead := s.Member == e.team.Lead
		lost = lost || status.LeadGone(s)
		switch {
		case s.Word == api.WordWaiting && s.Basis == api.BasisProcess && !(isLead && asked): // otherwise the dialog itself is the item
			var of transcript.Process
			if p := e.known[i].Process; p != nil {
				of = p.Process
			}
			if a, ok := asks(of, s.WordSince, whereToAnswer(of)); ok {
				a.Team, a.Member = e.team.Team, s.Member
				list = append(list, a)
				continue
			}
			add(s.WordSince, api.Attention{Kind: api.WaitsTerminal, Member: s.Member, What: e.whatWaits(s.Why, s.WordSince, now, func() (call transcript.Block, ok bool) {
				if path, found := transcript.Session(root, of.Cwd, of.Session); found && of.Session != "" {
					call, ok = transcript.Asked(path)
				}
				return call, ok
			}), Do: whereToAnswer(of)})
		case failed && s.Word == api.WordIdle && (s.Relay == nil || s.Relay.DeadLetters == 0): // otherwise the failed message is the item
			add(ended, api.Attention{Kind: api.WaitsFailed, Member: s.Member, What: "the last turn failed", Do: "read its last messages: teambridge history --team " + e.team.Team})
		}
		switch {
		case s.State == api.StateTerminated, s.Word == api.WordEnded:
		case isLead:
			busy = busy || s.Word == api.WordWorking || s.Word == api.WordWaiting
		case !status.Rests(s):
			busy = true
		default:
			idle++
			if turned && ended.After(rested) {
				rested = ended
			}
			if s.Relay != nil && s.Relay.LastAck != nil {
				turned = true
				if s.Relay.LastAck.After(rested) {
					rested = *s.Relay.LastAck
				}
			}
			worked = worked || turned
		}
	}
	gone := e.team.LeadState == teams.Gone.String()
	switch {
	case gone && lost && !served(e.team.Lead):
		var claimed time.Time
		if e.lead != nil {
			claimed = e.lead.ClaimedAt
		}
		add(claimed, api.Attention{Kind: api.WaitsEnded, Member: e.team.Lead, What: "the team's lead is not running", Do: "start it again in " + e.team.Cwd + ", or remove the team"})
		list[len(list)-1].Since = nil // its end has no known time
	case !gone && idle > 0 && !busy && worked:
		add(rested, api.Attention{Kind: api.WaitsIdle, What: "all agents are idle", Do: "give them work, or end the team"})
	}
	return list
}

// unreadFrom returns the unread messages in an inbox of the person, by sender.
func unreadFrom(ctx context.Context, t *teams.Team, name string, ours []string) (list []api.Attention, err error) {
	box, err := inbox.Open(t, name, nil) // reading takes no lock
	if err != nil {
		return nil, err
	}
	rows, err := box.Read(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, inbox.ErrMissing), errors.Is(err, inbox.ErrEmpty):
		return nil, nil
	case err != nil:
		return nil, nil // members and doctor show the problem
	}
	return unreadOf(t.Name(), name, rows, ours), nil
}

// unreadOf does the work of unreadFrom, for rows that were read.
func unreadOf(team, name string, rows []inbox.Row, ours []string) (list []api.Attention) {
	for _, r := range rows {
		if r.Read || r.Noise() || slices.Contains(ours, r.From) {
			continue
		}
		i := slices.IndexFunc(list, func(a api.Attention) bool { return a.From == r.From })
		if i < 0 {
			i = len(list)
			list = append(list, api.Attention{
				ID: attentionID(api.WaitsUnread, time.Time{}, team, name, r.From, r.ID()), Kind: api.WaitsUnread, Member: name, From: r.From,
				Do: "mark them as read: POST /v1/teams/" + team + "/read", Command: "teambridge read " + name + " --team " + team + " --mark-read",
			})
			if at, ok := r.Time(); ok {
				list[i].Since = new(at)
			}
		}
		a := &list[i]
		a.Count++
		a.Message = r.ID()
		if a.What = "1 unread message"; a.Count > 1 {
			a.What = fmt.Sprintf("%d unread messages", a.Count)
		}
	}
	return list
}

// earlier returns the last questions to the lead of members that wrote none of a team's last messages, and have written
// nothing since, with the answers.
func (c *Cache) earlier(ctx context.Context, q journal.Query, talk []journal.Record, config *teams.Config) (list []journal.Record, err error) {
	if len(talk) < lately {
		return nil, nil
	}
	q.Newest = true
	for _, member := range config.Members {
		if slices.ContainsFunc(talk, func(m journal.Record) bool { return m.From == member.Name }) {
			continue
		}
		own, to := q, q
		own.From, own.Limit = member.Name, lately
		for asked, err := range c.opts.Journal.Messages.All(ctx, own) {
			if err != nil {
				return nil, err
			}
			if asked.Kind() != "permission_request" {
				break
			}
			list, to.After = append(list, asked), asked.Seq
		}
		if to.After == 0 {
			continue
		}
		to.Inbox = member.Name
		for m, err := range c.opts.Journal.Messages.All(ctx, to) {
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
	}
	return list, nil
}

// leadWaits returns the unanswered questions of members to their lead. The lead takes them out of its inbox at
// once, so they are found in the team's last messages, newest first.
func leadWaits(talk []journal.Record, config *teams.Config, lead string) (list []api.Attention) {
	type request struct{ member, id string }
	answered := map[request]bool{} // an answer can be recorded before its question
	for _, m := range talk {
		if m.Kind() == "permission_response" {
			answered[request{m.Inbox, requestID(m.Text)}] = true
		}
	}
	later := map[string]bool{} // members that wrote since their question
	for _, m := range talk {
		if m.Kind() == "permission_request" && m.Inbox == lead {
			if _, there := config.Member(m.From); there && !later[m.From] && !answered[request{m.From, requestID(m.Text)}] {
				list = append(list, api.Attention{
					ID: attentionID(api.WaitsLead, time.Time{}, config.Team, m.From, m.ID()), Kind: api.WaitsLead, Member: m.From,
					Since: new(m.FirstSeen), Message: m.ID(), What: askedLead(m.Text), Do: "answer it at the terminal of " + lead,
				})
			}
			continue
		}
		later[m.From] = true
	}
	return list
}

// requestID returns the id that a member's question and its answer share.
func requestID(text string) string {
	var r struct {
		ID string `json:"request_id"`
	}
	_ = json.Unmarshal([]byte(text), &r) // without an id, it is empty
	return r.ID
}

// askedLead describes a member's question to its lead.
func askedLead(text string) string {
	var r struct {
		Tool        string `json:"tool_name"`
		Description string `json:"description"`
	}
	if json.Unmarshal([]byte(text), &r) != nil || r.Tool == "" {
		return "asks its lead for permission"
	}
	return "asks its lead to use " + r.Tool + ": " + r.Description
}
