package server

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/inbox/replicate"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/markdown"
	"teambridge/status/view"
	"teambridge/teams"
)

// The number of messages in an answer.
const (
	defaultMessages, maxMessages = 100, 500
	defaultHits, maxHits         = 20, 100
)

// answerBytes is about how much the texts of an answer have; a single one may have more. The
// client goes on after the last one, as it does after the largest number.
const answerBytes = 4 << 20

// weight is about how much a record adds to an answer.
func weight(r *api.Record) int { return len(r.Text) + len(r.HTML) }

// messages lists recorded messages of a team, which may have ended.
func (s *Server) messages(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "inbox", "from", "with", "after", "before", "limit", "createdAt", "protocol", "work", "thinking", "html")
	q := journal.Query{
		Root: s.opts.Root.Path(), Inbox: p.text("inbox"), From: p.text("from"),
		After: p.number("after", 0), Before: p.number("before", 0), CreatedAt: p.number("createdAt", 0),
	}
	with, limit, protocol, work, html := p.text("with"), p.limit(defaultMessages, maxMessages), p.flag("protocol"), p.work(), p.flag("html")
	if p.err == nil && with != "" && (q.Inbox != "" || q.From != "") {
		p.invalid("with selects both directions, and cannot be used with inbox or from")
	}
	if p.err != nil {
		return nil, p.err
	}
	ctx := r.Context()
	instance, err := s.instance(ctx, r.PathValue("team"), q.CreatedAt)
	if err != nil {
		return nil, err
	}
	q.Team, q.CreatedAt = instance.Team, instance.CreatedAt
	s.memberNames(ctx, q.Team, &q.Inbox, &q.From, &with)
	page := api.Page{Messages: []api.Record{}}
	if page.Ours, err = mail.OursIn(ctx, s.ledger, q.Root, instance); err != nil {
		return nil, err
	}
	if page.Seq, err = s.reads.Last(ctx); err != nil {
		return nil, err
	}
	q.Newest = p.text("after") == "" || q.Before != 0
	queries := []journal.Query{q}
	if with != "" {
		queries = []journal.Query{q, q}
		queries[0].From, queries[1].Inbox = with, with
	}
	var found []iter.Seq2[api.Record, error]
	if work.shown {
		found = append(found, view.Works(ctx, s.reads, s.ledger, queries[0], work.thinking)) // from an agent is to its inbox
	}
	for _, q := range queries {
		found = append(found, journal.Map(s.reads.Messages(ctx, q), func(m journal.Message) (*api.Record, error) {
			if !protocol && m.Noise() {
				return nil, nil
			}
			r, err := s.record(ctx, m)
			return &r, err
		}))
	}
	merged := journal.Merge(q.Newest, func(r api.Record) int64 { return r.Seq }, found...)
	list, more, err := first(merged, limit, func(r *api.Record) int {
		if html {
			addHTML(r)
		}
		return weight(r)
	})
	if err != nil {
		return nil, err
	}
	if q.Newest {
		slices.Reverse(list)
	}
	page.Messages, page.More = append(page.Messages, list...), more
	return page, nil
}

// addHTML adds the text of a record as HTML, if somebody wrote it for others to read. Nothing
// is cached: 2 KiB take 0.16 ms.
func addHTML(r *api.Record) {
	switch r.Kind {
	case "message", journal.KindAnswer, api.KindText, api.KindThinking:
		r.HTML, _ = markdown.HTML(r.Text)
	case "idle_notification":
		var idle map[string]any // the keys of a struct are not case-sensitive
		if json.Unmarshal([]byte(r.Text), &idle) != nil {
			return
		}
		if result, _ := idle["result"].(string); result != "" {
			r.HTML, _ = markdown.HTML(result)
		}
	}
}

// shownWork says which work of agents a request asks for.
type shownWork struct{ shown, thinking bool }

func (p *params) work() shownWork {
	return shownWork{shown: p.text("work") == "" || p.flag("work"), thinking: p.flag("thinking")}
}

// first returns the first items, up to a limit and to [answerBytes], and whether there are
// more. It returns at least one, if there is one.
func first[T any](items iter.Seq2[T, error], limit int, weight func(*T) int) (list []T, more bool, err error) {
	left := answerBytes
	for item, err := range items {
		if err != nil {
			return nil, false, err
		}
		if len(list) == limit {
			return list, true, nil
		}
		if left -= weight(&item); left < 0 && len(list) > 0 {
			return list, true, nil
		}
		list = append(list, item)
	}
	return list, false, nil
}

// memberNames replaces names of members by those under which messages are recorded.
func (s *Server) memberNames(ctx context.Context, team string, names ...*string) {
	for _, name := range names {
		if *name != "" {
			*name = s.opts.Root.MemberName(ctx, team, *name)
		}
	}
}

// instance returns the team of a name that was created at the given time or, if that is
// 0, the one that exists, or else the last one that was recorded.
func (s *Server) instance(ctx context.Context, name string, createdAt int64) (teams.Instance, error) {
	t, err := s.opts.Root.Team(name)
	if err == nil {
		defer t.Close()
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil && (createdAt == 0 || createdAt == c.Instance().CreatedAt) {
			return c.Instance(), nil
		}
	}
	if ctx.Err() != nil {
		return teams.Instance{}, ctx.Err()
	}
	if panes, err := s.panes.List(ctx); err != nil {
		return teams.Instance{}, err
	} else if name == pane.Team && len(panes) > 0 && (createdAt == 0 || createdAt == panes[0].CreatedAt) {
		return teams.Instance{Team: pane.Team, CreatedAt: panes[0].CreatedAt}, nil
	}
	recorded, jerr := s.reads.Inboxes(ctx, journal.Query{Root: s.opts.Root.Path()})
	if jerr != nil {
		return teams.Instance{}, jerr
	}
	for _, i := range slices.Backward(recorded) {
		if i.Team.Team == name && (createdAt == 0 || i.Team.CreatedAt == createdAt) {
			return i.Team, nil
		}
	}
	if err == nil {
		err = &teams.NotFoundError{Kind: "team", Query: name}
	}
	return teams.Instance{}, err
}

// record returns a message with its receipt and its delivery, if it has them.
func (s *Server) record(ctx context.Context, m journal.Message) (api.Record, error) {
	var sent *journal.Receipt
	if id := m.ID(); strings.TrimSpace(id) != "" && len(id) <= inbox.MaxID { // else not one of ours
		receipt, found, err := s.reads.Receipt(ctx, inbox.SendKey{Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox, ID: id})
		if err != nil {
			return api.Record{}, err
		}
		if found {
			sent = &receipt
		}
	}
	fates, err := view.Fates(ctx, s.ledger, []journal.Message{m})
	if err != nil {
		return api.Record{}, err
	}
	record := view.Record(m, sent)
	record.Relay = fates[0]
	return record, nil
}

// receipt answers with the receipt of a message that was sent through a service.
func (s *Server) receipt(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "id", "createdAt")
	id, created := p.text("id"), p.number("createdAt", 0)
	if p.err == nil && id == "" {
		p.invalid("the id of the message is missing")
	}
	if p.err != nil {
		return nil, p.err
	}
	ctx := r.Context()
	team, err := s.instance(ctx, r.PathValue("team"), created)
	if err != nil {
		return nil, err
	}
	member := s.opts.Root.MemberName(ctx, team.Team, r.PathValue("member"))
	key := inbox.SendKey{Root: s.opts.Root.Path(), Team: team.Team, CreatedAt: team.CreatedAt, Inbox: member, ID: id}
	receipt, found, err := s.reads.Receipt(ctx, key)
	if err == nil && !found {
		// A prompt is in the ledger, which is copied a little later.
		if _, err = replicate.Copy(ctx, s.ledger, s.reads); err == nil {
			receipt, found, err = s.reads.Receipt(ctx, key)
		}
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, api.Decide(api.CodeNotFound, "the answer to the message has its id",
			"no message %q was sent to %s of %s through the service", id, member, team.Team)
	}
	return view.Receipt(receipt), nil
}

// search finds messages of all teams, and what agents said and did.
func (s *Server) search(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "q", "team", "createdAt", "inbox", "from", "since", "until", "before", "limit", "protocol", "work", "thinking")
	q := journal.Query{
		Root: s.opts.Root.Path(), Team: p.text("team"), CreatedAt: p.number("createdAt", 0), Inbox: p.text("inbox"), From: p.text("from"),
		Since: p.time("since"), Until: p.time("until"), Before: p.number("before", 0),
	}
	limit, protocol, work := p.limit(defaultHits, maxHits), p.flag("protocol"), p.work()
	if p.err != nil {
		return nil, p.err
	}
	ctx := r.Context()
	s.memberNames(ctx, q.Team, &q.Inbox, &q.From)
	words := p.text("q")
	hits := []iter.Seq2[api.Hit, error]{journal.Map(s.reads.Search(ctx, words, q), func(h journal.Hit) (*api.Hit, error) {
		if !protocol && h.Noise() {
			return nil, nil
		}
		r, err := s.record(ctx, h.Message)
		return new(view.Hit(h.Excerpt, r)), err
	})}
	if work.shown {
		hits = append(hits, view.WorkHits(ctx, s.reads, s.ledger, words, q, work.thinking))
	}
	merged := journal.Merge(true, func(h api.Hit) int64 { return h.Seq }, hits...)
	list, more, err := first(merged, limit, func(h *api.Hit) int { return weight(&h.Record) })
	if err != nil {
		return nil, err
	}
	return api.Found{Hits: append([]api.Hit{}, list...), More: more}, nil
}

// inboxes answers with what is in inboxes now.
func (s *Server) inboxes(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "inbox…", "own", "from", "since", "after", "unread", "protocol", "history", "limit")
	q := api.Reading{
		Own: p.flag("own"), From: p.text("from"), Since: p.time("since"), After: p.text("after"), Unread: p.flag("unread"), Protocol: p.flag("protocol"),
		History: p.flag("history"), Limit: int(p.number("limit", 0)),
	}
	if p.err != nil {
		return nil, p.err
	}
	q.Inboxes = p.values["inbox"]
	return s.local.Read(r.Context(), r.PathValue("team"), q)
}

// markRead marks messages as read in an inbox of the person.
func (s *Server) markRead(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := body[api.MarkRead](r)
	if err != nil {
		return nil, err
	}
	return s.local.MarkRead(r.Context(), r.PathValue("team"), m)
}
