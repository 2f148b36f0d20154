package links

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/local"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// deliver delivers a message of another machine, once under its id.
func (r *Carrier) deliver(ctx context.Context, m link.Message) (ledger.Incoming, error) {
	out := m.Incoming
	to, reach, err := r.put(ctx, m)
	switch {
	case err == nil:
		out.Stage, out.Reach, out.Root, out.Recipient, out.Delivery = ledger.StageVerified, reach, r.opts.Root.Path(), to.Member, to.Delivery
		return out, nil
	case permanent(err):
		out.Stage, out.Reason = ledger.StageRefused, view.Describe(err)
		return out, nil
	case errors.Is(err, inbox.ErrUnknown):
		out.Stage, out.Reason = ledger.StageUnknown, view.Describe(err)
		return out, nil
	}
	return out, err
}

// permanent reports whether retrying cannot help against an error.
func permanent(err error) bool {
	switch view.Explain(err).Code {
	case api.CodeNotFound, api.CodeGone, api.CodeInvalid, api.CodeRefused, api.CodeForbidden, api.CodeConflict, api.CodeUsage, api.CodeAmbiguousTeam:
		return true
	}
	return false
}

// idHere derives the id of another machine's message on this machine, so that it is sent once.
func idHere(in ledger.Incoming) string {
	return uuid.NewSHA1(IDs, fmt.Appendf(nil, "%q", []string{in.Machine, in.Team, in.Member, in.ID})).String()
}

var errNoTeam = api.Decide(api.CodeNotFound, "", "there is no such team")

// put delivers a message of another machine.
func (r *Carrier) put(ctx context.Context, m link.Message) (sent api.Sent, reach string, err error) {
	if inbox.ProtocolType(m.Text) != "" {
		return sent, "", api.Decide(api.CodeRefused, "", "only texts come from other machines, and no object of Claude Code's own protocol")
	}
	if _, team := teams.Split(m.From); team == "" { // with the machine, it would be an address on this one
		return sent, "", api.Decide(api.CodeRefused, "", "its sender, %q, is not NAME@TEAM", m.From)
	}
	id := idHere(m.Incoming)
	if r.forPerson(m) {
		err = r.admitted(ctx, m, func() error { return r.tellPerson(ctx, m, id) })
		return api.Sent{Member: mail.User}, "", err
	}
	if err := teams.CheckName("team", m.Team); err != nil {
		return sent, "", errNoTeam
	}
	err = r.admitted(ctx, m, func() (err error) {
		sent, err = r.putShared(ctx, m, id)
		return err
	})
	return sent, sent.Reach, err
}

// tellPerson puts a message of another machine into the inbox of the person, from a team there.
func (r *Carrier) tellPerson(ctx context.Context, m link.Message, id string) error {
	from, team, err := recipient(ctx, r.opts.Ledger, m.From)
	if err != nil {
		return err
	}
	if strings.Contains(team, "@") { // a person, who is in no team, and wrote to a team here
		team = pane.SessionTeam
	}
	_, err = r.opts.Ledger.Person.AddSaid(ctx, inbox.InboxKey{Root: r.opts.Root.Path(), Team: team + "@" + m.Machine, CreatedAt: ledger.MachineTeamCreated, Inbox: mail.User}, from, id, m.Text, m.Summary)
	r.opts.Changed()
	if errors.Is(err, ledger.ErrUnread) {
		err = api.Decide(api.CodeRefused, "", "the person has not read what came before: %v", err)
	}
	return err
}

// putShared delivers a message of another machine to a team, if the machine may write to that team.
func (r *Carrier) putShared(ctx context.Context, m link.Message, id string) (sent api.Sent, err error) {
	from, err := r.sender(ctx, m)
	if err != nil {
		return sent, err
	}
	return r.here.Send(ctx, m.Team, m.Member, id, api.NewMessage{Text: m.Text, Summary: m.Summary, From: from})
}

// admitted calls do if the sender of a message may write to its team. A revocation of the access waits until do
// returns: see [Machines.endAccess].
func (r *Carrier) admitted(ctx context.Context, m link.Message, do func() error) error {
	if err := r.mayWrite(ctx, m); err != nil { // without the lock, so that a waiting revocation gets it
		return err
	}
	if err := r.at("checked"); err != nil {
		return err
	}
	release, err := lockedfile.HoldShared(ctx, accessWithin, filepath.Join(r.Opts.State, "locks"), accessLock(m.Machine))
	if err != nil {
		return err
	}
	defer release()
	if err := r.mayWrite(ctx, m); err != nil {
		return err
	}
	if err := r.at("admitted"); err != nil {
		return err
	}
	return do()
}

// sender returns the sender's name on this machine: the name of its stand-in, in a team with inboxes, or else
// its address.
func (r *Carrier) sender(ctx context.Context, m link.Message) (string, error) {
	to, done, err := r.here.Team(ctx, m.Team, m.Member)
	if err != nil {
		return "", err
	}
	defer func() { _ = done() }() // it was only read
	if to == nil {
		_, team, err := recipient(ctx, r.opts.Ledger, m.From)
		if strings.Contains(team, "@") { // a person, who wrote to a team here
			return mail.User + "@" + pane.SessionTeam + "@" + m.Machine, err
		}
		return m.From + "@" + m.Machine, err
	}
	all, err := r.opts.Ledger.Links.StandIns(ctx, r.opts.Root.Path())
	if err != nil {
		return "", err
	}
	member := m.Member
	if name, err := to.Resolve(ctx, m.Member); err == nil { // as it is when the message is sent, which else fails
		member = name
	}
	if slices.ContainsFunc(all, func(s ledger.StandIn) bool { return s.Team == to.Name() && s.Inbox == member }) {
		return "", api.Decide(api.CodeRefused, "", "%s is a member on a third machine, and messages go over one link only", m.Member)
	}
	n := 0
	for _, s := range all {
		if s.Machine == m.Machine && s.Team == to.Name() {
			if s.There == m.From {
				n = 0
				break
			}
			n++
		}
	}
	if n >= MaxStandIns {
		return "", api.Decide(api.CodeRefused, "", "%d members of %s have entries in %s already, which stay for 30 days after their last message", n, m.Machine, to.Name())
	}
	return r.standInFor(ctx, to, m.Machine, m.From, "")
}

// MaxStandIns limits the entries in a team that members of one machine get by writing to it. The machine could
// invent names of senders.
const MaxStandIns = 50

// forPerson reports whether a message is for the person: an answer to the person's message to a team of that
// machine, TEAM@MACHINE, or a message to the person among the sessions. Its sender is NAME@TEAM.
func (r *Carrier) forPerson(m link.Message) bool {
	_, machine, ok := local.Elsewhere(m.Team)
	if name, team := teams.Split(m.From); name == "" || teams.CheckName("team", team) != nil {
		return false
	}
	return ok && machine == m.Machine || m.Team == pane.SessionTeam && m.Member == mail.User
}

// mayWrite returns an error unless the sender of a message may write to its team: the team is shared with the
// machine, or the sender has a stand-in there. It may write to the person if the person has written to its
// machine, or shares the sessions with it.
func (r *Carrier) mayWrite(ctx context.Context, m link.Message) error {
	team := m.Team
	if r.forPerson(m) {
		if asked, err := r.opts.Ledger.Outbox.Asked(ctx, m.Machine); err != nil || asked {
			return err
		}
		team = pane.SessionTeam
	}
	shared, standIn, err := r.opts.Ledger.Links.MayWrite(ctx, m.Machine, m.From, r.opts.Root.Path(), team)
	switch {
	case errors.Is(err, ledger.ErrNoMachine):
		return NoMachine(m.Machine)
	case err != nil || shared:
		return err
	case standIn == 0:
		return errNoTeam
	}
	t, err := r.opts.Root.Team(team)
	if err != nil {
		return err
	}
	defer t.Close() // it was only read
	c, err := t.Config(ctx)
	if err == nil && c.Instance().CreatedAt != standIn { // it is in an earlier team of that name
		return errNoTeam
	}
	return err
}

// statesOf returns the current states of messages of other machines, in their order.
func (r *Carrier) statesOf(ctx context.Context, list []ledger.Incoming) ([]ledger.Incoming, error) {
	list = slices.Clone(list)
	waiting := map[inbox.InboxKey][]*ledger.Incoming{} // messages whose receipts tell their states; the keys have no CreatedAt
	for i := range list {
		in := &list[i]
		if in.Delivery != "" {
			if m, found, err := r.opts.Ledger.PaneMessages.Message(ctx, in.Delivery); err != nil {
				return nil, err
			} else if found {
				*in = paneStage(*in, m)
				continue
			}
			if d, err := r.opts.Ledger.Deliveries.List(ctx, ledger.DeliveryQuery{UUID: in.Delivery}); err != nil {
				return nil, err
			} else if len(d) == 0 {
				continue
			}
		}
		if in.Recipient == mail.User && strings.Contains(in.Team, "@") {
			continue // the person reads it some time
		}
		box := inbox.InboxKey{Root: in.Root, Team: in.Team, Inbox: in.Recipient}
		waiting[box] = append(waiting[box], in)
	}
	for box, messages := range waiting { // together: without CreatedAt, a query reads all receipts of the team
		var ids []string
		for _, in := range messages {
			ids = append(ids, idHere(*in))
		}
		receipts, err := r.opts.Journal.Receipts.Of(ctx, box, ids...)
		if err != nil {
			return nil, err
		}
		for i, in := range messages {
			switch receipt := receipts[ids[i]]; {
			case !receipt.SeenAt.IsZero():
				in.Stage = ledger.StageSeen
			case receipt.State == inbox.Consumed:
				in.Stage = ledger.StageConsumed
			case receipt.State == inbox.Lost:
				in.Stage, in.Reason = ledger.StageLost, receipt.Reason
			case receipt.State == inbox.Unknown:
				in.Stage, in.Reason = ledger.StageUnknown, receipt.Reason
			}
			if in.Stage == ledger.StageVerified && time.Since(in.At) > takenWithin {
				in.Stage, in.Reason = ledger.StageUnknown, fmt.Sprintf("it is in the inbox of %s, nothing shows in %d days that it was taken, and it is followed no longer", in.Recipient, takenWithin/(24*time.Hour))
			}
		}
	}
	return list, nil
}

// takenWithin is how long a message of another machine is followed until it is taken. Then its sender learns that its
// fate is unknown.
const takenWithin = 7 * 24 * time.Hour

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

// offers returns the teams that a machine may write to, with the states of their members.
func (r *Carrier) offers(ctx context.Context, machine string) (list []link.Team, err error) {
	m, err := r.Machine(ctx, machine)
	if err != nil {
		return nil, err
	}
	all, err := r.opts.Ledger.Links.StandIns(ctx, r.opts.Root.Path())
	if err != nil {
		return nil, err
	}
	total := 0
	for _, name := range m.Teams {
		if len(list) == link.MaxTeams {
			break
		}
		t := link.Team{Team: name}
		members, err := r.here.Members(ctx, name)
		if err != nil {
			continue // it has ended, or does not run yet
		}
		states, err := r.here.Status(ctx, name)
		if err != nil {
			r.opts.Log.Debug("what the members do is not known", "team", name, "err", view.Describe(err))
		}
		for _, m := range members {
			standsIn := slices.ContainsFunc(all, func(s ledger.StandIn) bool { return s.Team == name && s.Inbox == m.Member })
			if standsIn || m.Role != api.RoleAgent && m.Role != api.RoleLead || len(t.Members) == link.MaxMembers || total == link.MaxOffered {
				continue
			}
			one := link.Member{Member: m.Member, Lead: m.Role == api.RoleLead}
			if i := slices.IndexFunc(states, func(s api.Status) bool { return s.Member == m.Member }); i >= 0 {
				s := states[i]
				one.Word, one.Why, one.Since = s.Word, s.Why, s.WordSince
				if s.SectionSince != nil && view.WaitsElsewhere(s.SectionKind) != "" {
					one.Waits, one.WaitsSince = s.SectionKind, *s.SectionSince
				}
			}
			t.Members, total = append(t.Members, one), total+1
		}
		list = append(list, t)
	}
	return list, nil
}

// recipient splits the address of a sender, or of the member behind a stand-in. The address of a person is
// NAME@TEAM@MACHINE, where TEAM is the team here that the person wrote to.
func recipient(ctx context.Context, lg *ledger.Ledger, address string) (member, team string, err error) {
	self, _, err := lg.Links.Link(ctx)
	member, team = split(address, func(name string) bool { return name == self.Name })
	return member, team, err
}
