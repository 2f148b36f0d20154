package attention

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/dialog"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/relay/tmux"
	"teambridge/relay/toolcall"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/excerpt"
	"teambridge/teams/transcript"
)

// paneViews reads what is known of panes and sessions.
type paneViews struct{ opts *Options }

// readPanes returns the team of the registered panes or the team of the sessions, by its name, and whether it
// was read again. The team is nil if there is none. Only a [Watch] looks at the panes and sessions themselves.
// c.mu is held.
func (c *Cache) readPanes(ctx context.Context, name string, now time.Time) (e *cachedTeam, again bool, err error) {
	var list []pane.Pane
	switch {
	case name == pane.Team:
		for _, p := range c.registered {
			if p.Team == pane.Team {
				list = append(list, paneOf(p))
			}
		}
	case c.opts.Watch != nil:
		list = c.opts.Watch.sessions()
	case c.opts.Panes != nil: // in a command: the files of each session are read
		if list, err = c.opts.Panes.Sessions.Around(ctx); err != nil {
			return nil, false, err
		}
	}
	if len(list) == 0 {
		return nil, false, nil
	}
	news := [2]int{c.ledgerNews, c.opts.Watch.version()}
	was := c.entries[name]
	if was != nil && !was.stale && was.paneNews == news && (was.due.IsZero() || now.Before(was.due)) {
		return was, false, nil
	}
	e = &cachedTeam{team: view.PaneTeam(list), paneNews: news, createdAt: list[0].CreatedAt}
	views, err := c.Seen(ctx, list)
	if err != nil {
		return nil, false, err
	}
	e.dirs, e.ways = map[string]string{}, map[string]string{}
	for _, v := range views {
		e.states = append(e.states, view.PaneStatus(v))
		e.dirs[v.Pane.Inbox] = cmp.Or(v.Pane.Cwd, v.Process.Cwd, v.Terminal.Path)
		e.ways[v.Pane.Inbox] = view.Way(pane.ReachOf(c.opts.State, v.Process))
	}
	if name == pane.SessionTeam {
		ids := map[string]string{}
		for _, p := range list {
			ids[p.Inbox] = p.Ref.ID
		}
		if err := c.ofSessions(ctx, e, ids); err != nil {
			return nil, false, err
		}
	}
	if c.opts.Journal != nil {
		talk, err := c.talk(ctx, journal.Query{Root: c.opts.Root.Path(), Team: name, CreatedAt: e.createdAt})
		if err != nil {
			return nil, false, err
		}
		e.tasks, e.loops = tasksOf(talk), loopsOf(talk, now)
		e.keepLoops(was)
	}
	if err := c.readTools(ctx, e, was); err != nil {
		return nil, false, err
	}
	if e.waits, err = c.paneWaits(ctx, e, views, now); err != nil {
		return nil, false, err
	}
	if name == pane.SessionTeam && c.opts.Ledger != nil {
		unread, err := c.unreadSaid(ctx)
		if err != nil {
			return nil, false, err
		}
		e.waits = append(e.waits, unread[name]...)
	}
	e.waits = slices.Concat(e.waits, e.silentWaits(now, func(i int) time.Time {
		if at := c.opts.Panes.Views.Written(views[i]); !at.IsZero() {
			return at
		}
		return now // unknown
	}), e.loopWaits())
	describe(e.waits)
	return e, true, nil
}

// unreadSaid returns the unread messages to the person from agents of teams without inboxes, by team.
func (c paneViews) unreadSaid(ctx context.Context) (map[string][]api.Attention, error) {
	said, err := c.opts.Panes.Incoming.Unread(ctx)
	unread := map[string][]api.Attention{}
	for team, rows := range said {
		list := unreadOf(team, mail.User, rows, nil)
		for i := range list {
			list[i].Team = team
		}
		unread[team] = list
	}
	return unread, err
}

// readMachines returns the teams of other machines that may be written to from here, and the teams with unread
// messages to the person. Unread messages stay, even after the team or the link is gone. c.mu is held.
func (c *Cache) readMachines(ctx context.Context) (list []*cachedTeam, err error) {
	if c.opts.Ledger == nil {
		return nil, nil
	}
	machines, err := c.opts.Ledger.Links.Machines(ctx, c.opts.Root.Path())
	if err != nil {
		return nil, err
	}
	unread, err := c.unreadSaid(ctx)
	if err != nil {
		return nil, err
	}
	delete(unread, pane.SessionTeam)
	add := func(m ledger.Machine, t link.Team, states []api.Status) {
		e := &cachedTeam{team: view.MachineTeam(m, t), createdAt: ledger.MachineTeamCreated, states: states}
		e.waits = unread[e.team.Team]
		delete(unread, e.team.Team)
		describe(e.waits)
		list = append(list, e)
	}
	for _, m := range machines {
		p, _ := link.PresenceOf(m)
		silent := view.Whereabouts(m)
		for _, t := range p.Teams {
			add(m, t, view.MachineStatus(m, t, silent))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		if team, machine := teams.Split(name); machine != "" && len(unread[name]) > 0 {
			add(ledger.Machine{Name: machine}, link.Team{Team: team}, nil)
		}
	}
	return list, nil
}

// memberPaneWaits returns the items for messages that are typed into panes of a team's members. c.mu is held.
func (c *Cache) memberPaneWaits(ctx context.Context, e *cachedTeam, now time.Time) ([]api.Attention, error) {
	var list []pane.Pane
	for _, p := range c.registered {
		if p.Team == e.team.Team && p.CreatedAt == e.createdAt {
			list = append(list, paneOf(p))
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	views, err := c.Seen(ctx, list)
	if err != nil {
		return nil, err
	}
	return c.paneWaits(ctx, e, views, now)
}

// paneWaits returns the items for the panes of one team.
func (c *Cache) paneWaits(ctx context.Context, e *cachedTeam, views []pane.View, now time.Time) (list []api.Attention, err error) {
	for _, v := range views {
		add := func(kind string, since time.Time, a api.Attention, parts ...string) {
			a.ID = attentionID(kind, since, append([]string{v.Pane.Team, v.Pane.Inbox}, parts...)...)
			a.Kind, a.Team, a.Member = kind, v.Pane.Team, v.Pane.Inbox
			if !since.IsZero() {
				a.Since = new(since.UTC())
			}
			list = append(list, a)
		}
		if v.State == tmux.Dialog {
			do := whereToAnswer(v.Process)
			if !v.Pane.IsSession() && v.Terminal.Session != "" {
				do = "answer it in the pane " + v.Terminal.Target()
			}
			if a, ok := c.answerable(e, v.Process, v.Since, now, do); ok {
				a.Team, a.Member = v.Pane.Team, v.Pane.Inbox
				list = append(list, a)
			} else {
				add(api.WaitsTerminal, v.Since, api.Attention{What: e.whatWaits(v.Why, v.Since, now, func() (transcript.Block, bool) { return c.opts.Panes.Views.Asked(v) }), Do: do})
			}
		}
		waiting := v.Waiting()
		var first ledger.PaneMessage
		if len(waiting) > 0 {
			first = waiting[0]
		}
		wait := "1 message waits"
		if len(waiting) > 1 {
			wait = fmt.Sprintf("%d messages wait", len(waiting))
		}
		switch reason := tmux.Reason(first.Held); {
		case len(waiting) == 0:
		case v.Pane.IsSession() && (v.State == tmux.Gone || reason == tmux.Gone):
			add(api.WaitsStopped, v.Pane.At, api.Attention{
				What: wait + ", but the session has ended", Do: "resume it: claude --resume " + v.Pane.Ref.ID, Count: len(waiting),
			})
		case v.State == tmux.Gone, reason == tmux.Gone, reason == tmux.Dead:
			add(api.WaitsStopped, v.Pane.At, api.Attention{
				What: wait + ", but its pane is gone", Do: "register its new pane: teambridge pane add " + v.Pane.Inbox + " --replace --pane TARGET", Count: len(waiting),
			})
		case reason == tmux.Draft && now.Sub(first.HeldSince) < pane.LongHeld:
			e.dueAt(first.HeldSince.Add(pane.LongHeld))
		case reason == tmux.Draft:
			add(api.WaitsDraft, first.HeldSince, api.Attention{
				What: wait + ": " + cmp.Or(first.Detail, "something is typed at its prompt"), Do: "send or delete the text at its prompt",
				From: first.From, Count: len(waiting), Message: first.ID,
			})
		}
		if c.opts.Ledger == nil {
			continue // nothing was sent
		}
		failed, err := c.opts.Ledger.Deliveries.List(ctx, ledger.DeliveryQuery{
			Root: v.Pane.Root, Team: v.Pane.Team, CreatedAt: v.Pane.CreatedAt, Inbox: v.Pane.Inbox, States: []ledger.DeliveryState{ledger.Failed}, Limit: maxFailed,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range failed {
			m, found, err := c.opts.Ledger.PaneMessages.Message(ctx, d.UUID)
			if err != nil {
				return nil, err
			}
			if !found {
				continue // it is a relay's
			}
			kind, what := api.WaitsLost, "a message was not sent: "
			state, reason := view.PaneMessage(m)
			if state == api.Unconfirmed {
				kind, what = api.WaitsUnknown, "a message may not have been sent: "
			}
			add(kind, m.At, api.Attention{
				What: what + reason, Do: retryOrDrop(m.UUID), From: m.From, Count: 1, Message: m.ID, Delivery: m.UUID,
			}, m.UUID)
		}
	}
	if c.opts.Ledger == nil {
		return list, nil
	}
	notices, err := c.opts.Panes.Tasks.Notices(ctx)
	for _, n := range notices {
		if n.Team != e.team.Team || n.CreatedAt != e.createdAt {
			continue
		}
		what := "has finished the task of your message"
		if n.Lost != "" {
			what = "the end of the task of your message was not seen: " + n.Lost
		}
		list = append(list, api.Attention{
			ID: n.ID, Kind: api.WaitsDone, Team: n.Team, Member: n.Inbox, Since: new(n.At.UTC()), What: what + about(n.PaneMessage),
			Do: "read its last messages: teambridge history --team " + n.Team, Message: n.PaneMessage.ID,
		})
	}
	return list, err
}

// answerable returns the question in the dialog of a process, if a hook makes it answerable elsewhere. there is
// the hint for answering at the terminal. The hook starts with the dialog.
func (c paneViews) answerable(e *cachedTeam, p transcript.Process, since, now time.Time, there string) (a api.Attention, ok bool) {
	if c.opts.State == "" || p.PID == 0 {
		return a, false
	}
	q, ok := dialog.Of(c.opts.State, p.PID, p.ProcStart)
	if !ok {
		for _, lag := range []time.Duration{300 * time.Millisecond, time.Second} {
			if now.Before(since.Add(lag)) {
				e.dueAt(since.Add(lag))
			}
		}
		return a, false
	}
	a = asksFor(api.Question(q.Question))
	at := "; or " + strings.TrimPrefix(there, "answer it ")
	a.Relay, a.Do, a.Command = api.Terminal, a.Do+at, a.Command+at
	return a, true
}

// whatWaits describes an agent that waits for its person: why, and the tool call that it wants, if known. Only
// the person on this machine sees the text. Other machines and agents see only the words of a state.
func (e *cachedTeam) whatWaits(why string, since, now time.Time, asked func() (transcript.Block, bool)) string {
	const lag = 2 * time.Second // the transcript may have the call this much later
	what := "waits for you"
	if why != "" {
		what += ": " + why
	}
	if call, ok := asked(); ok {
		what += ", to " + excerpt.Line(toolcall.Describe(call.Name, call.Input).Title, maxTask)
	} else if now.Before(since.Add(lag)) {
		e.dueAt(since.Add(lag))
	}
	return what
}

// whereToAnswer returns the hint for answering a program's own question: by "claude attach" in the background,
// or at its terminal.
func whereToAnswer(p transcript.Process) string {
	if p.Job != "" {
		return "answer it: claude attach " + p.Job
	}
	if name := teams.Terminal(p); name != "" {
		return "answer it at its terminal, " + name
	}
	return "answer it at its terminal"
}

// about returns the beginning of a message, which identifies it to people.
func about(m ledger.PaneMessage) string {
	return fmt.Sprintf(": %q", excerpt.Line(cmp.Or(m.Summary, string(m.Raw)), 60))
}

// Seen returns the views of panes, as of the last look at each. It does not look at them.
func (c paneViews) Seen(ctx context.Context, list []pane.Pane) ([]pane.View, error) {
	views := make([]pane.View, 0, len(list))
	for _, p := range list {
		if c.opts.Watch == nil && p.IsSession() {
			v, err := c.opts.Panes.Views.Look(ctx, p)
			if err != nil {
				return nil, err
			}
			views = append(views, v)
			continue
		}
		v := c.opts.Watch.view(p)
		var err error
		if v.Messages, err = c.opts.Ledger.PaneMessages.List(ctx, p.InboxKey); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// describe adds the texts for the kind of each item, and the operations for the commands in what to do.
func describe(list []api.Attention) {
	for i, a := range list {
		kind := api.WaitOf(a.Kind)
		list[i].Title, list[i].Words, list[i].Dismissable = kind.Title, kind.Words, kind.Dismiss
		if do := view.Operations(a.Do); do != a.Do && a.Command == "" {
			list[i].Do, list[i].Command = cmp.Or(do, a.Do), a.Do
		}
	}
}

func paneOf(p ledger.Pane) pane.Pane {
	return pane.Pane{
		InboxKey: p.InboxKey, Profile: tmux.Profile(p.Profile), At: p.At, Home: p.Home,
		Ref: tmux.Ref{Socket: p.Socket, Server: p.Server, ID: p.ID, PID: p.PID},
	}
}
