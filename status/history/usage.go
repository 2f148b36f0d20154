package history

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	conversation "teambridge/relay/claude/session"
	"teambridge/relay/pane"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// meters caches the counts of transcripts while there are requests.
type meters struct {
	mu      sync.Mutex
	all     map[string]*transcript.Meter // by file
	counted *transcript.Counted
	forget  *time.Timer
}

// metersKept is how long counts are kept without a request: the ids of answers need memory.
const metersKept = 10 * time.Minute

// read counts the new part of the transcripts that have changed since a time, and returns the counts of all.
// missed has a text for each transcript that could not be read.
func (m *meters) read(ctx context.Context, root string, since time.Time) (all map[string]*transcript.Meter, missed []string, err error) {
	if m.all == nil {
		m.all, m.counted = map[string]*transcript.Meter{}, transcript.NewCounted()
		m.forget = time.AfterFunc(metersKept, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.all, m.counted = nil, nil
		})
	}
	m.forget.Reset(metersKept)
	for path, err := range transcript.Conversations(root, since) {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if err == nil {
			if m.all[path] == nil {
				m.all[path] = transcript.NewMeter(path, m.counted)
			}
			err = m.all[path].Read()
		}
		if err != nil {
			missed = append(missed, view.Describe(err))
		}
	}
	for _, fork := range m.all {
		if path, ok := transcript.Session(root, "", fork.Parent); fork.Parent != "" && ok && m.all[path] == nil { // unchanged since that time
			m.all[path] = transcript.NewMeter(path, m.counted)
			if err := m.all[path].Read(); err != nil {
				missed = append(missed, view.Describe(err))
			}
		}
	}
	return m.all, missed, nil
}

// Usage counts tokens and cost; see [api.Bridge].
func (l *Transcripts) Usage(ctx context.Context, q api.UsageQuery) (api.Usage, error) {
	if len(q.By) == 0 {
		q.By = []string{api.ByAgent}
	}
	ways := []string{api.ByAgent, api.ByTeam, api.ByDay, api.ByModel, api.ByProject}
	for _, by := range q.By {
		if !slices.Contains(ways, by) {
			return api.Usage{}, api.Decide(api.CodeUsage, "", "tokens cannot be counted by %.40q, only by %s", by, strings.Join(ways, ", "))
		}
	}
	if q.Since.IsZero() {
		now := time.Now()
		q.Since = time.Date(now.Year(), now.Month(), now.Day()-6, 0, 0, 0, 0, time.Local)
	}
	root, err := l.Opts.Root()
	if err != nil {
		return api.Usage{}, err
	}
	// Find the owners first, since a lock is held while transcripts are read.
	owners, err := l.sessionOwners(ctx, root)
	if err != nil {
		return api.Usage{}, err
	}
	l.meters.mu.Lock()
	defer l.meters.mu.Unlock()
	all, missed, err := l.meters.read(ctx, root.Path(), q.Since)
	if err != nil {
		return api.Usage{}, err
	}
	known, err := l.recordedUsage(ctx, root.Path(), q.Since)
	if err != nil {
		return api.Usage{}, err
	}
	u := count(q, uses(all, owners, known))
	u.Missed = missed
	return u, nil
}

// owners maps transcripts and sessions to their agents.
type owners struct {
	files    map[string]inbox.InboxKey // by path
	sessions map[string]inbox.InboxKey // by id
	leads    map[string]string         // the names of leads, by team
}

func newOwners() owners {
	return owners{map[string]inbox.InboxKey{}, map[string]inbox.InboxKey{}, map[string]string{}}
}

func (l *Transcripts) sessionOwners(ctx context.Context, root *teams.Root) (o owners, err error) {
	o = newOwners()
	sessions, err := l.Sessions(ctx)
	if err != nil {
		return o, err
	}
	for _, s := range sessions {
		if name := cmp.Or(s.As, s.Name); s.Session != "" && name != "" {
			o.sessions[s.Session] = ownerKey(root, pane.SessionTeam, name)
		}
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return o, err
	}
	if lg != nil {
		known, err := lg.Panes.List(ctx, root.Path())
		if err != nil {
			return o, err
		}
		for _, s := range known {
			if s.Team == pane.SessionTeam { // it may have ended
				o.sessions[s.ID] = s.InboxKey
			}
		}
		relayed, err := lg.Sessions.List(ctx, root.Path())
		if err != nil {
			return o, err
		}
		for _, s := range relayed {
			o.sessions[s.ID] = ownerKey(root, s.Team, s.Inbox)
		}
	}
	return o, o.addTeams(ctx, root)
}

// addTeams adds the transcripts of members of teams.
func (o *owners) addTeams(ctx context.Context, root *teams.Root) error {
	list, err := root.Teams()
	if err != nil {
		return err
	}
	for _, one := range list {
		t, err := root.Team(one.Name)
		if err != nil {
			continue // doctor reports the problem, and its transcripts name their session
		}
		if c, err := t.Config(ctx); err == nil {
			lead, _ := c.Lead()
			o.leads[one.Name] = lead.Name
			for _, m := range c.Members {
				for _, path := range t.Agent(c, m.Name).Transcripts() {
					o.files[path] = ownerKey(root, one.Name, m.Name)
				}
			}
		}
		t.Close()
	}
	return nil
}

func ownerKey(root *teams.Root, team, member string) inbox.InboxKey {
	return inbox.InboxKey{Root: root.Path(), Team: team, Inbox: member}
}

// of returns the agent of a transcript. A session without a team and a name gets the beginning of its id.
func (o *owners) of(m *transcript.Meter) inbox.InboxKey {
	if k, ok := o.files[m.Path()]; ok {
		return k
	}
	k := inbox.InboxKey{Team: m.Team, Inbox: m.Agent}
	if m.Team != "" && m.Agent == "" {
		k.Inbox = cmp.Or(o.leads[m.Team], "team-lead")
	}
	if s, ok := o.sessions[m.Session]; ok && (m.Team == "" || s.Team == m.Team && m.Agent == "") {
		return s
	}
	if m.Team == "" {
		k = inbox.InboxKey{Team: pane.SessionTeam, Inbox: m.Session[:min(8, len(m.Session))]}
	}
	return k
}

// use is an agent's usage within an hour.
type use struct {
	who          inbox.InboxKey
	session, cwd string
	transcript.Spending
	transcript.Spent
	cost     float64
	unstated bool // a stated cost may not include it
}

// recorded is the usage of a session in the journal.
type recorded struct {
	who    inbox.InboxKey
	spent  map[transcript.Spending]transcript.Spent
	stated []transcript.Stated // costs stated in the requested time, and the last one before
}

// recordedUsage returns the usage of the turns in the journal that ended at or after a time, by session.
func (l *Transcripts) recordedUsage(ctx context.Context, root string, since time.Time) (map[string]*recorded, error) {
	j, err := l.Journal(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	all := map[string]*recorded{}
	query := journal.EnvelopeQuery{Query: journal.Query{Root: root, Since: since}, Kinds: []string{"turn-end"}}
	for e, err := range j.Envelopes.All(ctx, query) {
		if err != nil {
			return nil, err
		}
		r := all[e.Session]
		if r == nil {
			r = &recorded{who: e.InboxKey, spent: map[transcript.Spending]transcript.Spent{}}
			all[e.Session] = r
			query := query
			query.Session, query.Since, query.Until, query.Newest, query.Limit = e.Session, time.Time{}, since, true, 1
			for e, err := range j.Envelopes.All(ctx, query) {
				if err != nil {
					return nil, err
				}
				r.add(e)
			}
			clear(r.spent)
		}
		r.add(e)
	}
	return all, nil
}

func (r *recorded) add(e journal.Envelope) {
	var end wire.Envelope
	if json.Unmarshal(e.Raw, &end) != nil || end.Usage == nil {
		return
	}
	u := transcript.Usage{Input: end.Usage.InputTokens, CacheCreation: end.Usage.CacheCreationInputTokens, CacheRead: end.Usage.CacheReadInputTokens, Output: end.Usage.OutputTokens}
	at := transcript.Spending{Hour: e.At.Truncate(time.Hour)}
	spent := r.spent[at]
	spent.Add(u.Spent(), 1)
	r.spent[at] = spent
	var cost map[string]float64
	if json.Unmarshal(end.Usage.Extra[conversation.StatedCost], &cost) == nil && len(cost) > 0 {
		r.stated = append(r.stated, transcript.Stated{At: e.At, Cost: cost})
	}
}

// uses returns the usage of sessions: from transcripts and, for sessions of other programs, from the journal.
func uses(all map[string]*transcript.Meter, o owners, known map[string]*recorded) (list []use) {
	own := map[string]*transcript.Meter{} // conversations of the sessions themselves, without subagents
	for _, m := range all {
		if m.Own() {
			own[m.Session] = m
		}
	}
	// The last hours with a stated cost: of any source, and of results alone.
	until, results := map[string]time.Time{}, map[string]time.Time{}
	for id, m := range own {
		stated := m.Stated
		if r := known[id]; r != nil {
			results[id] = lastStated(r.stated)
			stated = append(slices.Clone(stated), r.stated...)
		}
		until[id] = lastStated(stated)
		var before map[string]float64
		if parent := own[m.Parent]; parent != nil {
			before = parent.StatedBefore(m.Began)
		}
		for at, cost := range transcript.Costs(before, stated) {
			list = append(list, use{who: o.of(m), session: id, cwd: m.Cwd, Spending: at, cost: cost})
		}
	}
	for path, m := range all {
		main, whose := own[m.Session], m
		if _, teammate := o.files[path]; main != nil && m.Team == "" && !teammate {
			whose = main // of a subagent's main session
		}
		for at, spent := range m.Spent() {
			u := use{who: o.of(whose), session: m.Session, cwd: cmp.Or(whose.Cwd, m.Cwd), Spending: at, Spent: spent}
			if m == main {
				u.unstated = at.Open && at.Hour.After(results[m.Session])
			} else {
				u.unstated = at.Hour.After(until[m.Session])
			}
			list = append(list, u)
		}
	}
	for id, r := range known {
		if own[id] != nil {
			continue
		}
		for at, spent := range r.spent {
			list = append(list, use{who: r.who, session: id, Spending: at, Spent: spent, unstated: len(r.stated) == 0})
		}
		for at, cost := range transcript.Costs(nil, r.stated) {
			list = append(list, use{who: r.who, session: id, Spending: at, cost: cost})
		}
	}
	return list
}

// lastStated returns the last hour with a stated cost.
func lastStated(list []transcript.Stated) (hour time.Time) {
	for _, s := range list {
		if h := s.At.Truncate(time.Hour); h.After(hour) {
			hour = h
		}
	}
	return hour
}

// count adds up usage.
func count(q api.UsageQuery, list []use) api.Usage {
	all := api.Usage{Since: q.Since.UTC(), By: q.By}
	rows := map[api.UsageRow]*api.UsageRow{}
	for _, u := range list {
		if u.Hour.Before(q.Since.Truncate(time.Hour)) || !q.Until.IsZero() && !u.Hour.Before(q.Until.Truncate(time.Hour)) || q.Team != "" && u.who.Team != q.Team {
			continue
		}
		var key api.UsageRow
		for _, by := range q.By {
			switch by {
			case api.ByAgent:
				if key.Team, key.Member = u.who.Team, u.who.Inbox; key.Team == pane.SessionTeam {
					key.Session = u.session
				}
			case api.ByTeam:
				key.Team = u.who.Team
			case api.ByDay:
				key.Day = u.Hour.Local().Format(time.DateOnly)
			case api.ByModel:
				key.Model = u.Model
			case api.ByProject:
				key.Project = u.cwd
			}
		}
		if rows[key] == nil {
			rows[key] = &api.UsageRow{}
			*rows[key] = key
		}
		for _, r := range []*api.UsageRow{rows[key], &all.Total} {
			r.Answers += u.Answers
			r.Input += u.Input
			r.CacheCreation += u.CacheCreation
			r.CacheRead += u.CacheRead
			r.Output += u.Output
			if u.cost > 0 {
				if r.Cost == nil {
					r.Cost = new(float64)
				}
				*r.Cost += u.cost
			}
			r.Unstated = r.Unstated || u.unstated
		}
	}
	all.Rows = []api.UsageRow{} // never null in JSON
	for _, r := range rows {
		r.Cost = rounded(r.Cost)
		all.Rows = append(all.Rows, *r)
	}
	all.Total.Cost = rounded(all.Total.Cost)
	slices.SortFunc(all.Rows, func(a, b api.UsageRow) int {
		return cmp.Or(-cmp.Compare(a.Day, b.Day), -cmp.Compare(a.Tokens(), b.Tokens()), cmp.Compare(a.Team, b.Team), cmp.Compare(a.Member, b.Member),
			cmp.Compare(a.Session, b.Session), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Project, b.Project))
	})
	return all
}

// rounded rounds a cost, so that it does not depend on the order of addition.
func rounded(cost *float64) *float64 {
	if cost == nil {
		return nil
	}
	return new(math.Round(*cost*1e8) / 1e8)
}
