package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// paneWay is the way of messages that are typed into panes, or written to sessions.
type paneWay struct{ *Local }

func (paneWay) suits(to *Target, m *api.NewMessage) error {
	const isNot, omit = "is not for panes", "omit it: "
	unfit, states := "", []string{api.Verified, api.Received, api.Confirmed}
	switch {
	case m.Via == api.ViaPane && to.session():
		unfit = "pane is for members of teams: a session is not typed into"
	case m.Via == api.ViaSession && to.Way() == api.WayPane:
		unfit = "session is for sessions, and this is a pane"
	case m.Via == api.ViaQueue && !to.session():
		unfit = "queue is for sessions of Codex in no team"
	case m.Via != "" && m.Via != api.ViaPane && m.Via != api.ViaSession && m.Via != api.ViaQueue:
		unfit = "is pane, session or queue"
	}
	if m.Via == api.ViaSession || to.session() {
		states = append(states, api.Seen)
	}
	prompts := forPrompts(m)
	prompts[0].why, prompts[1].why = "the service does not run the agent in a pane", "messages to a pane are never joined"
	return cmp.Or(
		refuse(unfit, "omit it", option{"via", unfit != "", ""}),
		refuse(isNot, omit, append(prompts,
			option{"protocol", m.Protocol, "an agent in a pane knows no protocol messages"}, option{"force", m.Force, "to send a message again that has failed: teambridge relay retry"})...),
		refuse("must be one of "+strings.Join(api.Policies(), ", "), "", option{"policy", m.Policy != "" && !slices.Contains(api.Policies(), m.Policy), ""}),
		waitFor(m, isNot, ": send waits until the agent in the pane has taken the message", states...))
}

func (l paneWay) describe(to *Target) (t api.Target) {
	t.Queued, t.How = true, "the pane, which is registered under this name"
	if !to.session() {
		return t
	}
	const alone = ": it is in no team"
	t.Apart, t.How = true, "the session's own socket or, if it has none, its waiting hook"+alone
	if len(to.Panes) != 1 {
		return t
	}
	p, _ := transcript.ProcessWith(to.Panes[0].Root, to.Panes[0].Ref.PID) // without it, the description is less exact
	switch by := pane.ReachOf(l.Opts.State, p); {
	case to.Panes[0].Profile == pane.Codex:
		t.How = "the shared server of Codex"
	case by == pane.BySocket:
		t.How = "the session's own socket" + alone
	case by == pane.ByHook:
		t.How = "the waiting hook: the session is in no team, and has no socket, or its hook was installed with --unasked"
	}
	return t
}

func (l paneWay) send(ctx context.Context, to *Target, m message) (api.Sent, *mail.Delivered, error) {
	p, err := l.paneOf(ctx, to, m.PaneOptions)
	if err != nil {
		return api.Sent{}, nil, err
	}
	sent, err := l.sendToPane(ctx, p, m)
	if m.DryRun && to.Way() == api.WayInbox { // the session is known under a name of its own from its first message on
		sent.Team, sent.Member = to.Name(), to.Member()
	}
	return sent, nil, err
}

func (l paneWay) audience(ctx context.Context, to *Target, m api.NewBroadcast, one func(string, func(string) (api.Sent, error))) error {
	list, err := pane.Audience(to.Panes, m.From, m.Except)
	if err != nil {
		return err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, panes.Sessions.Headless)
	if to.Way() == api.WaySession { // a broadcast to an ended session would wait for a day
		living, err := panes.Sessions.List(ctx)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(p pane.Pane) bool {
			return !slices.ContainsFunc(living, func(l pane.Pane) bool { return l.InboxKey == p.InboxKey })
		})
	}
	switch {
	case len(list) > 0:
	case to.Way() == api.WaySession:
		return api.Decide(api.CodeNotFound, "sessions that other programs run are left out; write to one by name: teambridge send NAME TEXT", "there is no session to send to")
	default:
		return api.Decide(api.CodeNotFound, "register one with: teambridge pane add NAME --pane TARGET", "there is no pane to send to")
	}
	for _, p := range list {
		one(p.Inbox, func(id string) (api.Sent, error) {
			sent, err := l.sendToPane(ctx, p, message{api.NewMessage{Text: m.Text, Summary: m.Summary, From: m.From, PaneOptions: m.PaneOptions}, id})
			if err != nil {
				sent.State = api.NotSent
			}
			return sent, err
		})
	}
	return nil
}

func (l paneWay) members(ctx context.Context, to *Target) ([]api.Member, error) {
	views, err := l.Look(ctx, to.Panes)
	return view.PaneMembers(views), err
}

func (l paneWay) detail(ctx context.Context, to *Target, lg *ledger.Ledger) (api.TeamDetail, error) {
	ours, err := mail.OursIn(ctx, lg, to.Panes[0].Root, teams.Instance{Team: to.Panes[0].Team, CreatedAt: to.Panes[0].CreatedAt})
	return api.TeamDetail{Team: view.PaneTeam(to.Panes), Ours: ours, From: mail.User}, err
}

func (l paneWay) status(ctx context.Context, to *Target) ([]api.Status, error) {
	views, err := l.Look(ctx, to.Panes)
	list := make([]api.Status, 0, len(views))
	for _, v := range views {
		list = append(list, view.PaneStatus(v))
	}
	return list, err
}

// rows returns the messages that wait for panes.
func (l paneWay) rows(ctx context.Context, to *Target, q *api.Reading, _ *api.Rows) (past, now map[string][]inbox.Row, err error) {
	switch {
	case q.Own:
		return nil, nil, api.Decide(api.CodeInvalid, "to give one up: teambridge relay drop", "panes have no inboxes of the person")
	case q.History:
		return nil, nil, noHistory(to, "panes")
	}
	views, err := l.Look(ctx, to.Panes)
	rows := map[string][]inbox.Row{}
	for _, v := range views {
		for _, m := range v.Waiting() {
			rows[v.Pane.Inbox] = append(rows[v.Pane.Inbox], inbox.Row{
				From: m.From, Text: string(m.Raw), Timestamp: m.At.UTC().Format(inbox.TimestampLayout), Summary: m.Summary, MessageID: m.ID,
			})
		}
	}
	return nil, rows, err
}

// noHistory is the error for reading earlier messages where no inbox has any.
func noHistory(to *Target, where string) error {
	return &api.Decided{Code: api.CodeInvalid, Option: "history", Hint: "omit it, and see: teambridge history --team " + to.Name(), Err: fmt.Errorf("history is not for %s", where)}
}

func (l paneWay) markRead(context.Context, *Target, api.MarkRead) (done api.Marked, err error) {
	return done, api.Decide(api.CodeInvalid, "it is for teams of Claude Code", "panes have no inboxes")
}

// paneOf returns the pane or session for a message to a target: its only pane, or the member's pane from
// config.json, or the session of the member's process.
func (l paneWay) paneOf(ctx context.Context, to *Target, opts api.PaneOptions) (pane.Pane, error) {
	if to.Way() != api.WayInbox {
		if len(to.Panes) != 1 {
			return pane.Pane{}, api.Decide(api.CodeUsage, "", "a message goes to one pane or session, not to %d", len(to.Panes))
		}
		return to.Panes[0], nil
	}
	p, err := l.OpenPanes(ctx)
	if err != nil {
		return pane.Pane{}, err
	}
	if opts.Via == api.ViaSession {
		return p.Sessions.Of(ctx, to.Team, to.Member())
	}
	return p.Registry.OfMember(ctx, to.Team, to.Member(), cmp.Or(opts.Tmux, l.Opts.Tmux))
}

// closed returns an error if a pane or session can take no message, and this will not change by itself: it is
// gone, or no agent runs in it. The text at its prompt does not matter.
func (l paneWay) closed(ctx context.Context, p pane.Pane) error {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return err
	}
	if err := panes.Views.Outdated(ctx, p); err != nil {
		return err
	}
	held, why, err := panes.Views.Closed(ctx, p)
	if err == nil && held.Lasting() {
		err = notTyped(p.Name(), p.Team, held, why, "")
	}
	return err
}

// notTyped is the error for a message that was not typed, according to the reason for holding it.
func notTyped(name, team string, held tmux.Reason, why, hint string) error {
	switch {
	case held == tmux.Outdated:
		return api.Decide(api.CodeRefused, hint, "%s@%s: %s", name, team, why)
	case held.Lasting() && team == pane.SessionTeam:
		return api.Decide(api.CodeGone, "see what lives with: teambridge sessions; with a service (teambridge serve), messages wait until it is resumed", "%s@%s: %s", name, team, why)
	case held == tmux.Gone, held == tmux.Dead:
		return api.Decide(api.CodeGone, "give it another pane with: teambridge pane add "+shell.Quote(name)+" --pane TARGET --replace", "%s@%s: %s", name, team, why)
	case held.Lasting():
		return api.Decide(api.CodeRefused, "start the agent there, and send again", "%s@%s: %s", name, team, why)
	}
	return api.Decide(api.CodeTimeout, hint, "the message to %s@%s was not sent: %s", name, team, why)
}

// sendToPane puts a message into the queue of a pane. A service types it later. In a command, [Local.Await] does.
func (l paneWay) sendToPane(ctx context.Context, to pane.Pane, m message) (api.Sent, error) {
	start := time.Now()
	failed := api.Sent{Team: to.Team, Member: to.Inbox, ID: m.id, State: api.Failed}
	if !Person(ctx) && !(Agent(ctx) && to.IsSession()) {
		return failed, api.Decide(api.CodeForbidden, "text typed there counts as the person's own words", "only a person can send to a pane")
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return failed, err
	}
	typed := pane.Message{
		ID: m.id, Text: m.Text, Summary: m.Summary, Policy: tmux.Policy(cmp.Or(m.Policy, api.PolicyQueued)), SaveDraft: m.SaveDraft, Notify: m.NotifyOnStop,
	}
	switch {
	case m.Via == api.ViaQueue && m.Policy != "":
		return failed, api.Decide(api.CodeInvalid, seeDocument, "policy is not for Codex's queue, which keeps its order")
	case m.Via == api.ViaQueue:
		typed.Policy = pane.ByQueue
	case typed.Policy == pane.ByQueue:
		return failed, api.Decide(api.CodeInvalid, seeDocument, "there is no policy %q", m.Policy)
	}
	if typed.From, typed.NotifyTo, err = panes.Registry.Sender(ctx, to, m.From); err != nil {
		return failed, err
	}
	if err := pane.Check(to, typed); err != nil {
		return failed, api.Decide(api.CodeInvalid, "nothing was sent", "%s", strings.TrimPrefix(err.Error(), "tmux: "))
	}
	if m.DryRun {
		if err := panes.Views.Outdated(ctx, to); err != nil {
			return failed, err
		}
		held, why, err := panes.Queue.Held(ctx, to, typed.Policy)
		failed.State, failed.Reachable, failed.Reason = api.DryRun, held == "", why
		failed.WaitedMs = time.Since(start).Milliseconds()
		return failed, err
	}
	if typed.Policy != pane.ByQueue && (l.carrying.alone || m.RequireAgent && !to.IsSession()) { // an ended session may be resumed
		if err := l.closed(ctx, to); err != nil {
			return api.Sent{}, err
		}
	}
	recorded, again, err := panes.Queue.Put(ctx, to, typed)
	if err != nil {
		return failed, err
	}
	if l.carrying.alone {
		l.mu.Lock()
		l.typing[recorded.UUID] = true
		l.mu.Unlock()
	}
	return view.PaneSent(recorded, again), nil
}

// queued returns the session of Codex with a name, for a message to Codex's queue. Messages there count as the
// person's words.
func (l paneWay) queued(ctx context.Context, name string) (to Target, err error) {
	if !Person(ctx) {
		return to, api.Decide(api.CodeForbidden, "messages there count as the person's own words", "only a person can put a message into Codex's queue")
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return to, err
	}
	p, refused, err := panes.Sessions.FindForQueue(ctx, name)
	if refused != "" {
		err = api.Decide(api.CodeRefused, "nothing was sent", "%s@%s: %s", p.Inbox, p.Team, refused)
	}
	return Target{Members: []string{name}, Panes: []pane.Pane{p}}, err
}

// confirmed waits for the outcome of a message to a pane until wait ends. If this command has put it there, the
// command types it, and gives it up when wait ends. Otherwise a service does both.
func (l paneWay) confirmed(ctx, wait context.Context, s api.Sent) (api.Sent, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return s, err
	}
	l.mu.Lock()
	own := l.typing[s.Delivery]
	l.mu.Unlock()
	var record ledger.PaneMessage
	if !own {
		record, err = panes.Queue.Await(wait, s.Delivery)
	} else {
		record, err = panes.Queue.Deliver(wait, s.Delivery)
	}
	now := sentNow(record, s)
	if err != nil && (ctx.Err() != nil || wait.Err() == nil) {
		return now, err
	}
	return l.outcome(ctx, panes, record, now)
}

// outcome returns the result of a message to a pane, whose record is that of now, or why it has not arrived.
func (l paneWay) outcome(ctx context.Context, panes *pane.Panes, record ledger.PaneMessage, now api.Sent) (_ api.Sent, err error) {
	switch now.State {
	case api.Confirmed:
		return now, nil
	case api.Unconfirmed:
		look, known := "the pane", "it is not known whether %s@%s has taken the message: %s"
		switch {
		case record.Held == string(tmux.Altered):
			look, known = "what it has", "%s@%s has not taken the message as it was sent: %s"
		case record.Team == pane.SessionTeam:
			look = "the session, whose person may still allow it"
		}
		return now, api.Decide(api.CodeUnknown, "look at "+look+"; to send it again, which may make a second copy: teambridge relay retry "+now.Delivery, known, now.Member, now.Team, now.Reason)
	case api.Waiting:
		if now.Reason, err = panes.Queue.Waits(ctx, record); err != nil {
			return now, err
		}
		return now, api.Decide(api.CodeTimeout, "the service goes on for "+longest(panes.Queue.Expiry(record))+"; to give it up: teambridge relay drop "+now.Delivery,
			"the message to %s@%s still waits: %s", now.Member, now.Team, now.Reason)
	}
	hint := "it will not be sent later; with a service (teambridge serve), messages wait for " + longest(panes.Queue.Expiry(record))
	if record.Held == string(tmux.Refused) {
		hint = "to send it again: teambridge relay retry " + now.Delivery
	}
	return now, notTyped(now.Member, now.Team, tmux.Reason(record.Held), cmp.Or(now.Reason, "-"), hint)
}

// inPane reports whether a message goes to a pane or a session.
func (l paneWay) inPane(ctx context.Context, s api.Sent) bool {
	lg, err := l.Ledger(ctx)
	if s.Delivery == "" || err != nil || lg == nil {
		return false
	}
	_, found, err := lg.PaneMessages.Message(ctx, s.Delivery)
	return err == nil && found
}

// await waits until the message is confirmed and, for [api.Seen], until the model has received it.
func (l paneWay) await(ctx, wait context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	s, err := l.confirmed(ctx, wait, s)
	if err != nil || until != api.Seen {
		return s, err
	}
	return l.given(ctx, wait, s, timeout)
}

// given waits until the model has received a message that was confirmed.
func (l paneWay) given(ctx, wait context.Context, s api.Sent, timeout time.Duration) (api.Sent, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return s, err
	}
	m, err := panes.Tasks.AwaitGiven(wait, s.Delivery)
	switch {
	case err != nil && (ctx.Err() != nil || wait.Err() == nil):
		return s, err
	case m.Task == ledger.TaskGiven, m.Task == ledger.TaskEnded && m.Lost == "":
		s.State = api.Seen
		return s, nil
	case failedLater(m):
		return l.outcome(ctx, panes, m, sentNow(m, s))
	case m.Task == ledger.TaskEnded:
		return s, api.Decide(api.CodeUnknown, "the message stays sent", "%s has taken the message, but it is unknown whether its model has received it: %s", s.Member, m.Lost)
	}
	return s, api.Decide(api.CodeTimeout, "the message stays sent", "%s has taken the message, but its model has not received it within %s", s.Member, timeout)
}

// failedLater reports whether a message has failed after it was confirmed, because its session lost it.
func failedLater(m ledger.PaneMessage) bool { return m.State.Ended() && m.State != ledger.Done }

// sentNow returns the result of a message as it is now.
func sentNow(m ledger.PaneMessage, was api.Sent) api.Sent {
	now := view.PaneSent(m, was.Deduplicated)
	now.WaitedMs = was.WaitedMs
	return now
}

// longest formats a duration in words.
func longest(d time.Duration) string {
	if d >= time.Hour {
		return plain.Plural(int(d.Hours()), "hour")
	}
	return plain.Plural(int(d.Minutes()), "minute")
}

// ask types a question into a pane, and waits for the answer.
func (l paneWay) ask(ctx context.Context, to *Target, m message, _ string, timeout time.Duration) (a api.Answered, err error) {
	p, err := l.paneOf(ctx, to, m.PaneOptions)
	if err != nil {
		return a, err
	}
	if m.Via != api.ViaQueue {
		if err := l.closed(ctx, p); err != nil {
			return a, err
		}
	}
	return l.answer(ctx, p, timeout, func() (sent api.Sent, err error) {
		sent, _, err = l.send(ctx, to, m)
		return sent, err
	})
}

// answer sends a question to a pane, and waits for the answer.
func (l paneWay) answer(ctx context.Context, p pane.Pane, timeout time.Duration, send func() (api.Sent, error)) (a api.Answered, err error) {
	end := l.Attend(ctx, p.Team)
	defer func() { err = errors.Join(err, end()) }()
	until := time.Now().Add(timeout)
	if a.Sent, err = send(); err != nil {
		return a, err
	}
	p.Team, p.Inbox = a.Sent.Team, a.Sent.Member
	if a.Sent, err = l.waitFor(ctx, a.Sent, api.Confirmed, timeout); err != nil {
		return a, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return a, err
	}
	wait, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		wait, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	l.Opts.Debug("waiting for an answer to %s", a.Sent.ID)
	done, direct, err := panes.Tasks.AwaitAnswer(wait, a.Sent.Delivery)
	switch {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case wait.Err() != nil && done.Task != ledger.TaskEnded:
		return a, api.Decide(api.CodeTimeout, "the message stays sent; the answer will be in: teambridge history --with "+shell.Quote(p.Inbox),
			"timed out after %s: no answer from %s", timeout, p.Inbox)
	case err != nil:
		return a, err
	case failedLater(done) && !direct:
		a.Sent, err = l.outcome(ctx, panes, done, sentNow(done, a.Sent))
		return a, err
	case done.Lost != "" && !direct:
		return a, api.Decide(api.CodeNoAnswer, "the message stays sent", "%s has taken the message, but there is no answer: %s", p.Inbox, done.Lost)
	case len(done.Answer) == 0:
		return a, api.Decide(api.CodeNoAnswer, "the message stays sent; look at the pane", "%s has ended its turn with the message, and what it said is not known", p.Inbox)
	}
	row, err := inbox.ParseRow(done.Answer)
	if err != nil {
		return a, fmt.Errorf("read the answer of %s: %w", p.Inbox, err)
	}
	a.Reply = view.Message(p.Team, inbox.Entry{Row: row, Inbox: p.Inbox})
	a.Text, a.Via, a.Certain = row.Text, api.ViaMessage, true
	if a.Reply.Inbox = mail.User; !direct {
		a.Via, a.Reply.Kind, a.Reply.Inbox = api.ViaResult, journal.KindAnswer, p.Inbox
	}
	return a, nil
}

func (l paneWay) prepare(ctx context.Context, w *waiting) (err error) {
	if !l.carrying.alone && l.carrying.Fleet == nil {
		return api.Decide(api.CodeReadOnly, "it was started with --read-only", "the service is read-only, and does not follow what agents in panes do")
	}
	if len(w.to.Panes) == 1 {
		panes, err := l.OpenPanes(ctx)
		if err == nil {
			err = panes.Views.Outdated(ctx, w.to.Panes[0])
		}
		if err != nil {
			return err
		}
	}
	if w.forMessage() {
		w.rec, err = l.Record(ctx, w.team)
	}
	return err
}

// state waits until the agents in all panes are idle, or have ended.
func (l paneWay) state(ctx context.Context, w *waiting) ([]api.Status, error) {
	for {
		holds, err := l.are(ctx, w)
		if err != nil {
			return nil, err
		}
		if holds {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(idleFor / 5):
		}
	}
	return l.status(ctx, w.to)
}

// are reports whether the agents in all panes are idle, or have ended. One that has
// ended counts as idle among several.
func (l paneWay) are(ctx context.Context, w *waiting) (bool, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range w.to.Panes {
		err := l.closed(ctx, p)
		over := errors.Is(err, api.CodeGone) || errors.Is(err, api.CodeRefused)
		switch {
		case err != nil && !over:
			return false, err
		case w.For == api.ForTerminated && !over:
			return false, nil
		case w.For == api.ForIdle && over:
			return false, api.Decide(api.CodeNotFound, "see what is there with: teambridge pane test "+shell.Quote(p.Inbox),
				"%s will not become idle: %s", p.Inbox, strings.TrimPrefix(err.Error(), p.Name()+"@"+p.Team+": "))
		case over:
			continue
		}
		if busy, err := panes.Tasks.Busy(ctx, p); err != nil || busy != "" {
			return false, err
		}
	}
	return true, nil
}

// message waits until an agent in one of the panes has answered or, for any message, is sent one.
func (l paneWay) message(ctx context.Context, w *waiting) (*api.Record, error) {
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	for {
		// No other process may follow the tasks of the panes.
		for _, p := range w.to.Panes {
			if _, err := panes.Tasks.Busy(ctx, p); err != nil {
				return nil, err
			}
		}
		list, err := w.appeared(ctx, idleFor/5)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			wanted := m.Answer != "" || m.Inbox == mail.User || w.For == api.ForMessage && w.Member == ""
			if wanted && slices.ContainsFunc(w.to.Panes, func(p pane.Pane) bool { return p.Inbox == m.Inbox || p.Inbox == m.From }) {
				return new(view.Record(m, nil)), nil
			}
		}
	}
}
