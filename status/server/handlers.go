package server

import (
	"context"
	_ "embed"
	"net/http"
	"strings"

	"teambridge/status/api"
	"teambridge/status/bridge"
)

// handler makes the answer to a request; nil if it has answered.
type handler func(w http.ResponseWriter, r *http.Request) (answer any, err error)

// plain is the handler of an operation that takes nothing.
func plain[T any](do func(context.Context) (T, error)) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) { return do(r.Context()) }
}

// one, two and three are handlers of operations that take texts. Their names are those of parts of
// the path or, after "?", of parameters.
func one[T any](do func(_ context.Context, a string) (T, error), names ...string) handler {
	return texts(func(ctx context.Context, t []string) (any, error) { return do(ctx, t[0]) }, names)
}

func two[T any](do func(_ context.Context, a, b string) (T, error), names ...string) handler {
	return texts(func(ctx context.Context, t []string) (any, error) { return do(ctx, t[0], t[1]) }, names)
}

func three[T any](do func(_ context.Context, a, b, c string) (T, error), names ...string) handler {
	return texts(func(ctx context.Context, t []string) (any, error) { return do(ctx, t[0], t[1], t[2]) }, names)
}

func texts(do func(context.Context, []string) (any, error), names []string) handler {
	var known []string
	for _, name := range names {
		if param, ok := strings.CutPrefix(name, "?"); ok {
			known = append(known, param)
		}
	}
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := &params{}
		if known != nil {
			p = parseParams(r, known...)
		}
		if p.err != nil {
			return nil, p.err
		}
		list := make([]string, len(names))
		for i, name := range names {
			if param, ok := strings.CutPrefix(name, "?"); ok {
				list[i] = p.text(param)
			} else {
				list[i] = r.PathValue(name)
			}
		}
		return do(r.Context(), list)
	}
}

// posted is the handler of an operation that takes a part of the path and the body.
func posted[B, T any](do func(context.Context, string, B) (T, error), name string) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		b, err := body[B](r)
		if err != nil {
			return nil, err
		}
		return do(r.Context(), r.PathValue(name), b)
	}
}

// whole is the handler of an operation that takes what the body says alone.
func whole[B, T any](do func(context.Context, B) (T, error)) handler {
	return posted(func(ctx context.Context, _ string, b B) (T, error) { return do(ctx, b) }, "")
}

// adding is the handler of an operation that adds what the body says, unless it is there. where
// returns the path of it, and whether it was added.
func adding[B, T any](do func(context.Context, B) (T, error), where func(T) (path string, added bool)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		b, err := body[B](r)
		if err != nil {
			return nil, err
		}
		v, err := do(r.Context(), b)
		if err != nil {
			return nil, err
		}
		path, added := where(v)
		w.Header().Set("Location", path)
		if added {
			return nil, write(w, http.StatusCreated, v)
		}
		return v, nil
	}
}

func (s *Server) version(context.Context) (api.ServiceVersion, error) {
	return api.ServiceVersion{Version: s.opts.Version, ReadOnly: s.opts.ReadOnly, Operations: api.Operations}, nil
}

//go:embed openapi.json
var document []byte

func openapi(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document)
	return nil, nil
}

// target answers with what names mean.
func (s *Server) target(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "default", "dir", "name…", "existing")
	scope := api.Scope{Team: p.text("team"), Default: p.text("default"), Dir: p.text("dir"), Existing: p.flag("existing")}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Target(r.Context(), scope, p.values["name"]...)
}

func (s *Server) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "member…")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Status(r.Context(), r.PathValue("team"), p.values["member"]...)
}

// place asks for the session of a member to be moved. It does not wait for that: snapshots
// say where the session is.
func (s *Server) place(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewPlace](r)
	if err != nil {
		return nil, err
	}
	return s.local.Move(r.Context(), r.PathValue("team"), r.PathValue("member"), n)
}

// attention answers with everything that waits for a person, the oldest first.
func (s *Server) attention(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Attention(r.Context(), p.text("team"))
}

func (s *Server) removeRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "deleteTeam")
	deleteTeam := p.flag("deleteTeam")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.RemoveRelay(r.Context(), r.PathValue("relay"), deleteTeam)
}

func (s *Server) deliveries(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "state", "limit")
	q := api.DeliveryQuery{Team: p.text("team"), State: p.text("state"), Limit: int(p.number("limit", 0))}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Deliveries(r.Context(), "", q)
}

func (s *Server) relayDeliveries(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "state", "limit")
	q := api.DeliveryQuery{State: p.text("state"), Limit: p.limit(api.DefaultDeliveries, api.MaxDeliveries)}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Deliveries(r.Context(), r.PathValue("relay"), q)
}

// messages lists recorded messages of a team, which may have ended.
func (s *Server) messages(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "inbox", "from", "with", "after", "before", "limit", "createdAt", "protocol", "work", "thinking")
	q := api.MessageQuery{
		Inbox: p.text("inbox"), From: p.text("from"), With: p.text("with"), After: p.number("after", 0), Forward: p.text("after") != "",
		Before: p.number("before", 0), CreatedAt: p.number("createdAt", 0), Limit: p.limit(api.DefaultMessages, api.MaxMessages),
		Protocol: p.flag("protocol"), MessagesOnly: p.withoutWork(), Thinking: p.flag("thinking"),
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

// searching is the handler of an operation that finds messages of all teams, and what agents said
// and did: at most so much.
func searching(do func(context.Context, api.SearchQuery) (api.Found, error), most int64) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := parseParams(r, "q", "team", "createdAt", "inbox", "from", "with", "since", "until", "after", "before", "limit", "protocol", "work", "thinking")
		q := api.SearchQuery{
			Words: p.text("q"), Team: p.text("team"), CreatedAt: p.number("createdAt", 0), Inbox: p.text("inbox"), From: p.text("from"), With: p.text("with"),
			Since: p.time("since"), Until: p.time("until"), After: p.text("after"), Before: p.number("before", 0), Limit: p.limit(api.DefaultHits, most),
			Protocol: p.flag("protocol"), MessagesOnly: p.withoutWork(), Thinking: p.flag("thinking"),
		}
		if p.err != nil {
			return nil, p.err
		}
		return do(r.Context(), q)
	}
}

func taskHistory(l *bridge.Local) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := parseParams(r, "team", "session", "who", "before", "limit")
		q := api.TaskHistoryQuery{TaskQuery: api.TaskQuery{Team: p.text("team"), Session: p.text("session"), Who: p.text("who")}, Before: p.number("before", 0), Limit: p.limit(api.TaskChanges, api.MostTaskChanges)}
		if p.err != nil {
			return nil, p.err
		}
		return l.TaskHistory(r.Context(), q)
	}
}

func changes(l *bridge.Local) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := parseParams(r, "since", "file", "patches")
		q := api.ChangesQuery{Since: p.time("since"), File: p.text("file"), Patches: p.flag("patches")}
		if p.err != nil {
			return nil, p.err
		}
		team, who := whose(r)
		return l.Changes(r.Context(), team, who, q)
	}
}

// whose returns the team and the member, or the session, in the path.
func whose(r *http.Request) (team, who string) {
	if who = r.PathValue("session"); who != "" {
		return "", who
	}
	return r.PathValue("team"), r.PathValue("member")
}

func usage(l *bridge.Local) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := parseParams(r, "since", "until", "team", "by…")
		q := api.UsageQuery{Since: p.time("since"), Until: p.time("until"), Team: p.text("team"), By: p.values["by"]}
		if p.err != nil {
			return nil, p.err
		}
		return l.Usage(r.Context(), q)
	}
}

func inboxOf(l *bridge.Local) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		p := parseParams(r, "team", "protocol", "read")
		q := api.InboxQuery{Team: p.text("team"), Protocol: p.flag("protocol"), Read: p.flag("read")}
		if p.err != nil {
			return nil, p.err
		}
		return l.Inbox(r.Context(), q)
	}
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

func paneAt(p api.Pane) (string, bool)        { return "/v1/panes/" + p.Member, p.Added }
func relayAt(e api.RelayEntry) (string, bool) { return "/v1/relays/" + e.ID, e.Added }

func leave(l *bridge.Local) handler {
	return posted(func(ctx context.Context, team string, m api.Leave) ([]api.Membership, error) {
		return l.Leave(ctx, team, m.As)
	}, "team")
}

func dismiss(l *bridge.Local) handler {
	return whole(func(ctx context.Context, d api.Dismiss) (api.Attention, error) { return l.Dismiss(ctx, d.ID) })
}
