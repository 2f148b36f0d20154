package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Agents can write only to names in config.json, so each member on another machine that one of a
// team wrote to, or got something from, has an entry there: its stand-in. What agents write to it
// is taken out of its inbox and put into the outbox.

// standInUnused is how long a stand-in stays that nobody uses.
const standInUnused = 30 * 24 * time.Hour

// standInFor returns the name of the stand-in of a member on a machine, MEMBER@TEAM, in a team that
// has agents, and makes it if there is none.
func (l *Local) standInFor(ctx context.Context, t *teams.Team, machine, address, as string) (string, error) {
	lg, err := l.opts.Ledger(ctx)
	if err != nil {
		return "", err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	all, err := lg.StandIns(ctx, t.Root().Path())
	if err != nil {
		return "", err
	}
	member, _, _ := strings.Cut(address, "@")
	s := ledger.StandIn{InboxKey: ledger.KeyOf(t, c, cmp.Or(as, member+"-"+machine)), Machine: machine, There: address}
	for _, old := range all {
		if old.InboxKey == s.InboxKey && (old.Machine != machine || old.There != address) {
			return "", api.Decide(api.CodeConflict, "", "%s stands for %s on %s already", old.Inbox, old.There, old.Machine)
		}
		if old.Team == s.Team && old.CreatedAt == s.CreatedAt && old.Machine == machine && old.There == address {
			if as != "" && as != old.Inbox {
				return "", api.Decide(api.CodeConflict, "write to "+old.Inbox, "%s stands for %s on %s already", old.Inbox, address, machine)
			}
			if _, there := c.Member(old.Inbox); there && time.Since(old.Used) < time.Hour {
				return old.Inbox, nil
			}
			s = old
		}
	}
	if _, taken := c.Member(s.Inbox); taken && s.AgentID == "" {
		return "", api.Decide(api.CodeConflict, "", "%s has a member called %s, which does not stand for %s on %s", t.Name(), s.Inbox, address, machine)
	}
	release, err := mail.Alone(ctx, l.opts.State)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	lead, _ := c.Lead()
	m, err := t.Join(ctx, l.opts.Locker, s.Inbox, lead.Cwd)
	if err != nil {
		return "", err
	}
	s.AgentID, s.JoinedAt = m.AgentID, m.JoinedAt
	if err = lg.SetStandIn(ctx, s); err != nil && m.Added { // nobody would know it again
		_, lerr := t.Leave(ctx, l.opts.Locker, m)
		err = errors.Join(err, lerr)
	}
	return s.Inbox, err
}

// joinFor makes a stand-in of a member on another machine.
func (l *Local) joinFor(ctx context.Context, t *teams.Team, n api.NewJoin) (joined api.Membership, err error) {
	rest, machine := teams.Split(n.Remote)
	member, team := teams.Split(rest)
	if member == "" || team == "" || machine == "" {
		return joined, api.Decide(api.CodeUsage, "such as worker@ci@build", "%q is not MEMBER@TEAM@MACHINE", n.Remote)
	}
	to, err := l.onMachine(ctx, team+"@"+machine, []string{member})
	if err != nil {
		return joined, err
	}
	offer, known := to.offer()
	if known && there(offer, member) == "" {
		return joined, api.Decide(api.CodeNotFound, "list them with: teambridge members --team "+to.remote, "%s has no member %q", to.remote, member)
	}
	joined = api.Membership{Team: t.Name()}
	joined.Member, err = l.standInFor(ctx, t, machine, cmp.Or(there(offer, member), member)+"@"+offer.Team, n.As)
	l.linksChanged()
	return joined, err
}

// removeStandIns removes the stand-ins of members on a machine.
func (l *Local) removeStandIns(ctx context.Context, lg *ledger.Ledger, machine string) error {
	root, err := l.opts.Root()
	if err != nil {
		return err
	}
	all, err := lg.StandIns(ctx, root.Path())
	for _, s := range all {
		if s.Machine == machine {
			err = errors.Join(err, l.removeStandIn(ctx, lg, root, s))
		}
	}
	return err
}

func (l *Local) removeStandIn(ctx context.Context, lg *ledger.Ledger, root *teams.Root, s ledger.StandIn) error {
	t, err := root.Team(s.Team)
	if err == nil {
		defer t.Close() // it is written by path
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil && c.Instance().CreatedAt == s.CreatedAt {
			_, err = t.Leave(ctx, l.opts.Locker, teams.Membership{Name: s.Inbox, AgentID: s.AgentID, JoinedAt: s.JoinedAt})
		}
	}
	if err != nil && !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, teams.ErrNotOurs) && !errors.As(err, new(*teams.NotFoundError)) {
		return err
	}
	return lg.RemoveStandIn(ctx, s.InboxKey)
}

// deliver puts a message of another machine where it belongs, once under its id.
func (r *links) deliver(ctx context.Context, m link.Message) (ledger.Incoming, error) {
	out := m.Incoming
	to, reach, err := r.put(ctx, m)
	switch {
	case err == nil:
		out.Stage, out.Reach, out.Root, out.Recipient, out.Delivery = ledger.StageVerified, reach, r.opts.Root.Path(), to.Member, to.Delivery
		return out, nil
	case refusal(err):
		out.Stage, out.Reason = ledger.StageRefused, view.Describe(err)
		return out, nil
	case errors.Is(err, inbox.ErrUnknown):
		out.Stage, out.Reason = ledger.StageUnknown, view.Describe(err)
		return out, nil
	}
	return out, err
}

// refusal reports whether an error stays as it is, however often one tries.
func refusal(err error) bool {
	switch view.Explain(err).Code {
	case api.CodeNotFound, api.CodeGone, api.CodeInvalid, api.CodeRefused, api.CodeForbidden, api.CodeConflict, api.CodeUsage, api.CodeAmbiguousTeam:
		return true
	}
	return false
}

// idHere is the id under which a message of another machine is sent here, so that it is sent once.
func idHere(in ledger.Incoming) string {
	return uuid.NewSHA1(linked, fmt.Appendf(nil, "%q", []string{in.Machine, in.Team, in.Member, in.ID})).String()
}

var errNoTeam = api.Decide(api.CodeNotFound, "", "there is no such team")

// put puts a message of another machine where it belongs.
func (r *links) put(ctx context.Context, m link.Message) (sent api.Sent, reach string, err error) {
	if inbox.ProtocolType(m.Text) != "" {
		return sent, "", api.Decide(api.CodeRefused, "", "only texts come from other machines, and no object of Claude Code's own protocol")
	}
	id := idHere(m.Incoming)
	if r.forPerson(m) {
		from, team := teams.Split(m.From)
		_, err = r.ledger.AddSaid(ctx, ledger.InboxKey{Root: r.opts.Root.Path(), Team: team + "@" + m.Machine, CreatedAt: ledger.MachineTeamCreated, Inbox: mail.User}, from, id, m.Text, m.Summary)
		r.replicator.Poke()
		if errors.Is(err, ledger.ErrUnread) {
			err = api.Decide(api.CodeRefused, "", "the person has not read what came before: %v", err)
		}
		return api.Sent{Member: mail.User}, "", err
	}
	if err := teams.CheckName("team", m.Team); err != nil {
		return sent, "", errNoTeam
	}
	if err := r.mayWrite(ctx, m.Machine, m.Team); err != nil {
		return sent, "", err
	}
	ctx = WithAgent(ctx)
	to, err := r.In(ctx, m.Team, m.Member)
	if err != nil {
		return sent, "", err
	}
	defer func() { _ = to.Close() }() // nothing was written through it
	w, err := r.by(&to, "")
	if err != nil {
		return sent, "", err
	}
	from, err := r.sentBy(ctx, &to, m)
	if err != nil {
		return sent, "", err
	}
	sent, _, err = w.send(ctx, &to, message{api.NewMessage{Text: m.Text, Summary: m.Summary, From: from}, id})
	return sent, sent.Reach, err
}

// sentBy returns the name that a message of another machine has here: that of a stand-in in a team
// with inboxes, and else the address of the sender.
func (r *links) sentBy(ctx context.Context, to *Target, m link.Message) (string, error) {
	if to.Team == nil {
		self, _, err := r.ledger.Link(ctx)
		if strings.HasSuffix(m.From, "@"+self.Name) { // a person, who wrote to a team here
			return mail.User + "@" + pane.SessionTeam + "@" + m.Machine, err
		}
		return m.From + "@" + m.Machine, err
	}
	all, err := r.ledger.StandIns(ctx, r.opts.Root.Path())
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(all, func(s ledger.StandIn) bool { return s.Team == to.Name() && s.Inbox == to.Member() }) {
		return "", api.Decide(api.CodeRefused, "", "%s is a member on a third machine, and messages go over one link only", to.Member())
	}
	return r.standInFor(ctx, to.Team, m.Machine, m.From, "")
}

// answerWithin is how long the answer to a question of another machine is waited for.
const answerWithin = 24 * time.Hour

// answer waits for the answers to questions of other machines, until ctx ends. What an agent writes
// to the one who asked goes there anyway; what it says at the end of its turn is sent here, once.
func (r *links) answer(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	waiting := map[int64]bool{}
	signal(r.asked)
	return loop(ctx, nil, r.asked, 10*time.Second, func() {
		list, err := r.ledger.Asking(ctx, time.Now().Add(-answerWithin))
		if err != nil && ctx.Err() == nil {
			r.log.Warn("questions of other machines are not known", "err", view.Describe(err))
		}
		for _, in := range list {
			if waiting[in.N] || len(waiting) > maxAsked {
				continue
			}
			waiting[in.N] = true
			all.Go(func() {
				if err := r.answerOne(ctx, in); err != nil && ctx.Err() == nil {
					r.log.Warn("the answer to a question is not sent", "machine", in.Machine, "err", view.Describe(err))
				}
			})
		}
	})
}

// maxAsked is how many questions of other machines are waited for in one run of the service.
const maxAsked = 1000

func (r *links) answerOne(ctx context.Context, in ledger.Incoming) error {
	m, err := link.MessageOf(in)
	if err != nil {
		return err
	}
	asking := WithAgent(ctx)
	to, err := r.In(asking, m.Team, m.Member)
	if err != nil {
		return err
	}
	from, err := r.sentBy(asking, &to, m)
	_ = to.Close() // nothing was written through it
	if err != nil {
		return err
	}
	a, err := r.Ask(asking, m.Team, m.Member, idHere(in), api.NewQuestion{NewMessage: api.NewMessage{Text: m.Text, Summary: m.Summary, From: from}})
	if ctx.Err() != nil {
		return nil // the next service asks again, under the same id
	}
	if err != nil || a.Via != api.ViaResult {
		return errors.Join(err, r.ledger.GotAnswer(ctx, in))
	}
	member, team, err := r.recipient(ctx, m.From)
	if err != nil {
		return err
	}
	out := ledger.Outgoing{Machine: m.Machine, There: member, At: team, Delivery: ledger.Delivery{
		UUID: uuid.NewSHA1(linked, []byte("answer to "+idHere(in))).String(), From: a.Reply.Inbox + "@" + m.Team, Kind: journal.KindAnswer, Raw: []byte(a.Text), Person: true, Isolated: true, At: time.Now(),
		InboxKey: ledger.InboxKey{Root: r.opts.Root.Path(), Team: team + "@" + m.Machine, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
	}}
	out.ID = out.UUID
	if _, _, err := r.ledger.AddOutgoing(ctx, out, sha256.Sum256(out.Raw)); err != nil {
		return err
	}
	r.poke()
	return r.ledger.GotAnswer(ctx, in)
}

// forPerson reports whether a message is for the person: an answer to what the person sent to a team
// of that machine, TEAM@MACHINE, or what is sent to the person among the sessions. Its sender is
// NAME@TEAM.
func (r *links) forPerson(m link.Message) bool {
	_, machine, ok := elsewhere(m.Team)
	if name, team := teams.Split(m.From); name == "" || teams.CheckName("team", team) != nil {
		return false
	}
	return ok && machine == m.Machine || m.Team == pane.SessionTeam && m.Member == mail.User
}

// mayWrite returns an error unless a machine may write to a team: it is shared with it, or a member
// there has a stand-in in it.
func (r *links) mayWrite(ctx context.Context, machine, team string) error {
	m, err := r.machine(ctx, machine)
	if err != nil || slices.Contains(m.Teams, team) {
		return err
	}
	all, err := r.ledger.StandIns(ctx, r.opts.Root.Path())
	if err != nil || slices.ContainsFunc(all, func(s ledger.StandIn) bool { return s.Machine == machine && s.Team == team }) {
		return err
	}
	return errNoTeam
}

// lookAt returns how far a message of another machine has come.
func (r *links) lookAt(ctx context.Context, in ledger.Incoming) (ledger.Incoming, error) {
	if in.Delivery != "" {
		if m, found, err := r.ledger.PaneMessage(ctx, in.Delivery); err != nil || found {
			return paneStage(in, m), err
		}
		d, err := r.ledger.Deliveries(ctx, ledger.DeliveryQuery{UUID: in.Delivery})
		if err != nil || len(d) == 0 {
			return in, err
		}
	}
	if in.Recipient == mail.User && strings.Contains(in.Team, "@") {
		return in, nil // the person reads it some time
	}
	id := idHere(in)
	for receipt, err := range r.reader.Receipts(ctx, journal.Query{Root: in.Root, Team: in.Team, Inbox: in.Recipient, ID: id, Newest: true, Limit: 1}) {
		if err != nil {
			return in, err
		}
		switch {
		case !receipt.SeenAt.IsZero():
			in.Stage = ledger.StageSeen
		case receipt.State == journal.Consumed:
			in.Stage = ledger.StageConsumed
		case receipt.State == journal.Lost:
			in.Stage, in.Reason = ledger.StageLost, receipt.Reason
		case receipt.State == journal.Unknown:
			in.Stage, in.Reason = ledger.StageUnknown, receipt.Reason
		}
	}
	return in, nil
}

func paneStage(in ledger.Incoming, m ledger.PaneMessage) ledger.Incoming {
	switch state, reason := view.PaneMessage(m); {
	case m.UUID == "":
	case m.Task == ledger.TaskGiven, m.Task == ledger.TaskEnded && m.Lost == "":
		in.Stage = ledger.StageSeen
	case state == api.Confirmed:
		in.Stage = ledger.StageConsumed
	case state == api.Unconfirmed:
		in.Stage, in.Reason = ledger.StageUnknown, reason
	case state == api.NotSent:
		in.Stage, in.Reason = ledger.StageRefused, reason
	}
	return in
}

// offers returns the teams that a machine may write to, with what their members do.
func (r *links) offers(ctx context.Context, machine string) (list []link.Team, err error) {
	m, err := r.machine(ctx, machine)
	if err != nil {
		return nil, err
	}
	all, err := r.ledger.StandIns(ctx, r.opts.Root.Path())
	if err != nil {
		return nil, err
	}
	for _, name := range m.Teams {
		t := link.Team{Team: name}
		members, err := r.Members(ctx, name)
		if err != nil {
			continue // it has ended, or does not run yet
		}
		states, err := r.Status(ctx, name)
		if err != nil {
			r.log.Debug("what the members do is not known", "team", name, "err", view.Describe(err))
		}
		for _, m := range members {
			standsIn := slices.ContainsFunc(all, func(s ledger.StandIn) bool { return s.Team == name && s.Inbox == m.Member })
			if standsIn || m.Role != api.RoleAgent && m.Role != api.RoleLead || len(t.Members) == maxOffered {
				continue
			}
			one := link.Member{Member: m.Member, Lead: m.Role == api.RoleLead}
			if i := slices.IndexFunc(states, func(s api.Status) bool { return s.Member == m.Member }); i >= 0 {
				one.Word, one.Why, one.Since = states[i].Word, states[i].Why, states[i].WordSince
			}
			t.Members = append(t.Members, one)
		}
		list = append(list, t)
	}
	return list, nil
}

// maxOffered is how many members of a team are told to other machines.
const maxOffered = 200

// claimStandIns puts what agents write to stand-ins into the outbox, until ctx ends.
func (r *links) claimStandIns(ctx context.Context) error {
	seen := map[ledger.InboxKey]os.FileInfo{}
	warned := ""
	signal(r.looked)
	return loop(ctx, nil, r.looked, 2*time.Second, func() {
		all, err := r.ledger.StandIns(ctx, r.opts.Root.Path())
		for _, s := range all {
			if time.Since(s.Used) > standInUnused {
				err = errors.Join(err, r.removeStandIn(ctx, r.ledger, r.opts.Root, s))
				continue
			}
			err = errors.Join(err, r.claimStandIn(ctx, s, seen))
		}
		if err == nil {
			warned = ""
		} else if text := view.Describe(err); text != warned && ctx.Err() == nil {
			warned = text
			r.log.Warn("what agents wrote to members on other machines waits", "err", text)
		}
	})
}

// claimStandIn puts what waits in the inbox of a stand-in into the outbox. Each row is claimed in
// the commit that puts it there, before it is marked as read, so a crash in between loses nothing
// and repeats nothing: the row is then found among those that are claimed and not marked.
func (r *links) claimStandIn(ctx context.Context, s ledger.StandIn, seen map[ledger.InboxKey]os.FileInfo) error {
	t, err := r.opts.Root.Team(s.Team)
	if errors.As(err, new(*teams.NotFoundError)) || errors.Is(err, teams.ErrTeamGone) {
		return r.ledger.RemoveStandIn(ctx, s.InboxKey)
	}
	if err != nil {
		return err
	}
	defer t.Close() // it is written by path
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	if c.Instance().CreatedAt != s.CreatedAt {
		return r.ledger.RemoveStandIn(ctx, s.InboxKey)
	}
	box, err := inbox.Open(t, s.Inbox, r.locker)
	if err != nil {
		return err
	}
	info, _ := os.Stat(box.Path()) // nil if there is none
	if old, ok := seen[s.InboxKey]; ok && lockedfile.SameFile(old, info) || info == nil {
		return nil
	}
	rows, err := box.Read(ctx)
	if err != nil {
		return err
	}
	unmarked, err := r.ledger.Unmarked(ctx, s.InboxKey)
	if err != nil {
		return err
	}
	pending := map[string][]string{} // by key
	for _, d := range unmarked {
		pending[d.Key] = append(pending[d.Key], d.UUID)
	}
	marks := map[string][]string{} // by key, in order
	counts := map[string]int{}
	var fresh []ledger.Outgoing
	member, team, err := r.recipient(ctx, s.There)
	if err != nil {
		return err
	}
	var marked []string
	for _, row := range rows { // those that were marked by a process that could not say so any more
		if i := slices.Index(pending[row.Key()], claimedBy(row)); i >= 0 {
			marked, pending[row.Key()] = append(marked, pending[row.Key()][i]), slices.Delete(pending[row.Key()], i, i+1)
		}
	}
	for _, row := range rows {
		key := row.Key()
		switch {
		case row.Read:
			continue
		case len(pending[key]) > 0:
			marks[key], pending[key] = append(marks[key], pending[key][0]), pending[key][1:]
			continue
		}
		if counts[key] == 0 {
			if counts[key], err = r.ledger.Occurrences(ctx, s.InboxKey, key); err != nil {
				return err
			}
		}
		counts[key]++
		d := ledger.Delivery{
			UUID:     uuid.NewSHA1(linked, fmt.Appendf(nil, "%q %d", []string{s.Root, s.Team, fmt.Sprint(s.CreatedAt), s.Inbox, key}, counts[key])).String(),
			InboxKey: s.InboxKey, Key: key, Occurrence: counts[key], ID: row.ID(), From: row.From + "@" + s.Team, Kind: row.Kind(), Raw: slices.Clone(row.Raw), At: time.Now(),
		}
		marks[key] = append(marks[key], d.UUID)
		if row.Kind() == "message" && inbox.ProtocolType(row.Text) == "" {
			fresh = append(fresh, ledger.Outgoing{Delivery: d, Machine: s.Machine, There: member, At: team})
		}
	}
	if len(fresh) > 0 {
		if err := r.ledger.ClaimOutgoing(ctx, fresh...); err != nil {
			return err
		}
	}
	if err := r.at("claimed"); err != nil {
		return err
	}
	if len(marks) > 0 {
		before := len(marked)
		err = box.Edit(ctx, func(d *inbox.Draft) error {
			marked = marked[:before]
			left := map[string][]string{}
			for key, ids := range marks {
				left[key] = slices.Clone(ids)
			}
			for i, row := range d.All() {
				if ids := left[row.Key()]; !row.Read && len(ids) > 0 {
					left[row.Key()] = ids[1:]
					if err := errors.Join(d.Set(i, "read", true), d.Set(i, "relayedBy", ids[0])); err != nil {
						return err
					}
					marked = append(marked, ids[0])
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := r.at("marked"); err != nil {
		return err
	}
	for _, ids := range pending { // whose rows are gone, or were read by somebody else
		marked = append(marked, ids...)
	}
	for _, id := range marked {
		if err := r.ledger.Mark(ctx, id); err != nil && !errors.Is(err, ledger.ErrUnknown) {
			return err
		}
	}
	if len(marked) > 0 {
		r.poke()
	}
	seen[s.InboxKey] = info
	return nil
}

// at is where a test ends it.
func (r *links) at(step string) error {
	if r.fault == nil {
		return nil
	}
	return r.fault(step)
}

// recipient takes the address apart that a message came from, or that a stand-in stands for. That of
// a person is NAME@TEAM@MACHINE, with the team here that the person wrote to.
func (r *links) recipient(ctx context.Context, address string) (member, team string, err error) {
	self, _, err := r.ledger.Link(ctx)
	if name, team, ok := strings.Cut(address, "@"); ok && strings.HasSuffix(team, "@"+self.Name) {
		return name, team, err
	}
	member, team = teams.Split(address)
	return member, team, err
}

// claimedBy returns the delivery that has taken a row, or "".
func claimedBy(row inbox.Row) string {
	var by struct {
		Delivery string `json:"relayedBy"`
	}
	if !row.Read || json.Unmarshal(row.Raw, &by) != nil {
		return ""
	}
	return by.Delivery
}
