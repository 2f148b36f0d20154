package server

import (
	"net/http"

	"teambridge/status/api"
)

// messages lists recorded messages of a team, which may have ended.
func (s *Server) messages(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "inbox", "from", "with", "after", "before", "limit", "createdAt", "protocol", "work", "thinking", "html")
	q := api.MessageQuery{
		Inbox: p.text("inbox"), From: p.text("from"), With: p.text("with"), After: p.number("after", 0), Forward: p.text("after") != "",
		Before: p.number("before", 0), CreatedAt: p.number("createdAt", 0), Limit: p.limit(api.DefaultMessages, api.MaxMessages),
		Protocol: p.flag("protocol"), MessagesOnly: p.withoutWork(), Thinking: p.flag("thinking"), HTML: p.flag("html"),
	}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Messages(r.Context(), r.PathValue("team"), q)
}

// withoutWork reports whether a request is for messages alone.
func (p *params) withoutWork() bool { return p.text("work") != "" && !p.flag("work") }

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
	return s.local.Receipt(r.Context(), r.PathValue("team"), created, r.PathValue("member"), id)
}

// search finds messages of all teams, and what agents said and did.
func (s *Server) search(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := searchQuery(r, api.MaxHits)
	if err != nil {
		return nil, err
	}
	return s.local.Search(r.Context(), q)
}

// history is search, where words are not needed.
func (s *Server) history(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := searchQuery(r, api.MaxMessages)
	if err != nil {
		return nil, err
	}
	return s.local.History(r.Context(), q)
}

func searchQuery(r *http.Request, most int64) (api.SearchQuery, error) {
	p := parseParams(r, "q", "team", "createdAt", "inbox", "from", "with", "since", "until", "after", "before", "limit", "protocol", "work", "thinking")
	q := api.SearchQuery{
		Words: p.text("q"), Team: p.text("team"), CreatedAt: p.number("createdAt", 0), Inbox: p.text("inbox"), From: p.text("from"), With: p.text("with"),
		Since: p.time("since"), Until: p.time("until"), After: p.text("after"), Before: p.number("before", 0), Limit: p.limit(api.DefaultHits, most),
		Protocol: p.flag("protocol"), MessagesOnly: p.withoutWork(), Thinking: p.flag("thinking"),
	}
	return q, p.err
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
