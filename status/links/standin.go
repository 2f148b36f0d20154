package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/claim"
	"teambridge/status/api"
	"teambridge/status/local"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Agents can write only to names in config.json. So each member on another machine that exchanged messages with
// a team has an entry there: its stand-in. Messages that agents write to a stand-in are moved from its inbox to
// the outbox.

// standInUnused is how long an unused stand-in stays.
const standInUnused = 30 * 24 * time.Hour

// standInFor returns the name of the stand-in for MEMBER@TEAM on a machine, in a team with agents. It creates
// the stand-in if there is none.
func (l *Machines) standInFor(ctx context.Context, t *teams.Team, machine, address, as string) (string, error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return "", err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	all, err := lg.Links.StandIns(ctx, t.Root().Path())
	if err != nil {
		return "", err
	}
	member, _, err := recipient(ctx, lg, address)
	if err == nil && strings.Contains(member, "@") { // the entry would have the name of a member of another team
		err = api.Decide(api.CodeInvalid, "", "%q cannot be the name of a member on another machine", member)
	}
	if err != nil {
		return "", err
	}
	s := ledger.StandIn{InboxKey: inbox.KeyOf(t, c, cmp.Or(as, member+"-"+machine)), Machine: machine, There: address}
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
	release, err := mail.Alone(ctx, l.Opts.State)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	lead, _ := c.Lead()
	m, err := t.Join(ctx, l.Opts.Locker, s.Inbox, lead.Cwd)
	if err != nil {
		return "", err
	}
	s.AgentID, s.JoinedAt = m.AgentID, m.JoinedAt
	if err = lg.Links.SetStandIn(ctx, s); err != nil && m.Added { // without a record, it could not be recognized later
		_, lerr := t.Leave(ctx, l.Opts.Locker, m)
		err = errors.Join(err, lerr)
	}
	return s.Inbox, err
}

// JoinFor creates a stand-in for a member on another machine.
func (l *Machines) JoinFor(ctx context.Context, t *teams.Team, n api.NewJoin) (joined api.Membership, err error) {
	member, remote := split(n.Remote, func(string) bool { return true })
	team, machine, ok := local.Elsewhere(remote)
	if !ok {
		return joined, api.Decide(api.CodeUsage, "such as worker@ci@build", "%q is not MEMBER@TEAM@MACHINE", n.Remote)
	}
	m, err := l.MachineOf(ctx, remote)
	if err != nil {
		return joined, err
	}
	offer, known := view.Offer(m, team)
	if known && There(offer, member) == "" {
		return joined, NoMember(remote, member)
	}
	joined = api.Membership{Team: t.Name()}
	joined.Member, err = l.standInFor(ctx, t, machine, cmp.Or(There(offer, member), member)+"@"+offer.Team, n.As)
	l.LinksChanged()
	return joined, err
}

// accessWithin limits how long the delivery of a machine's message and the end of its access wait for each
// other. It is longer than the limit for the lock of an inbox.
const accessWithin = 30 * time.Second

// accessLock is the key of the lock that all deliveries of a machine's messages share.
func accessLock(machine string) string { return "access of " + machine }

// endAccess removes the stand-ins of a machine's members from one team, or from all, when its access ends.
// Afterwards, no earlier message can create another stand-in or be delivered there.
func (l *Machines) endAccess(ctx context.Context, lg *ledger.Ledger, machine, team string) error {
	release, err := lockedfile.HoldWithin(ctx, cmp.Or(l.AccessWithin, accessWithin), filepath.Join(l.Opts.State, "locks"), accessLock(machine))
	if err != nil {
		return fmt.Errorf("a message of %s is just being delivered: %w", machine, err)
	}
	defer release()
	return l.removeStandIns(ctx, lg, machine, team)
}

func (l *Machines) removeStandIns(ctx context.Context, lg *ledger.Ledger, machine, team string) error {
	root, err := l.Opts.Root()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // and no team has one
	}
	if err != nil {
		return err
	}
	all, err := lg.Links.StandIns(ctx, root.Path())
	for _, s := range all {
		if s.Machine == machine && (team == "" || s.Team == team) {
			err = errors.Join(err, l.removeStandIn(ctx, lg, root, s))
		}
	}
	return err
}

func (l *Machines) removeStandIn(ctx context.Context, lg *ledger.Ledger, root *teams.Root, s ledger.StandIn) error {
	t, err := root.Team(s.Team)
	if err == nil {
		defer t.Close() // writes go by path
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil && c.Instance().CreatedAt == s.CreatedAt {
			_, err = t.Leave(ctx, l.Opts.Locker, teams.Membership{Name: s.Inbox, AgentID: s.AgentID, JoinedAt: s.JoinedAt})
		}
	}
	if err != nil && !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, teams.ErrNotOurs) && !errors.As(err, new(*teams.NotFoundError)) {
		return err
	}
	return lg.Links.RemoveStandIn(ctx, s.InboxKey)
}

// claimStandIns moves messages to stand-ins into the outbox, until ctx ends.
func (r *Carrier) claimStandIns(ctx context.Context) error {
	seen := map[inbox.InboxKey]os.FileInfo{}
	warned := ""
	signals.Send(r.looked)
	return signals.Loop(ctx, nil, r.looked, 2*time.Second, func() {
		all, err := r.opts.Ledger.Links.StandIns(ctx, r.opts.Root.Path())
		for _, s := range all {
			_, merr := r.opts.Ledger.Links.Incarnation(ctx, s.Machine)
			over := errors.Is(merr, ledger.ErrNoMachine)
			if !over {
				cerr := r.ClaimStandIn(ctx, &s, seen)
				err = errors.Join(err, cerr)
				over = cerr == nil && time.Since(s.Used) > standInUnused
			}
			if over {
				err = errors.Join(err, r.removeStandIn(ctx, r.opts.Ledger, r.opts.Root, s))
			}
		}
		r.claimed.Store(err == nil && len(r.looked) == 0) // a signal may mean that there are more rows
		if err == nil {
			warned = ""
		} else if text := view.Describe(err); text != warned && ctx.Err() == nil {
			warned = text
			r.opts.Log.Warn("what agents wrote to members on other machines waits", "err", text)
		}
	})
}

// ClaimStandIn moves the messages in the inbox of a stand-in into the outbox. One commit claims each row and
// puts it there; the row is marked as read afterwards. A crash in between loses and repeats nothing: the row is
// then found as claimed and not marked.
func (r *Carrier) ClaimStandIn(ctx context.Context, s *ledger.StandIn, seen map[inbox.InboxKey]os.FileInfo) error {
	t, err := r.opts.Root.Team(s.Team)
	if errors.As(err, new(*teams.NotFoundError)) || errors.Is(err, teams.ErrTeamGone) {
		return r.opts.Ledger.Links.RemoveStandIn(ctx, s.InboxKey)
	}
	if err != nil {
		return err
	}
	defer t.Close() // writes go by path
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	if c.Instance().CreatedAt != s.CreatedAt {
		return r.opts.Ledger.Links.RemoveStandIn(ctx, s.InboxKey)
	}
	box, err := inbox.Open(t, s.Inbox, r.opts.Locker)
	if err != nil {
		return err
	}
	info, _ := os.Stat(box.Path()) // nil if there is no file
	if old, ok := seen[s.InboxKey]; ok && lockedfile.SameFile(old, info) || info == nil {
		return nil
	}
	rows, err := box.Read(ctx)
	if err != nil {
		return err
	}
	unmarked, err := r.opts.Ledger.Deliveries.Unmarked(ctx, s.InboxKey)
	if err != nil {
		return err
	}
	member, team, err := recipient(ctx, r.opts.Ledger, s.There)
	if err != nil {
		return err
	}
	holds, err := r.opts.Ledger.Holds.Held(ctx, s.InboxKey)
	if err != nil {
		return err
	}
	held := func(row *inbox.Row) bool {
		return slices.ContainsFunc(holds, func(h ledger.Hold) bool { return h.Sender == row.From || h.Sender == row.From+"@"+s.Team })
	}
	if slices.ContainsFunc(rows, func(row inbox.Row) bool { return !row.Read && held(&row) }) {
		s.Used = time.Now()
	}
	plan, err := claim.New(ctx, r.opts.Ledger.Deliveries, s.InboxKey, rows, unmarked, claim.Rules{
		Limit: claimedAtOnce,
		// Objects of Claude Code's own protocol are not sent.
		Discard: func(row *inbox.Row) bool { return row.Kind() != "message" || inbox.ProtocolType(row.Text) != "" },
		Held:    held,
		Now:     time.Now,
	})
	if err != nil {
		return err
	}
	if len(plan.Fresh) > 0 {
		var fresh []ledger.Outgoing
		for _, d := range plan.Fresh {
			d.From += "@" + s.Team
			fresh = append(fresh, ledger.Outgoing{Delivery: d, Machine: s.Machine, There: member, At: team})
		}
		if err := r.opts.Ledger.Outbox.Claim(ctx, fresh...); err != nil {
			return err
		}
		s.Used = time.Now()
	}
	if err := r.at("claimed"); err != nil {
		return err
	}
	if plan.Work {
		if err := box.Edit(ctx, plan.Mark); err != nil {
			return err
		}
	}
	if err := r.at("marked"); err != nil {
		return err
	}
	// Rows that are gone, or that another process has marked, are in the outbox, too.
	marked := slices.Concat(plan.Mine, plan.Taken, plan.Gone)
	for _, id := range marked {
		if err := r.opts.Ledger.Deliveries.Mark(ctx, id); err != nil && !errors.Is(err, ledger.ErrUnknown) {
			return err
		}
	}
	if len(marked) > 0 {
		r.Poke()
	}
	if plan.Work { // the file changed by our own write, and may have more rows
		signals.Send(r.looked)
		return nil
	}
	if len(holds) == 0 { // a hold can end without a change of the file
		seen[s.InboxKey] = info
	}
	return nil
}

// claimedAtOnce is the largest number of a stand-in's rows in one commit.
const claimedAtOnce = 500

// at is where a test makes the carrier fail.
func (r *Carrier) at(step string) error {
	if r.Fault == nil {
		return nil
	}
	return r.Fault(step)
}
