package pane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/peer"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Stranger is the sender of what no session here has certainly written.
const Stranger = "unverified"

// useMailbox keeps the mailbox open until end is called.
func (p *Panes) useMailbox() (end func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open++; p.open == 1 {
		p.mailbox.Sweep() // who has nothing to send does not listen
	}
	return func() error {
		p.mu.Lock()
		p.open--
		last := p.open == 0
		p.mu.Unlock()
		if !last {
			return nil
		}
		return p.mailbox.Close()
	}
}

// Attend lets the agents of sessions write to the person, even if nobody has written to them before, until end is called. A
// service does so all the time: see [Panes.Run].
func (p *Panes) Attend(ctx context.Context) (end func() error) {
	ctx, stop := context.WithCancel(ctx)
	closeMailbox := p.useMailbox()
	look := func() {
		if err := p.appear(); err != nil && p.first("listen: "+err.Error()) {
			p.opts.Warn(err)
		}
	}
	look()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(p.timing.quiet)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				look()
			}
		}
	})
	return func() error {
		stop()
		running.Wait()
		return closeMailbox()
	}
}

// appear listens next to the sessions that can write to us, and has them list us.
func (p *Panes) appear() error {
	if p.opts.As == "" {
		return nil
	}
	root := p.opts.Root.Path()
	start := teams.ThisStart()
	var failed []error
	for _, s := range transcript.Processes(root) {
		if s.Socket == "" || teams.StateOf(s) == teams.Gone {
			continue
		}
		if start == "" {
			failed = append(failed, p.mailbox.Listen(s))
		} else {
			failed = append(failed, p.mailbox.List(root, p.opts.As, start, s))
		}
	}
	for _, s := range p.opts.Homes.Processes() {
		if ProgramOf(s) != Qwen || s.Socket == "" {
			continue
		}
		if start == "" {
			failed = append(failed, p.mailbox.Listen(s))
		} else {
			failed = append(failed, p.mailbox.ListQwen(p.opts.Homes.Qwen, p.opts.As, start, s.Socket))
		}
	}
	return errors.Join(failed...)
}

// writer is the session of a process that can write to us.
func (p *Panes) writer(pid int) (s transcript.Process, ok bool) {
	if pid == 0 {
		return s, false
	}
	if s, ok = transcript.ProcessWith(p.opts.Root.Path(), pid); ok && teams.StateOf(s) != teams.Gone {
		return s, true
	}
	for _, s := range p.opts.Homes.Processes() {
		if s.PID == pid && ProgramOf(s) == Qwen && s.Interactive { // else it has several
			return s, true
		}
	}
	return s, false
}

// take records what was written to us. It is said by the member that the session of its process is or, if that has none, by
// [Stranger].
func (p *Panes) take(in peer.Incoming) {
	ctx := context.Background()
	root := p.opts.Root.Path()
	var err error
	from := Stranger
	id, claims := uuid.NewString(), fmt.Sprintf("process %d, which has no session here, claims to be %q", in.PID, strings.ToValidUTF8(in.Name, "?"))
	if in.PID == 0 {
		claims = fmt.Sprintf("which process has written it is not known; it claims to be %q", strings.ToValidUTF8(in.Name, "?"))
	}
	if s, ok := p.writer(in.PID); ok {
		var of Pane
		if of, err = p.recordSession(ctx, sessionPane(root, s)); err == nil {
			from, claims = of.Inbox, ""
			if in.ID != "" {
				id = ledger.DeriveID(ledger.PaneIDs, "said", of.Root, of.Inbox, sessionAt(s), in.ID)
			}
		}
	}
	if claims != "" && !p.mailbox.Admits(0) {
		return // nobody floods the person from processes that are born for it
	}
	if err == nil {
		_, err = p.opts.Ledger.AddSaid(ctx, p.person(), from, id, strings.ToValidUTF8(in.Text, "\uFFFD"), claims)
	}
	if err != nil {
		p.opts.Warn(fmt.Errorf("a message of %s was not recorded: %w: %.200q", from, err, in.Text))
		return
	}
	p.changed(p.person())
}

// ToPerson records what an agent, NAME@TEAM or [Stranger], writes to the person among the messages of sessions, once under an id;
// again says that it had. It fails as [Panes.Sender] and [ledger.Ledger.AddSaid] do.
func (p *Panes) ToPerson(ctx context.Context, from, id, text string) (again bool, err error) {
	name, _, err := p.Sender(ctx, Pane{InboxKey: p.person()}, from)
	if err != nil {
		return false, err
	}
	if again, err = p.opts.Ledger.AddSaid(ctx, p.person(), name, id, text, ""); err == nil {
		p.changed(p.person())
	}
	return again, err
}

// person is the inbox of the person among the sessions.
func (p *Panes) person() inbox.InboxKey {
	return inbox.InboxKey{Root: p.opts.Root.Path(), Team: SessionTeam, CreatedAt: ledger.SessionTeamCreated, Inbox: mail.User}
}

// Said returns what agents of a team wrote to the person, the oldest first. The team is that of the
// sessions, or one on another machine.
func (p *Panes) Said(ctx context.Context, team string) (rows []inbox.Row, err error) {
	said, err := p.said(ctx, func(s ledger.Said) bool { return s.Key.Team == team })
	return said[team], err
}

// SaidUnread returns what agents of all such teams wrote to the person, and the person has not read, the
// oldest first, by team.
func (p *Panes) SaidUnread(ctx context.Context) (map[string][]inbox.Row, error) {
	return p.said(ctx, func(s ledger.Said) bool { return !s.Read })
}

func (p *Panes) said(ctx context.Context, which func(ledger.Said) bool) (rows map[string][]inbox.Row, err error) {
	list, err := p.opts.Ledger.Said(ctx, p.opts.Root.Path())
	rows = map[string][]inbox.Row{}
	for _, s := range list {
		if !which(s) {
			continue
		}
		row, perr := inbox.ParseRow(s.Raw)
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("read a message of %s: %w", s.From, perr))
			continue
		}
		row.Read = s.Read
		rows[s.Key.Team] = append(rows[s.Key.Team], row)
	}
	return rows, err
}

// MarkRead records that the person has read what agents wrote, and returns how much of it was unread.
func (p *Panes) MarkRead(ctx context.Context, ids ...string) (n int, err error) {
	if n, err = p.opts.Ledger.ReadSaid(ctx, p.opts.Root.Path(), ids...); n > 0 {
		p.changed(p.person())
	}
	return n, err
}

// unread returns the names of the sessions whose agents wrote what the person has not read yet.
func (p *Panes) unread(ctx context.Context) (map[string]bool, error) {
	all, err := p.opts.Ledger.Said(ctx, p.opts.Root.Path())
	names := map[string]bool{}
	for _, s := range all {
		if s.Key.Team != SessionTeam {
			continue
		}
		names[s.From] = names[s.From] || !s.Read
	}
	return names, err
}
