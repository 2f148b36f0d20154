package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/links"
	"teambridge/status/local"
	"teambridge/status/view"
	"teambridge/teams"
)

// machineWay is the way to the members of a team on another machine, TEAM@MACHINE: a message goes into the
// outbox, and a service carries it to the machine.
type machineWay struct{ *Local }

// onMachine returns the target for members of a team on another machine, under the names that they have there as far as these are
// known.
func (l *Targets) onMachine(ctx context.Context, name string, members []string) (Target, error) {
	m, err := l.MachineOf(ctx, name)
	to := Target{Machine: &m, remote: name}
	offer, _ := to.offer()
	for _, member := range members {
		to.Members = append(to.Members, cmp.Or(links.There(offer, member), member))
	}
	return to, err
}

// offer returns the target's team from the last report of its machine; found is false if the report does not have it.
func (to *Target) offer() (t link.Team, found bool) {
	team, _, _ := local.Elsewhere(to.remote)
	return view.Offer(*to.Machine, team)
}

func (machineWay) suits(_ *Target, m *api.NewMessage) error {
	if inbox.ProtocolType(m.Text) != "" {
		return api.Decide(api.CodeRefused, "nothing was sent", "only texts go to other machines, and no object of Claude Code's own protocol")
	}
	const isNot = "is not for messages to other machines"
	return cmp.Or(
		refuse(isNot, "omit it: only texts go there", slices.Concat(forPrompts(m), forPanes(m), []option{{"via", m.Via != "", ""}, {"force", m.Force, ""}, {"protocol", m.Protocol, ""}})...),
		waitFor(m, isNot, "", stages...))
}

func (machineWay) describe(to *Target) api.Target {
	return api.Target{Queued: true, How: "the link with " + to.Machine.Name}
}

func (l machineWay) send(ctx context.Context, to *Target, m message) (api.Sent, *mail.Delivered, error) {
	sent, err := l.put(ctx, to, m, "message")
	return sent, nil, err
}

// put puts a message of a kind into the outbox.
func (l machineWay) put(ctx context.Context, to *Target, m message, kind string) (sent api.Sent, err error) {
	start := time.Now()
	sent = api.Sent{Team: to.remote, Member: to.Member(), ID: m.id, State: api.Failed}
	if to.Member() == "" {
		return sent, api.Decide(api.CodeUsage, "", "a message goes to one member")
	}
	m.From = cmp.Or(m.From, mail.User)
	if _, team := teams.Split(m.From); team == "" && Agent(ctx) {
		m.From += "@" + pane.SessionTeam // there, a sender without a team is a person
	}
	if err := (&inbox.Message{ID: m.id, Text: m.Text, Summary: m.Summary, From: m.From}).Check(); err != nil {
		return sent, err
	}
	team, machine, _ := local.Elsewhere(to.remote)
	offer, known := to.offer()
	name := cmp.Or(links.There(offer, to.Member()), to.Member())
	sent.Member = name
	if known && links.There(offer, to.Member()) == "" && team != pane.SessionTeam { // sessions also have ids, which an offer does not list
		return sent, links.NoMember(to.remote, to.Member())
	}
	root, err := l.Opts.Root()
	if err != nil {
		return sent, err
	}
	sent.Reason = view.Whereabouts(*to.Machine)
	sent.Reachable = sent.Reason == ""
	if m.DryRun {
		sent.State = api.DryRun
		return sent, nil
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return sent, err
	}
	key := inbox.InboxKey{Root: root.Path(), Team: to.remote, CreatedAt: ledger.MachineTeamCreated, Inbox: name}
	out := ledger.Outgoing{Machine: machine, There: name, At: team, Delivery: ledger.Delivery{
		UUID: uuid.NewString(), InboxKey: key, ID: m.id, From: m.From, Kind: kind, Summary: m.Summary,
		Raw: []byte(m.Text), Person: true, Isolated: true, At: time.Now(),
	}}
	if m.id == "" {
		out.ID = out.UUID
	} else {
		out.UUID = uuid.NewSHA1(links.IDs, fmt.Appendf(nil, "%q", []string{key.Root, key.Team, key.Inbox, m.id})).String()
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%q", []string{out.From, m.Text, m.Summary}))
	now, again, err := lg.Outbox.Add(ctx, out, digest)
	switch {
	case errors.Is(err, ledger.ErrOutboxFull):
		return sent, api.Decide(api.CodeConflict, "nothing was sent", "%v; %s", err, cmp.Or(view.Whereabouts(*to.Machine), machine+" is there"))
	case errors.Is(err, ledger.ErrNoMachine):
		return sent, links.NoMachine(machine)
	case err != nil:
		return sent, err
	}
	l.LinksChanged()
	shown := sentThere(now)
	shown.Deduplicated, shown.WaitedMs = again, time.Since(start).Milliseconds()
	if shown.Reason = cmp.Or(shown.Reason, sent.Reason); shown.Reason == "" && l.carrying.alone && !now.Stage.Final() {
		shown.Reason = noCarrier
	}
	shown.Reachable = shown.Reachable && sent.Reachable
	return shown, nil
}

const noCarrier = "no service is running to carry it; start one: teambridge serve"

// held describes why a message to another machine waits.
func (l machineWay) held(ctx context.Context, to *Target) string {
	why := view.Whereabouts(*to.Machine)
	switch links, err := l.Links(ctx); {
	case l.carrying.alone:
		why = cmp.Or(why, to.Machine.Name+" is there") + "; " + noCarrier
	case err == nil && links.State != api.LinkConnected:
		if why != "" {
			why += "; "
		}
		why += "the hub is not reached: " + links.Reason
	}
	return cmp.Or(why, to.Machine.Name+" is there")
}

// sentThere returns the result for a message to another machine.
func sentThere(o ledger.Outgoing) api.Sent {
	s := api.Sent{Team: o.Team, Member: o.Inbox, ID: o.ID, State: string(o.Stage), Recorded: true, Delivery: o.UUID}
	view.SetReach(&s, cmp.Or(teams.Deliverability(o.Reach), teams.Reachable))
	if o.State == ledger.Failed {
		s.Reason = o.Reason
	}
	return s
}

func (l machineWay) audience(ctx context.Context, to *Target, m api.NewBroadcast, one func(string, func(string) (api.Sent, error))) error {
	offer, known := to.offer()
	if !known {
		return api.Decide(api.CodeNotFound, "send to one by name: teambridge send MEMBER@"+to.remote, "the members of %s are not known: %s", to.remote, cmp.Or(view.Whereabouts(*to.Machine), to.Machine.Name+" does not share it"))
	}
	var except []string
	for _, name := range m.Except {
		member := links.There(offer, name)
		if member == "" {
			return links.NoMember(to.remote, name)
		}
		except = append(except, member)
	}
	members := slices.DeleteFunc(slices.Clone(offer.Members), func(o link.Member) bool {
		return o.Lead && !m.IncludeLead || slices.Contains(except, o.Member)
	})
	if len(members) == 0 {
		return nobodyToSendTo(to)
	}
	for _, member := range members {
		one(member.Member, func(id string) (api.Sent, error) {
			each := *to
			each.Members = []string{member.Member}
			s, _, err := l.send(ctx, &each, message{api.NewMessage{Text: m.Text, Summary: m.Summary, From: m.From}, id})
			return s, err
		})
	}
	return nil
}

func (l machineWay) members(_ context.Context, to *Target) ([]api.Member, error) {
	offer, _ := to.offer()
	return view.MachineMembers(*to.Machine, offer), nil
}

func (l machineWay) detail(_ context.Context, to *Target, _ *ledger.Ledger) (api.TeamDetail, error) {
	offer, _ := to.offer()
	return api.TeamDetail{Team: view.MachineTeam(*to.Machine, offer), Ours: []string{mail.User}, From: mail.User}, nil
}

func (l machineWay) status(_ context.Context, to *Target) ([]api.Status, error) {
	offer, _ := to.offer()
	list := view.MachineStatus(*to.Machine, offer, view.Whereabouts(*to.Machine))
	for _, name := range to.Members {
		if links.There(offer, name) == "" {
			return nil, links.NoMember(to.remote, name)
		}
	}
	return slices.DeleteFunc(list, func(s api.Status) bool {
		return len(to.Members) > 0 && !slices.ContainsFunc(to.Members, func(name string) bool { return links.There(offer, name) == s.Member })
	}), nil
}

// rows returns messages of members there to the person and, for other recipients, messages on their way.
func (l machineWay) rows(ctx context.Context, to *Target, q *api.Reading, _ *api.Rows) (past, now map[string][]inbox.Row, err error) {
	if q.History {
		return nil, nil, noHistory(to, "what is on another machine")
	}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return nil, nil, err
	}
	rows := map[string][]inbox.Row{}
	if len(to.Members) == 0 || slices.Contains(to.Members, mail.User) {
		panes, err := l.OpenPanes(ctx)
		if err == nil {
			rows[mail.User], err = panes.Incoming.Said(ctx, to.remote)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if q.Own {
		return nil, rows, nil
	}
	open, err := lg.Outbox.Open(ctx, to.Machine.Name, 0, 1000)
	if err != nil {
		return nil, nil, err
	}
	queued, err := lg.Outbox.Next(ctx, to.Machine.Name, 1000, 32<<20)
	for _, o := range append(open, queued...) {
		if o.Team == to.remote && (len(to.Members) == 0 || slices.Contains(to.Members, o.Inbox)) {
			rows[o.Inbox] = append(rows[o.Inbox], inbox.Row{
				From: o.From, Text: string(o.Raw), Timestamp: o.Since.UTC().Format(inbox.TimestampLayout), Summary: o.Summary, MessageID: o.ID,
			})
		}
	}
	return nil, rows, err
}

func (l machineWay) markRead(ctx context.Context, _ *Target, m api.MarkRead) (api.Marked, error) {
	return l.readSaid(ctx, m)
}

func (l machineWay) ask(ctx context.Context, to *Target, m message, _ string, timeout time.Duration) (a api.Answered, err error) {
	switch {
	case Agent(ctx): // an agent's session gets the answer as a message
		return a, api.Decide(api.CodeRefused, "send it without waiting for the answer, which comes as a message", "the answer of a member on another machine cannot be waited for")
	case l.carrying.alone:
		return a, api.Decide(api.CodeConflict, "start it with: teambridge serve", "only a service carries messages to other machines and back")
	}
	w := &waiting{Local: l.Local, Occasion: api.Occasion{For: api.ForReply, Member: to.Member()}, to: to, team: to.remote}
	root, err := l.Opts.Root()
	if err != nil {
		return a, err
	}
	w.root = root.Path()
	if w.rec, err = l.Record(ctx, to.remote); err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, w.rec.Close()) }()
	if a.Sent, err = l.put(ctx, to, m, link.Question); err != nil {
		return a, err
	}
	w.Member = a.Sent.Member
	wait, cancel := Within(ctx, timeout, "no answer from "+w.Member)
	defer cancel()
	for {
		now, err := l.outgoing(ctx, a.Sent)
		if err != nil {
			return a, err
		}
		if a.Sent = sentThere(now); now.State == ledger.Failed {
			return a, l.notThere(now)
		}
		list, err := w.appeared(wait, history.Recheck)
		switch {
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case wait.Err() != nil:
			return a, api.Decide(api.CodeTimeout, "the message stays sent; the answer will be in: teambridge inbox --team "+to.remote, "timed out after %s: no answer from %s; the message is %s", timeout, a.Sent.Member, a.Sent.State)
		case err != nil:
			return a, err
		}
		for _, r := range list {
			if r.Inbox == mail.User && r.From == w.Member {
				a.Reply = view.Recorded(r)
				a.Text, a.Via = r.Text, api.ViaMessage
				return a, nil
			}
		}
	}
}

func (l machineWay) prepare(ctx context.Context, w *waiting) (err error) {
	w.Member = w.to.Member()
	if w.forMessage() {
		w.rec, err = l.Record(ctx, w.team)
	}
	return err
}

func (l machineWay) message(ctx context.Context, w *waiting) (*api.Record, error) {
	for {
		list, err := w.appeared(ctx, history.Recheck)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if (w.Member == "" || m.From == w.Member) && (m.Inbox == mail.User || w.For == api.ForMessage && m.Kind() != journal.KindAnswer) {
				return new(view.Record(m, nil)), nil
			}
		}
	}
}

func (l machineWay) state(ctx context.Context, w *waiting) ([]api.Status, error) {
	for {
		to, err := l.onMachine(ctx, w.to.remote, w.to.Members)
		if err != nil {
			return nil, err
		}
		all, err := l.status(ctx, &to)
		if err != nil {
			return nil, err
		}
		offer, _ := to.offer()
		lead := links.There(offer, "lead")
		found := slices.DeleteFunc(slices.Clone(all), func(s api.Status) bool {
			return w.Member != "" && s.Member != w.Member || w.For == api.ForAllIdle && s.Member == lead
		})
		reached := len(found) > 0 && !slices.ContainsFunc(found, func(s api.Status) bool {
			return s.Word != api.WordEnded && (w.For == api.ForTerminated || s.Word != api.WordIdle)
		})
		if reached {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(idleFor / 5):
		}
	}
}

// outgoing returns the record of a message to another machine.
func (l machineWay) outgoing(ctx context.Context, s api.Sent) (o ledger.Outgoing, err error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return o, err
	}
	o, found, err := lg.Outbox.Outgoing(ctx, s.Delivery)
	if err == nil && !found {
		err = api.Decide(api.CodeNotFound, "", "the message %q to %s@%s is not known", s.ID, s.Member, s.Team)
	}
	return o, err
}

// toMachine reports whether a message goes to another machine.
func toMachine(s api.Sent) bool {
	_, _, ok := local.Elsewhere(s.Team)
	return ok && s.Delivery != ""
}

// stages are the states of a message to another machine, in order.
var stages = []string{api.Queued, api.Stored, api.Received, api.Verified, api.Consumed, api.Seen}

func (l machineWay) await(_, ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	want := slices.Index(stages, until)
	if want < 0 {
		return s, api.Decide(api.CodeUsage, "", "a message to another machine cannot be waited for until it is %q", until)
	}
	deduplicated, waited := s.Deduplicated, s.WaitedMs
	news, done := l.carrying.News()
	defer done()
	for {
		o, err := l.outgoing(context.WithoutCancel(ctx), s)
		if err != nil {
			return s, err
		}
		s = sentThere(o)
		s.Deduplicated, s.WaitedMs = deduplicated, waited
		switch {
		case slices.Index(stages, s.State) >= want:
			return s, nil
		case o.Stage.Final():
			return s, l.notThere(o)
		}
		select {
		case <-news:
		case <-time.After(history.Recheck / 10):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return s, context.Cause(ctx)
			}
			to, err := l.onMachine(context.WithoutCancel(ctx), s.Team, nil)
			if err != nil {
				return s, err
			}
			s.Reason = l.held(context.WithoutCancel(ctx), &to)
			return s, api.Decide(api.CodeTimeout, "it stays sent; to give it up while it is queued: teambridge relay drop "+o.UUID,
				"timed out after %s: the message to %s@%s is %s; %s", timeout, s.Member, s.Team, s.State, s.Reason)
		}
	}
}

// notThere returns the error for a message that did not arrive, or possibly did not.
func (l machineWay) notThere(o ledger.Outgoing) error {
	again := "to send it again: teambridge relay retry " + o.UUID
	_, why := ledger.SplitReason(o.Reason)
	switch o.Stage {
	case ledger.StageRefused:
		return api.Decide(api.CodeRefused, again, "%s does not take the message: %s", o.Machine, why)
	case ledger.StageLost:
		return api.Decide(api.CodeLost, again, "the message was lost on %s: %s", o.Machine, why)
	case ledger.StageUnknown:
		return api.Decide(api.CodeUnknown, again+", which may make a second copy", "it is unknown whether %s@%s has the message: %s", o.Inbox, o.Team, why)
	}
	return api.Decide(api.CodeGone, again, "the message to %s@%s was not sent: %s", o.Inbox, o.Team, cmp.Or(o.Reason, string(o.State)))
}
