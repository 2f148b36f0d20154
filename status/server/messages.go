package server

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// How many messages an answer has.
const (
	usualMessages, mostMessages = 100, 500
	usualHits, mostHits         = 20, 100
)

// messages answers with what is recorded of a team, also when it is gone.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "inbox", "from", "with", "after", "before", "limit", "createdAt", "protocol")
	q := journal.Query{
		Root: s.opts.Root.Path(), Inbox: ask.text("inbox"), From: ask.text("from"),
		After: ask.number("after", 0), Before: ask.number("before", 0), CreatedAt: ask.number("createdAt", 0),
	}
	with, limit, protocol := ask.text("with"), ask.limit(usualMessages, mostMessages), ask.flag("protocol")
	if ask.err == nil && with != "" && (q.Inbox != "" || q.From != "") {
		ask.bad("with is for both directions: not beside inbox or from")
	}
	if ask.err != nil {
		return ask.err
	}
	ctx := r.Context()
	instance, err := s.instance(ctx, r.PathValue("team"), q.CreatedAt)
	if err != nil {
		return err
	}
	q.Team, q.CreatedAt = instance.Team, instance.CreatedAt
	s.memberNames(ctx, q.Team, &q.Inbox, &q.From, &with)
	page := api.Page{Messages: []api.Record{}}
	if page.Seq, err = s.reads.Last(ctx); err != nil {
		return err
	}
	forward := ask.text("after") != "" && q.Before == 0
	q.Newest = !forward
	for m, err := range s.conversation(ctx, q, with) {
		if err != nil {
			return err
		}
		if !protocol && m.Noise() {
			continue
		}
		if len(page.Messages) == limit {
			page.More = true
			break
		}
		record, err := s.record(ctx, m)
		if err != nil {
			return err
		}
		page.Messages = append(page.Messages, record)
	}
	if !forward {
		slices.Reverse(page.Messages)
	}
	return write(w, http.StatusOK, page)
}

// memberNames replaces what members of a team are called by the names that messages
// are recorded under.
func (s *Server) memberNames(ctx context.Context, team string, names ...*string) {
	for _, name := range names {
		if *name != "" {
			*name = s.opts.Root.MemberName(ctx, team, *name)
		}
	}
}

// instance says which team is meant by a name: the one that was made then, else
// the one that is there, else the last one that is recorded.
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
	known, jerr := s.reads.Inboxes(ctx, journal.Query{Root: s.opts.Root.Path()})
	if jerr != nil {
		return teams.Instance{}, jerr
	}
	for _, i := range slices.Backward(known) {
		if i.Team.Team == name && (createdAt == 0 || i.Team.CreatedAt == createdAt) {
			return i.Team, nil
		}
	}
	if err == nil {
		err = &teams.NotFoundError{Kind: "team", Query: name}
	}
	return teams.Instance{}, err
}

// conversation yields what q asks for; of that, with a name, what was said by it
// or to it.
func (s *Server) conversation(ctx context.Context, q journal.Query, with string) iter.Seq2[journal.Message, error] {
	if with == "" {
		return s.reads.Messages(ctx, q)
	}
	said, heard := q, q
	said.From, heard.Inbox = with, with
	order := cmp.Compare[int64]
	if q.Newest {
		order = func(a, b int64) int { return cmp.Compare(b, a) }
	}
	return merge(s.reads.Messages(ctx, said), s.reads.Messages(ctx, heard), func(a, b journal.Message) int { return order(a.Seq, b.Seq) })
}

// merge yields what is in a or in b, once, in their order.
func merge[T any](a, b iter.Seq2[T, error], order func(T, T) int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		nextA, stopA := iter.Pull2(a)
		defer stopA()
		nextB, stopB := iter.Pull2(b)
		defer stopB()
		x, errX, okX := nextA()
		y, errY, okY := nextB()
		for okX || okY {
			var v T
			var err error
			var c int
			switch {
			case okX && errX != nil, !okY:
				c = -1
			case okY && errY != nil, !okX:
				c = 1
			default:
				c = order(x, y)
			}
			if c <= 0 {
				v, err = x, errX
				x, errX, okX = nextA()
			} else {
				v, err = y, errY
			}
			if c >= 0 {
				y, errY, okY = nextB()
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// record is a message with what became of it, if we sent it.
func (s *Server) record(ctx context.Context, m journal.Message) (api.Record, error) {
	receipt, err := s.receipt(ctx, m)
	if err != nil {
		return api.Record{}, err
	}
	fates, err := view.Fates(ctx, s.ledger, []journal.Message{m})
	if err != nil {
		return api.Record{}, err
	}
	record := view.Record(m, receipt)
	record.Relay = fates[0]
	return record, nil
}

func (s *Server) receipt(ctx context.Context, m journal.Message) (*journal.Receipt, error) {
	id := m.ID()
	if strings.TrimSpace(id) == "" || len(id) > inbox.MaxID {
		return nil, nil // never one of ours
	}
	receipt, found, err := s.reads.Receipt(ctx, inbox.SendKey{Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox, ID: id})
	if err != nil || !found {
		return nil, err
	}
	return &receipt, nil
}

// search answers with messages of all teams that hold words.
func (s *Server) search(w http.ResponseWriter, r *http.Request) error {
	ask := asked(r, "q", "team", "inbox", "from", "before", "limit", "protocol")
	q := journal.Query{
		Root: s.opts.Root.Path(), Team: ask.text("team"), Inbox: ask.text("inbox"), From: ask.text("from"), Before: ask.number("before", 0),
	}
	limit, protocol := ask.limit(usualHits, mostHits), ask.flag("protocol")
	if ask.err != nil {
		return ask.err
	}
	s.memberNames(r.Context(), q.Team, &q.Inbox, &q.From)
	found := api.Found{Hits: []api.Hit{}}
	for h, err := range s.reads.Search(r.Context(), ask.text("q"), q) {
		if err != nil {
			return err
		}
		if !protocol && h.Noise() {
			continue
		}
		if len(found.Hits) == limit {
			found.More = true
			break
		}
		record, err := s.record(r.Context(), h.Message)
		if err != nil {
			return err
		}
		found.Hits = append(found.Hits, view.Hit(h, record))
	}
	return write(w, http.StatusOK, found)
}
