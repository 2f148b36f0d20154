package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
)

func newInbox(a *app) *cobra.Command {
	var o inboxOptions
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show everything that needs you, in all teams",
		Long: `Show everything that needs you, in all teams or that of --team.

Shown are questions and plans of agents, unread messages to you, agents that are
stuck, failed or stopped, messages that may not have been delivered or are held
back, and teams that are idle or whose lead is not running, with what to do.

Your inboxes are "user" and the names under which you joined a team. Nothing is
changed without --mark-read or --dismiss. "teambridge reply" answers a message,
"teambridge permit" and "deny" a question; these are known while a service runs.
With --json the unread messages are the "messages" of an item of kind "unread".

Exit status: 0, even if there is nothing; 3 no such team; 4 a service runs and
does not answer, so questions are not known (the rest is shown); 6 an inbox or a
team is corrupt (the others are shown).`,
		Example: `  teambridge inbox --mark-read`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.showInbox(cmd.Context(), o) },
	}
	protocolFlag(cmd, &o.protocol)
	markReadFlag(cmd, &o.mark)
	cmd.Flags().BoolVar(&o.dismiss, "dismiss", false, "show failures and idle teams no more until they change")
	return cmd
}

type inboxOptions struct{ protocol, mark, dismiss bool }

// A teamFeed is what is in the person's own inboxes of one team.
type teamFeed struct {
	team string
	feed []api.Message
}

func (a *app) showInbox(ctx context.Context, o inboxOptions) error {
	done := a.working("looking through the teams")
	defer done()
	all, hidden, fault := a.ownInboxes(ctx, api.Reading{Unread: true, Protocol: o.protocol})
	if ctx.Err() != nil || all == nil && fault != nil {
		return fault
	}
	faults := []error{fault}
	team, err := a.namedTeam("")
	if err != nil {
		return err
	}
	waits, err := a.waits(ctx, team, len(all) > 0)
	if ctx.Err() != nil {
		return err
	}
	done()
	list, faults := withMessages(waits, all), append(faults, err)
	if a.json {
		err = a.printJSON(list)
	} else {
		err = a.printWaits(list, all)
	}
	if err != nil {
		return err
	}
	a.hiddenNote(hidden)
	if len(list)+hidden == 0 && errors.Join(faults...) == nil {
		a.note("nothing needs you")
	}
	if o.dismiss {
		faults = append(faults, a.dismiss(ctx, list))
	}
	if o.mark {
		for _, t := range all {
			faults = append(faults, a.markRead(ctx, t.team, t.feed))
		}
	}
	return errors.Join(faults...)
}

// ownInboxes reads the person's own inboxes in the named team, or in all. With an error it
// returns those that could be read.
func (a *app) ownInboxes(ctx context.Context, q api.Reading) (all []teamFeed, hidden int, err error) {
	var names []string
	if named, err := a.namedTeam(""); err != nil {
		return nil, 0, err
	} else if named != "" {
		to, err := a.target(ctx)
		if err != nil {
			return nil, 0, err
		}
		names = []string{to.Team}
	} else {
		list, err := a.bridge(ctx).Teams(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, t := range list {
			if !t.Panes && !t.Sessions && t.Problem == "" {
				names = append(names, t.Team)
			}
		}
		if !slices.Contains(names, ledger.SessionTeam) { // what ended sessions wrote is there, too
			names = append(names, ledger.SessionTeam)
		}
	}
	q.Own = true
	var faults []error
	for _, name := range names {
		found, err := once(ctx, a, a.bridge(ctx), "", true, func(b api.Bridge, _ string) (api.Rows, error) { return b.Read(ctx, name, q) })
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if err != nil && !ended(err) { // in between
			faults = append(faults, err)
		}
		for _, note := range found.Notes { // it has no content
			faults = append(faults, api.Decide(api.CodeBusy, "try again", "%s", note))
		}
		faults = append(faults, problems(found)...)
		if name == ledger.SessionTeam && len(found.Messages) == 0 {
			continue // there may be no session
		}
		all, hidden = append(all, teamFeed{name, found.Messages}), hidden+found.Hidden
	}
	return all, hidden, errors.Join(faults...)
}

// ended reports whether an error means that a team has ended.
func ended(err error) bool {
	code := view.Explain(err).Code
	return code == api.CodeGone || code == api.CodeNotFound
}

const lastMessage = "last"

func newReply(a *app) *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "reply ID|last TEXT|-",
		Short: "Answer a message to you",
		Long: `Send a text to the sender of a message in one of your inboxes.

"last" is the newest message to you, of all teams or that of --team. Of an ID,
the first 4 characters are enough if no other id begins with them. TEXT is "-"
for standard input. The message is sent as by "teambridge send", and the message
that it answers is marked as read.

Exit status: 0 verified; 2 several messages match, or the text is invalid; 3 no
such message, or its sender is no longer in the team. Others are as for
"teambridge send".`,
		Example: `  teambridge reply last "yes, please merge it"
  teambridge reply 4cfd "see the test in inbox_test.go"`,
		Args:              exactly(2),
		ValidArgsFunction: a.completeFirst(a.messageIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.reply(cmd.Context(), args[0], args[1], o) },
	}
	sendFlags(cmd, &o)
	return cmd
}

func (a *app) reply(ctx context.Context, query, text string, o sendOptions) error {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	all, _, err := a.ownInboxes(ctx, api.Reading{})
	if err != nil {
		return err // the message could be in what was not read
	}
	var ids []string
	for i, t := range all {
		all[i].feed = slices.DeleteFunc(t.feed, func(m api.Message) bool { return m.Kind != "message" })
		for _, m := range all[i].feed {
			ids = append(ids, m.ID)
		}
	}
	team := ""
	var to api.Message
	if query == lastMessage {
		team, to = newest(all)
	} else {
		id, err := view.WholeID(query, ids)
		if err != nil {
			return err
		}
		for _, f := range all {
			for _, m := range f.feed {
				switch {
				case m.ID != id:
				case team == "":
					team, to = f.team, m
				case team != f.team || to.From != m.From: // an agent can copy an id
					return usage("name the recipient with: teambridge send", "several messages to you have the id %s", id)
				}
			}
		}
	}
	if team == "" {
		what := "no message to you has the id " + query
		if query == lastMessage {
			what = "there is no message to you"
		}
		return notFound("list them with: teambridge read user", "%s", what)
	}
	target := api.Target{Team: team, Members: []string{to.From}, Way: api.WayInbox}
	if team == ledger.SessionTeam { // or a real one of that name
		sessions, err := a.bridge(ctx).Sessions(ctx)
		if err != nil {
			return err
		}
		if target, err = a.bridge(ctx).Target(ctx, api.Scope{Team: team}, api.WhoIs(sessions, to.From)); err != nil {
			return err
		}
	}
	if err := a.sendTo(ctx, target, body, o); err != nil {
		return err
	}
	at := ""
	if sent, ok := (&inbox.Row{Timestamp: to.Timestamp}).Time(); ok {
		at = " " + clock(sent)
	}
	a.note("it answers what %s wrote%s: %s", to.From, at, plain.Cut(escape(strings.Join(strings.Fields(to.Text), " "), false), 60))
	a.markSeen(ctx, team, to)
	return nil
}

// markSeen marks as read a message that the person has answered, or has been shown as an answer. If that fails, it warns
// that the message stays unread.
func (a *app) markSeen(ctx context.Context, team string, m api.Message) {
	if err := a.markRead(ctx, team, []api.Message{m}); err != nil {
		a.warn("the message %s stays unread: %s", m.ID, view.Describe(err))
	}
}

// newest returns the last message of the team that has the newest one.
func newest(all []teamFeed) (team string, last api.Message) {
	var at time.Time
	for _, f := range all {
		if len(f.feed) == 0 {
			continue
		}
		m := f.feed[len(f.feed)-1]
		if sent, _ := (&inbox.Row{Timestamp: m.Timestamp}).Time(); team == "" || sent.After(at) {
			team, last, at = f.team, m, sent
		}
	}
	return team, last
}
