package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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

// dismiss hides one thing that waits, until it changes.
func (s *Server) dismiss(_ http.ResponseWriter, r *http.Request) (any, error) {
	d, err := body[api.Dismiss](r)
	if err != nil {
		return nil, err
	}
	ctx, c := r.Context(), s.statuses
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	e, a := c.find(d.ID)
	switch {
	case e == nil:
		return nil, api.Decide(api.CodeNotFound, "nothing was changed; GET /v1/attention lists what waits", "nothing waits under the id %.200q", d.ID)
	case !a.Dismissable:
		return nil, api.Decide(api.CodeInvalid, "nothing was changed; "+a.Do, "it cannot be dismissed: %s", a.What)
	}
	if err := view.Dismiss(ctx, s.ledger, s.opts.Root.Path(), a); err != nil {
		return nil, err
	}
	c.dismissed[a.ID] = true
	c.changed.tell()
	return a, c.show(e)
}

// dismissable lists the kinds that a person can dismiss. The others are answered, read or
// released instead.
var dismissable = []string{api.WaitsFailed, api.WaitsEnded, api.WaitsStopped, api.WaitsLost, api.WaitsUnknown, api.WaitsIdle, api.WaitsDone}

// maxAsked is the largest size of a question in a snapshot, in bytes. Each stream gets
// each snapshot.
const maxAsked = 64 << 10

// relayWaits returns what waits for a person because of the relays of the team that was
// created then.
func (s *Server) relayWaits(ctx context.Context, createdAt int64, relays []api.RelayEntry) (list []api.Attention, err error) {
	for _, e := range relays {
		if e.Created == nil && e.Reason == view.TeamEnded {
			continue // of an earlier team with this name
		}
		add := func(a api.Attention) {
			a.Team, a.Member, a.Relay = e.Team, e.Member, e.ID
			list = append(list, a)
		}
		for _, q := range e.Questions {
			add(asksFor(q))
		}
		for _, h := range e.Held {
			add(api.Attention{
				ID: attentionID(api.WaitsHeld, h.Since, e.Team, e.Member, h.Sender), Kind: api.WaitsHeld, Since: &h.Since, From: h.Sender,
				What: "messages are held: " + h.Reason, Do: "teambridge relay release " + e.Member + "@" + e.Team + " " + h.Sender,
			})
		}
		if do := stoppedRelay(e); do != "" {
			var started time.Time
			if e.Started != nil {
				started = *e.Started
			}
			add(api.Attention{
				ID: attentionID(api.WaitsStopped, started, e.Team, e.Member), Kind: api.WaitsStopped,
				What: "the relay is " + e.State + ": " + cmp.Or(e.Reason, "its process ended"), Do: do,
			})
		}
		if e.DeadLetters == 0 {
			continue
		}
		failed, err := s.ledger.Deliveries(ctx, ledger.DeliveryQuery{
			Root: s.opts.Root.Path(), Team: e.Team, CreatedAt: createdAt, Inbox: e.Member, States: []ledger.DeliveryState{ledger.Failed}, Limit: api.MaxDeliveries,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range failed {
			add(api.Attention{
				ID: attentionID(api.WaitsLost, d.At, d.UUID), Kind: api.WaitsLost, Since: &d.At, From: d.From, Count: 1, Message: d.ID, Delivery: d.UUID,
				What: "a message failed: " + d.Reason, Do: "teambridge relay retry " + d.UUID + ", or relay drop",
			})
		}
	}
	return list, nil
}

// asksFor shows an open question.
func asksFor(q api.Question) api.Attention {
	a := api.Attention{ID: q.ID, Kind: q.Kind, Since: &q.At, Question: &q, Answerable: true, Do: "answer it: teambridge permit " + q.ID + ", or deny"}
	switch q.Kind {
	case api.AsksPlan:
		a.What = "asks to approve its plan"
	case api.AsksPerson:
		a.What = "asks: " + strings.Join(q.Asked(), " ")
	default:
		a.What = "wants to use " + toolWords(q.Tool)
	}
	a.What = cutWhat(a.What)
	size := len(q.Input) + len(q.Plan)
	for _, s := range q.Suggestions {
		size += len(s)
	}
	if a.Partial = size > maxAsked; a.Partial {
		q.Input, q.Plan, q.Suggestions = nil, "", nil
	}
	return a
}

// toolWords names a tool as the runtime calls it, and the MCP server that it is of. The name for
// people tells a server's tool from the runtime's own as little as the server wants.
func toolWords(tool string) string {
	if of, ok := strings.CutPrefix(tool, "mcp__"); ok {
		if server, name, ok := strings.Cut(of, "__"); ok && server != "" && name != "" {
			return name + " of the MCP server " + server + " (" + tool + ")"
		}
	}
	return tool
}

// maxWhat is how much of what an agent says is in a line about what waits, in bytes. Its question
// has all of it.
const maxWhat = 1 << 10

func cutWhat(what string) string {
	if len(what) <= maxWhat {
		return what
	}
	return strings.ToValidUTF8(what[:maxWhat], "") + "…"
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
	case state == relay.Stopped && e.Created != nil && e.Reason == NoService:
		return "start the service: teambridge serve"
	case state == relay.Stopped && e.Created != nil && e.Reason == SilentService:
		return "see what is wrong with it: teambridge doctor"
	case state == relay.Stopped && e.Created != nil && e.Reason != "" && e.Reason != readOnlyService && e.Reason != "there is no team "+e.Team:
		return "teambridge relay list --relays says why"
	}
	return ""
}

// attentionID returns the id of something of a kind that began to wait at a time, which
// tells it from the same thing later. A zero time is unknown.
func attentionID(kind string, at time.Time, parts ...string) string {
	id := append([]string{kind}, parts...)
	if !at.IsZero() {
		id = append(id, strconv.FormatInt(at.UnixMilli(), 10))
	}
	return strings.Join(id, "/")
}

// teamWaits returns what waits for a person because of the inboxes and the history of a team.
func (c *statusCache) teamWaits(ctx context.Context, t *teams.Team, config *teams.Config, e *cachedTeam) (list []api.Attention, err error) {
	ours, err := mail.Ours(ctx, c.ledger, t, config)
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
	for r, err := range c.source.Journal.LostReceipts(ctx, q) {
		if err != nil {
			return nil, err
		}
		about := q
		about.Inbox, about.ID, about.Newest = r.Inbox, r.ID, true
		if found, _, err := journal.Take(c.source.Journal.Messages(ctx, about), 1, 0, func(*journal.Message) int { return 0 }); err != nil {
			return nil, err
		} else if len(found) > 0 && found[0].Prompt != "" {
			continue // its delivery waits, until somebody decides about it
		}
		shown := view.Receipt(r)
		list = append(list, api.Attention{
			ID: attentionID(shown.State, r.LostAt, t.Name(), shown.Member, shown.ID), Kind: shown.State, Member: shown.Member, Since: shown.LostAt, Count: 1, Message: shown.ID,
			What: "a message may not have been delivered: " + shown.Reason,
			Do:   "if the agent did not get it, send it again: teambridge send " + shown.Member + "@" + t.Name() + " --id " + shown.ID + " --force",
		})
	}
	if e.team.LeadState != teams.Gone.String() { // else nobody would answer
		asked, err := c.leadWaits(ctx, q, config, e.team.Lead)
		if err != nil {
			return nil, err
		}
		list = append(list, asked...)
	}
	for i := range list {
		list[i].Team = t.Name()
	}
	return list, nil
}

// stateWaits returns what waits for a person because of the states of the members. served
// reports whether this service runs the relay of a member.
func (e *cachedTeam) stateWaits(served func(member string) bool) (list []api.Attention) {
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
	var rested time.Time // since when all are idle
	for i, s := range e.states {
		ended, failed, turned := e.known[i].LastTurn()
		isLead := s.Member == e.team.Lead
		lost = lost || status.LeadGone(s)
		switch {
		case s.Word == api.WordWaiting && s.Basis == api.BasisProcess && !(isLead && asked): // else that is what it waits for
			what := "waits for you"
			if s.Why != "" {
				what += ": " + s.Why
			}
			add(s.WordSince, api.Attention{Kind: api.WaitsTerminal, Member: s.Member, What: what, Do: "answer it at its terminal"})
		case failed && s.Word == api.WordIdle && (s.Relay == nil || s.Relay.DeadLetters == 0): // else the message is here
			add(ended, api.Attention{Kind: api.WaitsFailed, Member: s.Member, What: "the last turn failed", Do: "read what it said: teambridge history --team " + e.team.Team})
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
		list[len(list)-1].Since = nil // when it ended is not known
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
				ID: attentionID(api.WaitsUnread, time.Time{}, t.Name(), name, r.From, r.ID()), Kind: api.WaitsUnread, Member: name, From: r.From,
				Do: "teambridge read " + name + " --team " + t.Name() + " --mark-read",
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
	return list, nil
}

// askedLately is how many of the last messages of a lead are searched for questions.
const askedLately = 200

// leadWaits returns the questions of members to their lead that have no answer yet. Their
// lead takes them out of its inbox at once, so they are read from the journal.
func (c *statusCache) leadWaits(ctx context.Context, q journal.Query, config *teams.Config, lead string) (list []api.Attention, err error) {
	q.Newest, q.Limit = true, askedLately
	later := map[string]bool{} // members that said something, or got an answer, since
	for m, err := range c.source.Journal.Messages(ctx, q) {
		if err != nil {
			return nil, err
		}
		kind := m.Kind()
		if kind == "permission_request" && m.Inbox == lead && !later[m.From] {
			if _, there := config.Member(m.From); there {
				list = append(list, api.Attention{
					ID: attentionID(api.WaitsLead, time.Time{}, q.Team, m.From, m.ID()), Kind: api.WaitsLead, Member: m.From,
					Since: new(m.FirstSeen), Message: m.ID(), What: askedLead(m.Text), Do: "answer it at the terminal of " + lead,
				})
			}
			continue
		}
		if kind == "permission_response" {
			later[m.Inbox] = true
		}
		later[m.From] = true
	}
	return list, nil
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
