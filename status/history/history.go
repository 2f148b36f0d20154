package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// AnswerBytes limits the texts in a page of records. A single record may exceed it. The next page begins after
// the last record, as it does after the largest number of records.
const AnswerBytes = 4 << 20

// find yields the records of a journal that both all and s select, in the order of all, with receipts and
// deliveries. Records that were not found by a search have no snippet. hidden, if not nil, counts the
// confirmations that were left out. The error is *[journal.ValueError] if the search words are invalid.
func (l *Archive) find(ctx context.Context, j *journal.Journal, all journal.Query, s api.SearchQuery, hidden *int) iter.Seq2[api.Hit, error] {
	lg, err := l.Ledger(ctx)
	if err != nil {
		l.Opts.Warn(fmt.Errorf("%w; relays are not shown", err))
		lg = nil
	}
	of := func(q journal.Query, name string) []journal.Query {
		from, to := q, q
		if from.From, to.Inbox = name, name; s.With == "" {
			return []journal.Query{from}
		}
		return []journal.Query{from, to}
	}
	queries := []journal.Query{all}
	if member := cmp.Or(s.With, s.From); member != "" {
		queries = of(all, member)
		if name, team := teams.Split(member); team != "" && all.Team == "" { // to other teams, the member has this address
			own := all
			own.Team = team
			queries = append(of(own, name), queries...)
		}
	}
	var found []iter.Seq2[api.Hit, error]
	show := func(m journal.Record, x *journal.Excerpt) (*api.Hit, error) {
		if !s.Protocol && m.Noise() {
			if hidden != nil {
				*hidden++
			}
			return nil, nil
		}
		r, err := record(ctx, j, lg, m)
		if x == nil {
			return &api.Hit{Record: r, Snippet: []api.Piece{}}, err
		}
		return new(view.Hit(*x, r)), err
	}
	for _, q := range queries {
		if s.Words != "" {
			found = append(found, journal.Map(j.Messages.Search(ctx, s.Words, q), func(h journal.Hit) (*api.Hit, error) { return show(h.Record, &h.Excerpt) }))
			continue
		}
		found = append(found, journal.Map(j.Messages.All(ctx, q), func(m journal.Record) (*api.Hit, error) { return show(m, nil) }))
	}
	switch q := queries[0]; { // a message from an agent is in the inbox of its recipient
	case s.MessagesOnly:
	case s.Words != "":
		found = append(found, view.WorkHits(ctx, j, lg, s.Words, q, s.Thinking))
	default:
		found = append(found, journal.Map(view.Works(ctx, j, lg, q, s.Thinking), func(r api.Record) (*api.Hit, error) { return &api.Hit{Record: r, Snippet: []api.Piece{}}, nil }))
	}
	return journal.Merge(all.Newest || s.Words != "", func(h api.Hit) int64 { return h.Seq }, found...)
}

// record returns a message with its receipt and its delivery, if any. lg may be nil.
func record(ctx context.Context, j *journal.Journal, lg *ledger.Ledger, m journal.Record) (api.Record, error) {
	var sent *journal.Receipt
	if id := m.ID(); m.Answer == "" && strings.TrimSpace(id) != "" && len(id) <= inbox.MaxID { // others were not sent from here
		receipt, found, err := j.Receipts.Receipt(ctx, inbox.SendKey{InboxKey: m.InboxKey, ID: id})
		if err != nil {
			return api.Record{}, err
		}
		if found {
			sent = &receipt
		}
	}
	shown := view.Record(m, sent)
	if lg == nil {
		return shown, nil
	}
	fates, err := view.Fates(ctx, lg, []journal.Record{m})
	if err == nil {
		shown.Relay = fates[0]
	}
	return shown, err
}

// Health returns [api.CodeUnavailable] if the journal cannot be read.
func (l *Archive) Health(ctx context.Context) (api.Health, error) {
	j, err := l.Journal(ctx)
	if err == nil && j != nil {
		_, err = j.Last(ctx)
	}
	if err != nil {
		return api.Health{}, &api.Decided{Err: err, Code: api.CodeUnavailable, Hint: "find out why with: teambridge doctor"}
	}
	return api.Health{Status: "ok"}, nil
}

// Messages returns recorded messages of a team; see [api.Bridge].
func (l *Archive) Messages(ctx context.Context, team string, q api.MessageQuery) (api.Page, error) {
	page := api.Page{Messages: []api.Record{}}
	limit, err := Limited(q.Limit, api.DefaultMessages, api.MaxMessages)
	if err != nil {
		return page, err
	}
	s := api.SearchQuery{
		Team: team, Inbox: q.Inbox, From: q.From, With: q.With, Before: q.Before, Protocol: q.Protocol, MessagesOnly: q.MessagesOnly, Thinking: q.Thinking,
	}
	j, all, err := l.selection(ctx, &s)
	if err != nil {
		return page, err
	}
	instance, err := l.instance(ctx, j, team, q.CreatedAt)
	if err != nil {
		return page, err
	}
	all.Team, all.CreatedAt, all.After, all.Newest = instance.Team, instance.CreatedAt, q.After, !q.Forward && q.After == 0 || q.Before != 0
	page.Ours = []string{mail.User}
	if lg, err := l.Ledger(ctx); err != nil {
		return page, err
	} else if lg != nil { // without a ledger, no team was joined
		if page.Ours, err = mail.OursIn(ctx, lg, all.Root, instance); err != nil {
			return page, err
		}
	}
	if j == nil {
		return page, nil
	}
	if page.Seq, err = j.Last(ctx); err != nil {
		return page, err
	}
	found, more, err := journal.Take(l.find(ctx, j, all, s, nil), limit, AnswerBytes, func(h *api.Hit) int {
		return len(h.Text)
	})
	if err != nil {
		return page, err
	}
	if all.Newest {
		slices.Reverse(found)
	}
	for _, h := range found {
		page.Messages = append(page.Messages, h.Record)
	}
	page.More = more
	return page, nil
}

// WorkOf returns a page of an agent's events, in any team with that name. Of q, it uses only the numbers.
func (l *Archive) WorkOf(ctx context.Context, team, member string, q api.MessageQuery) (api.Envelopes, error) {
	page := api.Envelopes{Envelopes: []api.Envelope{}}
	root, err := l.Opts.Root()
	if err != nil {
		return page, err
	}
	j, err := l.Journal(ctx)
	if err != nil || j == nil {
		return page, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return page, err
	}
	if page.Seq, err = j.Last(ctx); err != nil {
		return page, err
	}
	wanted := journal.Query{Root: root.Path(), Team: team, Inbox: member, After: q.After, Before: q.Before, Newest: !q.Forward || q.Before != 0}
	list, more, err := journal.Take(j.Envelopes.All(ctx, journal.EnvelopeQuery{Query: wanted}), q.Limit, AnswerBytes, func(e *journal.Envelope) int { return 2 * len(e.Raw) }) // the event is in the record, too
	if wanted.Newest {
		slices.Reverse(list)
	}
	for _, e := range list {
		shown, err := view.Envelope(ctx, j, lg, e)
		if err != nil {
			return page, err
		}
		page.Envelopes = append(page.Envelopes, shown)
	}
	page.More = more
	return page, err
}

// History returns recorded messages; see [api.Bridge].
func (l *Archive) History(ctx context.Context, q api.SearchQuery) (api.Found, error) {
	answer := api.Found{Hits: []api.Hit{}}
	limit, err := Limited(q.Limit, api.DefaultHits, api.MaxMessages)
	if err != nil {
		return answer, err
	}
	j, all, err := l.selection(ctx, &q)
	if err != nil || j == nil {
		return answer, err
	}
	found, more, err := journal.Take(l.find(ctx, j, all, q, &answer.Hidden), limit, AnswerBytes, func(h *api.Hit) int { return len(h.Text) })
	if value, ok := errors.AsType[*journal.ValueError](err); ok {
		err = api.Decide(api.CodeUsage, "", "search words: %s", value.Reason)
	}
	answer.Hits, answer.More = append(answer.Hits, found...), more
	return answer, err
}

// Export writes every message that q selects, oldest first, and the events of agents, as
// [journal.Journal.Export] does.
func (l *Archive) Export(ctx context.Context, w io.Writer, q api.SearchQuery) error {
	j, all, err := l.selection(ctx, &q)
	if err != nil || j == nil {
		return err
	}
	if name, team := teams.Split(all.From); team != "" && all.Team == "" {
		all.Team, all.From = team, name
	}
	all.Newest = false
	return j.Export(ctx, w, all)
}

// selection returns the journal, brought up to date, and the query for q. It replaces the names in q by the
// recorded ones. The journal is nil if nothing was recorded.
func (l *Archive) selection(ctx context.Context, q *api.SearchQuery) (j *journal.Journal, all journal.Query, err error) {
	if q.With != "" && (q.Inbox != "" || q.From != "") {
		return nil, all, api.Decide(api.CodeUsage, "omit one of them", "with selects both directions, and cannot be used with inbox or from")
	}
	root, err := l.Opts.Root()
	if err == nil {
		all.Root = root.Path()
	} else if !errors.As(err, new(*teams.NoRootError)) { // without a Claude directory, recorded messages are still found
		return nil, all, err
	}
	if j, err = l.Journal(ctx); err != nil || j == nil {
		return nil, all, err
	}
	l.MemberNames(ctx, q.Team, &q.Inbox)
	if _, team := teams.Split(cmp.Or(q.With, q.From)); team == "" || q.Team != "" { // find handles addresses
		l.MemberNames(ctx, q.Team, &q.From, &q.With)
	}
	if q.Before == 0 { // a later page needs no refresh
		l.catchUp(ctx, j, journal.Query{Root: all.Root, Team: q.Team})
	}
	for _, name := range []*string{&q.With, &q.From} {
		if err := l.complete(ctx, j, all.Root, q, name); err != nil {
			return nil, all, err
		}
	}
	all = journal.Query{
		Root: all.Root, Team: q.Team, CreatedAt: q.CreatedAt, Inbox: q.Inbox, From: q.From, Since: q.Since, Until: q.Until, Before: q.Before, Newest: true,
	}
	if q.After != "" {
		err = AfterID(ctx, j, q.After, &all)
	}
	return j, all, err
}

// complete replaces an abbreviated name, for which q has no team and nothing is recorded, by the address that it
// stands for.
func (l *Archive) complete(ctx context.Context, j *journal.Journal, root string, q *api.SearchQuery, name *string) error {
	if _, team := teams.Split(*name); *name == "" || team != "" || q.Team != "" || root == "" {
		return nil
	}
	for _, of := range []journal.Query{{Root: root, From: *name, Limit: 1}, {Root: root, Inbox: *name, Limit: 1}} {
		for _, err := range j.Messages.All(ctx, of) {
			return err // the name is recorded
		}
	}
	whole, err := l.opts.Complete(ctx, *name)
	if err != nil || whole != "" {
		*name = cmp.Or(whole, *name)
		return err
	}
	recorded, err := j.Messages.Inboxes(ctx, journal.Query{Root: root})
	var found []string
	for _, i := range recorded {
		if address := i.Inbox + "@" + i.Team; len(*name) > 1 && strings.HasPrefix(i.Inbox, *name) && !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	if len(found) > 1 {
		return api.Decide(api.CodeAmbiguousTeam, "say which: "+strings.Join(found, ", "), "%q matches several agents", *name)
	}
	*name = cmp.Or(strings.Join(found, ""), *name)
	return err
}

// AfterID makes a query of the journal begin after the message or event with an id, or with the only id that
// has this prefix.
func AfterID(ctx context.Context, j *journal.Journal, id string, q *journal.Query) error {
	byID := *q
	byID.ID = id
	if len(id) >= view.MinPrefix {
		byID.Limit = 20
		ids, err := j.Messages.IDs(ctx, byID, id)
		if err != nil {
			return err
		}
		whole, err := view.WholeID(id, ids)
		if err != nil {
			return err
		}
		byID.ID = cmp.Or(whole, id)
	}
	byID.Limit, byID.Newest = 1, true
	for m, err := range j.Messages.All(ctx, byID) {
		q.After = m.Seq
		return err
	}
	for e, err := range j.Envelopes.All(ctx, journal.EnvelopeQuery{Query: byID}) {
		q.After = e.Seq
		return err
	}
	return api.Decide(api.CodeNotFound, "list the ids with: teambridge history --json", "no message has the id %s", id)
}

// Receipt returns the receipt of a message that a service has sent to a member of a team. createdAt, in milliseconds,
// identifies the team unless it is 0. The error is [api.CodeNotFound] if no message was sent under the id.
func (l *Archive) Receipt(ctx context.Context, team string, createdAt int64, member, id string) (api.Receipt, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return api.Receipt{}, err
	}
	j, err := l.Journal(ctx)
	if err != nil {
		return api.Receipt{}, err
	}
	instance, err := l.instance(ctx, j, team, createdAt)
	if err != nil {
		return api.Receipt{}, err
	}
	l.MemberNames(ctx, instance.Team, &member)
	var receipt journal.Receipt
	found := false
	if j != nil {
		key := inbox.SendKey{InboxKey: inbox.Key(root.Path(), instance, member), ID: id}
		receipt, found, err = j.Receipts.Receipt(ctx, key)
		if lg, lerr := l.Ledger(ctx); err == nil && !found && lg != nil {
			// A prompt is in the ledger, and reaches the journal a little later.
			if _, err = j.Copy(ctx, lg); err == nil {
				receipt, found, err = j.Receipts.Receipt(ctx, key)
			}
		} else {
			err = cmp.Or(err, lerr)
		}
	}
	if err == nil && !found {
		err = api.Decide(api.CodeNotFound, "the answer to the message has its id", "no message %q was sent to %s of %s through the service", id, member, instance.Team)
	}
	return view.Receipt(receipt), err
}

// Limited checks a requested number of items. 0 means the usual number.
func Limited(asked, usual, most int) (int, error) {
	if asked < 0 || asked > most {
		return 0, api.Decide(api.CodeUsage, "", "the limit %d is not between 1 and %d", asked, most)
	}
	return cmp.Or(asked, usual), nil
}

// catchUp brings a journal up to date, unless a recorder does.
func (l *Archive) catchUp(ctx context.Context, j *journal.Journal, q journal.Query) {
	if !l.records() {
		l.Refresh(ctx, j, journal.Query{Root: q.Root, Team: q.Team})
	}
}

// MemberNames replaces names of members of a team, which may have ended, by the names under which their
// messages are recorded. Without a Claude directory, it changes nothing.
func (l *Archive) MemberNames(ctx context.Context, team string, names ...*string) {
	root, err := l.Opts.Root()
	if err != nil {
		return
	}
	for _, name := range names {
		if *name != "" {
			*name = root.MemberName(ctx, team, *name)
		}
	}
}

// instance returns the team with a name and a creation time. If the time is 0, it is the team that exists, or
// else the last one that was recorded. j may be nil.
func (l *Archive) instance(ctx context.Context, j *journal.Journal, name string, createdAt int64) (teams.Instance, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return teams.Instance{}, err
	}
	t, err := root.Team(name)
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
	if t, found, err := l.PaneTeam(ctx, name); err != nil {
		return teams.Instance{}, err
	} else if found && (createdAt == 0 || createdAt == t.CreatedAt) {
		return t, nil
	}
	if j != nil {
		recorded, err := j.Messages.Inboxes(ctx, journal.Query{Root: root.Path()})
		if err != nil {
			return teams.Instance{}, err
		}
		for _, i := range slices.Backward(recorded) {
			if i.Team == name && (createdAt == 0 || i.CreatedAt == createdAt) {
				return i.Instance(), nil
			}
		}
	}
	return teams.Instance{}, cmp.Or(err, error(&teams.NotFoundError{Kind: "team", Query: name}))
}
