package pane

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Stranger is the sender of a message whose process has no session here, or is unknown.
const Stranger = "unverified"

// use keeps the mailbox open until end is called.
func (in *Incoming) use() (end func() error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.open++; in.open == 1 {
		in.mailbox.Sweep() // listening sweeps, too, but a mailbox with nothing to send does not listen
	}
	return func() error {
		in.mu.Lock()
		in.open--
		last := in.open == 0
		in.mu.Unlock()
		if !last {
			return nil
		}
		return in.mailbox.Close()
	}
}

// Attend lets the agents of sessions write to the person until end is called, even if they got no message before.
// A service does the same all the time: see [Panes.Run].
func (in *Incoming) Attend(ctx context.Context) (end func() error) {
	ctx, stop := context.WithCancel(ctx)
	closeMailbox := in.use()
	in.appear()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(in.timing.quiet)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				in.appear()
			}
		}
	})
	return func() error {
		stop()
		running.Wait()
		return closeMailbox()
	}
}

// appear listens next to the sessions that can write to us, and makes them list us. It returns false if some of them
// list another process of ours, which will not tell us when it ends.
func (in *Incoming) appear() (listed bool) {
	if in.opts.As == "" {
		return true
	}
	start := teams.ThisStart()
	var failed []error
	for _, s := range in.sessions.living() {
		switch {
		case s.Socket == "":
		case start == "":
			failed = append(failed, in.mailbox.Listen(s))
		case ProgramOf(s) == Qwen:
			failed = append(failed, in.mailbox.ListQwen(in.opts.Homes.Qwen, in.opts.As, start, s.Socket))
		default:
			failed = append(failed, in.mailbox.List(in.opts.Root.Path(), in.opts.As, start, s))
		}
	}
	all := len(failed)
	failed = slices.DeleteFunc(failed, func(err error) bool { return errors.Is(err, peer.ErrListed) })
	if err := errors.Join(failed...); err != nil && in.first("listen: "+err.Error()) {
		in.opts.Warn(err)
	}
	return len(failed) == all
}

// writer returns the session of a process that wrote to us. A process of Qwen Code without a terminal has several.
func (in *Incoming) writer(pid int) (s transcript.Process, ok bool) {
	for _, s := range in.sessions.living() {
		if pid != 0 && s.PID == pid && (ProgramOf(s) == Session || ProgramOf(s) == Qwen && s.Interactive) {
			return s, true
		}
	}
	return s, false
}

// take records a message to the person. Its sender is the session of the process that wrote it or, if that has none,
// [Stranger].
func (in *Incoming) take(m peer.Incoming) {
	ctx := context.Background()
	root := in.opts.Root.Path()
	var err error
	from := Stranger
	id, claims := uuid.NewString(), fmt.Sprintf("process %d, which has no session here, claims to be %q", m.PID, strings.ToValidUTF8(m.Name, "?"))
	if m.PID == 0 {
		claims = fmt.Sprintf("which process has written it is not known; it claims to be %q", strings.ToValidUTF8(m.Name, "?"))
	}
	if s, ok := in.writer(m.PID); ok {
		var of Pane
		if of, err = in.sessions.record(ctx, sessionPane(root, s)); err == nil {
			from, claims = of.Inbox, ""
			if m.ID != "" {
				id = ledger.DeriveID(ledger.PaneIDs, "said", of.Root, of.Inbox, sessionAt(s), m.ID)
			}
		}
	}
	if claims != "" && !in.mailbox.Admits(0) {
		return // unknown processes share one limit, so that a series of new ones cannot flood the person
	}
	if err == nil {
		_, err = in.opts.Ledger.Person.AddSaid(ctx, in.person(), from, id, strings.ToValidUTF8(m.Text, "\uFFFD"), claims)
	}
	if err != nil {
		in.opts.Warn(fmt.Errorf("a message of %s was not recorded: %w: %.200q", from, err, m.Text))
		return
	}
	in.changed(in.person())
}

// ToPerson records a message to the person from an agent, NAME@TEAM or [Stranger], among those of sessions. again
// reports that the id was recorded before. It fails as [Registry.Sender] and [ledger.Person.AddSaid] do.
func (in *Incoming) ToPerson(ctx context.Context, from, id, text string) (again bool, err error) {
	name, _, err := in.registry.Sender(ctx, Pane{InboxKey: in.person()}, from)
	if err != nil {
		return false, err
	}
	if again, err = in.opts.Ledger.Person.AddSaid(ctx, in.person(), name, id, text, ""); err == nil {
		in.changed(in.person())
	}
	return again, err
}

// person returns the key of the person's inbox in [SessionTeam].
func (in *Incoming) person() inbox.InboxKey {
	return inbox.InboxKey{Root: in.opts.Root.Path(), Team: SessionTeam, CreatedAt: ledger.SessionTeamCreated, Inbox: mail.User}
}

// Said returns the messages of a team's agents to the person, oldest first. The team is [SessionTeam], or one on
// another machine.
func (in *Incoming) Said(ctx context.Context, team string) (rows []inbox.Row, err error) {
	said, err := in.said(ctx, func(s ledger.Said) bool { return s.Key.Team == team })
	return said[team], err
}

// Unread returns the unread messages to the person from agents of all teams that [Incoming.Said] knows, oldest first,
// by team.
func (in *Incoming) Unread(ctx context.Context) (map[string][]inbox.Row, error) {
	return in.said(ctx, func(s ledger.Said) bool { return !s.Read })
}

func (in *Incoming) said(ctx context.Context, which func(ledger.Said) bool) (rows map[string][]inbox.Row, err error) {
	list, err := in.opts.Ledger.Person.Said(ctx, in.opts.Root.Path())
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

// MarkRead records that the person has read messages of agents, and returns how many of them were unread.
func (in *Incoming) MarkRead(ctx context.Context, ids ...string) (n int, err error) {
	if n, err = in.opts.Ledger.Person.ReadSaid(ctx, in.opts.Root.Path(), ids...); n > 0 {
		in.changed(in.person())
	}
	return n, err
}

// unread returns the sessions that have written to the person, by name: true if one of their messages is unread.
func (ss *Sessions) unread(ctx context.Context) (map[string]bool, error) {
	all, err := ss.opts.Ledger.Person.Said(ctx, ss.opts.Root.Path())
	names := map[string]bool{}
	for _, s := range all {
		if s.Key.Team != SessionTeam {
			continue
		}
		names[s.From] = names[s.From] || !s.Read
	}
	return names, err
}
