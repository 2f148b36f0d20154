package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/markdown"
	"teambridge/status/view"
	"teambridge/teams"
)

// attention answers with everything that waits for a person, the oldest first.
func (s *Server) attention(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "html")
	html := p.flag("html")
	if p.err != nil {
		return nil, p.err
	}
	s.statuses.mu.Lock()
	defer s.statuses.mu.Unlock()
	if err := s.statuses.refresh(r.Context()); err != nil {
		return nil, err
	}
	list := s.statuses.current(p.text("team")).Attention
	if html {
		addPlanHTML(list)
	}
	return list, nil
}

// addPlanHTML adds plans as HTML to what waits for a person.
func addPlanHTML(list []api.Attention) {
	for i, a := range list {
		if a.Kind == api.WaitsPlan && a.Question != nil && a.Question.Plan != "" {
			list[i].HTML, _ = markdown.HTML(a.Question.Plan)
		}
	}
}

// maxAsked is the largest size of a question in a snapshot, in bytes. Each stream gets
// each snapshot.
const maxAsked = 64 << 10

// relayWaits returns what waits for a person because of relays.
func (s *Server) relayWaits(ctx context.Context) (list []api.Attention, err error) {
	relays, err := s.relayEntries(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, e := range relays {
		add := func(a api.Attention) {
			a.Team, a.Member, a.Relay = e.Team, e.Member, e.ID
			list = append(list, a)
		}
		for _, q := range e.Questions {
			a := api.Attention{ID: q.ID, Kind: q.Kind, Since: &q.At, Question: &q, Answerable: true, Do: "answer it: teambridge permit " + q.ID + ", or deny"}
			switch q.Kind {
			case api.AsksPlan:
				a.What = "asks to approve its plan"
			case api.AsksPerson:
				a.What = "asks: " + strings.Join(q.Asked(), " ")
			default:
				a.What = "wants to use " + cmp.Or(q.Display, q.Tool)
			}
			size := len(q.Input) + len(q.Plan)
			for _, s := range q.Suggestions {
				size += len(s)
			}
			if a.Partial = size > maxAsked; a.Partial {
				q.Input, q.Plan, q.Suggestions = nil, "", nil
			}
			add(a)
		}
		for _, h := range e.Held {
			add(api.Attention{
				ID: attentionID(api.WaitsHeld, e.Team, e.Member, h.Sender), Kind: api.WaitsHeld, Since: &h.Since, From: h.Sender,
				What: "messages are held: " + h.Reason, Do: "teambridge relay release " + e.Member + "@" + e.Team + " " + h.Sender,
			})
		}
		if do := stoppedRelay(e); do != "" {
			add(api.Attention{
				ID: attentionID(api.WaitsStopped, e.Team, e.Member), Kind: api.WaitsStopped,
				What: "the relay is " + e.State + ": " + cmp.Or(e.Reason, "its process ended"), Do: do,
			})
		}
		if e.DeadLetters == 0 {
			continue
		}
		failed, err := s.ledger.Deliveries(ctx, ledger.DeliveryQuery{
			Root: s.opts.Root.Path(), Team: e.Team, Inbox: e.Member, States: []ledger.DeliveryState{ledger.Failed}, Limit: maxDeliveries,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range failed {
			add(api.Attention{
				ID: d.UUID, Kind: api.WaitsLost, Since: &d.At, From: d.From, Count: 1, Message: d.ID,
				What: "a message failed: " + d.Reason, Do: "teambridge relay retry " + d.UUID + ", or relay drop",
			})
		}
	}
	return list, nil
}

// stoppedRelay returns what to do about a relay that stopped; empty if nothing. A relay
// that waits for its team to be made has not stopped.
func stoppedRelay(e api.RelayEntry) string {
	state := relay.State(e.State)
	switch {
	case state == relay.Dead && e.Created != nil:
		return "teambridge relay retry " + e.ID
	case state == relay.Dead, state == relay.Stopped && e.Created == nil && e.Queue > 0:
		return `run the agent again with "teambridge run"`
	case state == relay.Stopped && e.Created != nil && e.Reason == noService:
		return "start the service: teambridge serve"
	case state == relay.Stopped && e.Created != nil && e.Reason != "" && e.Reason != "there is no team "+e.Team:
		return "teambridge relay list --relays says why"
	}
	return ""
}

func attentionID(parts ...string) string { return strings.Join(parts, "/") }

// teamWaits returns what waits for a person because of the inboxes and the history of a team.
func (c *statusCache) teamWaits(ctx context.Context, t *teams.Team, config *teams.Config, e *cachedTeam) (list []api.Attention, err error) {
	add := func(a api.Attention, parts ...string) {
		a.Team, a.ID = t.Name(), attentionID(append([]string{a.Kind, t.Name()}, parts...)...)
		list = append(list, a)
	}
	ours, err := mail.Ours(ctx, c.ledger, t, config)
	if err != nil {
		return nil, err
	}
	for _, name := range ours {
		unread, err := unreadFrom(ctx, t, name, ours)
		if err != nil {
			return nil, err
		}
		for _, a := range unread {
			add(a, name, a.From)
		}
	}
	q := journal.Query{Root: c.opts.Root.Path(), Team: t.Name(), CreatedAt: config.Instance().CreatedAt}
	for r, err := range c.source.Journal.Receipts(ctx, q) {
		if err != nil {
			return nil, err
		}
		shown := view.Receipt(r)
		if shown.State == api.WaitsLost || shown.State == api.WaitsUnknown {
			add(api.Attention{
				Kind: shown.State, Member: shown.Member, Since: shown.LostAt, Count: 1, Message: shown.ID,
				What: "a message may not have been delivered: " + shown.Reason, Do: "if the agent did not get it, send it again: teambridge send " + shown.Member + "@" + t.Name() + " --id " + shown.ID + " --force",
			}, shown.Member, shown.ID)
		}
	}
	return list, c.leadWaits(ctx, q, e.team.Lead, add)
}

// stateWaits returns what waits for a person because of the states of the members.
func (e *cachedTeam) stateWaits() (list []api.Attention) {
	add := func(a api.Attention) {
		a.Team, a.ID = e.team.Team, attentionID(a.Kind, e.team.Team)
		if a.Member != "" {
			a.ID = attentionID(a.ID, a.Member)
		}
		list = append(list, a)
	}
	gone := e.team.LeadState == teams.Gone.String()
	idle, busy, left := 0, false, false
	for _, s := range e.states {
		if s.Detail == api.DetailFailed {
			add(api.Attention{Kind: api.WaitsFailed, Member: s.Member, Since: &s.Since, What: "the last turn failed", Do: "read what it said: teambridge history --team " + e.team.Team})
		}
		left = left || s.Detail == api.DetailStale
		switch {
		case s.Member == e.team.Lead, s.State == api.StateTerminated, s.Word == api.WordEnded:
		case status.Rests(s):
			idle++
		default:
			busy = true
		}
	}
	switch {
	case gone && left:
		add(api.Attention{Kind: api.WaitsEnded, Member: e.team.Lead, What: "the team's lead is not running", Do: "start it again in " + e.team.Cwd + ", or remove the team"})
	case !gone && idle > 0 && !busy:
		add(api.Attention{Kind: api.WaitsIdle, What: "all agents are idle", Do: "give them work, or end the team"})
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
		return nil, nil // members and doctor show what is wrong with it
	}
	for _, r := range rows {
		if r.Read || r.Noise() || slices.Contains(ours, r.From) {
			continue
		}
		i := slices.IndexFunc(list, func(a api.Attention) bool { return a.From == r.From })
		if i < 0 {
			i = len(list)
			list = append(list, api.Attention{
				Kind: api.WaitsUnread, Member: name, From: r.From, Do: "teambridge read " + name + " --team " + t.Name() + " --mark-read",
			})
			if at, err := time.Parse(time.RFC3339, r.Timestamp); err == nil {
				list[i].Since = new(at.UTC())
			}
		}
		a := &list[i]
		a.Count++
		a.Message = r.ID()
		if a.What = "1 unread message"; a.Count > 1 {
			a.What = fmt.Sprintf("%d unread messages", a.Count)
		}
	}
	return list, nil
}

// askedLately is how many of the last messages of a lead are searched for questions.
const askedLately = 200

// leadWaits adds the questions of members to their lead that have no answer yet. Their
// lead takes them out of its inbox at once, so they are read from the journal.
func (c *statusCache) leadWaits(ctx context.Context, q journal.Query, lead string, add func(api.Attention, ...string)) error {
	q.Newest, q.Limit = true, askedLately
	later := map[string]bool{} // members that said something, or got an answer, since
	for m, err := range c.source.Journal.Messages(ctx, q) {
		if err != nil {
			return err
		}
		kind := m.Kind()
		if kind == "permission_request" && m.Inbox == lead && !later[m.From] {
			add(api.Attention{
				Kind: api.WaitsLead, Member: m.From, Since: new(m.FirstSeen), Message: m.ID(), What: askedLead(m.Text),
				Do: "answer it at the terminal of " + lead,
			}, m.From, m.ID())
			continue
		}
		if kind == "permission_response" {
			later[m.Inbox] = true
		}
		later[m.From] = true
	}
	return nil
}

// askedLead says what a member asks its lead.
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
